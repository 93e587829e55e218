/* SPDX-License-Identifier: MIT */
/* What a simulated device tells: memory that it models, values that were read of it, and the frames it adds. */
#include "synthetic.h"

#include "analyzer/holders/holders.h"
#include "analyzer/holders/outside.h"
#include "analyzer/holders/readplaces.h"
#include "analyzer/ledger/books_inside.h"
#include "analyzer/replay/replay.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"
#define TORCH_STACK 3

enum { FN_MALLOC = 1, FN_CONTEXT, FN_CODE, FN_NCCL, FN_OTHER };

static struct synthetic s;
static struct replay m;
static const struct replay_options quiet = { .quiet = true };

/* A stack that ends in PyTorch's allocator, which is also below what is modelled during its calls. */
static void begin(void)
{
	struct tfmt_header header = synthetic_header(1);

	header.simulated = 1;
	synthetic_open(&s, TRACE, &header);
	synthetic_module(&s, 0, 0x10000, 0x20000, "/x/libsimgpu.so");
	synthetic_module(&s, 1, 0x20000, 0x30000, "/x/site-packages/torch/lib/libc10_cuda.so");
	synthetic_frame(&s, 2, 0, TFMT_FRAME_NATIVE, 0x20010, 0);
	synthetic_frame(&s, TORCH_STACK, 2, TFMT_FRAME_NATIVE, 0x10010, 0);
	synthetic_function(&s, FN_MALLOC, "cudaMalloc");
	synthetic_function(&s, FN_CONTEXT, "context");
	synthetic_function(&s, FN_CODE, "code");
	synthetic_function(&s, FN_NCCL, "nccl");
	synthetic_function(&s, FN_OTHER, "a library of tomorrow");
	s.native_stack = TORCH_STACK;
}

static const struct device_books *load(void)
{
	synthetic_close(&s, 0);
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	return m.device[0].books;
}

static int64_t unknown_at_peak(void)
{
	struct residual_parts parts;

	assert_true(books_residual_at_peak(m.process[0].books, 0, &parts));
	return parts.unknown;
}

static void take(uint64_t address, uint64_t bytes)
{
	s.function = FN_MALLOC;
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, address, bytes, 0);
}

static void modelled(uint8_t kind, uint16_t function, uint64_t address, uint64_t bytes)
{
	s.function = function;
	s.flags = TFMT_FLAG_MODELLED;
	synthetic_event(&s, kind, 0, address | TFMT_MODELLED_ADDRESS, bytes, 0);
	s.flags = 0;
}

static void libraries_count_in_the_ledger_and_the_context_beside_it(void **state)
{
	uint64_t owner[NR_OWNERS], told[NR_OWNERS], sum = 0;
	const struct device_books *b;

	(void)state;
	begin();
	modelled(TFMT_DRIVER_ALLOC, FN_CONTEXT, 1, 300 * MiB);
	take(0x100000, 20 * MiB);
	synthetic_event(&s, TFMT_MEMORY_INFO, 0, 0, 680 * MiB, 1000 * MiB);
	modelled(TFMT_DRIVER_ALLOC, FN_NCCL, 0x100000, 64 * MiB); /* the address of a real block: another one */
	modelled(TFMT_DRIVER_ALLOC, FN_CODE, 2, 7 * MiB);
	take(0x2000000, 2 * MiB);
	modelled(TFMT_DRIVER_FREE, FN_NCCL, 0x100000, 64 * MiB);
	modelled(TFMT_DRIVER_ALLOC, FN_OTHER, 3, 1 * MiB);
	modelled(TFMT_DRIVER_FREE, FN_CODE, 2, 7 * MiB);
	b = load();
	assert_int_equal(b->driver_peak_bytes, 86 * MiB);
	assert_int_equal(b->driver_bytes, 23 * MiB);
	assert_int_equal(b->driver_allocs, 2); /* calls: what is modelled is none */
	assert_int_equal(b->driver_frees, 0);
	assert_int_equal(b->reserved_bytes, 22 * MiB); /* although PyTorch's allocator was on the stack */
	outside_owners(&m.device[0], owner);
	for (int i = 0; i < NR_OWNERS; i++)
		sum += owner[i];
	assert_int_equal(sum, b->driver_peak_bytes);
	assert_int_equal(owner[OWNER_NCCL], 64 * MiB);
	assert_int_equal(owner[OWNER_TORCH], 22 * MiB);
	assert_true(outside_modelled(&m.device[0], told));
	assert_int_equal(told[OWNER_NCCL], 64 * MiB);
	assert_int_equal(told[OWNER_CONTEXT], 300 * MiB);
	assert_int_equal(told[OWNER_CODE], 7 * MiB);
	assert_int_equal(told[OWNER_UNKNOWN], 0); /* came after the peak */
	assert_int_equal(unknown_at_peak(), 0);
	assert_int_equal(books_residual(m.process[0].books, 0)->peak, 307 * MiB);
	assert_int_equal(m.process[0].books->device[0].residual.modelled_context, 300 * MiB);
	replay_release(&m);
}

static void what_nobody_explains_stays_unknown(void **state)
{
	uint64_t told[NR_OWNERS];

	(void)state;
	begin();
	modelled(TFMT_DRIVER_ALLOC, FN_CONTEXT, 1, 300 * MiB);
	take(0x100000, 20 * MiB);
	synthetic_event(&s, TFMT_MEMORY_INFO, 0, 0, 670 * MiB, 1000 * MiB);
	load();
	assert_int_equal(unknown_at_peak(), 10 * MiB);
	assert_int_equal(books_residual(m.process[0].books, 0)->peak, 310 * MiB);
	replay_release(&m);

	begin();
	take(0x100000, 20 * MiB);
	synthetic_event(&s, TFMT_MEMORY_INFO, 0, 0, 670 * MiB, 1000 * MiB);
	load();
	assert_int_equal(unknown_at_peak(), 310 * MiB);
	assert_false(outside_modelled(&m.device[0], told));
	replay_release(&m);
}

static void modelled_memory_is_a_holder_of_its_own(void **state)
{
	struct holders_query q = { .of = HOLDERS_DRIVER, .by = HOLDERS_BY_STACK, .mark = MARK_DRIVER_PEAK };
	struct holders h = HOLDERS_INIT;

	(void)state;
	begin();
	modelled(TFMT_DRIVER_ALLOC, FN_CONTEXT, 1, 300 * MiB);
	take(0x100000, 20 * MiB);
	modelled(TFMT_DRIVER_ALLOC, FN_NCCL, 2, 64 * MiB);
	load();
	q.process = &m.process[0];
	holders_find(&h, &m, &q);
	assert_int_equal(h.nr_holders, 2);
	assert_int_equal(h.total.bytes, 84 * MiB);
	assert_int_equal(h.holder[0].owner, OWNER_NCCL);
	assert_true(h.holder[0].largest->modelled);
	assert_int_equal(h.holder[1].owner, OWNER_TORCH);
	holders_release(&h);
	replay_release(&m);
}

/* train.py calls step.py from two positions; the value shadow and PyTorch's dispatch lie above that. */
static void write_stacks(void)
{
	static const char *const files[] = { "/src/train.py", "/src/step.py",
					     "/venv/site-packages/torch/_tensor.py",
					     "/venv/site-packages/torch/utils/_python_dispatch.py", "<simgpu values>" };

	for (uint32_t i = 0; i < 5; i++)
		synthetic_code(&s, 1 + i, "f", files[i], 10 * (i + 1));
	for (uint32_t i = 0; i < 5; i++)
		synthetic_frame(&s, 10 + i, i ? 9 + i : 0, TFMT_FRAME_PYTHON, 1 + i, 0);
	synthetic_frame(&s, 20, 0, TFMT_FRAME_PYTHON, 1, 5);
	synthetic_frame(&s, 21, 20, TFMT_FRAME_PYTHON, 2, 0);
	/* No code of the program at all: a thread of PyTorch's. */
	synthetic_frame(&s, 30, 0, TFMT_FRAME_PYTHON, 3, 0);
	synthetic_frame(&s, 31, 30, TFMT_FRAME_PYTHON, 4, 0);
	synthetic_frame(&s, 32, 31, TFMT_FRAME_PYTHON, 5, 0);
}

static void the_shadow_is_nobodys_site(void **state)
{
	struct stack_source source;
	struct stack stack = { 0 };

	(void)state;
	begin();
	write_stacks();
	take(0x100000, 2 * MiB);
	load();
	source = replay_stack_source(&m, &m.process[0]);
	stack_expand(&stack, &source, 14, 0);
	assert_int_equal(stack.nr_frames, 5);
	assert_true(stack.frame[0].simulation);
	assert_string_equal(stack.frame[stack_site(&stack)].file, "/src/step.py");
	stack_expand(&stack, &source, 32, 0);
	assert_string_equal(stack.frame[stack_site(&stack)].file, "/venv/site-packages/torch/_tensor.py");
	stack_release(&stack);
	replay_release(&m);
}

static void read_value(uint32_t python_stack, uint64_t bytes)
{
	s.python_stack = python_stack;
	synthetic_event(&s, TFMT_VALUE_READ, 0, 0x100000, bytes, 0);
}

static void reads_are_counted_by_place(void **state)
{
	struct readplaces p;

	(void)state;
	begin();
	write_stacks();
	s.native_stack = TFMT_STACK_NOT_CAPTURED;
	read_value(10, 8);
	for (int i = 0; i < 1000; i++)
		read_value(14, 4); /* through the shadow */
	read_value(21, 4); /* from another line of train.py, and without train.py: step.py:20 as well */
	read_value(TFMT_STACK_NOT_CAPTURED, 1);
	s.flags = TFMT_FLAG_TEARDOWN;
	read_value(10, 8);
	s.flags = 0;
	load();
	readplaces_find(&p, &m, &m.process[0]);
	assert_int_equal(p.nr_places, 3);
	assert_int_equal(p.reads, 1003);
	assert_string_equal(p.place[0].site.file, "/src/train.py");
	assert_int_equal(p.place[0].reads, 1);
	assert_int_equal(p.place[0].bytes, 8);
	assert_int_equal(p.place[0].first_ns, 0);
	assert_string_equal(p.place[1].site.file, "/src/step.py");
	assert_int_equal(p.place[1].reads, 1001);
	assert_int_equal(p.place[1].bytes, 4004);
	assert_int_equal(p.place[1].first_ns, SYNTHETIC_STEP);
	assert_false(p.place[2].known);
	readplaces_release(&p);
	replay_release(&m);
}

/* More stacks than the first table has room for. */
static void many_stacks_are_kept_apart(void **state)
{
	struct readplaces p;

	(void)state;
	begin();
	for (uint32_t i = 0; i < 500; i++) {
		synthetic_code(&s, 1 + i, "f", "/src/train.py", i + 1);
		synthetic_frame(&s, 10 + i, 0, TFMT_FRAME_PYTHON, 1 + i, 0);
	}
	s.native_stack = TFMT_STACK_NOT_CAPTURED;
	for (int round = 0; round < 3; round++)
		for (uint32_t i = 0; i < 500; i++)
			read_value(10 + i, 4);
	load();
	readplaces_find(&p, &m, NULL);
	assert_int_equal(p.nr_places, 500);
	for (uint32_t i = 0; i < 500; i++) {
		assert_int_equal(p.place[i].site.line, i + 1);
		assert_int_equal(p.place[i].reads, 3);
	}
	readplaces_release(&p);
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libraries_count_in_the_ledger_and_the_context_beside_it),
		cmocka_unit_test(what_nobody_explains_stays_unknown),
		cmocka_unit_test(modelled_memory_is_a_holder_of_its_own),
		cmocka_unit_test(the_shadow_is_nobodys_site),
		cmocka_unit_test(reads_are_counted_by_place),
		cmocka_unit_test(many_stacks_are_kept_apart),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
