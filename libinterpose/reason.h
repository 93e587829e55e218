/* SPDX-License-Identifier: MIT */
/*
 * Why a process does not record, or no longer: told where `run` finds it (a page that it lends, struct tfmt_witnesses)
 * and, in the recording's folder where there is one, in HOST.PID.START.why. A process without
 * trace or reason counts as one that used no GPU memory, so hooks say in the page when they see some used.
 *
 * Threading: any thread; nothing here takes a lock or memory. Files are opened on the thread that calls, for the
 * moment of the call.
 */
#ifndef IP_REASON_H
#define IP_REASON_H

#include "tracefmt/tracefmt.h"

/* Map the page that VRAMTRACE_WITNESS names, if there is one. While the process starts. Fork children inherit it. */
void ip_reason_init(const char *path);

/* A hook sees GPU memory used: this process has an entry in the page from now on. Cheap after the first call. */
void ip_reason_see(void);

/* It is not recorded, or no longer, for this reason and errno (0 = none). The first one stays. */
void ip_reason_tell(enum tfmt_why why, int error);

/* One event that no trace and no ring holds, or so many. Counts only when there is a reason. */
void ip_reason_count(uint64_t nr);

/* The process ends: leave the reason, if there is one, in the recording's folder. errno is undefined afterwards. */
void ip_reason_leave(void);

#endif
