/* SPDX-License-Identifier: MIT */
/*
 * A recording written in the format of another program.
 *
 * A *format* is a row of export_formats: it is begun when the recording is open, hears of each event that counts, and
 * finishes after the last. It writes as it goes, so that memory follows the number of live blocks and of distinct stacks,
 * never the number of events. Single-threaded.
 */
#ifndef VT_EXPORT_H
#define VT_EXPORT_H

#include <stdio.h>

#include "analyzer/replay/replay.h"

enum export_what { EXPORT_EVENTS, EXPORT_BLOCKS, EXPORT_SERIES };
enum export_at {
	EXPORT_PEAK, /* of tensors, or of what the driver gave where a device has none, as `peak` takes it */
	EXPORT_END,
	EXPORT_ALL, /* not a moment: all that was ever allocated */
};

/* What is asked for, and where it goes. Zero but for the first members. */
struct export {
	struct replay *replay;
	FILE *out;        /* NULL with a format that needs a path */
	const char *path; /* of the file that is written, for a format that needs it */
	enum export_what what;
	enum export_at at;
	int64_t pid, rank, device; /* the only ones that are asked for; -1 = all */
	const struct replay_process *only; /* likewise, once all was read (archive.h); NULL = all */

	void *state; /* the format's own, from begin() to finish() */
	struct weight_counts *counts; /* weights.h: of formats that begin with weights_begin() */

	/* private: of the process that events come from */
	const struct replay_process *current;
	int64_t current_rank;
};

struct export_format {
	const char *name, *purpose;
	bool is_binary;
	bool takes_what, takes_at; /* these mean something to it */
	bool needs_lives;          /* steps, lives of blocks (struct replay_options) */
	bool needs_names;          /* names of blocks, and the modules that they were made in */
	bool needs_past;           /* hears also of what was live where a flight recording begins (ev->before) */
	bool needs_path;           /* a library writes the file by its name */

	/* The recording is open, and no event was read. May be NULL. */
	void (*begin)(struct export *x);

	/* A struct replay_options observer; ctx is the struct export. May be NULL. */
	void (*observe)(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
			uint64_t time_ns);

	/*
	 * All was read: write what is to be written at the end. It may be called for one process after the other (x->only), each
	 * with a file of its own. May be NULL. Returns CMD_FINE, or CMD_TROUBLE after a message.
	 */
	int (*write)(struct export *x);
	const char *ending; /* of names of files, with write() */

	/* The end: write what is left, release what begin() made. May be NULL; returns as write() does. */
	int (*finish)(struct export *x);
};

/* All formats; the last row's name is NULL. */
extern const struct export_format export_formats[];

/* The format of this name, NULL if there is none. */
const struct export_format *export_format_find(const char *name);

/* The program of a process, as the recorder named it; "" if it did not. Known from the first event on. */
const char *export_program(const struct replay_process *p);

/*
 * The rank of the process that an event is of, -1 = none: while a recording is read, the process itself does not tell it yet.
 */
int64_t export_rank(struct export *x, const struct replay_process *p);

/* Are these asked for? The first two can tell once all was read, the others while it is read. */
bool export_wants_process(const struct export *x, const struct replay_process *p);
bool export_wants_device(const struct export *x, const struct replay_device *d);
bool export_wants_process_of(struct export *x, const struct replay_process *p);
bool export_wants_event(struct export *x, const struct replay_process *p, const struct tfmt_event *ev);

/* The process that an observer was called with, to be looked into. */
struct replay_process *export_process(const struct export *x, const struct replay_process *p);

/* The moment of a device that `at` is; MARK_END with EXPORT_ALL. */
enum group_mark export_mark(const struct replay_device *d, enum export_at at);

/* How many devices are asked for: with several, what belongs to one is told apart. */
size_t export_nr_devices(const struct export *x);

/* "python train.py, pid 4711, rank 3, GPU 0", without a rank that there is not. Returns buf. */
const char *export_device_title(char *buf, size_t size, const struct replay_device *d);

#endif
