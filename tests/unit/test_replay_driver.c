/* SPDX-License-Identifier: MIT */
/* The driver ledger: owners, handles and mappings, refused frees, what is reserved, samples, host memory. */
#include "synthetic.h"

#include "analyzer/holders/outside.h"
#include "analyzer/ledger/books_inside.h"
#include "analyzer/replay/replay.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"
#define TORCH_STACK 11
#define NCCL_STACK 13
#define PROGRAM_STACK 15

static struct synthetic s;
static struct replay m;
static const struct replay_options quiet = { .quiet = true };

/* Three callers of the driver, each below the runtime library. */
static void begin(void)
{
	struct tfmt_header header = synthetic_header(1);

	synthetic_open(&s, TRACE, &header);
	synthetic_module(&s, 0, 0x10000, 0x20000, "/x/libcudart.so.13");
	synthetic_module(&s, 1, 0x20000, 0x30000, "/x/site-packages/torch/lib/libc10_cuda.so");
	synthetic_module(&s, 2, 0x30000, 0x40000, "/x/libnccl.so.2");
	synthetic_module(&s, 3, 0x40000, 0x50000, "/x/a.out");
	for (uint32_t i = 0; i < 3; i++) {
		synthetic_frame(&s, TORCH_STACK - 1 + 2 * i, 0, TFMT_FRAME_NATIVE,
				0x20010 + 0x10000 * (uint64_t)i, 0);
		synthetic_frame(&s, TORCH_STACK + 2 * i, TORCH_STACK - 1 + 2 * i, TFMT_FRAME_NATIVE, 0x10010,
				0);
	}
	s.native_stack = PROGRAM_STACK;
}

static const struct device_books *load(void)
{
	synthetic_close(&s, 0);
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	return m.device[0].books;
}

static void driver(uint8_t kind, uint64_t address, uint64_t size, enum tfmt_space space)
{
	s.flags = (uint16_t)space;
	synthetic_event(&s, kind, 0, address, size, 0);
	s.flags = 0;
}

static void owners_at_the_peak_sum_to_it(void **state)
{
	uint64_t owner[NR_OWNERS], sum = 0;
	const struct device_books *b;

	(void)state;
	begin();
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x100000, 20 * MiB, TFMT_SPACE_DEVICE);
	s.native_stack = NCCL_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x200000, 4 * MiB, TFMT_SPACE_DEVICE);
	s.native_stack = PROGRAM_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x300000, 1 * MiB, TFMT_SPACE_POOL);
	s.native_stack = TFMT_STACK_NOT_CAPTURED;
	driver(TFMT_DRIVER_ALLOC, 0x400000, 2 * MiB, TFMT_SPACE_ARRAY);
	driver(TFMT_DRIVER_FREE, 0x200000, 0, TFMT_SPACE_DEVICE);
	b = load();
	assert_int_equal(b->driver_allocs, 4);
	assert_int_equal(b->driver_frees, 1);
	assert_int_equal(b->driver_peak_bytes, 27 * MiB);
	assert_int_equal(b->driver_bytes, 23 * MiB);
	outside_owners(&m.device[0], owner);
	for (int i = 0; i < NR_OWNERS; i++)
		sum += owner[i];
	assert_int_equal(sum, b->driver_peak_bytes);
	assert_int_equal(owner[OWNER_TORCH], 20 * MiB);
	assert_int_equal(owner[OWNER_NCCL], 4 * MiB);
	assert_int_equal(owner[OWNER_PROGRAM], 1 * MiB);
	assert_int_equal(owner[OWNER_UNKNOWN], 2 * MiB);
	replay_release(&m);
}

static void pool_memory_of_torch_is_a_tensor_each(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x100000, 20 * MiB, TFMT_SPACE_POOL);
	driver(TFMT_DRIVER_ALLOC, 0x2000000, 4 * MiB, TFMT_SPACE_POOL);
	driver(TFMT_DRIVER_FREE, 0x100000, 0, TFMT_SPACE_POOL);
	driver(TFMT_ALLOC_FAILED, 0, 5 * MiB, TFMT_SPACE_POOL);
	driver(TFMT_DRIVER_ALLOC, 0x6000000, 5 * MiB, TFMT_SPACE_POOL); /* asked again, and granted */
	driver(TFMT_DRIVER_FREE, 0x6000000, 0, TFMT_SPACE_POOL);
	driver(TFMT_ALLOC_FAILED, 0, 999 * MiB, TFMT_SPACE_POOL);
	driver(TFMT_ALLOC_FAILED, 0, 999 * MiB, TFMT_SPACE_POOL); /* asked again */
	s.native_stack = PROGRAM_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x4000000, 8 * MiB, TFMT_SPACE_POOL); /* the program's own: no tensor */
	b = load();
	assert_int_equal(b->tensor_allocs, 3);
	assert_int_equal(b->tensor_frees, 2);
	assert_int_equal(b->tensor_ooms, 1);
	assert_int_equal(b->oom_asked_bytes, 999 * MiB);
	assert_int_equal(b->allocated_peak_bytes, 24 * MiB);
	assert_int_equal(b->allocated_bytes, 4 * MiB);
	assert_int_equal(b->reserved_bytes, 4 * MiB);
	assert_int_equal(b->driver_bytes, 12 * MiB);
	replay_release(&m);
}

static void handles_count_once_until_the_last_reference(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x55, 2 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_MAP, 0, 0x100000, 2 * MiB, 0x55);
	synthetic_event(&s, TFMT_MAP, 0, 0x800000, 2 * MiB, 0x55); /* shown twice, counted once */
	synthetic_event(&s, TFMT_HANDLE_RETAIN, 0, 0x55, 0, 0);
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE); /* for the retained reference */
	synthetic_event(&s, TFMT_UNMAP, 0, 0x100000, 2 * MiB, 0);
	b = load();
	assert_int_equal(b->driver_bytes, 2 * MiB); /* the second mapping still holds it */
	assert_int_equal(b->driver_peak_bytes, 2 * MiB);
	assert_int_equal(b->driver_frees, 0);
	replay_release(&m);

	begin();
	driver(TFMT_DRIVER_ALLOC, 0x55, 2 * MiB, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_ALLOC, 0x56, 2 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_MAP, 0, 0x100000, 2 * MiB, 0x55);
	synthetic_event(&s, TFMT_MAP, 0, 0x100000 + 2 * MiB, 2 * MiB, 0x56);
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_FREE, 0x56, 0, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_UNMAP, 0, 0x100000, 4 * MiB, 0); /* both at once */
	b = load();
	assert_int_equal(b->driver_bytes, 0);
	assert_int_equal(b->driver_frees, 2);
	replay_release(&m);
}

static void a_refused_free_is_undone(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	s.thread = 3;
	driver(TFMT_DRIVER_ALLOC, 0x100000, 20 * MiB, TFMT_SPACE_DEVICE);
	driver(TFMT_DRIVER_ALLOC, 0x55, 2 * MiB, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_FREE, 0x100000, 0, TFMT_SPACE_DEVICE);
	s.thread = 4;
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x100000, 0, 1); /* another thread's: not meant */
	s.thread = 3;
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x100000, 0, 1);
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x100000, 0, 1); /* only once */
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x55, 0, 1);
	b = load();
	assert_int_equal(b->driver_bytes, 22 * MiB);
	assert_int_equal(b->driver_frees, 0);
	assert_int_equal(b->driver_peak_bytes, 22 * MiB);
	replay_release(&m);
}

static void a_refused_unmap_is_undone(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x55, 2 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_MAP, 0, 0x100000, 2 * MiB, 0x55);
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_UNMAP, 0, 0x100000, 2 * MiB, 0);
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x100000, 0, 1);
	b = load();
	assert_int_equal(b->driver_bytes, 2 * MiB);
	assert_int_equal(b->reserved_bytes, 2 * MiB);
	assert_int_equal(b->driver_frees, 0);
	replay_release(&m);
}

/* What the driver has handed out again was free, whatever the free then returned. */
static void a_refused_free_leaves_alone_what_came_since(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x100000, 20 * MiB, TFMT_SPACE_DEVICE);
	driver(TFMT_DRIVER_FREE, 0x100000, 0, TFMT_SPACE_DEVICE);
	s.thread = 4;
	driver(TFMT_DRIVER_ALLOC, 0x100000, 30 * MiB, TFMT_SPACE_DEVICE);
	s.thread = 0;
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x100000, 0, 1);
	b = load();
	assert_int_equal(b->driver_bytes, 30 * MiB);
	assert_int_equal(b->driver_frees, 1);
	replay_release(&m);

	begin();
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x55, 2 * MiB, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_ALLOC, 0x56, 4 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_MAP, 0, 0x1000000, 2 * MiB, 0x55);
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_UNMAP, 0, 0x1000000, 2 * MiB, 0);
	s.thread = 4;
	synthetic_event(&s, TFMT_MAP, 0, 0x1000000, 4 * MiB, 0x56);
	s.thread = 0;
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x1000000, 0, 1);
	b = load();
	assert_int_equal(b->driver_bytes, 4 * MiB);
	assert_int_equal(b->reserved_bytes, 4 * MiB);
	replay_release(&m);
}

/* The end of a handle was not seen, and the driver has given its number to another: a mapping of the first is no use of it. */
static void a_mapping_holds_the_handle_that_it_was_made_of(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x55, 2 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_MAP, 0, 0x1000000, 2 * MiB, 0x55);
	driver(TFMT_DRIVER_ALLOC, 0x55, 4 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_UNMAP, 0, 0x1000000, 2 * MiB, 0);
	b = load();
	assert_int_equal(b->driver_bytes, 4 * MiB);
	assert_int_equal(b->driver_frees, 0);
	replay_release(&m);
}

/* PyTorch takes a segment, reports it, and gives it back without another report. */
static void reserved_follows_the_driver_between_reports(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x100000, 20 * MiB, TFMT_SPACE_DEVICE);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x100000, 8 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x100000, 0, 20 * MiB);
	s.native_stack = NCCL_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x200000, 4 * MiB, TFMT_SPACE_DEVICE); /* not PyTorch's */
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_FREE, 0x100000, 0, TFMT_SPACE_DEVICE);
	b = load();
	assert_int_equal(b->reserved_peak_bytes, 20 * MiB);
	assert_int_equal(b->allocated_at_reserved_peak_bytes, 8 * MiB);
	assert_int_equal(b->reserved_bytes, 0);
	assert_int_equal(b->disagreements, 0);
	replay_release(&m);
}

static void reports_that_disagree_are_counted(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x100000, 8 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x900000, 8 * MiB,
			40 * MiB); /* no driver event explains it */
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x900000, 0, 40 * MiB);
	b = load();
	assert_int_equal(b->disagreements, 1);
	assert_int_equal(b->reserved_peak_bytes, 40 * MiB);
	replay_release(&m);
}

static void mapped_handles_are_reserved(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x55, 20 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_MAP, 0, 0x100000, 20 * MiB, 0x55);
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x100000, 8 * MiB, 20 * MiB);
	synthetic_event(&s, TFMT_TENSOR_FREE, 0, 0x100000, 0, 20 * MiB);
	synthetic_event(&s, TFMT_UNMAP, 0, 0x100000, 20 * MiB, 0);
	b = load();
	assert_int_equal(b->reserved_peak_bytes, 20 * MiB);
	assert_int_equal(b->reserved_bytes, 0);
	assert_int_equal(b->driver_bytes, 0);
	assert_int_equal(b->driver_frees, 1);
	assert_int_equal(b->disagreements, 0);
	replay_release(&m);
}

static void the_residual_is_what_the_ledger_does_not_explain(void **state)
{
	struct residual_parts parts;
	const struct residual_figures *residual;

	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x100000, 20 * MiB, TFMT_SPACE_DEVICE);
	synthetic_event(&s, TFMT_MEMORY_INFO, 0, 0, 500 * MiB, 1000 * MiB);
	driver(TFMT_DRIVER_ALLOC, 0x200000, 10 * MiB, TFMT_SPACE_DEVICE);
	synthetic_event(&s, TFMT_MEMORY_INFO, 0, 0, 480 * MiB, 1000 * MiB);
	load();
	residual = books_residual(m.process[0].books, 0);
	assert_int_equal(residual->nr_samples, 2);
	assert_int_equal(residual->peak, 490 * MiB);
	assert_true(books_residual_at_peak(m.process[0].books, 0, &parts)); /* by the sample right after it */
	assert_int_equal(parts.unknown, 490 * MiB);
	assert_int_equal(parts.used, 520 * MiB);
	assert_int_equal(m.device[0].capacity_bytes,
			 1000 * MiB); /* no device definition: the driver's total */
	replay_release(&m);
}

static void host_memory_and_other_processes_memory_stay_apart(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x100000, 1 * MiB, TFMT_SPACE_DEVICE);
	driver(TFMT_DRIVER_ALLOC, 0x200000, 2 * MiB, TFMT_SPACE_PINNED);
	driver(TFMT_DRIVER_FREE, 0x200000, 0, TFMT_SPACE_PINNED);
	driver(TFMT_DRIVER_ALLOC, 0x300000, 4 * MiB, TFMT_SPACE_MANAGED);
	driver(TFMT_DRIVER_ALLOC, 0x400000, 8 * MiB, TFMT_SPACE_IPC);
	driver(TFMT_DRIVER_ALLOC, 0x900000, 64 * MiB, TFMT_SPACE_RESERVED);
	synthetic_event(&s, TFMT_ALLOC_FAILED, 0, 0, 99 * MiB, 2);
	b = load();
	assert_int_equal(b->driver_peak_bytes, 1 * MiB);
	assert_int_equal(b->driver_allocs, 1);
	assert_int_equal(b->driver_refusals, 1);
	assert_int_equal(b->refused_bytes, 99 * MiB);
	assert_int_equal(books_host(m.process[0].books)->pinned_peak_bytes, 2 * MiB);
	assert_int_equal(books_host(m.process[0].books)->pinned_bytes, 0);
	assert_int_equal(books_host(m.process[0].books)->managed_peak_bytes, 4 * MiB);
	replay_release(&m);
}

static void a_reset_clears_the_device(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	for (uint64_t i = 1; i <= 3000; i++)
		driver(TFMT_DRIVER_ALLOC, i << 20, 512, TFMT_SPACE_DEVICE);
	synthetic_event(&s, TFMT_RESET, 0, 0, 0, 0);
	driver(TFMT_DRIVER_ALLOC, 0x100000, 1 * MiB, TFMT_SPACE_DEVICE);
	b = load();
	assert_int_equal(b->driver_bytes, 1 * MiB);
	assert_int_equal(b->driver_frees, 0);
	assert_int_equal(b->driver_peak_bytes, 3000 * 512);
	replay_release(&m);
}

/* One call that the driver refused had ended several mappings, and with them both handles. */
static void a_refused_unmap_of_several_is_undone(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	s.native_stack = TORCH_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x55, 2 * MiB, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_ALLOC, 0x56, 4 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_MAP, 0, 0x1000000, 2 * MiB, 0x55);
	synthetic_event(&s, TFMT_MAP, 0, 0x1200000, 4 * MiB, 0x56);
	synthetic_event(&s, TFMT_MAP, 0, 0x1600000, 4 * MiB, 0x56);
	driver(TFMT_DRIVER_FREE, 0x55, 0, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_FREE, 0x56, 0, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_UNMAP, 0, 0x1000000, 10 * MiB, 0);
	synthetic_event(&s, TFMT_FREE_FAILED, 0, 0x1000000, 0, 1);
	b = load();
	assert_int_equal(b->driver_bytes, 6 * MiB);
	assert_int_equal(b->reserved_bytes, 10 * MiB);
	assert_int_equal(b->driver_frees, 0);
	replay_release(&m);
}

/* Of two contexts one ends; pool memory and physical memory belong to none. */
static void the_end_of_a_context_takes_its_own(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, 0x100000, 1 * MiB, 0);
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, 0x200000, 2 * MiB, 3);
	driver(TFMT_DRIVER_ALLOC, 0x400000, 4 * MiB, TFMT_SPACE_POOL);
	driver(TFMT_DRIVER_ALLOC, 0x55, 8 * MiB, TFMT_SPACE_HANDLE);
	s.flags = TFMT_SPACE_PINNED;
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, 0x900000, 16 * MiB, 3);
	s.flags = 0;
	synthetic_event(&s, TFMT_RESET, 0, 0, 0, 3);
	b = load();
	assert_int_equal(b->driver_bytes, 13 * MiB);
	assert_int_equal(books_host(m.process[0].books)->pinned_bytes, 0);
	assert_int_equal(b->driver_frees, 0);
	replay_release(&m);

	begin();
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, 0x100000, 1 * MiB, 0);
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, 0x200000, 2 * MiB, 3);
	driver(TFMT_DRIVER_ALLOC, 0x400000, 4 * MiB, TFMT_SPACE_POOL);
	driver(TFMT_DRIVER_ALLOC, 0x55, 8 * MiB, TFMT_SPACE_HANDLE);
	synthetic_event(&s, TFMT_RESET, 0, 0, 0, 0);
	b = load();
	assert_int_equal(b->driver_bytes, 10 * MiB);
	replay_release(&m);
}

/* Only samples tell what is reserved for graphs: it belongs to whoever made the graph that was launched. */
static void what_is_reserved_for_graphs_counts(void **state)
{
	uint64_t owner[NR_OWNERS];
	const struct device_books *b;

	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x100000, 1 * MiB, TFMT_SPACE_DEVICE);
	s.native_stack = NCCL_STACK;
	driver(TFMT_DRIVER_ALLOC, 0x200000, 3 * MiB, TFMT_SPACE_GRAPH); /* a node: no memory yet */
	s.flags = TFMT_OBJECT_GRAPH;
	synthetic_event(&s, TFMT_OBJECT_NEW, 0, 0x77, 0, 1);
	s.flags = 0;
	s.native_stack = PROGRAM_STACK;
	synthetic_event(&s, TFMT_GRAPH_LAUNCH, 0, 0x77, 0, 0);
	synthetic_event(&s, TFMT_POOL_INFO, 0, 0, 4 * MiB, 3 * MiB);
	synthetic_event(&s, TFMT_POOL_INFO, 0, 0, 2 * MiB, 0);
	b = load();
	assert_int_equal(b->driver_peak_bytes, 5 * MiB);
	assert_int_equal(b->driver_bytes, 3 * MiB);
	assert_int_equal(b->driver_allocs, 1);
	outside_owners(&m.device[0], owner);
	assert_int_equal(owner[OWNER_NCCL], 4 * MiB);
	assert_int_equal(owner[OWNER_PROGRAM], 1 * MiB);
	replay_release(&m);
}

static void memory_of_other_processes_is_open_until_it_is_closed_as_often(void **state)
{
	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x100000, 8 * MiB, TFMT_SPACE_IPC);
	driver(TFMT_DRIVER_ALLOC, 0x100000, 8 * MiB, TFMT_SPACE_IPC);
	driver(TFMT_DRIVER_FREE, 0x100000, 0, TFMT_SPACE_IPC);
	driver(TFMT_DRIVER_FREE, 0x100000, 0, TFMT_SPACE_IPC);
	load();
	assert_int_equal(m.process[0].books->unmatched_frees, 0);
	assert_int_equal(m.process[0].books->blocks.nr_blocks, 0);
	replay_release(&m);
}

/* Physical memory and pools of the host are page-locked; what shows memory of others is none. */
static void handles_and_pools_count_where_their_memory_is(void **state)
{
	const struct device_books *b;

	(void)state;
	begin();
	driver(TFMT_DRIVER_ALLOC, 0x55, 1 * MiB, TFMT_SPACE_HANDLE_HOST);
	driver(TFMT_DRIVER_ALLOC, 0x56, 2 * MiB, TFMT_SPACE_HANDLE_IMPORTED);
	driver(TFMT_DRIVER_ALLOC, 0x57, 4 * MiB, TFMT_SPACE_MULTICAST);
	driver(TFMT_DRIVER_ALLOC, 0x100000, 8 * MiB, TFMT_SPACE_POOL_HOST);
	driver(TFMT_DRIVER_FREE, 0x56, 0, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_FREE, 0x57, 0, TFMT_SPACE_HANDLE);
	driver(TFMT_DRIVER_FREE, 0x100000, 0, TFMT_SPACE_POOL);
	b = load();
	assert_int_equal(b->driver_peak_bytes, 0);
	assert_int_equal(b->driver_allocs, 0);
	assert_int_equal(b->driver_frees, 0);
	assert_int_equal(books_host(m.process[0].books)->pinned_peak_bytes, 9 * MiB);
	assert_int_equal(books_host(m.process[0].books)->pinned_bytes, 1 * MiB);
	assert_int_equal(m.process[0].books->unmatched_frees, 0);
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(owners_at_the_peak_sum_to_it),
		cmocka_unit_test(pool_memory_of_torch_is_a_tensor_each),
		cmocka_unit_test(handles_count_once_until_the_last_reference),
		cmocka_unit_test(a_refused_free_is_undone),
		cmocka_unit_test(a_refused_unmap_is_undone),
		cmocka_unit_test(a_refused_free_leaves_alone_what_came_since),
		cmocka_unit_test(a_mapping_holds_the_handle_that_it_was_made_of),
		cmocka_unit_test(reserved_follows_the_driver_between_reports),
		cmocka_unit_test(reports_that_disagree_are_counted),
		cmocka_unit_test(mapped_handles_are_reserved),
		cmocka_unit_test(the_residual_is_what_the_ledger_does_not_explain),
		cmocka_unit_test(host_memory_and_other_processes_memory_stay_apart),
		cmocka_unit_test(a_reset_clears_the_device),
		cmocka_unit_test(a_refused_unmap_of_several_is_undone),
		cmocka_unit_test(the_end_of_a_context_takes_its_own),
		cmocka_unit_test(what_is_reserved_for_graphs_counts),
		cmocka_unit_test(memory_of_other_processes_is_open_until_it_is_closed_as_often),
		cmocka_unit_test(handles_and_pools_count_where_their_memory_is),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
