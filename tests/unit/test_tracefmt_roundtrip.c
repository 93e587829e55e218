/* SPDX-License-Identifier: MIT */
/* What the writer is given, the reader gives back. */
#include <stddef.h>
#include <stdio.h>

#include "tests/unit/tracefmt_stream.h"

static struct stream stream;

static struct tfmt_writer *open_writer(int fd, unsigned time_shift)
{
	struct tfmt_header h = stream_header(time_shift);
	struct tfmt_writer *w;

	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), 0);
	return w;
}

static void write_event(struct tfmt_writer *w, const struct tfmt_event *ev)
{
	int full = tfmt_writer_event(w, ev);

	assert_true(full >= 0);
	if (full)
		assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
}

static void finish(struct tfmt_writer *w)
{
	struct tfmt_status status = { .end = TFMT_END_EXIT, .exit_status = 3, .not_captured = 17 };

	assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
	assert_int_equal(tfmt_writer_end(w, &status), 0);
	tfmt_writer_close(w);
}

static void check_random_stream(uint64_t seed, unsigned time_shift, bool wild, unsigned nr)
{
	const char *path = stream_path("roundtrip.vtr");
	int fd = stream_create(path), got;
	struct tfmt_writer *w = open_writer(fd, time_shift);
	struct tfmt_event *want = calloc(nr, sizeof(*want)), ev;
	const struct tfmt_summary *summary;
	struct tfmt_totals totals;
	struct tfmt_reader *r;
	unsigned i;

	stream_init(&stream, seed, time_shift, wild);
	for (i = 0; i < nr; i++) {
		stream_next(&stream, &ev, &want[i]);
		write_event(w, &ev);
		if (!stream_below(&stream, 20000))
			assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
	}
	finish(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	for (i = 0; i < nr; i++) {
		got = tfmt_reader_next(r, &ev);
		if (got < 0)
			fail_msg("event %u: %s", i, tfmt_reader_message(r));
		assert_int_equal(got, 1);
		assert_event_equal(&ev, &want[i]);
	}
	assert_int_equal(tfmt_reader_next(r, &ev), 0);
	assert_int_equal(tfmt_reader_next(r, &ev), 0);
	tfmt_reader_totals(r, &totals);
	assert_memory_equal(&totals, &stream.totals, sizeof(totals));
	summary = tfmt_reader_summary(r);
	assert_int_equal(summary->end, TFMT_PROCESS_EXIT);
	assert_int_equal(summary->exit_status, 3);
	assert_int_equal(summary->not_captured, 17);
	assert_int_equal(summary->nr_events, nr);
	assert_int_equal(summary->nr_damaged, 0);
	tfmt_reader_close(r);
	free(want);
	unlink(path);
}

static void test_random_streams(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 20; seed++)
		check_random_stream(seed, seed % 2 ? 6 : 0, false, 20000);
}

static void test_any_value(void **state)
{
	uint64_t seed;

	(void)state;
	for (seed = 1; seed <= 20; seed++)
		check_random_stream(seed + 100, seed % 3, true, 10000);
}

static void test_nothing(void **state)
{
	(void)state;
	check_random_stream(1, 6, false, 0);
	check_random_stream(1, 6, false, 1);
}

/* The free of an allocation whose free failed: the block is back, and its next free names it again. */
static void test_free_failed(void **state)
{
	const char *path = stream_path("failed.vtr");
	int fd = stream_create(path);
	struct tfmt_writer *w = open_writer(fd, 0);
	struct tfmt_event alloc = { .kind = TFMT_DRIVER_ALLOC,
				    .address = 0x1000,
				    .size = 4096,
				    .device = 1,
				    .flags = TFMT_SPACE_MANAGED,
				    .alloc_ordinal = TFMT_NO_ORDINAL };
	struct tfmt_event freed = { .kind = TFMT_DRIVER_FREE, .address = 0x1000, .thread = 5 };
	struct tfmt_event failed = { .kind = TFMT_FREE_FAILED, .address = 0x1000, .thread = 5, .aux = 999 };
	struct tfmt_totals totals;
	struct tfmt_reader *r;
	struct tfmt_event ev;

	(void)state;
	write_event(w, &alloc);
	write_event(w, &freed);
	write_event(w, &failed);
	write_event(w, &freed);
	failed.thread = 6; /* another thread's failure of another free: unknown */
	write_event(w, &failed);
	finish(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	assert_int_equal(tfmt_reader_next(r, &ev), 1);
	assert_int_equal(tfmt_reader_next(r, &ev), 1);
	assert_int_equal(ev.alloc_ordinal, 0);
	assert_int_equal(ev.device, 1);
	assert_int_equal(ev.flags, TFMT_SPACE_MANAGED);
	assert_int_equal(ev.size, 4096);
	assert_int_equal(tfmt_reader_next(r, &ev), 1);
	assert_int_equal(ev.kind, TFMT_FREE_FAILED);
	assert_int_equal(ev.alloc_ordinal, 1);
	assert_int_equal(ev.aux, 999);
	assert_int_equal(ev.address, 0x1000);
	tfmt_reader_totals(r, &totals);
	assert_int_equal(totals.managed[1], 4096);
	assert_int_equal(tfmt_reader_next(r, &ev), 1);
	assert_int_equal(ev.alloc_ordinal, 0);
	tfmt_reader_totals(r, &totals);
	assert_int_equal(totals.managed[1], 0);
	assert_int_equal(tfmt_reader_next(r, &ev), 1);
	assert_int_equal(ev.alloc_ordinal, TFMT_NO_ORDINAL);
	assert_int_equal(tfmt_reader_next(r, &ev), 0);
	tfmt_reader_close(r);
	unlink(path);
}

/* An unmap that failed: mapping and handle are back, although it had taken the handle's last reference. */
static void test_unmap_failed(void **state)
{
	const char *path = stream_path("unmap.vtr");
	const struct tfmt_event events[] = {
		{ .kind = TFMT_DRIVER_ALLOC, .address = 7, .size = 4096, .flags = TFMT_SPACE_HANDLE },
		{ .kind = TFMT_MAP, .address = 0x10000, .size = 4096, .aux = 7 },
		{ .kind = TFMT_DRIVER_FREE, .address = 7, .flags = TFMT_SPACE_HANDLE },
		{ .kind = TFMT_UNMAP, .address = 0x10000, .size = 4096 },
		{ .kind = TFMT_FREE_FAILED, .address = 0x10000 },
		{ .kind = TFMT_UNMAP, .address = 0x10000, .size = 4096 },
	};
	static const uint64_t want_driver[] = { 4096, 4096, 4096, 0, 4096, 0 };
	int fd = stream_create(path);
	struct tfmt_writer *w = open_writer(fd, 0);
	struct tfmt_totals totals;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	unsigned i;

	(void)state;
	for (i = 0; i < 6; i++)
		write_event(w, &events[i]);
	finish(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	for (i = 0; i < 6; i++) {
		assert_int_equal(tfmt_reader_next(r, &ev), 1);
		tfmt_reader_totals(r, &totals);
		assert_int_equal(totals.driver[0], want_driver[i]);
		assert_int_equal(ev.address, events[i].address);
		assert_int_equal(ev.alloc_ordinal, i == 2 ? 0 : i == 4 ? 3 : TFMT_NO_ORDINAL);
	}
	tfmt_reader_close(r);
	unlink(path);
}

/* Write events, read them back, and compare the driver's total of device 0 behind each. */
static void check_driver_totals(const struct tfmt_event *events, const uint64_t *want, unsigned nr)
{
	const char *path = stream_path("totals.vtr");
	int fd = stream_create(path);
	struct tfmt_writer *w = open_writer(fd, 0);
	struct tfmt_totals totals;
	struct tfmt_reader *r;
	struct tfmt_event ev;

	for (unsigned i = 0; i < nr; i++)
		write_event(w, &events[i]);
	finish(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	for (unsigned i = 0; i < nr; i++) {
		assert_int_equal(tfmt_reader_next(r, &ev), 1);
		tfmt_reader_totals(r, &totals);
		assert_int_equal(totals.driver[0], want[i]);
	}
	tfmt_reader_close(r);
	unlink(path);
}

/* One unmap ends many mappings, two of them of one handle; when it fails they are all back. */
static void test_unmap_of_many_failed(void **state)
{
	enum { MAPPINGS = 100, FREES = 2 + MAPPINGS, UNMAPS = FREES + 2, NR = UNMAPS + 3 };
	struct tfmt_event events[NR] = { 0 };
	uint64_t want[NR];

	(void)state;
	for (unsigned i = 0; i < NR; i++) {
		struct tfmt_event *ev = &events[i];

		want[i] = 8192;
		ev->size = 4096;
		ev->address = 7 + (i & 1);
		if (i < 2 || (i >= FREES && i < UNMAPS)) {
			ev->kind = i < 2 ? TFMT_DRIVER_ALLOC : TFMT_DRIVER_FREE;
			ev->flags = TFMT_SPACE_HANDLE;
		} else if (i < FREES) {
			ev->kind = TFMT_MAP;
			ev->aux = ev->address;
			ev->address = 0x10000 + (i - 2) * 4096;
		} else {
			ev->kind = i == UNMAPS + 1 ? TFMT_FREE_FAILED : TFMT_UNMAP;
			ev->address = 0x10000;
			ev->size = MAPPINGS * 4096;
		}
	}
	want[0] = 4096;
	want[UNMAPS] = want[UNMAPS + 2] = 0;
	check_driver_totals(events, want, NR);
}

/* Addresses and numbers that were handed out again: neither a failed free nor an old mapping takes what has them now. */
static void test_handed_out_again(void **state)
{
	static const struct tfmt_event events[] = {
		{ .kind = TFMT_DRIVER_ALLOC, .address = 0x1000, .size = 1 },
		{ .kind = TFMT_DRIVER_FREE, .address = 0x1000, .thread = 5 },
		{ .kind = TFMT_DRIVER_ALLOC, .address = 0x1000, .size = 2 },
		{ .kind = TFMT_FREE_FAILED, .address = 0x1000, .thread = 5 },
		{ .kind = TFMT_DRIVER_FREE, .address = 0x1000 },
		{ .kind = TFMT_DRIVER_ALLOC, .address = 7, .size = 4, .flags = TFMT_SPACE_HANDLE },
		{ .kind = TFMT_MAP, .address = 0x10000, .size = 4096, .aux = 7 },
		{ .kind = TFMT_DRIVER_ALLOC, .address = 7, .size = 8, .flags = TFMT_SPACE_HANDLE },
		{ .kind = TFMT_UNMAP, .address = 0x10000, .size = 4096 },
		{ .kind = TFMT_MAP, .address = 0x10000, .size = 4096, .aux = 7 },
		{ .kind = TFMT_DRIVER_FREE, .address = 7, .flags = TFMT_SPACE_HANDLE },
		{ .kind = TFMT_MAP, .address = 0x10000, .size = 4096, .aux = 7 }, /* the same */
		{ .kind = TFMT_MAP, .address = 0x10000, .size = 4096, .aux = 9 },
	};
	static const uint64_t want[] = { 1, 0, 2, 2, 0, 4, 4, 8, 8, 8, 8, 8, 0 };

	(void)state;
	check_driver_totals(events, want, 13);
}

/* What a context held ends with it, and with the primary one the pools' memory; not the others', not physical memory. */
static void test_reset_of_a_context(void **state)
{
	static const struct tfmt_event events[] = {
		{ .kind = TFMT_DRIVER_ALLOC, .address = 0x1000, .size = 1, .aux = 0 },
		{ .kind = TFMT_DRIVER_ALLOC, .address = 0x2000, .size = 2, .aux = 5 },
		{ .kind = TFMT_DRIVER_ALLOC, .address = 0x3000, .size = 4, .flags = TFMT_SPACE_POOL },
		{ .kind = TFMT_DRIVER_ALLOC, .address = 0x4000, .size = 8, .flags = TFMT_SPACE_HANDLE },
		{ .kind = TFMT_DRIVER_ALLOC, .address = 0x5000, .size = 16, .flags = TFMT_SPACE_ARRAY, .aux = 5 },
		{ .kind = TFMT_RESET, .aux = 5 },
		{ .kind = TFMT_RESET, .aux = 0 },
	};
	static const uint64_t want[] = { 1, 3, 7, 15, 31, 13, 8 };

	(void)state;
	check_driver_totals(events, want, sizeof(events) / sizeof(*events));
}

/* An address handed out twice without a free in between: the second block is the live one. */
static void test_replaced_block(void **state)
{
	const char *path = stream_path("replaced.vtr");
	int fd = stream_create(path);
	struct tfmt_writer *w = open_writer(fd, 0);
	struct tfmt_event alloc = { .kind = TFMT_TENSOR_ALLOC, .address = 512, .size = 512 };
	struct tfmt_event freed = { .kind = TFMT_TENSOR_FREE, .address = 512, .size = 512 };
	struct tfmt_event other_device = {
		.kind = TFMT_TENSOR_FREE, .address = 512, .size = 512, .device = 1
	};
	struct tfmt_event reset = { .kind = TFMT_RESET, .device = 0 };
	struct tfmt_event driver = { .kind = TFMT_DRIVER_ALLOC, .address = 512, .size = 77 };
	struct tfmt_event ev;
	struct tfmt_reader *r;
	const uint64_t want[] = { TFMT_NO_ORDINAL, TFMT_NO_ORDINAL, TFMT_NO_ORDINAL,
				  TFMT_NO_ORDINAL, TFMT_NO_ORDINAL, 1,
				  TFMT_NO_ORDINAL };
	unsigned i;

	(void)state;
	write_event(w, &alloc);
	write_event(w, &alloc);
	write_event(w, &driver);
	write_event(w, &other_device);
	write_event(w, &reset);
	write_event(w, &freed);
	driver.kind = TFMT_DRIVER_FREE;
	write_event(w, &driver);
	finish(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	for (i = 0; i < sizeof(want) / sizeof(*want); i++) {
		assert_int_equal(tfmt_reader_next(r, &ev), 1);
		assert_int_equal(ev.alloc_ordinal, want[i]);
	}
	assert_int_equal(tfmt_reader_next(r, &ev), 0);
	tfmt_reader_close(r);
	unlink(path);
}

/* ---- definitions ----------------------------------------------------------------------------- */

static void define(struct tfmt_writer *w, uint32_t type, uint32_t id, const uint8_t *payload,
		   const uint8_t *end)
{
	int full = tfmt_writer_definition(w, type, id, payload, (size_t)(end - payload));

	assert_true(full >= 0);
	if (full)
		assert_int_equal(tfmt_writer_flush(w, NULL, 0), 0);
}

static void define_one_of_each(struct tfmt_writer *w)
{
	uint8_t buf[256], *p;

	p = tfmt_put_varint(buf, 0);
	p = tfmt_put_varint(p, TFMT_FRAME_PYTHON);
	p = tfmt_put_varint(p, 7);
	define(w, TFMT_DEF_FRAME, 2, buf, tfmt_put_zigzag(p, -1));
	p = tfmt_put_varint(buf, 2);
	p = tfmt_put_varint(p, TFMT_FRAME_NATIVE);
	p = tfmt_put_varint(p, UINT64_MAX);
	define(w, TFMT_DEF_FRAME, 3, buf, tfmt_put_zigzag(p, 0));
	p = tfmt_put_varint(buf, TFMT_LINES_PEP657);
	p = tfmt_put_varint(p, 12);
	p = tfmt_put_string(p, "main", 4);
	p = tfmt_put_string(p, "/x/train.py", 11);
	define(w, TFMT_DEF_CODE, 7, buf, (uint8_t *)memcpy(p, "abc", 3) + 3);
	p = tfmt_put_varint(buf, 0x1000);
	p = tfmt_put_varint(p, 0x2000);
	p = tfmt_put_varint(p, 0x40);
	p = tfmt_put_string(p, "/lib/x.so", 9);
	define(w, TFMT_DEF_MODULE, 1, buf, tfmt_put_string(p, "ab12", 4));
	p = tfmt_put_varint(buf, 6);
	p = tfmt_put_varint(p, 48);
	p = tfmt_put_varint(p, 2);
	p = tfmt_put_varint(p, 3);
	define(w, TFMT_DEF_SHAPE, 1, buf, tfmt_put_varint(p, 4));
	define(w, TFMT_DEF_THREAD, 1, buf, tfmt_put_string(tfmt_put_varint(buf, 99), "pt_autograd_0", 13));
	p = tfmt_put_varint(buf, 80ull << 30);
	p = tfmt_put_string(p, "H100", 4);
	p = tfmt_put_string(p, "GPU-1", 5);
	p = tfmt_put_string(p, "0000:01", 7);
	p = tfmt_put_varint(p, 1);
	define(w, TFMT_DEF_DEVICE, 0, buf, tfmt_put_varint(p, 3));
	define(w, TFMT_DEF_FUNCTION, 5, buf, tfmt_put_string(buf, "cudaMalloc", 10));
	define(w, TFMT_DEF_INFO, 1, buf, tfmt_put_string(tfmt_put_string(buf, "note", 4), "first", 5));
	define(w, TFMT_DEF_INFO, 2, buf, tfmt_put_string(tfmt_put_string(buf, "note", 4), "second", 6));
	define(w, 1000, 1, buf, buf + 10); /* of a later version */
}

static void test_definitions(void **state)
{
	const char *path = stream_path("definitions.vtr"), *key, *value;
	int fd = stream_create(path);
	struct tfmt_writer *w = open_writer(fd, 0);
	struct tfmt_reader *r;
	struct tfmt_event ev;
	struct tfmt_frame frame;
	struct tfmt_code code;
	struct tfmt_module module;
	struct tfmt_shape shape;
	struct tfmt_thread thread;
	struct tfmt_device device;

	(void)state;
	define_one_of_each(w);
	finish(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	assert_int_equal(tfmt_reader_next(r, &ev), 0);
	assert_true(tfmt_reader_frame(r, 2, &frame));
	assert_true(frame.parent == 0 && frame.kind == TFMT_FRAME_PYTHON && frame.a == 7 && frame.b == -1);
	assert_true(tfmt_reader_frame(r, 3, &frame));
	assert_true(frame.parent == 2 && frame.kind == TFMT_FRAME_NATIVE && frame.a == UINT64_MAX);
	assert_false(tfmt_reader_frame(r, 4, &frame));
	assert_int_equal(frame.kind, 0);
	assert_true(tfmt_reader_code(r, 7, &code));
	assert_string_equal(code.name, "main");
	assert_string_equal(code.file, "/x/train.py");
	assert_int_equal(code.table_bytes, 3);
	assert_memory_equal(code.table, "abc", 3);
	assert_false(tfmt_reader_code(r, 8, &code));
	assert_string_equal(code.name, "");
	assert_true(tfmt_reader_module(r, 0, &module));
	assert_string_equal(module.path, "/lib/x.so");
	assert_string_equal(module.build_id, "ab12");
	assert_false(tfmt_reader_module(r, 1, &module));
	assert_true(tfmt_reader_shape(r, 1, &shape));
	assert_true(shape.element_type == 6 && shape.bytes == 48 && shape.nr_dims == 2 && shape.dims[1] == 4);
	assert_true(tfmt_reader_thread(r, 1, &thread));
	assert_string_equal(thread.name, "pt_autograd_0");
	assert_true(tfmt_reader_device(r, 0, &device));
	assert_true(device.capacity_bytes == 80ull << 30 && device.mig && device.physical_index == 2);
	assert_string_equal(device.pci_bus_id, "0000:01");
	assert_string_equal(tfmt_reader_function(r, 5), "cudaMalloc");
	assert_string_equal(tfmt_reader_function(r, 6), "");
	assert_true(tfmt_reader_info(r, 1, &key, &value));
	assert_string_equal(value, "second");
	assert_false(tfmt_reader_info(r, 2, &key, &value));
	assert_string_equal(tfmt_reader_info_value(r, "note"), "second");
	assert_null(tfmt_reader_info_value(r, "absent"));
	tfmt_reader_close(r);
	unlink(path);
}

/* Line tables of any length, through any number of frames, and between other definitions. */
static void test_long_definitions(void **state)
{
	static const size_t length[] = { 0, 1, 4000, 65000, 65536, 65537, 131072, 3000000, 10 };
	const char *path = stream_path("long.vtr");
	int fd = stream_create(path);
	struct tfmt_writer *w = open_writer(fd, 0);
	uint8_t *payload = calloc(1, 3000100), *p;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	struct tfmt_code code;
	uint32_t i;
	size_t k;

	(void)state;
	for (i = 0; i < sizeof(length) / sizeof(*length); i++) {
		p = tfmt_put_varint(payload, 0);
		p = tfmt_put_varint(p, i);
		p = tfmt_put_string(p, "f", 1);
		p = tfmt_put_string(p, "file", 4);
		for (k = 0; k < length[i]; k++)
			p[k] = (uint8_t)(k * 7 + i + (k >> 9));
		define(w, TFMT_DEF_CODE, i + 1, payload, p + length[i]);
	}
	finish(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	assert_int_equal(tfmt_reader_next(r, &ev), 0);
	for (i = 0; i < sizeof(length) / sizeof(*length); i++) {
		assert_true(tfmt_reader_code(r, i + 1, &code));
		assert_int_equal(code.first_line, i);
		assert_int_equal(code.table_bytes, length[i]);
		for (k = 0; k < length[i]; k++) {
			if (code.table[k] != (uint8_t)(k * 7 + i + (k >> 9)))
				fail_msg("byte %zu of table %u", k, i);
		}
	}
	tfmt_reader_close(r);
	free(payload);
	unlink(path);
}

static void test_header(void **state)
{
	const char *path = stream_path("header.vtr");
	int fd = stream_create(path);
	struct tfmt_header h = stream_header(6);
	const struct tfmt_header *read;
	struct tfmt_writer *w;
	struct tfmt_reader *r;

	(void)state;
	memset(h.ring_path, 'r', sizeof(h.ring_path) - 1);
	memset(h.host, 'h', sizeof(h.host) - 1);
	h.storage = TFMT_STORAGE_TEMPORARY;
	h.simulated = 1;
	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), 0);
	tfmt_writer_close(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	read = tfmt_reader_header(r);
	h.version = TFMT_VERSION;
	assert_memory_equal(read, &h, offsetof(struct tfmt_header, ring_path));
	assert_string_equal(read->ring_path, h.ring_path);
	tfmt_reader_close(r);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing),      cmocka_unit_test(test_random_streams),
		cmocka_unit_test(test_handed_out_again),
		cmocka_unit_test(test_any_value),    cmocka_unit_test(test_free_failed),
		cmocka_unit_test(test_unmap_failed), cmocka_unit_test(test_replaced_block),
		cmocka_unit_test(test_unmap_of_many_failed), cmocka_unit_test(test_reset_of_a_context),
		cmocka_unit_test(test_definitions),  cmocka_unit_test(test_long_definitions),
		cmocka_unit_test(test_header),
	};

	return cmocka_run_group_tests_name("tracefmt round trip", tests, NULL, NULL);
}
