/* SPDX-License-Identifier: MIT */
/* Fuzzer of GPU files: one is refused, or reads the same again after it was written. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/gpu/gpufile.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What simgpu would read of g; the caller frees it. */
static char *model_of(const struct gpufile *g)
{
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	gpufile_write_model(g, f);
	fclose(f);
	return text;
}

static void check_again(const struct gpufile *g)
{
	struct gpufile again;
	char *toml = NULL, *model = model_of(g), *second;
	size_t size = 0;
	FILE *f = open_memstream(&toml, &size);

	gpufile_write_toml(g, "# again\n", f);
	fclose(f);
	if (gpufile_read(&again, hostile_file((const uint8_t *)toml, size)))
		abort();
	second = model_of(&again);
	if (strcmp(model, second))
		abort();
	gpufile_release(&again);
	free(second);
	free(model);
	free(toml);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gpufile g;

	hostile_quiet();
	if (!gpufile_read(&g, hostile_file(data, size)))
		check_again(&g);
	gpufile_release(&g);
	return 0;
}
