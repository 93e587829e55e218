/* SPDX-License-Identifier: MIT */
/* Python and native frames in the one order in which they called each other, and the one that stands for them. */
#include "synthetic.h"

#include "analyzer/replay/replay.h"
#include "analyzer/stacks/stack.h"

#define TRACE "host.1.1.vtr"

/* Python: main -> sort (called by native code) -> key -> deeper. Ids of each stack's innermost frames. */
enum { MAIN = 10, SORT, KEY, DEEPER, APART };
/* Native: start -> loop (runs main) -> sorted -> loop (runs sort, key, deeper) -> torch. */
enum { START = 20, LOOP, SORTED, LOOP_AGAIN, TORCH };
/* The same without its root; in backward: what a node runs, on the frames of forward. */
enum { CUT = 30, CUT_LOOP, CUT_TORCH, NODE = 40, IN_NODE };
/* What torch.compile has generated for main, and a file of the program's own that is named nearly so. */
enum { GENERATED = 50, NEARLY };
#define HASH "chokkyebhleueqtij6zjlyimufxm2i5r7vfm3zebhwy6ptpgng7a"

static void write_trace(void)
{
	struct tfmt_header header = synthetic_header(1);
	struct synthetic s;

	synthetic_open(&s, TRACE, &header);
	synthetic_code(&s, 1, "main", "/src/train.py", 10);
	synthetic_code(&s, 2, "sort", "/src/train.py", 20);
	synthetic_code(&s, 3, "key", "/src/train.py", 30);
	synthetic_code(&s, 4, "deeper", "/src/train.py", 40);
	synthetic_frame(&s, MAIN, 0, TFMT_FRAME_PYTHON_ENTRY, 1, 0);
	synthetic_frame(&s, SORT, MAIN, TFMT_FRAME_PYTHON_ENTRY, 2, 0);
	synthetic_frame(&s, KEY, SORT, TFMT_FRAME_PYTHON, 3, 0);
	synthetic_frame(&s, DEEPER, KEY, TFMT_FRAME_PYTHON, 4, 0);
	synthetic_frame(&s, APART, DEEPER, TFMT_FRAME_PYTHON_ENTRY, 4, 0);
	synthetic_frame(&s, START, 0, TFMT_FRAME_NATIVE, 0x100, 0);
	synthetic_frame(&s, LOOP, START, TFMT_FRAME_NATIVE, 0x200, 1);
	synthetic_frame(&s, SORTED, LOOP, TFMT_FRAME_NATIVE, 0x300, 0);
	synthetic_frame(&s, LOOP_AGAIN, SORTED, TFMT_FRAME_NATIVE, 0x200, 1);
	synthetic_frame(&s, TORCH, LOOP_AGAIN, TFMT_FRAME_NATIVE, 0x400, 0);
	synthetic_frame(&s, CUT, 0, TFMT_FRAME_CUT, 0, 0);
	synthetic_frame(&s, CUT_LOOP, CUT, TFMT_FRAME_NATIVE, 0x200, 1);
	synthetic_frame(&s, CUT_TORCH, CUT_LOOP, TFMT_FRAME_NATIVE, 0x400, 0);
	synthetic_frame(&s, NODE, DEEPER, TFMT_FRAME_NODE, 0, 1);
	synthetic_frame(&s, IN_NODE, NODE, TFMT_FRAME_PYTHON_ENTRY, 3, 0);
	synthetic_code(&s, 5, "call", "/data/cache/ho/" HASH ".py", 50);
	synthetic_code(&s, 6, "call", "/data/cache/oh/" HASH ".py", 60);
	synthetic_frame(&s, GENERATED, MAIN, TFMT_FRAME_PYTHON, 5, 0);
	synthetic_frame(&s, NEARLY, MAIN, TFMT_FRAME_PYTHON, 6, 0);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x10000, 4096, 0);
	synthetic_close(&s, 0);
}

/* The stack as names: of Python functions, and "100" for a native address. */
static void assert_order(uint32_t python, uint32_t native, const char *expected)
{
	static const struct replay_options quiet = { .quiet = true };
	struct stack_source source;
	struct stack stack = { 0 };
	char order[256] = "", *at = order;
	struct replay m = REPLAY_INIT;

	write_trace();
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	source = replay_stack_source(&m, &m.process[0]);
	stack_expand(&stack, &source, python, native);
	for (uint32_t i = 0; i < stack.nr_frames; i++) {
		const struct stack_frame *f = &stack.frame[i];

		if (f->cut)
			at += sprintf(at, "%scut", i ? " " : "");
		else if (f->node)
			at += sprintf(at, "%snode", i ? " " : "");
		else if (f->python)
			at += sprintf(at, "%s%s", i ? " " : "", f->function);
		else
			at += sprintf(at, "%s%llx", i ? " " : "", (unsigned long long)f->offset);
	}
	assert_string_equal(order, expected);
	stack_release(&stack);
	replay_release(&m);
}

static void python_frames_stand_where_native_ones_run_them(void **state)
{
	(void)state;
	assert_order(DEEPER, TORCH, "400 deeper key sort 200 300 main 200 100");
}

static void one_stack_alone_is_as_it_was(void **state)
{
	(void)state;
	assert_order(DEEPER, 0, "deeper key sort main");
	assert_order(TFMT_STACK_NO_PYTHON, TORCH, "400 200 300 200 100");
}

static void stacks_that_do_not_match_stay_apart(void **state)
{
	(void)state;
	assert_order(MAIN, TORCH, "main 400 200 300 200 100");
	assert_order(APART, TORCH, "deeper deeper key sort main 400 200 300 200 100");
}

static void what_is_left_out_at_the_root_does_no_harm(void **state)
{
	(void)state;
	assert_order(DEEPER, CUT_TORCH, "400 deeper key sort 200 cut main");
}

static void forward_comes_behind_the_thread_that_runs_its_node(void **state)
{
	(void)state;
	assert_order(NODE, START, "100 node deeper key sort main");
	assert_order(IN_NODE, CUT_TORCH, "400 key 200 cut node deeper key sort main");
}

static void assert_site(uint32_t python, const char *expected)
{
	static const struct replay_options quiet = { .quiet = true };
	struct stack_source source;
	struct stack stack = { 0 };
	struct replay m = REPLAY_INIT;

	write_trace();
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	source = replay_stack_source(&m, &m.process[0]);
	stack_expand(&stack, &source, python, 0);
	assert_string_equal(stack.frame[stack_site(&stack)].function, expected);
	stack_release(&stack);
	replay_release(&m);
}

static void generated_code_is_not_the_programs_line(void **state)
{
	(void)state;
	assert_site(GENERATED, "main");
	assert_site(NEARLY, "call");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(python_frames_stand_where_native_ones_run_them),
		cmocka_unit_test(one_stack_alone_is_as_it_was),
		cmocka_unit_test(stacks_that_do_not_match_stay_apart),
		cmocka_unit_test(what_is_left_out_at_the_root_does_no_harm),
		cmocka_unit_test(forward_comes_behind_the_thread_that_runs_its_node),
		cmocka_unit_test(generated_code_is_not_the_programs_line),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
