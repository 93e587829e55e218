/* SPDX-License-Identifier: MIT */
/* Which frames are PyTorch's own, wherever it lies: a checkout it was built in, or a folder chosen for it. */
#include "synthetic.h"

#include "analyzer/replay/replay.h"
#include "analyzer/stacks/stack.h"

#define TRACE "host.1.1.vtr"

enum { START = 10, MAIN, HELPER, LINEAR, MATMUL };

/* Native start, main, a helper beside PyTorch's folder, PyTorch's Python in `folder`, its library in `folder`. */
static void write_trace(const char *folder)
{
	struct tfmt_header header = synthetic_header(1);
	char path[256];
	struct synthetic s;

	synthetic_open(&s, TRACE, &header);
	snprintf(path, sizeof(path), "%s/torch/lib/libtorch_python.so", folder);
	synthetic_module(&s, 1, 0x1000, 0x2000, path);
	snprintf(path, sizeof(path), "%s/torch/lib/libtorch_cpu.so", folder);
	synthetic_module(&s, 2, 0x3000, 0x4000, path);
	synthetic_module(&s, 3, 0x5000, 0x6000, "/home/me/native/torch/train.so");
	synthetic_code(&s, 1, "main", "/home/me/train/torch/train.py", 10);
	snprintf(path, sizeof(path), "%s/torchhelp/help.py", folder);
	synthetic_code(&s, 2, "help", path, 20);
	snprintf(path, sizeof(path), "%s/torch/nn/modules/linear.py", folder);
	synthetic_code(&s, 3, "Linear.forward", path, 30);
	synthetic_frame(&s, START, 0, TFMT_FRAME_NATIVE, 0x5100, 0);
	synthetic_frame(&s, MAIN, START, TFMT_FRAME_PYTHON, 1, 0);
	synthetic_frame(&s, HELPER, MAIN, TFMT_FRAME_PYTHON, 2, 0);
	synthetic_frame(&s, LINEAR, HELPER, TFMT_FRAME_PYTHON, 3, 0);
	synthetic_frame(&s, MATMUL, LINEAR, TFMT_FRAME_NATIVE, 0x3100, 0);
	synthetic_event(&s, TFMT_TENSOR_ALLOC, 0, 0x10000, 4096, 0);
	synthetic_close(&s, 0);
}

static void assert_told(const char *folder)
{
	static const struct replay_options quiet = { .quiet = true };
	static const bool framework[] = { true, true, false, false, false };
	struct stack_source source;
	struct stack stack = { 0 };
	struct replay m = REPLAY_INIT;

	write_trace(folder);
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	source = replay_stack_source(&m, &m.process[0]);
	stack_expand(&stack, &source, MATMUL, 0);
	assert_int_equal(stack.nr_frames, 5);
	for (uint32_t i = 0; i < stack.nr_frames; i++)
		assert_int_equal(stack.frame[i].framework, framework[i]);
	assert_string_equal(stack.frame[stack_site(&stack)].function, "help");
	stack_release(&stack);
	replay_release(&m);
}

static void pytorch_in_the_usual_place(void **state)
{
	(void)state;
	assert_told("/usr/lib/python3.11/site-packages");
	assert_told("/usr/lib/python3/dist-packages");
}

static void pytorch_in_a_place_of_its_own(void **state)
{
	(void)state;
	assert_told("/home/me/pytorch");
	assert_told("/opt/wheels");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pytorch_in_the_usual_place),
		cmocka_unit_test(pytorch_in_a_place_of_its_own),
	};

	return cmocka_run_group_tests(tests, synthetic_enter, synthetic_leave);
}
