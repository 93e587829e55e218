/* SPDX-License-Identifier: MIT */
/*
 * Where a recording lies: in its folder (folder.h) the trace and the ring file of this process.
 * Used by the drain thread alone, in its private descriptor table.
 */
#ifndef IP_STORAGE_H
#define IP_STORAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

struct storage {
	int trace_fd;               /* locked while this process records */
	int next_fd;                /* what takes its place, see storage_open_next(); -1: nothing */
	bool is_locked;             /* the file system has locks */
	int ring_fd;                /* -1: shared or anonymous memory */
	int shared_id;              /* of the shared memory that holds the rings; -1: none */
	int ring_folder_fd;         /* its folder: the program may change its root */
	int folder_fd;              /* the recording's: the program may change directory or root, others move this */
	char trace_name[NAME_MAX + 1]; /* in it; ends in .vtr.new until it is published */
	char ring_path[PATH_MAX];   /* as the trace's header has it, for files of any kind; "" if anonymous */
	uint8_t *base;              /* the status page and the definition ring */
	unsigned nr_mapped;         /* rings, each at ip_recorder->ring[]; the ring file may have fewer yet */
	enum tfmt_storage kind;
	size_t populated_bytes;     /* of the ring file: these have their pages */
};

/*
 * Join or create the recording directory `output` for job `job` and create this process's files in it,
 * named HOST.PID.START. Maps the ring file with its first rings, status page and definition ring set up.
 * When no trace can be written at all, says why, leaving errno (or 0); nothing is left behind then but an empty
 * directory at most.
 */
enum tfmt_why storage_open(struct storage *s, const char *output, const char *job, const char *host, uint64_t start_ns);

/* That folder, open to make files in, for the moment of a call; -1 if it cannot be had. Any thread. */
int storage_folder(const char *output, const char *job);

/* So many more rings at the end of the ring file; false, and none, at the limit or without space for all. */
bool storage_add_rings(struct storage *s, unsigned nr);

/* Give some more of the first rings their pages, so that hooks need not. False when they have theirs. */
bool storage_populate(struct storage *s);

/*
 * Give the trace its name, now that it has a header: nobody ever finds one that cannot be read. False if that fails;
 * then, and where the trace never got so far, storage_discard() leaves no file behind.
 */
bool storage_publish(struct storage *s);
void storage_discard(struct storage *s);

/*
 * Somebody has removed the trace, mostly the whole folder. Then it is made anew with all that it held, for the file goes
 * on without a name; the ring file has none from now on. False and errno if that cannot be done.
 */
bool storage_is_removed(const struct storage *s);
bool storage_restore(struct storage *s);

/*
 * A flight recorder's next trace, without the oldest part: an empty, locked file beside the trace, or -1 and errno.
 * storage_publish_next() gives it the trace's name; then, when nothing is written to the old one any more,
 * storage_take_next() closes that. storage_drop_next() removes it if it was not published.
 */
int storage_open_next(struct storage *s);
bool storage_publish_next(struct storage *s);
void storage_take_next(struct storage *s);
void storage_drop_next(struct storage *s);

/* Has somebody put a question beside the trace, HOST.PID.START.ask? It is taken away. */
bool storage_is_asked(const struct storage *s);

/* The trace is whole without its rings: remove their file or shared memory. The mapping stays for late hooks. */
void storage_drop_ring_file(struct storage *s);

void storage_close(struct storage *s);

#endif
