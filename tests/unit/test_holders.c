/* SPDX-License-Identifier: MIT */
/* Who held memory: grouping by stack and by site, shapes, the frame that stands for a stack. */
#include "synthetic.h"

#include "analyzer/holders/holders.h"
#include "analyzer/stacks/element.h"
#include "analyzer/replay/replay.h"

#define KiB 1024ull
#define TRACE "host.1.1.vtr"

/*
 * main calls make() from two lines; make() calls PyTorch, which allocates:
 *   3 main -> 4 make -> 5 torch      6 main (other position) -> 7 make -> 8 torch
 */
static void write_trace(void)
{
	struct tfmt_header header = synthetic_header(1);
	struct synthetic s;

	synthetic_open(&s, TRACE, &header);
	synthetic_code(&s, 1, "main", "/src/train.py", 10);
	synthetic_code(&s, 2, "make", "/src/model.py", 20);
	synthetic_code(&s, 3, "empty", "/venv/site-packages/torch/functional.py", 30);
	synthetic_frame(&s, 3, 0, TFMT_FRAME_PYTHON, 1, 0);
	synthetic_frame(&s, 4, 3, TFMT_FRAME_PYTHON, 2, 0);
	synthetic_frame(&s, 5, 4, TFMT_FRAME_PYTHON, 3, 0);
	synthetic_frame(&s, 6, 0, TFMT_FRAME_PYTHON, 1, 5);
	synthetic_frame(&s, 7, 6, TFMT_FRAME_PYTHON, 2, 0);
	synthetic_frame(&s, 8, 7, TFMT_FRAME_PYTHON, 3, 0);
	synthetic_shape(&s, 1, 6, 4 * KiB, 1024);
	synthetic_shape(&s, 2, 15, 2 * KiB, 1024);
	s.python_stack = 5;
	s.shape = 1;
	for (uint64_t i = 0; i < 3; i++)
		synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x10000 + 0x1000 * i, 4 * KiB, 0);
	s.shape = 2;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x20000, 2 * KiB, 0);
	s.python_stack = 8;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x30000, 2 * KiB, 0);
	s.python_stack = TFMT_STACK_NO_PYTHON;
	s.shape = 0;
	s.thread = 1;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x40000, 64 * KiB, 0);
	s.thread = 2;
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x50000, 32 * KiB, 0);
	synthetic_close(&s, 0);
}

static struct replay m;
static struct holders h;

static void find(enum holders_by by)
{
	static const struct replay_options quiet = { .quiet = true };
	struct holders_query q = { .of = HOLDERS_TENSORS, .by = by, .mark = MARK_END };

	write_trace();
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	q.process = &m.process[0];
	holders_find(&h, &m, &q);
	assert_int_equal(h.total.bytes, 112 * KiB);
	assert_int_equal(h.total.blocks, 7);
}

static void forget(void)
{
	holders_release(&h);
	replay_release(&m);
}

static void stacks_are_kept_apart(void **state)
{
	(void)state;
	find(HOLDERS_BY_STACK);
	assert_int_equal(h.nr_holders, 4);
	assert_int_equal(h.holder[0].figures.bytes,
			 64 * KiB); /* threads without Python are kept apart, too */
	assert_int_equal(h.holder[1].figures.bytes, 32 * KiB);
	assert_int_equal(h.holder[2].figures.bytes, 14 * KiB);
	assert_int_equal(h.holder[2].figures.blocks, 4);
	assert_int_equal(h.holder[2].nr_shapes, 2);
	assert_int_equal(h.holder[2].shape[0].shape, 1);
	assert_int_equal(h.holder[2].shape[0].figures.blocks, 3);
	assert_int_equal(h.holder[2].shape[1].figures.bytes, 2 * KiB);
	assert_int_equal(h.holder[3].figures.bytes, 2 * KiB);
	forget();
}

static void one_site_is_one_holder(void **state)
{
	(void)state;
	find(HOLDERS_BY_SITE);
	assert_int_equal(h.nr_holders, 3);
	assert_int_equal(h.holder[2].figures.bytes, 16 * KiB);
	assert_int_equal(h.holder[2].nr_stacks, 2);
	assert_int_equal(h.holder[2].nr_shapes, 2);
	assert_int_equal(h.holder[2].largest->python_stack, 5);
	forget();
}

static void the_site_is_the_innermost_frame_outside_pytorch(void **state)
{
	struct stack_source source;
	struct stack stack = { 0 };
	char text[256];

	(void)state;
	find(HOLDERS_BY_STACK);
	source = replay_stack_source(&m, &m.process[0]);
	stack_expand(&stack, &source, 5, 0);
	assert_int_equal(stack.nr_frames, 3);
	assert_true(stack.frame[0].framework);
	assert_int_equal(stack_site(&stack), 1);
	assert_string_equal(stack_frame_text(text, sizeof(text), &stack.frame[1]),
			    "/src/model.py:20 in make");
	stack_expand(&stack, &source, TFMT_STACK_NO_PYTHON, TFMT_STACK_NOT_CAPTURED);
	assert_int_equal(stack_site(&stack), -1);
	stack_release(&stack);
	forget();
}

static void shapes_are_written_as_pytorch_does(void **state)
{
	const uint64_t dims[] = { 32, 1024, 768 };
	uint64_t many[64] = { 0 };
	struct tfmt_shape shape = { .element_type = 15, .nr_dims = 3, .dims = dims };
	char text[SHAPE_TEXT_MAX];

	(void)state;
	assert_string_equal(shape_text(text, &shape), "bfloat16 [32, 1024, 768]");
	shape.nr_dims = 0;
	assert_string_equal(shape_text(text, &shape), "bfloat16 []");
	shape = (struct tfmt_shape){ .element_type = 6, .nr_dims = 64, .dims = many };
	memset(many, 0xff, sizeof(many));
	shape_text(text, &shape);
	assert_true(strlen(text) < SHAPE_TEXT_MAX);
	assert_string_equal(text + strlen(text) - 6, ", ...]");
	assert_string_equal(element_name(1000), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_are_kept_apart),
		cmocka_unit_test(one_site_is_one_holder),
		cmocka_unit_test(the_site_is_the_innermost_frame_outside_pytorch),
		cmocka_unit_test(shapes_are_written_as_pytorch_does),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
