/* SPDX-License-Identifier: MIT */
/*
 * Host memory as the kernel limits it, so that a program that was killed for want of it can be told from one that was
 * killed by somebody: a *control group* has a limit, and counts the processes that the kernel killed in it.
 *
 * `run` reads it before and after the program and, where the program failed, leaves what it found as a *note* beside
 * the traces: HOST.PID.host, PID being its own.
 */
#ifndef VT_HOSTMEMORY_H
#define VT_HOSTMEMORY_H

#include <stdbool.h>
#include <stdint.h>

struct hostmemory {
	bool is_known;         /* nr_kills is; all else is 0 otherwise */
	bool is_machine;       /* without a control group: what is counted is the whole machine's */
	uint64_t nr_kills;     /* processes that the kernel has killed for want of memory */
	uint64_t limit_bytes;  /* of the control group; 0 = none, or not known */
	uint64_t shared_bytes; /* in use by it in shared memory and files of /dev/shm; 0 also where not known */
};

/* That of our own control group, by the files below ROOT ("" for all of them). */
void hostmemory_read(struct hostmemory *h, const char *root);

/*
 * For launch_on_tick(): take into a struct hostmemory, read before the program was started, what is shared by now. What a
 * process shared goes with it, so after a kill nothing is taken.
 */
void hostmemory_follow(void *before);

/*
 * Leave a note in a generation's folder: how many were killed since `before`, and the figures of now, of shared memory
 * those that were followed up to the first kill. Nothing where
 * that is not known; trouble in writing is ignored.
 */
void hostmemory_note(const char *dir, const struct hostmemory *before);

/*
 * What the notes of HOST beside a trace say, where there are several the one with most kills; is_known is false where
 * there are none.
 */
void hostmemory_noted(struct hostmemory *h, const char *trace, const char *host);

/* Is this the name of a note? */
bool hostmemory_is_note(const char *name);

/* A note as it stands in a recording, for copies. */
struct hostmemory_note {
	char host[256], pid[16]; /* of its name */
	char text[256];          /* without the last newline */
};

/* false: path is no note that can be read. */
bool hostmemory_read_note(struct hostmemory_note *note, const char *path);

#endif
