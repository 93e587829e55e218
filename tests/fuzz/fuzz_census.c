/* SPDX-License-Identifier: MIT */
/*
 * Fuzzer of censuses: whatever such a file holds, it is read as far as it goes, or refused, in memory that its size
 * bounds; what it gives out hangs together, and can be named. An input is a census; or, if it does not begin as one, what
 * its definitions are made from, few bytes each.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
	if (!tfmt_census_object(c, o->root) || tfmt_census_object(c, o->root)->parent)
		abort();
	if (o->parent ? o->root != tfmt_census_object(c, o->parent)->root : o->root != id)
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

static void read_census(const char *path, size_t file_bytes)
{
	struct tfmt_census *c;

	if (!tfmt_census_open(&c, path)) {
		use_census(c, file_bytes);
		tfmt_census_close(c);
	} else if (c) {
		abort();
	}
}

/* ---- censuses that are made -------------------------------------------------------------------------------- */

#define TEXTS 8 /* STRING ids 1 to TEXTS */
#define NR_WHATS 8

struct maker {
	struct tfmt_writer *writer;
	const uint8_t *p, *end;
	uint32_t object, tensor; /* the latest ids */
};

static const char *const texts[TEXTS] = { "state",   "_modules", "_parameters", "_buffers",
					  "__main__", "0.weight", "__dict__",    "<module>" };

static uint8_t take(struct maker *m)
{
	return m->p < m->end ? *m->p++ : 0;
}

static void define(struct maker *m, uint32_t type, uint32_t id, const uint64_t *value, unsigned nr)
{
	uint8_t buf[16 * 10], *p = buf;

	for (unsigned i = 0; i < nr; i++)
		p = tfmt_put_varint(p, value[i]);
	if (tfmt_writer_definition(m->writer, type, id, buf, (size_t)(p - buf)))
		abort();
}

/* Mostly a few objects before, now and then anything. */
static uint64_t object_before(struct maker *m)
{
	uint8_t back = take(m);

	return back == 255 ? (uint64_t)take(m) << 28 : back < m->object ? m->object - back : 0;
}

static void make_object(struct maker *m)
{
	uint64_t parent = object_before(m), edge = take(m), kind = take(m);
	uint64_t label = edge == TFMT_EDGE_OBJECT ? object_before(m) + (kind >> 6) : take(m) % (TEXTS + 2);
	uint64_t value[] = { parent, edge & 31, kind & 31, label, label, label, 0, label, label, label, 0, label & 3, label };

	define(m, TFMT_DEF_OBJECT, ++m->object, value, sizeof(value) / sizeof(*value));
}

static void make_tensor(struct maker *m)
{
	uint64_t value[] = { object_before(m), 4096 * (uint64_t)take(m), 512, 0, 0, 1 };

	define(m, TFMT_DEF_TENSOR, ++m->tensor, value, sizeof(value) / sizeof(*value));
}

static void make_next(struct maker *m)
{
	uint64_t facts[] = { TFMT_CENSUS_OOM, 1, 0, 4096, 1, m->object, m->tensor };
	uint8_t what = take(m);

	if (what % NR_WHATS == 0)
		define(m, TFMT_DEF_CENSUS, 1, facts, sizeof(facts) / sizeof(*facts));
	else if (what % NR_WHATS == 1)
		m->object += (uint32_t)take(m) << (what >> 3); /* a gap, or back again */
	else if (what % NR_WHATS == 2)
		make_tensor(m);
	else if (what == 3 && tfmt_writer_flush(m->writer, NULL, 0))
		abort();
	else
		make_object(m);
}

static size_t make_census(const uint8_t *data, size_t size, const char *path)
{
	struct tfmt_header header = { .pid = 7, .storage = TFMT_STORAGE_ANONYMOUS, .host = "host" };
	struct maker m = { .p = data, .end = data + size };
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	uint8_t buf[64];
	off_t bytes;

	if (fd < 0 || tfmt_writer_open(&m.writer, fd, &header, 1))
		abort();
	for (uint32_t i = 0; i < TEXTS; i++) {
		uint8_t *end = tfmt_put_string(buf, texts[i], strlen(texts[i]));

		if (tfmt_writer_definition(m.writer, TFMT_DEF_STRING, i + 1, buf, (size_t)(end - buf)))
			abort();
	}
	while (m.p < m.end)
		make_next(&m);
	if (tfmt_writer_flush(m.writer, NULL, 0))
		abort();
	tfmt_writer_close(m.writer);
	bytes = lseek(fd, 0, SEEK_END);
	close(fd);
	return (size_t)bytes;
}

/* ---- inputs -------------------------------------------------------------------------------------------------- */

static bool is_file(const uint8_t *data, size_t size)
{
	return size && data[0] == 0x89;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader_input in = reader_input_split(data, size);
	char path[64];

	if (is_file(data, size)) {
		read_census(reader_input_store(&in, "census"), in.trace_bytes);
		reader_input_remove(&in, "census");
	} else {
		snprintf(path, sizeof(path), "/dev/shm/fuzz-made.%d.names", (int)getpid());
		read_census(path, make_census(data, size, path));
		unlink(path);
	}
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
	if (!is_file(data, size))
		return LLVMFuzzerMutate(data, size, max_size);
	return reader_input_mutate(data, size, max_size, seed, LLVMFuzzerMutate);
}
