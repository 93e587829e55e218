/* SPDX-License-Identifier: MIT */
/*
 * A part of a recorded job, one cycle or all of it, block by block, each with what it is for and its shape: what changes of
 * the program are computed on. None of it changes the job.
 */
#ifndef VT_JOBPART_H
#define VT_JOBPART_H

#include "analyzer/purpose/category.h"

struct frag_device;

struct jobpart {
	const struct replay *replay;
	const struct replay_device *device;
	const struct frag_device *frag; /* how the device's cached memory is cut up, of advice; else NULL */
	struct categories blocks; /* of the part, by order of allocation; deaths known as far as the recording goes */
	struct tfmt_shape *shape; /* as blocks.block; bytes 0: not known */
	uint64_t *key;		  /* jobpart_key() of these */
	uint64_t *parameter;	  /* keys of parameters, ascending */
	size_t nr_parameters;
	uint64_t value_bytes;	  /* of the widest parameter's values */
	uint64_t from, to;	  /* ordinals of the part */
	uint64_t backward;	  /* the first event of backward in it; TFMT_NO_ORDINAL = none */
	uint64_t asked;		  /* the request that failed at `to`; 0 = none did */
	uint64_t asked_ns;	  /* when that was, on the recording's clock */
	uint32_t asked_stack;	  /* the Python stack of that request */
	struct tfmt_shape asked_shape; /* of the tensor asked for; bytes 0: not known */
	enum phase asked_phase;
	uint64_t base;		  /* bytes that are not known block by block */
	uint64_t floor;		  /* a peak outside of the part that no change reaches */
	uint64_t peak;
	uint64_t lacking;
	uint64_t cached;	  /* reserved at the failure, in no tensor: another job may find use for it */
};

/* Was the block allocated in the window, in that phase? */
bool jobpart_is_born(const struct jobpart *j, size_t block, enum phase phase);

/* Has forward run in the window, and made no nodes of autograd: is there nothing to train? */
bool jobpart_is_inference(const struct jobpart *j);

/* Is it an activation that forward made in the window? */
bool jobpart_is_kept(const struct jobpart *j, size_t block);

/* As a time of changes/blockreplay.h; TFMT_NO_ORDINAL: BLOCKREPLAY_END. */
uint64_t jobpart_time(uint64_t ordinal);

/* Equal for shapes of the same sizes in any order, of any type; 0 = not known. */
uint64_t jobpart_key(const struct tfmt_shape *s);
uint64_t jobpart_elements(const struct tfmt_shape *s);

/* Has a parameter this key? Is this block's shape that of one? */
bool jobpart_is_parameters(const struct jobpart *j, uint64_t key);
bool jobpart_fits_parameter(const struct jobpart *j, size_t block);

/* A weight that autocast has turned into a narrower type: it is cached until forward ends. */
bool jobpart_is_cast(const struct jobpart *j, size_t block);

/*
 * The shapes, parameters and backward of the blocks, and what its replay lacks of j->peak: device, from, to, peak and what was
 * asked are set, `life` are its blocks by order of allocation. jobpart_release() is needed.
 */
void jobpart_fill(struct jobpart *j, const struct life *life, size_t nr);
void jobpart_release(struct jobpart *j);

#endif
