/* SPDX-License-Identifier: MIT */
/* The backward passes of a job that is far longer than what its flight recorder keeps: told of one by one. */
#include "tests/unit/tracefmt_flight.h"

#include "tracefmt/keep.h"
#include "tracefmt/writer.h"

#define NR_PASSES 330000u
#define NR_EACH 262144u /* passes on one device that FORMAT.md promises one by one */
#define KEPT_BYTES 400000
#define CHECKPOINT_BYTES 40000
#define SECOND_DEVICE_FROM (NR_PASSES - 10000)

/* What the test counts itself. */
struct counted {
	struct tfmt_pass *pass; /* of one device: of all passes, with the peak since the one before */
	uint64_t address, allocated, peak, allocs, frees;
};

struct job {
	struct flight flight;
	struct counted of[2];
	uint64_t time_ns;
	uint32_t random;
};

static uint32_t next_random(struct job *j)
{
	j->random = j->random * 1664525u + 1013904223u;
	return j->random >> 8;
}

static void put(struct job *j, const struct tfmt_event *ev)
{
	struct tfmt_event copy = *ev;

	copy.time_ns = j->time_ns;
	if (tfmt_writer_event(j->flight.w, &copy))
		assert_int_equal(tfmt_writer_flush(j->flight.w, NULL, 0), 0);
}

static void alloc(struct job *j, unsigned device, uint64_t bytes)
{
	struct counted *c = &j->of[device];

	c->address += 1 << 20;
	c->allocated += bytes;
	c->allocs++;
	c->peak = c->peak < c->allocated ? c->allocated : c->peak;
	put(j, &(struct tfmt_event){ .kind = TFMT_TENSOR_ALLOC, .device = (uint8_t)device, .address = c->address,
				     .size = bytes });
}

static void free_last(struct job *j, unsigned device, uint64_t bytes)
{
	struct counted *c = &j->of[device];

	put(j, &(struct tfmt_event){ .kind = TFMT_TENSOR_FREE, .device = (uint8_t)device, .address = c->address });
	c->address -= 1 << 20;
	c->allocated -= bytes;
	c->frees++;
}

/* A step: something is allocated and freed again, then a pass, in which another begins; now and then something stays. */
static void step(struct job *j, uint32_t number)
{
	unsigned nr_devices = number < SECOND_DEVICE_FROM ? 1 : 2;

	j->time_ns += 1 + next_random(j) % 1000000;
	for (unsigned d = 0; d < nr_devices; d++) {
		uint64_t bytes = 512 * (1 + next_random(j) % 1000);
		struct counted *c = &j->of[d];

		alloc(j, d, bytes);
		free_last(j, d, bytes);
		if (number % 1000 == d)
			alloc(j, d, 4096);
		c->pass[number - 1] = (struct tfmt_pass){ number, j->time_ns, c->allocated, c->peak, c->allocs, c->frees };
		c->peak = c->allocated;
	}
	put(j, &(struct tfmt_event){ .kind = TFMT_PHASE_BEGIN, .address = TFMT_PHASE_BACKWARD });
	put(j, &(struct tfmt_event){ .kind = TFMT_PHASE_BEGIN, .address = TFMT_PHASE_BACKWARD, .aux = 1 });
	put(j, &(struct tfmt_event){ .kind = TFMT_PHASE_END, .address = TFMT_PHASE_BACKWARD, .aux = 1 });
	put(j, &(struct tfmt_event){ .kind = TFMT_PHASE_END, .address = TFMT_PHASE_BACKWARD });
}

/* In the end only what follows the last of its checkpoints is kept. */
static void run(struct job *j)
{
	struct flight *f = &j->flight;

	flight_start(f, 0);
	for (uint32_t number = 1; number <= NR_PASSES; number++) {
		step(j, number);
		if (number % 100)
			continue;
		assert_int_equal(tfmt_writer_flush(f->w, NULL, 0), 0);
		flight_tend(f, CHECKPOINT_BYTES, KEPT_BYTES + f->w->keep->definition_bytes);
	}
	assert_true(f->nr_drops > 1);
	while (f->other_fd >= 0 || f->w->keep->nr_marks)
		flight_tend(f, UINT64_MAX, 1);
	flight_end(f);
}

/* All passes of the device from `first` on, but for those that FORMAT.md leaves out of so many, up to `last`. */
static void check_device(const struct counted *c, const struct tfmt_pass *pass, uint32_t nr, uint64_t first,
			 uint64_t last)
{
	uint64_t before = 0, number = first, distance = first == 1 ? 1 : 2;

	for (uint32_t i = 0; i < nr; i++) {
		struct tfmt_pass want = c->pass[number - 1];

		for (uint64_t k = before; k < number; k++)
			want.peak = want.peak < c->pass[k].peak ? c->pass[k].peak : want.peak;
		assert_memory_equal(&pass[i], &want, sizeof(want));
		distance = i + 1 < NR_EACH ? distance : 2;
		before = number;
		number += distance - (number - 1) % distance;
	}
	assert_in_range(last, before, number - 1);
}

static void test_each_pass_is_told(void **state)
{
	struct job j = { .random = 1 };
	const struct tfmt_pass *pass;
	struct tfmt_reader *r;
	struct tfmt_event ev;
	uint64_t dropped;
	uint32_t nr;

	(void)state;
	for (unsigned d = 0; d < 2; d++)
		j.of[d].pass = calloc(NR_PASSES, sizeof(struct tfmt_pass));
	run(&j);
	assert_int_equal(tfmt_reader_open(&r, j.flight.path, NULL), 0);
	do
		assert_int_equal(tfmt_reader_next(r, &ev), 1);
	while (ev.before);
	dropped = tfmt_reader_figures(r)->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_PASSES];
	assert_in_range(dropped, SECOND_DEVICE_FROM + 10, NR_PASSES);
	while (tfmt_reader_next(r, &ev) == 1)
		;
	pass = tfmt_reader_passes(r, 0, &nr);
	check_device(&j.of[0], pass, nr, 1, dropped);
	pass = tfmt_reader_passes(r, 1, &nr);
	check_device(&j.of[1], pass, nr, SECOND_DEVICE_FROM + 1, dropped);
	assert_null(tfmt_reader_passes(r, 2, &nr));
	assert_int_equal(nr, 0);
	tfmt_reader_close(r);
	flight_forget(&j.flight);
	for (unsigned d = 0; d < 2; d++)
		free(j.of[d].pass);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_pass_is_told) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
