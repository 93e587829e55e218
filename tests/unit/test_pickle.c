/* SPDX-License-Identifier: MIT */
/* Pickles: values of all protocols, what is refused, and hooks that take entries out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/imports/pickle.h"

static const char *const words[] = { "a", "frames", NULL };
enum { WORD_A = 1, WORD_FRAMES };

struct reading {
	int fd;
	struct pickle *p;
	struct pickle_hooks hooks;
	struct pickle_value top;
	int err;
};

static void read_hooked(struct reading *r, const void *data, size_t size)
{
	r->fd = memfd_create("pickle", MFD_CLOEXEC);
	assert_int_equal(write(r->fd, data, size), (ssize_t)size);
	lseek(r->fd, 0, SEEK_SET);
	r->hooks.words = words;
	r->p = pickle_open(r->fd, &r->hooks);
	r->err = pickle_read(r->p, &r->top);
}

static struct reading read_bytes(const void *data, size_t size)
{
	struct reading r = { 0 };

	/* The hooks are asked while it is read only. */
	read_hooked(&r, data, size);
	return r;
}
#define READ(literal) read_bytes(literal, sizeof(literal) - 1)

static void done(struct reading *r)
{
	pickle_close(r->p);
	close(r->fd);
}

static void assert_int(const char *data, size_t size, int64_t number)
{
	struct reading r = read_bytes(data, size);

	assert_int_equal(r.err, 0);
	assert_int_equal(r.top.type, PICKLE_INT);
	assert_true(r.top.integer == number);
	done(&r);
}
#define ASSERT_INT(literal, number) assert_int(literal, sizeof(literal) - 1, number)

static void test_integers(void **state)
{
	(void)state;
	ASSERT_INT("\x80\x02K\xff.", 255);
	ASSERT_INT("\x80\x02M\x01\x02.", 513);
	ASSERT_INT("\x80\x02J\xff\xff\xff\xff.", -1);
	ASSERT_INT("\x80\x02\x8a\x00.", 0);
	ASSERT_INT("\x80\x02\x8a\x01\x80.", -128);
	ASSERT_INT("\x80\x02\x8a\x07\x00\x00\x00\x00\x00\x7f\x00.", 0x7f0000000000);
	ASSERT_INT("\x80\x02\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f.", INT64_MAX);
	ASSERT_INT("\x80\x02\x8b\x02\x00\x00\x00\x01\x02.", 513);
	ASSERT_INT("I-7\n.", -7);
	ASSERT_INT("L123L\n.", 123);
}

static void test_other_values(void **state)
{
	struct reading r = READ("\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.");
	size_t len;

	(void)state;
	assert_int_equal(r.top.type, PICKLE_FLOAT);
	assert_true(r.top.real > 1.49 && r.top.real < 1.51);
	done(&r);
	r = READ("F2.5\n.");
	assert_true(r.err == 0 && r.top.real > 2.49 && r.top.real < 2.51);
	done(&r);
	r = READ("I01\n.");
	assert_int_equal(r.top.type, PICKLE_BOOL);
	assert_int_equal(r.top.integer, 1);
	done(&r);
	r = READ("\x80\x02N.");
	assert_int_equal(r.err, 0);
	assert_int_equal(r.top.type, PICKLE_NONE);
	done(&r);
	r = READ("Vx\\u00e9\\U0001f600\xe9\n.");
	assert_string_equal(pickle_text(r.p, r.top, &len), "x\xc3\xa9\xf0\x9f\x98\x80\xc3\xa9");
	assert_int_equal(len, 9);
	done(&r);
	r = READ("\x80\x04\x8d\x03\x00\x00\x00\x00\x00\x00\x00" "a\0b.");
	assert_memory_equal(pickle_text(r.p, r.top, &len), "a\0b", 4);
	assert_int_equal(len, 3);
	done(&r);
}

/* {"a": [1, (2, 3)], "a": ...} by the memo, with a word. */
static void test_containers(void **state)
{
	struct reading r = READ("\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01" "a\x94]\x94(K\x01K\x02K\x03\x86\x94" "eh\x03h\x02u.");
	struct pickle_value list = pickle_get(r.p, r.top, WORD_A);
	const struct pickle_value *item;
	uint32_t nr;

	(void)state;
	assert_int_equal(r.err, 0);
	assert_int_equal(list.type, PICKLE_LIST);
	item = pickle_items(r.p, list, &nr);
	assert_int_equal(nr, 2);
	assert_int_equal(item[0].integer, 1);
	item = pickle_items(r.p, item[1], &nr);
	assert_int_equal(nr, 2);
	assert_int_equal(item[1].integer, 3);
	pickle_items(r.p, r.top, &nr);
	assert_int_equal(nr, 4);
	assert_int_equal(pickle_get(r.p, list, WORD_A).type, PICKLE_NONE);
	done(&r);
	r = READ("(lp0\n(dp1\nVa\np2\nI1\nsa(I1\nI2\nta.");
	item = pickle_items(r.p, r.top, &nr);
	assert_int_equal(nr, 2);
	assert_int_equal(pickle_get(r.p, item[0], WORD_A).integer, 1);
	assert_int_equal(item[1].type, PICKLE_TUPLE);
	done(&r);
	r = READ("\x80\x02(K\x01K\x02" "1K\x05K\x06" "02\x86.");
	item = pickle_items(r.p, r.top, &nr);
	assert_int_equal(nr, 2);
	assert_int_equal(item[1].integer, 5);
	done(&r);
}

static void assert_refused(const char *data, size_t size, const char *word)
{
	struct reading r = read_bytes(data, size);

	assert_int_equal(r.err, -1);
	assert_non_null(strstr(pickle_trouble(r.p), word));
	done(&r);
}
#define ASSERT_REFUSED(literal, word) assert_refused(literal, sizeof(literal) - 1, word)

static void test_refused(void **state)
{
	(void)state;
	ASSERT_REFUSED("cos\nsystem\n(Vls\ntR.", "GLOBAL would import something");
	ASSERT_REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL");
	ASSERT_REFUSED("\x80\x02]]R.", "REDUCE would call a function");
	ASSERT_REFUSED("\x80\x02]]b.", "BUILD");
	ASSERT_REFUSED("(ios\nsystem\n.", "INST");
	ASSERT_REFUSED("Pid\n.", "PERSID");
	ASSERT_REFUSED("\x80\x02\x82\x01.", "EXT1");
	ASSERT_REFUSED("\x80\x05\x97.", "NEXT_BUFFER");
	ASSERT_REFUSED("\x80\x03" "C\x01x.", "SHORT_BINBYTES");
	ASSERT_REFUSED("\x80\x02\xfe.", "opcode 0xfe");
}

static void test_wrong(void **state)
{
	(void)state;
	ASSERT_REFUSED("", "cut off (at byte 0)");
	ASSERT_REFUSED("\x80\x02]", "cut off (at byte 3)");
	ASSERT_REFUSED("\x80\x02.", "one value");
	ASSERT_REFUSED("\x80\x02K\x01K\x02.", "one value");
	ASSERT_REFUSED("\x80\x02(K\x01.", "one value");
	ASSERT_REFUSED("\x80\x02K\x01" "e.", "mark");
	ASSERT_REFUSED("\x80\x02(e.", "empty stack");
	ASSERT_REFUSED("\x80\x02K\x01(K\x02" "e.", "no list");
	ASSERT_REFUSED("\x80\x02](K\x02" "u.", "no dict");
	ASSERT_REFUSED("\x80\x02}(K\x02u.", "key without a value");
	ASSERT_REFUSED("\x80\x02(K\x01" "d.", "key without a value");
	ASSERT_REFUSED("\x80\x02K\x01K\x01" "a.", "no list");
	ASSERT_REFUSED("\x80\x02K\x01K\x01K\x01s.", "no dict");
	ASSERT_REFUSED("\x80\x02" "0.", "empty stack");
	ASSERT_REFUSED("\x80\x02" "1.", "mark");
	ASSERT_REFUSED("\x80\x02K\x01(\x85.", "empty stack");
	ASSERT_REFUSED("\x80\x02h\x00.", "not remembered");
	ASSERT_REFUSED("\x80\x02]r\xff\xff\xff\xff.", "too large");
	ASSERT_REFUSED("\x80\x02\x94.", "empty stack");
	ASSERT_REFUSED("\x80\x02\x8a\x09" "123456789.", "more than 64 bits");
	ASSERT_REFUSED("\x80\x02\x8b\xff\xff\xff\xff.", "more than 64 bits");
	ASSERT_REFUSED("\x80\x02X\xff\xff\xff\xff.", "4294967295 bytes");
	ASSERT_REFUSED("\x80\x02\x8d\x00\x00\x00\x00\x00\x00\x00\x80.", "9223372036854775808 bytes");
	ASSERT_REFUSED("I99999999999999999999\n.", "integer");
	ASSERT_REFUSED("Ix\n.", "integer");
	ASSERT_REFUSED("Fx\n.", "float");
	ASSERT_REFUSED("gx\n.", "number");
}

/* A list in a list in a list ..., and one that holds itself: neither reading nor releasing recurses. */
static void test_deep(void **state)
{
	size_t nr = 1 << 20;
	char *data = malloc(2 * nr);
	struct reading r;

	(void)state;
	memset(data, ']', nr);
	memset(data + nr, 'a', nr - 1);
	data[2 * nr - 1] = '.';
	r = read_bytes(data, 2 * nr);
	assert_int_equal(r.err, 0);
	done(&r);
	data[2 * nr - 2] = '0'; /* dropped before the end */
	r = read_bytes(data, 2 * nr);
	assert_int_equal(r.err, 0);
	done(&r);
	free(data);
	r = READ("\x80\x02]q\x00h\x00" "a.");
	assert_int_equal(r.err, 0);
	done(&r);
}

/* Small in the file, large in memory. */
static void test_bomb(void **state)
{
	size_t nr = 4u << 20;
	char *data = malloc(nr);
	struct reading r;

	(void)state;
	memset(data, '}', nr);
	r = read_bytes(data, nr);
	assert_int_equal(r.err, -1);
	assert_non_null(strstr(pickle_trouble(r.p), "many times its size"));
	done(&r);
	free(data);
}

struct taken {
	int64_t sum;
	uint32_t nr_lists;
};

static void take_frames(void *ctx, struct pickle *p, struct pickle_value key, struct pickle_value *value)
{
	struct taken *t = ctx;

	if (pickle_word(p, key) != WORD_FRAMES || value->type != PICKLE_LIST)
		return;
	if (!*pickle_tag(p, *value)) {
		*pickle_tag(p, *value) = ++t->nr_lists;
		pickle_clear(p, *value);
	}
	*value = (struct pickle_value){ .type = PICKLE_OWN, .integer = *pickle_tag(p, *value) };
}

static bool take_entry(void *ctx, struct pickle *p, struct pickle_value list, struct pickle_value item)
{
	struct taken *t = ctx;

	(void)list;
	if (item.type != PICKLE_DICT)
		return false;
	t->sum += pickle_get(p, item, WORD_A).integer + 100 * pickle_get(p, item, WORD_FRAMES).integer;
	return true;
}

/* [{"a": 1, "frames": F}, {"a": 2, "frames": F}] with one list F of dicts, and what asks for an entry again. */
static void test_hooks(void **state)
{
	static const char good[] = "\x80\x04]\x94(}\x94(\x8c\x01" "a\x94K\x01\x8c\x06" "frames\x94]\x94(K\x07K\x08" "eu"
				   "}\x94(h\x02K\x02h\x03h\x04ue.";
	static const char again[] = "\x80\x04]\x94}\x94h\x01" "0a" "h\x01" "a.";
	struct taken t = { 0 };
	struct reading r = { .hooks = { .ctx = &t, .set = take_frames, .append = take_entry } };
	uint32_t nr;

	(void)state;
	read_hooked(&r, good, sizeof(good) - 1);
	assert_int_equal(r.err, 0);
	assert_int_equal(t.sum, 1 + 2 + 100 + 100);
	assert_int_equal(t.nr_lists, 1);
	pickle_items(r.p, r.top, &nr);
	assert_int_equal(nr, 0);
	done(&r);
	read_hooked(&r, again, sizeof(again) - 1);
	assert_int_equal(r.err, -1);
	assert_non_null(strstr(pickle_trouble(r.p), "not remembered"));
	done(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers), cmocka_unit_test(test_other_values), cmocka_unit_test(test_containers),
		cmocka_unit_test(test_refused),	 cmocka_unit_test(test_wrong),	      cmocka_unit_test(test_deep),
		cmocka_unit_test(test_bomb),	 cmocka_unit_test(test_hooks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
