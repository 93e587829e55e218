/* SPDX-License-Identifier: MIT */
/* Which NVTX ranges an allocation lies in: threads, domains, ranges of the process, backward, losses. */
#include "synthetic.h"

#include "analyzer/ledger/ranges.h"

#define TRACE "a.vtr"

enum { MAIN = 1, OTHER, AUTOGRAD };
enum { STEP = 1, FORWARD, WHOLE, MODE, NCCL };

static struct synthetic s;

static void define_text(uint32_t type, uint32_t id, uint64_t tid, const char *text)
{
	uint8_t buf[64], *p = buf;

	if (type == TFMT_DEF_THREAD)
		p = tfmt_put_varint(p, tid);
	p = tfmt_put_string(p, text, strlen(text));
	synthetic_define(&s, type, id, buf, p);
}

static void begin(void)
{
	struct tfmt_header header = synthetic_header(1);

	synthetic_open(&s, TRACE, &header);
	define_text(TFMT_DEF_STRING, STEP, 0, "step");
	define_text(TFMT_DEF_STRING, FORWARD, 0, "forward");
	define_text(TFMT_DEF_STRING, WHOLE, 0, "whole");
	define_text(TFMT_DEF_STRING, MODE, 0, "PythonDispatchMode");
	define_text(TFMT_DEF_STRING, NCCL, 0, "NCCL");
	define_text(TFMT_DEF_THREAD, MAIN, 10, "python");
	define_text(TFMT_DEF_THREAD, OTHER, 11, "python");
	define_text(TFMT_DEF_THREAD, AUTOGRAD, 12, "pt_autograd_0");
}

static void event(uint32_t thread, uint8_t kind, uint64_t address, uint64_t size, uint64_t aux)
{
	s.thread = thread;
	synthetic_event(&s, kind, TFMT_DEVICE_NONE, address, size, aux);
}

static void push(uint32_t thread, uint32_t name, uint32_t domain)
{
	event(thread, TFMT_RANGE_PUSH, name, domain, 0);
}

static void pop(uint32_t thread, uint32_t domain)
{
	event(thread, TFMT_RANGE_POP, 0, domain, 0);
}

static void allocate(uint32_t thread)
{
	s.thread = thread;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x1000 + s.time_ns, 512, 1 << 20);
}

/* The paths of the trace's allocations must be these, each in one string. */
static void check(const char *const *expected)
{
	struct tfmt_reader *reader;
	struct tfmt_event ev;
	struct ranges r;

	synthetic_close(&s, 0);
	assert_int_equal(tfmt_reader_open(&reader, TRACE, NULL), 0);
	ranges_init(&r, reader);
	while (tfmt_reader_next(reader, &ev) > 0) {
		char path[256] = "", name[64];
		uint32_t id;

		ranges_apply(&r, &ev);
		if (ev.kind != TFMT_TENSOR_ALLOC)
			continue;
		id = ranges_path(&r, &ev);
		for (uint32_t k = 0; k < ranges_depth(&r, id); k++) {
			strcat(path, k ? " > " : "");
			strcat(path, range_label(name, sizeof(name), reader, ranges_of_path(&r, id, k)));
		}
		assert_non_null(*expected);
		assert_string_equal(path, *expected++);
	}
	assert_null(*expected);
	ranges_release(&r);
	tfmt_reader_close(reader);
}

static void threads_have_their_own_ranges(void **state)
{
	(void)state;
	begin();
	push(MAIN, STEP, 0);
	push(OTHER, FORWARD, 0);
	allocate(MAIN);
	allocate(OTHER);
	push(MAIN, FORWARD, 0);
	allocate(MAIN);
	pop(MAIN, 0);
	allocate(MAIN);
	pop(MAIN, 0);
	pop(MAIN, 0); /* of nothing */
	allocate(MAIN);
	check((const char *const[]){ "step", "forward", "step > forward", "step", "", NULL });
}

static void domains_are_left_in_any_order(void **state)
{
	(void)state;
	begin();
	push(MAIN, STEP, 0);
	push(MAIN, WHOLE, NCCL);
	allocate(MAIN);
	pop(MAIN, 0);
	allocate(MAIN);
	pop(MAIN, 0); /* none of this domain is left */
	allocate(MAIN);
	pop(MAIN, NCCL);
	allocate(MAIN);
	check((const char *const[]){ "step > NCCL: whole", "NCCL: whole", "NCCL: whole", "", NULL });
}

static void ranges_of_the_process_are_all_threads(void **state)
{
	(void)state;
	begin();
	event(MAIN, TFMT_RANGE_START, WHOLE, 0, 7);
	push(OTHER, STEP, 0);
	allocate(MAIN);
	allocate(OTHER);
	event(OTHER, TFMT_RANGE_END, 0, 0, 8); /* of another */
	allocate(MAIN);
	event(OTHER, TFMT_RANGE_END, 0, 0, 7);
	allocate(MAIN);
	allocate(OTHER);
	check((const char *const[]){ "whole", "whole > step", "whole", "", "step", NULL });
}

static void backward_lies_in_its_callers_ranges(void **state)
{
	(void)state;
	begin();
	push(MAIN, STEP, 0);
	allocate(AUTOGRAD);
	event(MAIN, TFMT_PHASE_BEGIN, TFMT_PHASE_BACKWARD, 0, 0);
	allocate(AUTOGRAD);
	push(AUTOGRAD, FORWARD, 0); /* recomputed */
	allocate(AUTOGRAD);
	allocate(OTHER);
	event(AUTOGRAD, TFMT_PHASE_BEGIN, TFMT_PHASE_BACKWARD, 0, 1); /* reentrant: no second caller */
	allocate(AUTOGRAD);
	event(OTHER, TFMT_PHASE_BEGIN, TFMT_PHASE_BACKWARD, 0, 0); /* whose is it now? */
	allocate(AUTOGRAD);
	event(OTHER, TFMT_PHASE_END, TFMT_PHASE_BACKWARD, 0, 0);
	event(MAIN, TFMT_PHASE_END, TFMT_PHASE_BACKWARD, 0, 0);
	pop(AUTOGRAD, 0);
	allocate(AUTOGRAD);
	check((const char *const[]){ "", "step", "step > forward", "", "step > forward", "forward", "", NULL });
}

/* The depth is in the event: a lost begin or end of backward is made good by the next. */
static void a_lost_end_of_backward(void **state)
{
	(void)state;
	begin();
	push(MAIN, STEP, 0);
	push(OTHER, WHOLE, 0);
	event(MAIN, TFMT_PHASE_BEGIN, TFMT_PHASE_BACKWARD, 0, 0);
	event(MAIN, TFMT_LOST, 0, 3, 0);
	event(OTHER, TFMT_PHASE_BEGIN, TFMT_PHASE_BACKWARD, 0, 0);
	allocate(AUTOGRAD); /* there is but one caller */
	event(OTHER, TFMT_PHASE_BEGIN, TFMT_PHASE_BACKWARD, 0, 2);
	event(OTHER, TFMT_PHASE_END, TFMT_PHASE_BACKWARD, 0, 0);
	allocate(AUTOGRAD);
	check((const char *const[]){ "whole", "", NULL });
}

/* A range that is started and never ended again and again: the first ones count, and nothing grows with each. */
static void ranges_that_never_end(void **state)
{
	struct tfmt_event ev = { .kind = TFMT_RANGE_START, .address = STEP, .thread = MAIN };
	struct tfmt_event alloc = { .kind = TFMT_TENSOR_ALLOC, .thread = MAIN };
	struct tfmt_reader *reader;
	struct range *list;
	struct ranges r;
	uint32_t path, nr_nodes;

	(void)state;
	begin();
	synthetic_close(&s, 0);
	assert_int_equal(tfmt_reader_open(&reader, TRACE, NULL), 0);
	ranges_init(&r, reader);
	for (ev.aux = 0; ev.aux < 64; ev.aux++) {
		ev.address = ev.aux % 2 ? STEP : WHOLE;
		ranges_apply(&r, &ev);
	}
	path = ranges_path(&r, &alloc);
	assert_int_equal(ranges_depth(&r, path), 64);
	assert_int_equal(r.figures.nr_left_out, 0);
	nr_nodes = r.nr_nodes;
	for (; ev.aux < 10000; ev.aux++) {
		ranges_apply(&r, &ev);
		assert_int_equal(ranges_path(&r, &alloc), path);
	}
	assert_int_equal(r.nr_nodes, nr_nodes);
	assert_int_equal(r.figures.nr_left_out, 10000 - 64);
	list = ranges_list(&r, path);
	for (uint32_t k = 0; k < 64; k++) {
		assert_int_equal(list[k].name, k % 2 ? STEP : WHOLE);
		assert_int_equal(ranges_of_path(&r, path, k).name, list[k].name);
	}
	free(list);
	ranges_damaged(&r);
	assert_int_equal(ranges_path(&r, &alloc), 0);
	ranges_release(&r);
	tfmt_reader_close(reader);
}

static void a_loss_closes_the_ranges_of_its_thread(void **state)
{
	(void)state;
	begin();
	push(MAIN, STEP, 0);
	push(OTHER, STEP, 0);
	event(MAIN, TFMT_LOST, 0, 3, 0);
	allocate(MAIN);
	allocate(OTHER);
	push(MAIN, FORWARD, 0);
	allocate(MAIN);
	check((const char *const[]){ "", "step", "forward", NULL });
}

static void dispatch_modes_are_no_places(void **state)
{
	(void)state;
	begin();
	push(MAIN, STEP, 0);
	push(MAIN, FORWARD, 0);
	push(MAIN, MODE, 0);
	push(MAIN, FORWARD, 0);
	allocate(MAIN);
	push(MAIN, FORWARD, 0); /* without a mode between them they are two */
	allocate(MAIN);
	check((const char *const[]){ "step > forward", "step > forward > forward", NULL });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(threads_have_their_own_ranges),
		cmocka_unit_test(domains_are_left_in_any_order),
		cmocka_unit_test(ranges_of_the_process_are_all_threads),
		cmocka_unit_test(backward_lies_in_its_callers_ranges),
		cmocka_unit_test(a_lost_end_of_backward),
		cmocka_unit_test(ranges_that_never_end),
		cmocka_unit_test(a_loss_closes_the_ranges_of_its_thread),
		cmocka_unit_test(dispatch_modes_are_no_places),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
