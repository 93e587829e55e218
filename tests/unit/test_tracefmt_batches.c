/* SPDX-License-Identifier: MIT */
/*
 * Events read several at once are those read one by one, of whole traces and of damaged ones; and so are varints. And
 * they are the same in whichever way the processor at hand decodes them.
 */
#include <glob.h>
#include <stddef.h>
#include <stdio.h>

#include "tests/unit/tracefmt_stream.h"
#include "tracefmt/reader.h"

#define GOLDENS "tests/golden/v1/*.vtr"
#define NR_VARINTS 100000

/* What a reader gave: an event, or a negative value and its message. */
struct given {
	int got;
	struct tfmt_event ev;
	char message[512];
};

/* The other reader's next: it hands out several at once, or reports damage. */
static struct given next_of_many(struct tfmt_reader *r, const struct tfmt_event **ev, int *left)
{
	struct given g = { .got = 1 };

	if (!*left)
		*left = tfmt_reader_events(r, ev);
	if (*left <= 0) {
		g.got = *left;
		*left = 0;
		snprintf(g.message, sizeof(g.message), "%s", g.got < 0 ? tfmt_reader_message(r) : "");
		return g;
	}
	--*left;
	g.ev = *(*ev)++;
	return g;
}

static struct given next_of_one(struct tfmt_reader *r)
{
	struct given g = { .got = 0 };

	g.got = tfmt_reader_next(r, &g.ev);
	if (g.got < 0)
		snprintf(g.message, sizeof(g.message), "%s", tfmt_reader_message(r));
	return g;
}

/* In the plain way, one by one, and in another, many at once. Returns how many events there are. */
static uint64_t compare(const char *path, enum tfmt_way way)
{
	struct tfmt_reader *one, *many;
	const struct tfmt_event *ev = NULL;
	struct tfmt_totals a, b;
	struct given want, have;
	uint64_t nr = 0;
	int left = 0, err = tfmt_reader_open(&one, path, NULL);

	assert_int_equal(tfmt_reader_open(&many, path, NULL), err);
	if (err)
		return 0;
	one->decoder.way = TFMT_WAY_PORTABLE;
	many->decoder.way = way;
	do {
		want = next_of_one(one);
		have = next_of_many(many, &ev, &left);
		assert_int_equal(have.got, want.got);
		assert_string_equal(have.message, want.message);
		if (want.got > 0) {
			assert_event_equal(&have.ev, &want.ev);
			assert_int_equal(have.ev.before, want.ev.before);
			nr++;
		}
	} while (want.got);
	assert_int_equal(tfmt_reader_summary(one)->nr_events, tfmt_reader_summary(many)->nr_events);
	assert_int_equal(tfmt_reader_summary(one)->lost_events, tfmt_reader_summary(many)->lost_events);
	assert_int_equal(tfmt_reader_totals(one, &a), tfmt_reader_totals(many, &b));
	assert_memory_equal(&a, &b, sizeof(a));
	tfmt_reader_close(one);
	tfmt_reader_close(many);
	return nr;
}

static uint64_t compare_all(const char *path)
{
	uint64_t nr = 0;

	for (enum tfmt_way way = TFMT_WAY_PORTABLE; way <= tfmt_way_best(); way++)
		nr += compare(path, way);
	return nr;
}

static void it_gives_the_same_events_of_golden_traces(void **state)
{
	uint64_t nr = 0;
	glob_t files;

	(void)state;
	assert_int_equal(glob(GOLDENS, 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++)
		nr += compare_all(files.gl_pathv[i]);
	assert_true(nr > 1000);
	globfree(&files);
}

static void write_file(const char *path, const uint8_t *bytes, size_t len)
{
	FILE *f = fopen(path, "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

/* Bits flipped here and there, and the end cut off, of the trace whose every byte the sweep flips. */
static void it_reports_the_same_damage(void **state)
{
	static uint8_t bytes[1 << 20];
	const char *path = stream_path("batches.vtr");
	FILE *f = fopen("tests/golden/v1/sweep.vtr", "rb");
	size_t len;

	(void)state;
	assert_non_null(f);
	len = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	for (size_t at = 0; at < len; at += 1 + len / 400) {
		bytes[at] ^= 0x10;
		write_file(path, bytes, len);
		compare_all(path);
		bytes[at] ^= 0x10;
		write_file(path, bytes, at);
		compare_all(path);
	}
	unlink(path);
}

/* Values of mixed lengths, in rows of each length, too: what is short, and what is long, has a way of its own. */
static uint8_t *put_varints(uint8_t *p, uint64_t *value)
{
	unsigned longest = 64;

	srandom(7);
	for (uint32_t i = 0; i < NR_VARINTS; i++) {
		if (i % 300 == 0)
			longest = 1 + (unsigned)random() % 64;
		value[i] = (uint64_t)random() << 33 ^ (uint64_t)random() << 11 ^ (uint64_t)random();
		value[i] >>= random() % 4 ? 64 - longest : 63;
		p = tfmt_varint_put(p, value[i]);
	}
	return p;
}

static void get_varints(struct tfmt_cursor c, const uint64_t *want, enum tfmt_way way)
{
	static uint64_t have[NR_VARINTS];
	const uint8_t *end = c.end;
	uint32_t nr, done;

	for (done = 0; done < NR_VARINTS; done += nr) {
		uint64_t bound;

		nr = 1 + (uint32_t)random() % 400;
		nr = nr < NR_VARINTS - done ? nr : NR_VARINTS - done;
		bound = tfmt_varints_get(&c, have + done, nr, way);
		for (uint32_t i = done; i < done + nr; i++)
			assert_true(want[i] <= bound);
	}
	assert_memory_equal(have, want, sizeof(have));
	assert_false(c.bad);
	assert_ptr_equal(c.p, end);
	tfmt_varints_get(&c, have, 1, way);
	assert_true(c.bad);
}

static void varints_are_those_read_one_by_one(void **state)
{
	static uint8_t bytes[NR_VARINTS * TFMT_VARINT_MAX + TFMT_VARINTS_AHEAD];
	static uint64_t want[NR_VARINTS];
	const uint8_t *end = put_varints(bytes, want);

	(void)state;
	for (enum tfmt_way way = TFMT_WAY_PORTABLE; way <= tfmt_way_best(); way++)
		get_varints((struct tfmt_cursor){ bytes, end, false }, want, way);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_gives_the_same_events_of_golden_traces),
		cmocka_unit_test(it_reports_the_same_damage),
		cmocka_unit_test(varints_are_those_read_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
