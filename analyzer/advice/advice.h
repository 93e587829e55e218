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

#include "analyzer/purpose/category.h"
#include "analyzer/allocator/fragmentation.h"
#include "analyzer/allocator/blockreplay.h"
#include "analyzer/oom/failures.h"

#define ADVICE_MAX 15  /* kinds */
#define ADVICE_USUAL 5 /* ... that are said unless all are asked for */
#define ADVICE_TEXT_MAX 320
#define ADVICE_TITLE_MAX 54 /* indented and with its figure, a line of the screen */
#define ADVICE_LEAST 0.02   /* of the peak */
#define ADVICE_SCARCE 0.70  /* of the device reserved: from here on memory is scarce */

struct advice {
	const char *kind; /* "checkpointing"; static */
	bool keeps_result; /* the same updates of the same parameters, but for the order of rounding */
	bool is_last;	   /* of smaller batches: only when nothing else is left */
	bool of_reserved;  /* the bytes are of what is reserved, not of what is allocated */
	bool of_forward;   /* the rest of a forward in which memory ran out is reckoned in */
	bool of_backward;  /* ... of a backward */
	bool fits;	   /* ... and would have been there */
	bool at_least;	   /* memory ran out before the step's peak, where it would save no less */
	uint64_t peak_bytes, after_bytes, saved_bytes;
	bool has_site;
	struct stack_frame site;      /* its strings belong to the advices */
	char title[ADVICE_TITLE_MAX]; /* what to do, in a few words */
	char action[ADVICE_TEXT_MAX]; /* the line, or the setting */
	char evidence[ADVICE_TEXT_MAX];
	char cost[ADVICE_TEXT_MAX];
};

struct advices {
	struct model model; /* read again, for one device */
	struct frag frag;
	const struct model_device *device; /* of the caller's model; NULL: none was looked for */
	struct advice advice[ADVICE_MAX]; /* largest first */
	unsigned nr;
	bool at_failure;	/* the peak is that of the request that failed, with it */
	uint64_t fits_bytes;	/* ... and so much of it there was room for; 0 = not known */
	uint64_t cached_bytes;	/* what was reserved beside that, and may have been of use after a change */
};
#define ADVICES_INIT { 0 }

/*
 * Was the memory of this device scarce: did a request fail for good, or was ADVICE_SCARCE of it reserved? `failures`
 * may be NULL.
 */
bool advices_are_needed(const struct model_device *d, const struct failures *failures);

/*
 * Read the process's trace once more and look for advice about a device of a model that was loaded with lives.
 * Without a peak that is known block by block (damage, a flight recorder's past, a pipe) there is none. Returns 0 or
 * TFMT_E_NOMEM. advices_release() is needed either way.
 */
int advices_find(struct advices *all, const struct model_device *d, const struct failures *failures);
void advices_release(struct advices *all);

/* ---- for kinds ------------------------------------------------------------------------------- */

/* What kinds look at. Times are those of blockreplay.h. */
struct advice_job {
	const struct model *model;
	const struct model_device *device;
	const struct frag *frag;
	struct categories blocks; /* of the window, by order of allocation; deaths known as far as the recording goes */
	struct tfmt_shape *shape; /* as blocks.block; bytes 0: not known */
	uint64_t *key;		  /* advice_key() of these */
	uint64_t *parameter;	  /* keys of parameters, ascending */
	size_t nr_parameters;
	uint64_t value_bytes;	  /* of the widest parameter's values */
	uint64_t from, to;	  /* ordinals of the window */
	uint64_t backward;	  /* the first event of backward in it; TFMT_NO_ORDINAL = none */
	uint64_t asked;		  /* the request that failed at `to`; 0 = none did */
	uint64_t asked_ns;	  /* ... when, on the recording's clock, */
	uint32_t asked_stack;	  /* ... its Python stack, */
	struct tfmt_shape asked_shape; /* ... of its tensor; bytes 0: not known */
	enum phase asked_phase;
	uint64_t base;		  /* bytes that are not known block by block */
	uint64_t floor;		  /* a peak outside of the window that no advice changes */
	uint64_t peak;
	uint64_t lacking;
	uint64_t cached;	  /* reserved at the failure, in no tensor: another job may find use for it */
};

struct replay advice_replay(const struct advice_job *j);

/* Add a block as it was. */
void advice_keep(struct replay *r, const struct advice_job *j, size_t block);

/* The peak with the blocks of a replay, which is released. */
uint64_t advice_peak(const struct advice_job *j, struct replay *r);

/* Was the block allocated in the window, in that phase? */
bool advice_is_born(const struct advice_job *j, size_t block, enum phase phase);

/* Has forward run in the window, and made no nodes of autograd: is there nothing to train? */
bool advice_is_inference(const struct advice_job *j);

/* Is it an activation that forward made in the window? */
bool advice_is_kept(const struct advice_job *j, size_t block);
uint64_t advice_time(uint64_t ordinal); /* TFMT_NO_ORDINAL: REPLAY_END */

/* Equal for shapes of the same sizes in any order, of any type; 0 = not known. */
uint64_t advice_key(const struct tfmt_shape *s);
uint64_t advice_elements(const struct tfmt_shape *s);

int advice_by_number(const void *a, const void *b); /* of uint64_t, for qsort() and bsearch() */

/* Has a parameter this key? Is this block's shape that of one? */
bool advice_is_parameters(const struct advice_job *j, uint64_t key);
bool advice_fits_parameter(const struct advice_job *j, size_t block);

/* A weight that autocast has turned into a narrower type: it is cached until forward ends. */
bool advice_is_cast(const struct advice_job *j, size_t block);

/* Is it the optimizer's: state, or a temporary of its step? */
bool advice_is_state(const struct advice_job *j, size_t block);
bool advice_is_of_step(const struct advice_job *j, size_t block);

/* The bytes of all state, and the largest of its tensors. 0: there is none. */
uint64_t advice_state_bytes(const struct advice_job *j, size_t *largest);

/* Of the gradients of one pass: as large as the parameters that have any. */
uint64_t advice_gradient_bytes(const struct advice_job *j);

/* Do the ranks share out the state, or the parameters that it is of, as it is? */
bool advice_is_sharded(const struct advice_job *j);

/* Over so many ranks: those of the job, if there are several. */
uint64_t advice_ranks(const struct advice_job *j);

/* The line that stands for a stack. */
void advice_at_stack(const struct advice_job *j, struct advice *a, uint32_t python_stack);

/* ... and the program's own, where an installed package was called for it: what to change is there. */
void advice_at_program(const struct advice_job *j, struct advice *a, uint32_t python_stack);

/* Is the line that stands for a stack, a->site, that of an installed package that the program called? */
bool advice_is_package(const struct advice_job *j, const struct advice *a, uint32_t python_stack);

/* Does a Python frame of the stack lie in a file whose path has one of these in it? A list that ends with NULL. */
bool advice_runs_in(const struct advice_job *j, uint32_t python_stack, const char *const *files);

/* Is it the newest frame of the stack that lies there? */
bool advice_ends_in(const struct advice_job *j, uint32_t python_stack, const char *file);

/* " at train.py:31", "" if no line is known. Returns buf. */
const char *advice_where(char *buf, size_t size, const struct advice *a);

void advice_title(struct advice *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void advice_action(struct advice *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void advice_evidence(struct advice *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
void advice_cost(struct advice *a, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Kinds: fill *a but for its kind and saved_bytes. Returns false where there is nothing of the kind. */
bool advice_checkpointing(const struct advice_job *j, struct advice *a);
bool advice_chunked_loss(const struct advice_job *j, struct advice *a);
bool advice_small_state(const struct advice_job *j, struct advice *a);
bool advice_bf16_state(const struct advice_job *j, struct advice *a);
bool advice_set_to_none(const struct advice_job *j, struct advice *a);
bool advice_accumulation(const struct advice_job *j, struct advice *a);
bool advice_smaller_batch(const struct advice_job *j, struct advice *a);
bool advice_shorter(const struct advice_job *j, struct advice *a);
bool advice_free_before(const struct advice_job *j, struct advice *a);
bool advice_duplicates(const struct advice_job *j, struct advice *a);
bool advice_activation_offload(const struct advice_job *j, struct advice *a);
bool advice_expandable(const struct advice_job *j, struct advice *a);
bool advice_offload(const struct advice_job *j, struct advice *a);
bool advice_sharding(const struct advice_job *j, struct advice *a);
bool advice_sharded_parameters(const struct advice_job *j, struct advice *a);

#endif
