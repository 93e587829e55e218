/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of the reader: whatever a trace and its ring file hold, it reads on, refuses, or reports damage. It ends, in
 * bounded memory, and what it gives out can be used.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/reader_input.h"
#include "tracefmt/tracefmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static volatile uint64_t used; /* so that nothing that is looked at can be left out */

static void use_text(const char *text)
{
	used += text ? strlen(text) : 0;
}

static void use_definitions(const struct tfmt_reader *r, uint32_t id)
{
	struct tfmt_thread thread;
	struct tfmt_device device;
	struct tfmt_frame frame;
	struct tfmt_shape shape;
	struct tfmt_code code;

	if (tfmt_reader_frame(r, id, &frame))
		used += frame.a;
	if (tfmt_reader_code(r, id, &code)) {
		use_text(code.name);
		use_text(code.file);
		for (size_t i = 0; i < code.table_bytes; i++)
			used += code.table[i];
	}
	if (tfmt_reader_shape(r, id, &shape))
		for (uint32_t i = 0; i < shape.nr_dims; i++)
			used += shape.dims[i];
	if (tfmt_reader_thread(r, id, &thread))
		use_text(thread.name);
	if (tfmt_reader_device(r, id, &device))
		use_text(device.name);
	use_text(tfmt_reader_function(r, id));
	use_text(tfmt_reader_string(r, id));
}

static void use_lists(const struct tfmt_reader *r)
{
	struct tfmt_module module;
	const char *key, *value;

	for (uint32_t i = 0; tfmt_reader_module(r, i, &module); i++)
		use_text(module.path);
	for (uint32_t i = 0; tfmt_reader_info(r, i, &key, &value); i++) {
		use_text(key);
		use_text(value);
	}
}

/* Returns a time from the middle of it. */
static uint64_t read_all(struct tfmt_reader *r)
{
	struct tfmt_totals totals;
	struct tfmt_event ev;
	uint64_t middle_ns = 0;
	int got;

	while ((got = tfmt_reader_next(r, &ev)) != 0) {
		if (got < 0) {
			use_text(tfmt_reader_message(r));
			if (got == TFMT_E_NOMEM || got == TFMT_E_IO)
				break;
			continue;
		}
		if (ev.alloc_ordinal != TFMT_NO_ORDINAL && ev.alloc_ordinal >= ev.ordinal)
			abort(); /* nothing can be undone before it was done */
		if (__builtin_popcountll(ev.ordinal) == 1) /* the last of these is about half of them */
			middle_ns = ev.time_ns;
		use_definitions(r, ev.python_stack);
		use_definitions(r, ev.native_stack);
		use_definitions(r, ev.shape);
	}
	tfmt_reader_totals(r, &totals);
	used += totals.pinned + tfmt_reader_summary(r)->nr_events;
	for (uint32_t id = 0; id < 64; id++)
		use_definitions(r, id);
	use_lists(r);
	return middle_ns;
}

/* From the middle on, wherever an index or what looks like one leads. */
static void read_from(const char *path, uint64_t time_ns)
{
	struct tfmt_reader *r;

	if (tfmt_reader_open(&r, path, NULL))
		return;
	if (tfmt_reader_seek(r, time_ns) >= 0)
		read_all(r);
	tfmt_reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader_input in = reader_input_split(data, size);
	const char *path = reader_input_store(&in, "reader");
	struct tfmt_reader *r;
	uint64_t offset, middle_ns;

	if (!tfmt_reader_open(&r, path, &offset)) {
		middle_ns = read_all(r);
		tfmt_reader_close(r);
		read_from(path, middle_ns);
		read_from(path, UINT64_MAX);
	}
	reader_input_remove(&in, "reader");
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	return reader_input_mutate(data, size, max_size, seed, LLVMFuzzerMutate);
}
