/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of censuses: whatever such a file holds, it is read as far as it goes, or refused, in memory that its size
 * bounds; what it gives out hangs together, and can be named.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/names/objectname.h"
#include "tests/fuzz/reader_input.h"
#include "tracefmt/tracefmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define NAMED_MAX 16 /* as many are named: chains may be long */
#define KEEPERS_MAX 4
#define FRAME_MIN 32       /* bytes of a frame */
#define FRAME_OBJECTS 5000 /* more than a frame's 64 KiB can define, compressed to however little */

static volatile uint64_t used; /* so that nothing that is looked at can be left out */

static void use_text(const char *text)
{
	used += strlen(text);
}

/* Parents are there, and come first; keys are there, or not known. */
static void check_object(const struct tfmt_census *c, uint32_t id)
{
	const struct tfmt_object_facts *o = tfmt_census_object(c, id);

	if (!o)
		return;
	if (!o->edge || o->parent >= id || (o->parent && !tfmt_census_object(c, o->parent)))
		abort();
	if (o->edge == TFMT_EDGE_OBJECT && o->number && !tfmt_census_object(c, (uint32_t)o->number))
		abort();
	if (o->edge == TFMT_EDGE_OBJECT && (uint64_t)o->number > UINT32_MAX)
		abort();
	use_text(o->name);
	use_text(o->class_name);
	use_text(o->file);
	use_text(o->function);
}

static void use_name(const struct tfmt_census *c, uint32_t object)
{
	struct keeper keeper[KEEPERS_MAX];
	struct objectname name;

	objectname_find(&name, c, object);
	use_text(name.text);
	use_text(name.pattern);
	used += objectname_use(c, object);
	for (uint32_t i = objectname_keepers(keeper, KEEPERS_MAX, c, object); i-- > 0;)
		use_text(keeper[i].name.text);
}

static void use_census(const struct tfmt_census *c, size_t file_bytes)
{
	uint32_t nr = tfmt_census_nr_objects(c);

	if (nr > file_bytes + file_bytes / FRAME_MIN * FRAME_OBJECTS)
		abort();
	used += tfmt_census_facts(c)->allocated + tfmt_census_header(c)->pid;
	for (uint32_t id = 1; id <= nr; id++)
		check_object(c, id);
	if (tfmt_census_object(c, 0) || (nr < UINT32_MAX && tfmt_census_object(c, nr + 1)))
		abort();
	for (uint32_t i = 0; i < tfmt_census_nr_tensors(c); i++) {
		const struct tfmt_tensor *t = tfmt_census_tensor(c, i);

		if (!tfmt_census_object(c, t->object))
			abort();
		if (i < NAMED_MAX)
			use_name(c, t->object);
	}
	for (uint32_t id = nr; id > 0 && id + NAMED_MAX > nr; id--)
		use_name(c, id);
	if (tfmt_census_tensor(c, tfmt_census_nr_tensors(c)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader_input in = reader_input_split(data, size);
	const char *path = reader_input_store(&in, "census");
	struct tfmt_census *c;

	if (!tfmt_census_open(&c, path)) {
		use_census(c, in.trace_bytes);
		tfmt_census_close(c);
	} else if (c) {
		abort();
	}
	reader_input_remove(&in, "census");
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	return reader_input_mutate(data, size, max_size, seed, LLVMFuzzerMutate);
}
