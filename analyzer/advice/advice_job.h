/* SPDX-License-Identifier: MIT */
/*
 * What kinds of advice look at, and what they ask about it: the blocks of the window and their replay (advice_job.c), and
 * the lines of the program (advice_lines.c). None of it changes the job.
 */
#ifndef VT_ADVICE_JOB_H
#define VT_ADVICE_JOB_H

#include "analyzer/advice/advice.h"
#include "analyzer/allocator/blockreplay.h"
#include "analyzer/purpose/category.h"

/* What kinds look at. Times are those of blockreplay.h. */
struct advice_job {
	const struct replay *replay;
	const struct replay_device *device;
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
	uint64_t asked_ns;	  /* when that was, on the recording's clock */
	uint32_t asked_stack;	  /* the Python stack of that request */
	struct tfmt_shape asked_shape; /* of the tensor asked for; bytes 0: not known */
	enum phase asked_phase;
	uint64_t base;		  /* bytes that are not known block by block */
	uint64_t floor;		  /* a peak outside of the window that no advice changes */
	uint64_t peak;
	uint64_t lacking;
	uint64_t cached;	  /* reserved at the failure, in no tensor: another job may find use for it */
};

struct blockreplay advice_replay(const struct advice_job *j);

/* Add a block as it was. */
void advice_keep(struct blockreplay *r, const struct advice_job *j, size_t block);

/* The peak with the blocks of a replay, which is released. */
uint64_t advice_peak(const struct advice_job *j, struct blockreplay *r);

/* Was the block allocated in the window, in that phase? */
bool advice_is_born(const struct advice_job *j, size_t block, enum phase phase);

/* Has forward run in the window, and made no nodes of autograd: is there nothing to train? */
bool advice_is_inference(const struct advice_job *j);

/* Is it an activation that forward made in the window? */
bool advice_is_kept(const struct advice_job *j, size_t block);
uint64_t advice_time(uint64_t ordinal); /* TFMT_NO_ORDINAL: BLOCKREPLAY_END */

/* Equal for shapes of the same sizes in any order, of any type; 0 = not known. */
uint64_t advice_key(const struct tfmt_shape *s);
uint64_t advice_elements(const struct tfmt_shape *s);

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

/* The line that stands for a stack, and the program's own where an installed package was called: what to change is there. */
void advice_at_program(const struct advice_job *j, struct advice *a, uint32_t python_stack);

/* Is the line that stands for a stack, a->site, that of an installed package that the program called? */
bool advice_is_package(const struct advice_job *j, const struct advice *a, uint32_t python_stack);

/* Does a Python frame of the stack lie in a file whose path has one of these in it? A list that ends with NULL. */
bool advice_runs_in(const struct advice_job *j, uint32_t python_stack, const char *const *files);

/* Does a function of the stack, or the node of autograd, have one of these in its name? A list that ends with NULL. */
bool advice_names_one(const struct advice_job *j, uint32_t python_stack, const char *const *functions);

/* Is it the newest frame of the stack that lies there? */
bool advice_ends_in(const struct advice_job *j, uint32_t python_stack, const char *file);

#endif
