/* SPDX-License-Identifier: MIT */
/*
 * image_symbol: what an image defines by name: its kernels, and its variables with their first values. A
 * binary says it in its symbol table, PTX in its text. Link-time intermediates and compressed binaries cannot
 * be read.
 */
#ifndef SIMGPU_IMAGE_SYMBOL_H
#define SIMGPU_IMAGE_SYMBOL_H

#include <stdbool.h>
#include <stddef.h>

struct sim_image_symbol {
	const char *name;
	size_t name_bytes;    /* without a NUL, which may not follow */
	bool is_kernel;       /* else a variable */
	size_t bytes;         /* of a variable */
	const void *init;     /* its first value, all of it; NULL: zero, unless it is not known */
	bool is_init_unknown; /* PTX: addresses and the like */
};

/* Call EACH for every symbol of the code that a device of CC would take of IMAGE. False: it cannot be read. */
bool sim_image_symbols(const void *image, int cc, void (*each)(void *data, const struct sim_image_symbol *),
		       void *data);

#endif
