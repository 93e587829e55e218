/* SPDX-License-Identifier: MIT */
/*
 * A tar archive with a file for each process: "rank-3.vm.4711.pb.gz". Perfetto shows such an archive of profiles as a grid, a
 * row for each file.
 */
#ifndef VT_ARCHIVE_H
#define VT_ARCHIVE_H

#include "analyzer/export/export.h"

/*
 * Have the format write each process that is asked for and has devices; all was read. Returns CMD_FINE, or CMD_TROUBLE after a
 * message.
 */
int archive_write(struct export *x, const struct export_format *format);

#endif
