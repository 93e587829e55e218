/* SPDX-License-Identifier: MIT */
/* What the files of whatif.h (whatif*.c) share: nobody else includes this. */
#ifndef VT_WHATIF_INSIDE_H
#define VT_WHATIF_INSIDE_H

#include "analyzer/whatif/whatif.h"

/* A device that events speak of, with every setting begun there; made when it is asked for first. */
struct whatif_device *whatif_device_get(struct whatif *w, const struct replay_process *process, uint32_t ordinal);

/* The program gives its allocator other settings, of all devices (TFMT_SETTINGS). */
void whatif_settings(struct whatif *w, const struct replay_process *process, const struct tfmt_event *ev);

#endif
