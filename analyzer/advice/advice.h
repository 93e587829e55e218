/* SPDX-License-Identifier: MIT */
/*
 * Advice: what would have made a device's peak smaller, and by how much.
 *
 * Each kind is a row of the table in advice.c: a function that looks for what it could change, has the blocks of the
 * *window* (the cycle of training that the peak lies in, steps.h) replayed with that change, and says by how much the
 * peak would have been smaller. What says less than ADVICE_LEAST of it is not said. docs/advice.md has each kind's
 * rule and its known error.
 *
 * A device whose memory was not scarce needs no advice: none is looked for, unless it is asked for.
 */
#ifndef VT_ADVICE_H
#define VT_ADVICE_H

#include "analyzer/allocator/frag.h"
#include "analyzer/findings/said.h"
#include "analyzer/failures/failures.h"

#define ADVICE_MAX 15  /* kinds */
#define ADVICE_USUAL 5 /* advices that are said unless all are asked for */

/* What a change is made to: of two, the earlier is advised first, whatever the other saves. */
enum advice_order {
	ADVICE_OF_WASTE, /* what is there twice for no use, and is enough for the request that failed */
	ADVICE_OF_PROGRAM,
	ADVICE_OF_INPUT, /* smaller batches, shorter samples: another computation */
	ADVICE_OF_RANKS, /* more GPUs, for a program that has one */
};

/* Would the step have gone through? */
enum advice_fit { ADVICE_FIT_UNKNOWN, ADVICE_FITS, ADVICE_LACKS };

struct advice {
	const char *kind; /* "checkpointing"; static */
	bool keeps_result; /* the same updates of the same parameters, but for the order of rounding */
	enum advice_order order;
	bool of_reserved;  /* the bytes are of what is reserved, not of what is allocated */
	bool of_forward;   /* the rest of a forward in which memory ran out is reckoned in */
	bool of_backward;  /* the rest of a backward in which it ran out is reckoned in */
	bool fits;	   /* with this change the memory asked for would have been there; with of_forward */
	enum advice_fit fit;
	bool transfers;	   /* each step waits for what is moved from the host and back */
	bool at_least;	   /* memory ran out before the step's peak, where it would save no less */
	uint64_t peak_bytes, after_bytes, saved_bytes;
	uint32_t puts_off_until; /* step; 0: memory does not grow (advices_put_off) */
	bool has_site;
	struct stack_frame site; /* its strings belong to the advices */
	struct said title;	 /* what to do, in a few words */
	struct said action;	 /* the line, or the setting */
	struct said evidence, cost;
};

struct advices {
	struct replay replay; /* read again, for one device */
	struct frag frag;
	const struct replay_device *device; /* of the caller's model; NULL: none was looked for */
	struct advice advice[ADVICE_MAX]; /* by order; what transfers, and then what is too little for the request, last; then by what they save, most first */
	unsigned nr;
	bool at_failure;	/* the peak is that of the request that failed, with it */
	uint64_t fits_bytes;	/* so much of that peak there was room for; 0 = not known */
	uint64_t cached_bytes;	/* what was reserved beside that, and may have been of use after a change */
};
#define ADVICES_INIT { 0 }

/*
 * Was the memory of this device scarce: did a request fail for good, or was as much of it reserved as frag_is_scarce()
 * says? `failures` may be NULL.
 */
bool advices_are_needed(const struct replay_device *d, const struct failures *failures);

struct frag; /* allocator/frag.h */

/*
 * Read the process's trace once more and look for advice about a device of a replay that was loaded with lives.
 * Without a peak that is known block by block (damage, a flight recorder's past, a pipe) there is none, nor, after a
 * warning, where its step has more blocks than are kept. Returns 0, or CMD_TROUBLE after a message: the trace could not
 * be read once more. advices_release() is needed either way. `frag` has observed the whole
 * replay, and is finished by this; NULL: none has, and the second reading takes longer for it.
 */
int advices_find(struct advices *all, const struct replay_device *d, const struct failures *failures, struct frag *frag);
void advices_release(struct advices *all);

/* Memory grows by so many bytes a step, and has run out at this one: changes elsewhere only put that off. */
void advices_put_off(struct advices *all, uint64_t per_step, uint32_t step);

#endif
