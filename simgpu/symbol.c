/* SPDX-License-Identifier: MIT */
/* Driver functions by name, as cuGetProcAddress and cudaGetDriverEntryPoint need them. */
#include "simgpu/stub.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *key, const void *row)
{
	return strcmp(key, ((const struct sim_symbol *)row)->name);
}

static int by_plain(const void *key, const void *row)
{
	return strcmp(key, ((const struct sim_symbol_version *)row)->plain);
}

void *sim_symbol_address(const char *name)
{
	const struct sim_symbol *row = bsearch(name, sim_symbols, sim_nr_symbols, sizeof(*row), by_name);

	return row ? (void *)row->address : NULL;
}

const char *sim_symbol_versioned(const char *plain, int cuda_version)
{
	const struct sim_symbol_version *row, *end = sim_symbol_versions + sim_nr_symbol_versions;
	const char *symbol = NULL;

	row = bsearch(plain, sim_symbol_versions, sim_nr_symbol_versions, sizeof(*row), by_plain);
	if (!row)
		return NULL;
	while (row > sim_symbol_versions && !strcmp(row[-1].plain, plain))
		row--;
	for (; row < end && !strcmp(row->plain, plain) && row->since <= cuda_version; row++)
		symbol = row->symbol;
	return symbol;
}
