/* SPDX-License-Identifier: MIT */
/*
 * Which file was mapped at an address of the traced process: the module definitions of one trace, by address.
 * A program may unmap a library and map another at the same place; the later definition wins.
 */
#ifndef VT_MAPPING_H
#define VT_MAPPING_H

#include <stdbool.h>

#include "tracefmt/tracefmt.h"

struct mapping {
	const struct tfmt_reader *reader;
	uint32_t nr_seen;          /* module definitions taken in */
	struct tfmt_module *module; /* sorted by start; strings belong to the reader */
	uint32_t nr_modules;
	size_t room;
	const char *torch;         /* path of a library in PyTorch's own lib folder, NULL: none was seen */
};

void mapping_init(struct mapping *m, const struct tfmt_reader *reader);
void mapping_release(struct mapping *m);

/*
 * The module that holds `address`, NULL if none is known. Definitions read since the last call are taken
 * in first, so the pointer is valid until the next call.
 */
const struct tfmt_module *mapping_find(struct mapping *m, uint64_t address);

/*
 * Does the file belong to PyTorch's package? It lies in a folder where installers put packages, or in the one whose
 * lib/ PyTorch's libraries were mapped from: a checkout it was built in, or a folder of one's own (pip --target).
 */
bool mapping_is_torch(struct mapping *m, const char *path);

#endif
