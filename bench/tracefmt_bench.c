/* SPDX-License-Identifier: MIT */
/*
 * Bytes and nanoseconds per event of the trace format, on a stream shaped like a training loop: the same
 * allocations each step, blocks handed out again by size, times with jitter.
 *
 *   tracefmt_bench [STEPS [LEVEL]]
 *
 * Build: make O=build build/libtracefmt.a && cc -O2 -I. -D_GNU_SOURCE -o build/tracefmt_bench
 *        bench/tracefmt_bench.c build/libtracefmt.a -lzstd
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tracefmt/tracefmt.h"

#define NR_LAYERS 16
#define EVENTS_PER_LAYER 250
#define EVENTS_PER_STEP (NR_LAYERS * EVENTS_PER_LAYER)
#define NR_SIZES 40
#define BLOCKS_PER_SIZE 256

static uint64_t random_state = 88172645463325252ull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* CPU time: on a shared machine the wall clock says more about the neighbours. */
static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One step as a script: at each place allocate a size, or free the block of an earlier place. */
struct place {
	int frees; /* place whose block is freed, -1: this place allocates */
	unsigned size_class;
	uint32_t python_stack, shape;
};

static struct place script[EVENTS_PER_STEP];

/* Every layer does the same and frees all it allocated; the latest allocations die first, mostly. */
static void make_layer(struct place *layer, int first)
{
	static int live[EVENTS_PER_LAYER];
	unsigned nr_live = 0, i;

	for (i = 0; i < EVENTS_PER_LAYER; i++) {
		struct place *p = &layer[i];

		p->frees = -1;
		p->python_stack = 2 + (uint32_t)(next_random() % 169);
		if (nr_live < EVENTS_PER_LAYER - i && (!nr_live || next_random() % 2)) {
			p->size_class = (unsigned)(next_random() % NR_SIZES);
			p->shape = 1 + p->size_class % 29;
			live[nr_live++] = first + (int)i;
		} else {
			unsigned k = nr_live - 1 - (unsigned)(next_random() % (nr_live < 8 ? nr_live : 8));

			p->frees = live[k];
			live[k] = live[--nr_live];
		}
	}
}

static void make_script(void)
{
	uint64_t seed = random_state;
	int layer;

	for (layer = 0; layer < NR_LAYERS; layer++) {
		random_state = seed;
		make_layer(&script[layer * EVENTS_PER_LAYER], layer * EVENTS_PER_LAYER);
	}
}

/* What a caching allocator does: the block of a size freed last is handed out first. */
static struct tfmt_event *make_events(unsigned steps)
{
	static uint64_t pool[NR_SIZES][BLOCKS_PER_SIZE + EVENTS_PER_STEP], block[EVENTS_PER_STEP];
	static unsigned nr_free[NR_SIZES];
	struct tfmt_event *events = calloc((size_t)steps * EVENTS_PER_STEP, sizeof(*events)), *ev = events;
	uint64_t time_ns = 1000000000, next_address = 0x7f1200000000ull;
	unsigned step, i;

	for (step = 0; events && step < steps; step++) {
		for (i = 0; i < EVENTS_PER_STEP; i++, ev++) {
			const struct place *p = &script[i];
			unsigned size_class = p->frees < 0 ? p->size_class : script[p->frees].size_class;

			time_ns += 3000 + i % 37 * 100 + next_random() % 600;
			ev->time_ns = time_ns;
			ev->size = (uint64_t)(size_class + 1) * (size_class + 1) << 12;
			ev->python_stack = p->python_stack;
			ev->thread = i > 1121 && i < 3573;
			ev->aux = 5ull << 30;
			if (p->frees < 0) {
				ev->kind = TFMT_TENSOR_ALLOC;
				ev->shape = p->shape;
				ev->address = nr_free[size_class] ? pool[size_class][--nr_free[size_class]]
								  : next_address;
				if (ev->address == next_address)
					next_address += ev->size;
				block[i] = ev->address;
			} else {
				ev->kind = TFMT_TENSOR_FREE;
				ev->address = block[p->frees];
				pool[size_class][nr_free[size_class]++] = ev->address;
			}
		}
	}
	return events;
}

static double write_trace(int fd, const struct tfmt_event *events, size_t nr, int level, uint64_t *bytes)
{
	struct tfmt_header h = { .time_shift = 6, .host = "bench" };
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	struct tfmt_writer *w;
	double start = now_s();
	size_t i;

	if (tfmt_writer_open(&w, fd, &h, level))
		exit(2);
	for (i = 0; i < nr; i++) {
		if (tfmt_writer_event(w, &events[i]) == 1)
			tfmt_writer_flush(w, NULL, 0);
	}
	if (tfmt_writer_end(w, &status))
		exit(2);
	*bytes = tfmt_writer_bytes(w);
	tfmt_writer_close(w);
	return now_s() - start;
}

static double read_trace(const char *path, size_t nr)
{
	double start = now_s();
	struct tfmt_reader *r;
	struct tfmt_event ev;
	size_t got = 0;

	if (tfmt_reader_open(&r, path, NULL))
		exit(2);
	while (tfmt_reader_next(r, &ev) == 1)
		got++;
	if (got != nr || !tfmt_reader_summary(r)->complete)
		exit(2);
	tfmt_reader_close(r);
	return now_s() - start;
}

int main(int argc, char **argv)
{
	unsigned steps = argc > 1 ? (unsigned)atoi(argv[1]) : 500;
	int level = argc > 2 ? atoi(argv[2]) : 1, round;
	size_t nr = (size_t)steps * EVENTS_PER_STEP;
	double best_write = 1e9, best_read = 1e9, t;
	struct tfmt_event *events;
	uint64_t bytes = 0;
	char path[64];

	make_script();
	events = make_events(steps);
	if (!events || !steps)
		return 2;
	for (round = 0; round < 5; round++) {
		int fd = memfd_create("bench.vtr", MFD_CLOEXEC);

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		t = write_trace(fd, events, nr, level, &bytes);
		best_write = t < best_write ? t : best_write;
		t = read_trace(path, nr);
		best_read = t < best_read ? t : best_read;
		close(fd);
	}
	printf("%zu events, level %d: %.2f bytes/event, CPU ns/event: write %.1f, read %.1f\n",
	       nr, level, (double)bytes / (double)nr, best_write / (double)nr * 1e9,
	       best_read / (double)nr * 1e9);
	free(events);
	return 0;
}
