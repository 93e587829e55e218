/* SPDX-License-Identifier: MIT */
/*
 * What a trace may ask of a reader is bounded by its file (FORMAT.md, section 10), and what must be understood is. Each
 * test writes what no recorder does.
 */
#include <stdio.h>
#include <sys/stat.h>

#include "tests/unit/tracefmt_stream.h"
#include "tracefmt/frame.h"
#include "tracefmt/varint.h"

struct written {
	const char *path;
	int fd;
	struct tfmt_writer *w;
};

static void begin(struct written *t)
{
	struct tfmt_header h = stream_header(0);

	t->path = strdup(stream_path("bounds.vtr"));
	t->fd = stream_create(t->path);
	assert_int_equal(tfmt_writer_open(&t->w, t->fd, &h, 19), 0);
}

static void define(struct written *t, uint32_t type, uint32_t id, const uint8_t *payload, const uint8_t *end)
{
	assert_int_equal(tfmt_writer_definition(t->w, type, id, payload, (size_t)(end - payload)), 0);
}

static void define_node(struct written *t, uint32_t id, uint32_t parent)
{
	uint8_t payload[40], *p = payload;

	p = tfmt_put_varint(p, parent);
	p = tfmt_put_varint(p, TFMT_FRAME_NATIVE);
	p = tfmt_put_varint(p, 16 * (uint64_t)id);
	p = tfmt_put_zigzag(p, 0);
	define(t, TFMT_DEF_FRAME, id, payload, p);
}

static void define_info(struct written *t, uint32_t id, const char *key, const char *value, size_t len)
{
	uint8_t *payload = malloc(len + 64), *p = payload;

	p = tfmt_put_string(p, key, strlen(key));
	p = tfmt_put_string(p, value, len);
	define(t, TFMT_DEF_INFO, id, payload, p);
	free(payload);
}

/* End the trace and read it; *nr is how often something was said, message the first. The caller closes the reader. */
static struct tfmt_reader *read_back(struct written *t, unsigned *nr, char message[512])
{
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	struct tfmt_reader *r;
	struct tfmt_event ev;
	int got;

	assert_int_equal(tfmt_writer_end(t->w, &status), 0);
	tfmt_writer_close(t->w);
	close(t->fd);
	assert_int_equal(tfmt_reader_open(&r, t->path, NULL), 0);
	*nr = 0;
	while ((got = tfmt_reader_next(r, &ev)) != 0) {
		if (got < 0 && !(*nr)++)
			snprintf(message, 512, "%s", tfmt_reader_message(r));
	}
	unlink(t->path);
	free((char *)t->path);
	return r;
}

/* Nodes from the leaf to the root; the last one in *root. */
static unsigned depth_of(const struct tfmt_reader *r, uint32_t id, struct tfmt_frame *root)
{
	unsigned depth = 0;

	for (; tfmt_reader_frame(r, id, root); id = root->parent) {
		depth++;
		if (!root->parent)
			break;
	}
	return depth;
}

static void test_stacks(void **state)
{
	enum { NODES = 3 * TFMT_STACK_DEPTH_MAX };
	char message[512] = "";
	struct tfmt_frame root;
	struct tfmt_reader *r;
	struct written t;
	unsigned nr;

	(void)state;
	begin(&t);
	for (uint32_t id = 2; id < 2 + NODES; id++)
		define_node(&t, id, id == 2 ? 0 : id - 1);
	r = read_back(&t, &nr, message);
	assert_true(nr > 0);
	assert_non_null(strstr(message, "stacks of more than 4096 frames were cut at"));
	assert_int_equal(depth_of(r, 1 + TFMT_STACK_DEPTH_MAX, &root), TFMT_STACK_DEPTH_MAX);
	assert_int_equal(root.kind, TFMT_FRAME_NATIVE);
	assert_int_equal(depth_of(r, 2 + TFMT_STACK_DEPTH_MAX, &root), 1);
	assert_int_equal(root.kind, TFMT_FRAME_CUT);
	assert_int_equal(root.a, TFMT_STACK_DEPTH_MAX + 1);
	assert_int_equal(depth_of(r, 1 + 2 * TFMT_STACK_DEPTH_MAX, &root), TFMT_STACK_DEPTH_MAX);
	assert_int_equal(depth_of(r, 1 + NODES, &root), TFMT_STACK_DEPTH_MAX);
	assert_int_equal(root.a, 2 * TFMT_STACK_DEPTH_MAX + 1);
	tfmt_reader_close(r);
}

/* A stack that is as deep as it may be is no trouble. */
static void test_deepest_stack(void **state)
{
	char message[512] = "";
	struct tfmt_reader *r;
	struct written t;
	unsigned nr;

	(void)state;
	begin(&t);
	for (uint32_t id = 2; id < 2 + TFMT_STACK_DEPTH_MAX; id++)
		define_node(&t, id, id == 2 ? 0 : id - 1);
	r = read_back(&t, &nr, message);
	assert_int_equal(nr, 0);
	tfmt_reader_close(r);
}

/* Chains that are joined afterwards, by a parent that comes later or by a second definition, stay as they were. */
static void test_no_chain_grows_at_its_root(void **state)
{
	char message[512] = "";
	struct tfmt_frame root;
	struct tfmt_reader *r;
	struct written t;
	unsigned nr;

	(void)state;
	begin(&t);
	for (uint32_t id = 5000; id > 1000; id--)
		define_node(&t, id, id - 1);
	for (uint32_t id = 6000; id < 9000; id++)
		define_node(&t, id, id == 6000 ? 0 : id - 1);
	for (uint32_t id = 9000; id < 12000; id++)
		define_node(&t, id, id == 9000 ? 0 : id - 1);
	define_node(&t, 9000, 8999);
	r = read_back(&t, &nr, message);
	assert_int_equal(nr, 0);
	assert_int_equal(depth_of(r, 5000, &root), 1);
	assert_int_equal(depth_of(r, 8999, &root), 3000);
	assert_int_equal(depth_of(r, 11999, &root), 3000);
	tfmt_reader_close(r);
}

static void test_info_values(void **state)
{
	size_t len = TFMT_INFO_VALUE_MAX + 1;
	char message[512] = "", *value = malloc(len);
	struct tfmt_reader *r;
	struct written t;
	unsigned nr;

	(void)state;
	memset(value, 'x', len);
	begin(&t);
	define_info(&t, 0, "whole", value, len - 1);
	define_info(&t, 1, "long", value, len);
	define_info(&t, 2, "again", "old", 3);
	define_info(&t, 3, "again", "new", 3);
	r = read_back(&t, &nr, message);
	assert_int_equal(nr, 1);
	assert_non_null(strstr(message, "1 INFO values were cut at 65536 bytes"));
	assert_int_equal(strlen(tfmt_reader_info_value(r, "whole")), TFMT_INFO_VALUE_MAX);
	assert_int_equal(strlen(tfmt_reader_info_value(r, "long")), TFMT_INFO_VALUE_MAX);
	assert_string_equal(tfmt_reader_info_value(r, "again"), "new");
	assert_null(tfmt_reader_info_value(r, "other"));
	tfmt_reader_close(r);
	free(value);
}

static void test_number_of_infos(void **state)
{
	char message[512] = "", key[16];
	const char *k, *v;
	struct tfmt_reader *r;
	struct written t;
	unsigned nr;

	(void)state;
	begin(&t);
	for (uint32_t i = 0; i < TFMT_INFO_MAX + 10; i++) {
		snprintf(key, sizeof(key), "%u", i);
		define_info(&t, i, i % 2 ? "note" : key, "", 0);
	}
	r = read_back(&t, &nr, message);
	assert_int_equal(nr, 1);
	assert_non_null(strstr(message, "10 definitions were refused"));
	assert_true(tfmt_reader_info(r, TFMT_INFO_MAX - 1, &k, &v));
	assert_false(tfmt_reader_info(r, TFMT_INFO_MAX, &k, &v));
	tfmt_reader_close(r);
}

/* Little in the file, much in memory: the same 64 KiB again and again, whole or as one definition in pieces. */
static void check_bomb(bool in_pieces)
{
	size_t len = 60000, pieces = in_pieces ? 2000 : 1;
	uint8_t *payload = calloc(pieces, len);
	char message[512] = "";
	struct tfmt_reader *r;
	struct stat st;
	struct written t;
	unsigned nr;

	begin(&t);
	for (uint32_t i = 0; i < 2000 / pieces; i++) {
		uint8_t *p = tfmt_put_varint(payload, len * pieces - 8);

		assert_int_equal(tfmt_writer_definition(t.w, TFMT_DEF_STRING, i + 1, payload,
							(size_t)(p - payload) + len * pieces - 8),
				 0);
		assert_int_equal(tfmt_writer_flush(t.w, NULL, 0), 0);
	}
	assert_int_equal(fstat(t.fd, &st), 0);
	assert_true((uint64_t)st.st_size < 1 << 20);
	r = read_back(&t, &nr, message);
	assert_true(nr > 0);
	assert_non_null(strstr(message, "1 definitions were refused (they may take "));
	assert_int_equal(strlen(tfmt_reader_string(r, 2000)), 0);
	tfmt_reader_close(r);
	free(payload);
}

static void test_many_definitions(void **state)
{
	(void)state;
	check_bomb(false);
}

static void test_long_definition(void **state)
{
	(void)state;
	check_bomb(true);
}

/* ---- the header ------------------------------------------------------------------------------- */

static void test_recorder(void **state)
{
	struct tfmt_header h = stream_header(0), read;
	const char *path = strdup(stream_path("header.vtr"));
	struct tfmt_writer *w;
	struct tfmt_reader *r;
	int fd = stream_create(path);

	(void)state;
	strcpy(h.recorder, "3.14.1");
	strcpy(h.commit, "0123456789ab-dirty");
	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), 0);
	tfmt_writer_close(w);
	close(fd);
	assert_int_equal(tfmt_reader_open(&r, path, NULL), 0);
	assert_string_equal(tfmt_reader_header(r)->recorder, h.recorder);
	assert_string_equal(tfmt_reader_header(r)->commit, h.commit);
	tfmt_reader_close(r);
	assert_int_equal(tfmt_header_read(path, &read), 0);
	assert_string_equal(read.recorder, h.recorder);
	unlink(path);
	free((char *)path);
}

static void test_what_must_be_understood(void **state)
{
	struct tfmt_header h = stream_header(0), read;
	const char *path = strdup(stream_path("must.vtr"));
	struct tfmt_writer *w;
	struct tfmt_reader *r;
	uint8_t *bytes;
	uint64_t offset;
	size_t len;
	int fd = stream_create(path);

	(void)state;
	strcpy(h.recorder, "3.14.1");
	assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), 0);
	tfmt_writer_close(w);
	close(fd);
	bytes = stream_load(path, &len);
	for (unsigned bit = 0; bit < 8; bit++) {
		bytes[31] = (uint8_t)(1u << bit);
		tfmt_put64(bytes + 16, tfmt_checksum(bytes, len, 16));
		stream_store(path, bytes, len);
		assert_int_equal(tfmt_reader_open(&r, path, &offset), TFMT_E_FEATURE);
		assert_int_equal(offset, 31);
		assert_int_equal(tfmt_header_read(path, &read), TFMT_E_FEATURE);
		assert_string_equal(read.recorder, "3.14.1");
		assert_int_equal(read.must, bytes[31]);
		h.must = bytes[31];
		fd = stream_create(path);
		assert_int_equal(tfmt_writer_open(&w, fd, &h, 1), TFMT_E_INVALID);
		close(fd);
	}
	assert_int_equal(tfmt_header_read("/nowhere", &read), TFMT_E_IO);
	unlink(path);
	free(bytes);
	free((char *)path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_deepest_stack),
		cmocka_unit_test(test_no_chain_grows_at_its_root),
		cmocka_unit_test(test_info_values),
		cmocka_unit_test(test_number_of_infos),
		cmocka_unit_test(test_many_definitions),
		cmocka_unit_test(test_long_definition),
		cmocka_unit_test(test_recorder),
		cmocka_unit_test(test_what_must_be_understood),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
