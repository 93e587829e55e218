/* SPDX-License-Identifier: MIT */
/* Hooks, custom Functions and plain calls, by the frames that PyTorch's versions leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/stacks/framekind.h"

#define MODULE "/site-packages/torch/nn/modules/module.py"
#define PYTHON(of_file, of_function) { .python = true, .file = (of_file), .function = (of_function) }

/* Of a stack whose site is its first frame. */
static enum frame_kind kind(struct stack_frame function, struct stack_frame by)
{
	struct stack_frame frame[] = { function, { .function = "THPFunction_apply" }, by };
	struct stack stack = { .frame = frame, .nr_frames = 3 };

	return frame_kind_of(&stack, 0);
}

static void forward_is_no_hook(void **state)
{
	const struct stack_frame call = PYTHON(MODULE, "Module._call_impl"), old = PYTHON(MODULE, "_call_impl");
	const struct stack_frame inner = PYTHON(MODULE, "Module._call_impl.<locals>.inner");
	const struct stack_frame forward = PYTHON("net.py", "Net.forward"), plain = PYTHON("net.py", "forward");
	const struct stack_frame replaced = PYTHON("fast.py", "patch.<locals>.new_forward");

	(void)state;
	assert_int_equal(kind(forward, call), FRAME_PLAIN);
	assert_int_equal(kind(forward, inner), FRAME_PLAIN);
	assert_int_equal(kind(plain, old), FRAME_PLAIN);
	assert_int_equal(kind(replaced, call), FRAME_PLAIN);
}

static void hooks_are_known_by_their_callers(void **state)
{
	const struct stack_frame inner = PYTHON(MODULE, "Module._call_impl.<locals>.inner");
	const struct stack_frame full = PYTHON("/torch/utils/hooks.py", "BackwardHook.setup_output_hook.<locals>.fn");
	const struct stack_frame hook = PYTHON("train.py", "Probe.__call__"), node = { .node = true };

	(void)state;
	assert_int_equal(kind(hook, inner), FRAME_HOOK);
	assert_int_equal(kind(hook, full), FRAME_HOOK);
	assert_int_equal(kind(hook, node), FRAME_HOOK);
}

static void what_a_module_calls_otherwise_is_plain(void **state)
{
	const struct stack_frame apply = PYTHON(MODULE, "Module.apply"), fill = PYTHON("train.py", "fill");
	const struct stack_frame main = PYTHON("train.py", "main");

	(void)state;
	assert_int_equal(kind(fill, apply), FRAME_PLAIN);
	assert_int_equal(kind(fill, main), FRAME_PLAIN);
}

static void a_custom_function_has_a_context(void **state)
{
	const struct stack_frame apply = PYTHON("/torch/autograd/function.py", "Function.apply");
	const struct stack_frame forward = PYTHON("train.py", "Doubled.forward");

	(void)state;
	assert_int_equal(kind(forward, apply), FRAME_CONTEXT);
}

static void a_hook_may_leave_the_work_to_others(void **state)
{
	struct stack_frame frame[] = {
		PYTHON("keep.py", "Store.add"),
		PYTHON("train.py", "remember"),
		PYTHON(MODULE, "Module._call_impl.<locals>.inner"),
		PYTHON(MODULE, "Module._call_impl"),
		PYTHON("train.py", "main"),
	};
	struct stack stack = { .frame = frame, .nr_frames = 5 };

	(void)state;
	assert_int_equal(frame_kind_of(&stack, 0), FRAME_HOOK);
	frame[1].function = "Net.forward";
	assert_int_equal(frame_kind_of(&stack, 0), FRAME_PLAIN);
}

static void a_module_with_hooks_is_called_another_way(void **state)
{
	struct stack_frame frame[] = {
		PYTHON("/torch/nn/modules/linear.py", "Linear.forward"),
		PYTHON(MODULE, "Module._call_impl"),
		PYTHON("net.py", "Net.forward"),
		PYTHON(MODULE, "inner"),
		PYTHON(MODULE, "_call_impl"),
	};
	struct stack stack = { .frame = frame, .nr_frames = 5 };

	(void)state;
	assert_int_equal(frame_module_of(&stack), FRAME_WITHIN_HOOKED);
	assert_int_equal(frame_hooked_call(&stack), 3);
	stack.frame += 2; /* what Net.forward itself makes */
	stack.nr_frames = 3;
	assert_int_equal(frame_module_of(&stack), FRAME_HOOKED);
	stack.frame = frame;
	assert_int_equal(frame_hooked_call(&stack), stack.nr_frames);
	assert_int_equal(frame_module_of(&stack), FRAME_MODULE);
	stack.nr_frames = 1;
	assert_int_equal(frame_module_of(&stack), FRAME_NO_MODULE);
	frame[0] = (struct stack_frame){ .node = true, .function = "AddmmBackward0" };
	stack.nr_frames = 5;
	assert_int_equal(frame_module_of(&stack), FRAME_NO_MODULE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(forward_is_no_hook),
		cmocka_unit_test(hooks_are_known_by_their_callers),
		cmocka_unit_test(what_a_module_calls_otherwise_is_plain),
		cmocka_unit_test(a_custom_function_has_a_context),
		cmocka_unit_test(a_hook_may_leave_the_work_to_others),
		cmocka_unit_test(a_module_with_hooks_is_called_another_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
