/* SPDX-License-Identifier: MIT */
/*
 * A real recording, cut at every byte and with bits changed all over: for each the commands give the same
 * figures, or fewer and say so, or refuse it with a message. No figure that is said to be "at least" is more
 * than it was.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "tests/unit/tracefmt_stream.h"

#include "analyzer/command.h"
#include "analyzer/replay/replay.h"
#include "tracefmt/frame.h"
#include "tracefmt/varint.h"

static const struct sweep {
	const char *name, *path;
	uint64_t nr_events;
	size_t nr_frames;
	bool has_tensors;
} sweeps[] = {
	{ "sweep of a recording", "tests/golden/v1/sweep.vtr", 101, 10, true },
	{ "sweep of what was kept of one", "tests/golden/v1/kept-references.vtr", 13, 8, false }, /* by a flight recorder */
	{ "sweep of one with an index", "tests/golden/v1/indexed-references.vtr", 13, 11, false },
}, *sweep;

#if defined(__has_feature) /* clang's way to say it */
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__aarch64__) /* slower, or emulated */
#define PAYLOAD_STEP 5 /* bytes of a payload from one changed bit to the next */
#define CUT_STEP 3
#else
#define PAYLOAD_STEP 1
#define CUT_STEP 1
#endif

/* What people read in a report. */
struct figures {
	uint64_t nr_events, tensor_allocs, tensor_frees, driver_allocs, driver_frees;
	uint64_t allocated, reserved, driver, pinned;
	uint64_t allocated_peak, reserved_peak, driver_peak, pinned_peak;
};

struct outcome {
	bool refused;
	bool complete; /* the report calls its figures exact */
	bool end_is_exact[3]; /* of what is live at the end, by enum replay_total */
	int verdict;   /* exit status of verify */
	struct figures figures;
};

static uint8_t *golden;
static size_t golden_bytes, last_frame; /* last_frame: where it begins */
static struct outcome intact;
static char path[64];
static int fd = -1;
static unsigned nr_refused, nr_said, nr_exact_ends[3];

static struct figures figures_of(const struct replay *m)
{
	const struct books *books = m->process[0].books;
	const struct device_books *d = books_device(books, 0);

	return (struct figures){
		.nr_events = m->nr_events,
		.tensor_allocs = d->tensor_allocs,
		.tensor_frees = d->tensor_frees,
		.driver_allocs = d->driver_allocs,
		.driver_frees = d->driver_frees,
		.allocated = d->allocated_bytes,
		.reserved = d->reserved_bytes,
		.driver = d->driver_bytes,
		.pinned = books_host(books)->pinned_bytes,
		.allocated_peak = d->allocated_peak_bytes,
		.reserved_peak = d->reserved_peak_bytes,
		.driver_peak = d->driver_peak_bytes,
		.pinned_peak = books_host(books)->pinned_peak_bytes,
	};
}

/* What the commands make of these bytes. Who refuses says why. */
static struct outcome look(const uint8_t *bytes, size_t size)
{
	static const struct replay_options quiet = { .quiet = true };
	const char *verify[] = { "verify", path, NULL };
	FILE *screen = stdout, *errors = stderr;
	struct replay m = REPLAY_INIT;
	struct outcome o = { 0 };
	size_t said = 0;
	char *text = NULL;

	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, bytes, size, 0), (ssize_t)size);
	stdout = fopen("/dev/null", "we");
	stderr = open_memstream(&text, &said);
	o.refused = replay_load(&m, path, &quiet);
	fflush(stderr);
	if (o.refused && !said)
		o.complete = true;
	if (!o.refused) {
		o.complete = m.complete;
		for (int i = 0; i < 3; i++)
			o.end_is_exact[i] = m.nr_devices == 1 && replay_end_is_exact(&m.device[0], (enum replay_total)i);
		o.figures = figures_of(&m);
	}
	replay_release(&m);
	o.verdict = cmd_verify(2, verify);
	fclose(stdout);
	fclose(stderr);
	stdout = screen;
	stderr = errors;
	free(text);
	return o;
}

/* Damage was done: is it known, and is nothing more than it was? A file that was cut off is not called damaged. */
static void check(const struct outcome *o, bool is_cut, const char *what, size_t at)
{
	const struct figures *f = &o->figures, *was = &intact.figures;

	nr_refused += o->refused;
	nr_said += !o->refused;
	if (o->complete || o->verdict != (is_cut && !o->refused ? CMD_FINDING : CMD_TROUBLE))
		fail_msg("%s %zu: not said (verify: %d)", what, at, o->verdict);
	if (f->nr_events > was->nr_events || f->tensor_allocs > was->tensor_allocs ||
	    f->tensor_frees > was->tensor_frees || f->driver_allocs > was->driver_allocs ||
	    f->driver_frees > was->driver_frees)
		fail_msg("%s %zu: events that never were", what, at);
	if (f->allocated_peak > was->allocated_peak || f->reserved_peak > was->reserved_peak ||
	    f->driver_peak > was->driver_peak || f->pinned_peak > was->pinned_peak)
		fail_msg("%s %zu: more at the peak than there was", what, at);
	if (f->allocated > f->allocated_peak || f->reserved > f->reserved_peak ||
	    f->driver > f->driver_peak || f->pinned > f->pinned_peak)
		fail_msg("%s %zu: more at the end than at the peak", what, at);
	if ((o->end_is_exact[REPLAY_ALLOCATED] && f->allocated != was->allocated) ||
	    (o->end_is_exact[REPLAY_RESERVED] && f->reserved != was->reserved) ||
	    (o->end_is_exact[REPLAY_DRIVER] && f->driver != was->driver))
		fail_msg("%s %zu: another end than there was, and it is not said", what, at);
	for (int i = 0; i < 3; i++)
		nr_exact_ends[i] += o->end_is_exact[i];
}

/* Does the file now end in bytes that begin like a frame, but are too few? The last frame says that it is longer. */
static bool looks_cut(size_t at)
{
	struct tfmt_frame_core core;

	return at >= last_frame &&
	       tfmt_frame_check(golden + last_frame, golden_bytes - last_frame, &core) == TFMT_FRAME_SHORT;
}

static void flip(size_t at, unsigned bit)
{
	struct outcome o;
	bool is_cut;

	golden[at] ^= (uint8_t)(1 << bit);
	o = look(golden, golden_bytes);
	is_cut = looks_cut(at);
	golden[at] ^= (uint8_t)(1 << bit);
	check(&o, is_cut, "flipped byte", at);
}

static void test_intact(void **state)
{
	(void)state;
	intact = look(golden, golden_bytes);
	assert_false(intact.refused);
	assert_true(intact.complete);
	assert_int_equal(intact.verdict, CMD_FINE);
	assert_int_equal(intact.figures.nr_events, sweep->nr_events);
	assert_true(!sweep->has_tensors || (intact.figures.allocated_peak > intact.figures.allocated && intact.figures.allocated));
}

static void test_cut_at_every_byte(void **state)
{
	(void)state;
	for (size_t size = 0; size < golden_bytes; size += CUT_STEP) {
		struct outcome o = look(golden, size);

		check(&o, true, "cut at byte", size);
	}
}

/* Every bit of the file's header, and of every frame's header and fields. */
static void test_flip_headers(void **state)
{
	struct tfmt_frame_core core;
	size_t at = tfmt_get32(golden + 12), nr_frames = 0;

	(void)state;
	for (size_t bit = 0; bit < at * 8; bit++)
		flip(bit / 8, bit % 8);
	for (; at < golden_bytes; nr_frames++) {
		assert_int_equal(tfmt_frame_check(golden + at, golden_bytes - at, &core), TFMT_FRAME_GOOD);
		for (size_t bit = 0; bit < (size_t)core.header_bytes * 8; bit++)
			flip(at + bit / 8, bit % 8);
		at += (size_t)core.header_bytes + core.stored_bytes;
	}
	assert_int_equal(nr_frames, sweep->nr_frames);
}

/* A bit of every byte of every payload, another one each time. */
static void test_flip_payloads(void **state)
{
	struct tfmt_frame_core core;
	size_t at = tfmt_get32(golden + 12), next;

	(void)state;
	for (; at < golden_bytes; at = next) {
		assert_int_equal(tfmt_frame_check(golden + at, golden_bytes - at, &core), TFMT_FRAME_GOOD);
		next = at + core.header_bytes + core.stored_bytes;
		for (size_t i = at + core.header_bytes; i < next; i += PAYLOAD_STEP)
			flip(i, i % 8);
	}
	assert_true(nr_refused && nr_said > nr_refused);
	assert_true(nr_exact_ends[REPLAY_ALLOCATED] && nr_exact_ends[REPLAY_DRIVER]);
	assert_true(!sweep->has_tensors || nr_exact_ends[REPLAY_RESERVED]); /* nothing else reports it */
}

static int load(void **state)
{
	struct tfmt_frame_core core;
	size_t at;

	(void)state;
	golden = stream_load(sweep->path, &golden_bytes);
	for (at = tfmt_get32(golden + 12); at < golden_bytes; at += (size_t)core.header_bytes + core.stored_bytes) {
		if (tfmt_frame_check(golden + at, golden_bytes - at, &core) != TFMT_FRAME_GOOD)
			return -1;
		last_frame = at;
	}
	fd = memfd_create("sweep.vtr", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return fd < 0;
}

static int unload(void **state)
{
	(void)state;
	free(golden);
	return close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_intact),
		cmocka_unit_test(test_cut_at_every_byte),
		cmocka_unit_test(test_flip_headers),
		cmocka_unit_test(test_flip_payloads),
	};

	int failed = 0;

	for (sweep = sweeps; sweep < sweeps + sizeof(sweeps) / sizeof(*sweeps); sweep++) {
		nr_refused = nr_said = 0;
		memset(nr_exact_ends, 0, sizeof(nr_exact_ends));
		failed += cmocka_run_group_tests_name(sweep->name, tests, load, unload);
	}
	return failed;
}
