/* SPDX-License-Identifier: MIT */
/*
 * GPU files: a GPU for `run --simulate FILE.toml`, as `vramtrace calibrate` writes it and people edit it.
 *
 *	name = "my-gpu"			what recordings call it
 *	base = "h100"			the profile that holds where the file says nothing
 *	[device]			properties: gpufile_keys
 *	[memory]			what context and libraries take: gpufile_keys
 *	[[nccl]]			ranks, init_bytes, first_bytes: of a communicator of so many, or more
 *	[[answer]]			question, bytes, what: a size that a library answers
 *
 * simgpu reads no TOML: gpufile_write_model() writes what it reads (simgpu/memory_model.h).
 */
#ifndef VT_GPUFILE_H
#define VT_GPUFILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One number of [device] or [memory]. The names are simgpu's. */
struct gpufile_key {
	const char *section, *name;
	uint64_t min, max;
	const char *what; /* the comment after it; its source where it is calibrate that measures it */
};

enum { GPUFILE_NR_KEYS = 20, GPUFILE_MAX_NCCL = 64, GPUFILE_MAX_PRODUCT = 200 };

extern const struct gpufile_key gpufile_keys[GPUFILE_NR_KEYS];

struct gpufile_nccl {
	uint64_t ranks, init_bytes, first_bytes;
};

struct gpufile_answer {
	char *question;
	char *what; /* for people, may be NULL */
	uint64_t bytes;
};

struct gpufile {
	char *name, *base;
	char *product; /* NULL = the base's */
	bool has[GPUFILE_NR_KEYS];
	uint64_t value[GPUFILE_NR_KEYS];
	struct gpufile_nccl nccl[GPUFILE_MAX_NCCL];
	unsigned nr_nccl;
	struct gpufile_answer *answers;
	unsigned nr_answers;
};

/*
 * Is TEXT, the argument of --simulate, a file (it has a slash or ends in .toml), alone or after a count as in
 * 4xmy-gpu.toml? Then its path, with *count set; else NULL.
 */
const char *gpufile_named(const char *text, unsigned long *count);

/* Read PATH into g, which gpufile_release() frees. Returns 0, or CMD_TROUBLE after a message. */
int gpufile_read(struct gpufile *g, const char *path);

/* Set the number NAME, which gpufile_keys has. */
void gpufile_set(struct gpufile *g, const char *name, uint64_t value);

/* Add an answer; the strings are copied, what may be NULL. */
void gpufile_add_answer(struct gpufile *g, const char *question, const char *what, uint64_t bytes);

bool gpufile_has_answer(const struct gpufile *g, const char *question);

/* Whether NAME can be a GPU file's name: letters, digits, '.', '_' and '-'. */
bool gpufile_name_is_usable(const char *name);

/* Write g as simgpu reads it. The caller checks the stream. */
void gpufile_write_model(const struct gpufile *g, FILE *out);

/* Write g as TOML with comments, below the comment lines of HEADER. The caller checks the stream. */
void gpufile_write_toml(const struct gpufile *g, const char *header, FILE *out);

void gpufile_release(struct gpufile *g);

#endif
