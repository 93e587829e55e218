/* SPDX-License-Identifier: MIT */
/*
 * Failures: the requests that the framework's allocator could not serve, with the device as it was then, and
 * how large the blocks of each stack, and what each step began with and needed, had been before. What the driver refused
 * others is one as well: on a device without tensors, and on one that has some if no tensor was allocated after it.
 *
 * A failure is *handled* when the program went on after it: a later backward pass ended, or the same stack
 * got memory after all; on a device without tensors, when the driver gave any, or the program ended well. Programs that
 * look for the batch that fits fail on purpose.
 */
#ifndef VT_FAILURES_H
#define VT_FAILURES_H

#include "analyzer/allocator/frag.h"
#include "analyzer/replay/replay.h"
#include "analyzer/training/stepinputs.h"

#define FAILURES_KEPT 1000 /* of each device; the first ones, and the last */
#define FAILURES_RECORDS 6

struct failure {
	uint64_t ordinal, time_ns; /* on the recording's clock */
	uint64_t asked;            /* bytes of the tensor */
	uint64_t refused;          /* bytes that the driver was asked for and refused; 0 = it was not asked */
	uint64_t allocated, reserved;
	uint64_t free; /* what the driver had, if it is known */
	uint64_t other_processes;
	uint64_t context; /* with its code and local memory; 0 also where not told apart */
	struct frag_cached cached; /* 0 also where nobody looked */
	uint32_t python_stack;
	uint32_t native_stack; /* of the refused call, else of the request */
	uint32_t shape;        /* TFMT_DEF_SHAPE of the tensor, 0 = not known */
	uint32_t nr_begun;     /* backward passes begun before, if lives are kept */
	uint32_t nr_forwards;  /* forward's allocations before, likewise */
	uint32_t nr_cycles;
	uint16_t stream;
	uint16_t modelled; /* TFMT_DEF_FUNCTION that names the owner, where a simulated library was refused; else 0 */
	uint8_t phase;
	bool free_known, others_known;
	bool handled;
	bool is_driver; /* no framework: all that is reserved is what was taken from the driver */
	bool is_library; /* not the framework asked the driver, but a library or the program beside it */
	bool is_pooled; /* of cudaMallocAsync: the driver's pool serves each tensor */
};

struct failures_of_device {
	const struct replay_process *process;
	uint32_t ordinal;
	struct failure *failure; /* in order; not more than FAILURES_KEPT */
	size_t nr_failures, room;
	uint64_t nr_all;
	size_t nr_handled; /* of those kept, the first ones */
	uint64_t nr_ooms;  /* private: books' count at the latest failure of a pool */
	struct {
		uint64_t bytes;
		uint32_t python_stack, native_stack;
	} refused; /* what the driver has just refused */
};

/* The last steps in which a stack's blocks were larger than any before; without steps the last times that they were. */
struct failures_sizes {
	uint64_t next_bytes; /* from so many on it is larger */
	uint64_t ordinal[FAILURES_RECORDS], bytes[FAILURES_RECORDS]; /* ascending; first in the step, its largest */
	uint64_t latest, bytes_until; /* event of the last step's largest, and the largest of that step before it; 0 = none */
	uint32_t nr;
	bool has_older; /* that are not kept */
};

struct failures_process {
	const struct replay_process *process;
	struct failures_sizes *sizes; /* by Python stack */
	uint32_t nr_sizes;
};

struct failures {
	struct failures_of_device *device;
	size_t nr_devices;
	struct failures_process *process;
	size_t nr_processes;
	struct stepinputs inputs;
};
#define FAILURES_INIT                                                                                        \
	{                                                                                                    \
		0                                                                                            \
	}

/* A struct replay_options observer; ctx is the struct failures. */
void failures_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns);
void failures_release(struct failures *f);

/* The latest failure of a device left so much cached. */
void failures_set_cached(struct failures *f, const struct replay_process *p, uint32_t ordinal, struct frag_cached cached);

/* The one to explain, handled or not: of the main thread, where device_books.main_oom has it, else the latest. `d` has one. */
const struct failure *failures_last(const struct failures_of_device *d);

/* Those of a device of the model; NULL: it had none. */
const struct failures_of_device *failures_of(const struct failures *f, const struct replay_device *d);

/*
 * The device to explain (fatal.h); without one that which ran out of memory for a while, else the fullest. NULL: the
 * model has no device.
 */
const struct replay_device *failures_worst_device(const struct failures *f, const struct replay *m);

/*
 * The largest block that the stack had before that event, where a step begins, or in the last step; 0 = none. Before the records that are
 * kept it is not known, and the oldest of these is returned, which is larger.
 */
uint64_t failures_largest_before(const struct failures *f, const struct replay_process *p,
				 uint32_t python_stack, uint64_t ordinal);

#endif
