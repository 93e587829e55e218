/* SPDX-License-Identifier: MIT */
/*
 * A recording in memory: its processes, their books, and the devices they used.
 *
 * A recording is opened, advanced, asked (its books and the rest of what this header shows, read-only) and released.
 * Advancing reads every trace once, front to back; the traces stay open, because stacks, shapes and names are looked up
 * in them. A *device* here is one GPU as one process
 * sees it. Times are nanoseconds since the start of the recording, that is of its earliest process;
 * processes of one boot are aligned by the monotonic clock, others by the time of day.
 */
#ifndef VT_REPLAY_H
#define VT_REPLAY_H

#include "analyzer/ledger/books.h"
#include "analyzer/modules/modulepaths.h"
#include "analyzer/names/names.h"
#include "analyzer/recording/hostmemory.h"
#include "analyzer/recording/recording.h"
#include "analyzer/stacks/stack.h"
#include "analyzer/training/lives.h"
#include "analyzer/training/phases.h"
#include "analyzer/training/stepsamples.h"

/* How a process ended; of several, the greatest stands for the recording. */
enum replay_end { REPLAY_END_EXIT, REPLAY_END_RUNNING, REPLAY_END_UNKNOWN, REPLAY_END_SIGNAL, REPLAY_END_KILLED };
extern const char *const replay_end_names[];

struct replay_process;

/*
 * A recording as it would have gone had memory run out: of the process of this trace, the event with this ordinal, a tensor's
 * allocation or the first call that took memory for it, is the failure of a request for so many bytes, and nothing follows.
 */
struct replay_failure {
	const char *path; /* of the trace */
	uint64_t ordinal, bytes;
	uint64_t reserved_bytes; /* by the framework, when it fails */
	uint64_t refused_bytes; /* that the driver was asked for then; 0: it was not, because of a limit of the framework's */
	uint64_t capacity_bytes, free_bytes; /* of the GPU, and what the driver has left of it; capacity 0: as recorded */
};

/*
 * Events as they would have been. edit() says which take the place of one: *out are as many as it returns, valid until its next
 * call. fails: the last of them is the request that fails (struct replay_failure), and none comes after it.
 */
struct replay_editor {
	size_t (*edit)(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, bool fails,
		       const struct tfmt_event **out);
	void *ctx;
};

/* What is asked of a replay; zeroed: its books alone. */
struct replay_options {
	bool has_at;
	uint64_t at_ns; /* MARK_TIME, since the start of the recording */
	/* Called after each event that counts; `time_ns` on the recording's clock. May be NULL. */
	void (*observe)(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
			uint64_t time_ns);
	void *ctx;
	bool observe_no_frees; /* not after TFMT_TENSOR_FREE, of which there are many */
	bool observe_past; /* also a checkpoint's (ev->before): what is live where a kept recording begins */
	bool quiet; /* no progress line */
	bool follow; /* a process that goes on is not at its end: replay_advance() may be called again */
	bool lives; /* keep the lives of tensor blocks (process->lives), which categories and steps need; with names */
	struct lives_window *window; /* with lives: blocks of the first process to be kept one by one; may be NULL */
	const struct lives_follower *follower; /* with lives: is told of every block of all processes; may be NULL */
	bool names; /* read the censuses beside the traces (process->names), and keep lives where there are any */
	const struct replay_failure *failure; /* end it so; may be NULL */
	const struct replay_editor *editor; /* of all that is entered; may be NULL */
	bool modules; /* find the modules that tensor blocks were allocated in (process->modulepaths) */
};

struct replay_process {
	const char *path; /* of its trace */
	struct tfmt_reader *reader;
	const struct tfmt_header *header;
	const struct tfmt_summary *summary;
	struct mapping mapping;
	struct books *books;
	struct phases phases;
	enum phase phase;                 /* of the latest event */
	struct lives *lives;              /* of tensor blocks, with steps; NULL: nobody asks (struct replay_options) */
	struct stepsamples *stepsamples;  /* with lives */
	struct modulepaths *modulepaths;  /* of tensor blocks; NULL: nobody asks */
	struct names *names;              /* of tensor blocks; NULL: there is no census, or nobody asks */
	struct books_listener listener;   /* by which the books say what lives and module paths come from (eventloop.h) */
	enum replay_end end;
	int64_t rank, local_rank;         /* -1 = none */
	int64_t world_size;               /* ranks of the job; -1 = not known */
	const char *ranks_run;            /* "0,17": the only ranks of it that ran; NULL = all */
	const char *program;              /* as the recorder named it; "" if it did not */
	const char *torch;                /* version, NULL = no PyTorch seen */
	const char *allocator_conf;       /* NULL = none */
	const char *simulated;            /* GPU profile, NULL = a real device */
	const char *imported;             /* what another tool wrote that this was made of; NULL = a recording */
	uint64_t start_ns;                /* its start on the recording's clock */
	uint64_t last_ns;                 /* its last event on the recording's clock */
	uint64_t last_event_ns;           /* likewise, CLOCK_MONOTONIC */
	bool is_edited;                   /* by a struct replay_editor: blocks may have other sizes than their shapes */
	bool has_failed;                  /* as struct replay_failure says: what follows does not count */
	bool is_over;                     /* all of its events were read, and its accounts are closed */
	bool is_kept;                     /* a flight recorder has dropped its beginning: */
	uint64_t kept_ns;                 /* where the rest begins, on the recording's clock; else 0 */
	uint64_t lost_events;
	char damage[256]; /* the first damaged place, in words with its offset; "" = none */
	bool clock_estimated;             /* aligned by the time of day */
	struct hostmemory host;           /* as `run` noted it */
};

struct replay_device {
	struct replay_process *process;
	uint32_t ordinal;                 /* as the program numbers it */
	const struct device_books *books;
	struct tfmt_device info;          /* name "" if the recorder could not ask */
	uint64_t capacity_bytes;          /* 0 = unknown, or unlimited */
	bool is_unlimited;                /* a simulated device that never runs out */
	bool has_tensors;                 /* a framework's allocator reported on it */
};

struct replay {
	struct recording recording;
	struct replay_options options;
	struct replay_process *process;
	size_t nr_processes;
	struct replay_device *device;
	size_t nr_devices, devices_room;
	size_t nr_unreadable; /* traces of the recording left out, each said on stderr while loading */
	enum replay_end end;
	bool simulated, complete;
	uint64_t nr_events, lost_events, duration_ns;
	struct symbols *symbols;
};
#define REPLAY_INIT { 0 }

/*
 * The nth function, in order of name, that the simulated device was asked for and does not support: true, its
 * name (valid as long as the replay) and how often it was called.
 */
bool replay_unsupported(const struct replay_process *p, size_t nth, const char **name, uint64_t *calls);

/*
 * How often libraries of the simulated device were asked for a size that is not known and answered 0: figures of such
 * a process are lower bounds. 0 on a real device.
 */
uint64_t replay_zero_answers(const struct replay_process *p);

/*
 * Open a recording or a single trace; options may be NULL, what they point to is needed until replay_release(). Returns 0;
 * otherwise nothing could be read, the reason has been printed (message_error), and the value is CMD_TROUBLE.
 * replay_release() is needed either way.
 */
int replay_open(struct replay *m, const char *path, const struct replay_options *options);

/*
 * Read all events that are there. What is asked of the replay afterwards stands as it was after the last of them, its
 * devices are where m->device says until the next call. With options.follow a process that goes on is not over: its
 * books can be asked, what is found in retrospect cannot (steps_now() finds steps), and the next call goes on where this
 * one ended; what it has done in the last second or so may not be there yet.
 */
void replay_advance(struct replay *m);

/* Were all processes read to their end? */
bool replay_is_over(const struct replay *m);

/* Is there a trace that was not there, or not readable, when the recording was opened? It must be opened anew, then. */
bool replay_is_outgrown(const struct replay *m);

/* Open and advance, to the end of what is there; of a program that runs, to what its rings hold now. */
int replay_load(struct replay *m, const char *path, const struct replay_options *options);
void replay_release(struct replay *m);

/* A time of the traced process on the recording's clock; times before its start count as the start. */
static inline uint64_t replay_time(const struct replay_process *p, uint64_t monotonic_ns)
{
	uint64_t start = p->header->start_mono_ns;

	return p->start_ns + (monotonic_ns > start ? monotonic_ns - start : 0);
}

/* What a device was filled to: what PyTorch reserved, else what the driver gave. */
uint64_t replay_filled_bytes(const struct replay_device *d);

/* What stack_expand() needs for this process's stacks. */
struct stack_source replay_stack_source(const struct replay *m, struct replay_process *p);

/* Is every figure of this process exact? Otherwise peaks are "at least". */
bool replay_is_exact(const struct replay_process *p);

/* Is a total of the device's exact at the end? After damage it may be although peaks are not. */
enum replay_total { REPLAY_ALLOCATED, REPLAY_RESERVED, REPLAY_DRIVER };
bool replay_end_is_exact(const struct replay_device *d, enum replay_total total);

#endif
