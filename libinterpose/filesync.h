/* SPDX-License-Identifier: MIT */
/*
 * Having the kernel write a file to the disk while the caller goes on: fdatasync(2) that does not wait. By Linux's
 * native asynchronous calls, which need no thread. Drain thread only.
 */
#ifndef IP_FILESYNC_H
#define IP_FILESYNC_H

#include <stdbool.h>
#include <stdint.h>

struct filesync {
	unsigned long context; /* the kernel's; 0: none yet. It ends with the process */
	uint64_t number;       /* of the latest that was begun */
	bool is_going_on;
};

/* Begin, with what is in the file by now. False where the kernel or the file system has no such thing. */
bool filesync_begin(struct filesync *s, int fd);

/* True when it is done: *err is 0, or an errno. */
bool filesync_is_done(struct filesync *s, int *err);

/* What has been begun does not matter any more; the descriptor may be closed. */
void filesync_forget(struct filesync *s);

#endif
