/* SPDX-License-Identifier: MIT */
/* Fuzzer of baselines: one is refused, or reads the same again after it was written, and is no different from itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/gate/compare.h"
#include "analyzer/gate/baselinefile.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *text_of(const struct footprint *f, size_t *size)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, size);

	baselinefile_write(f, out);
	fclose(out);
	return text;
}

static void check_compare(const struct footprint *f, const struct footprint *again)
{
	struct compare c;

	compare_footprints(&c, f, again);
	if (c.nr_facts || c.nr_devices != f->nr_devices)
		abort();
	for (uint32_t i = 0; i < c.nr_devices; i++)
		for (uint32_t k = 0; k < c.device[i].nr_stacks; k++)
			if (c.device[i].stack[k].grown_bytes)
				abort();
	compare_release(&c);
}

static void check_again(const struct footprint *f)
{
	struct footprint again;
	size_t size = 0, second_size = 0;
	char *text = text_of(f, &size), *second;

	if (baselinefile_read(&again, hostile_file((const uint8_t *)text, size)))
		abort();
	second = text_of(&again, &second_size);
	if (size != second_size || memcmp(text, second, size))
		abort();
	check_compare(&again, &again);
	footprint_release(&again);
	free(second);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct footprint f;

	hostile_quiet();
	if (!baselinefile_read(&f, hostile_file(data, size)))
		check_again(&f);
	footprint_release(&f);
	return 0;
}
