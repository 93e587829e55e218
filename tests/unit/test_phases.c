/* SPDX-License-Identifier: MIT */
/* Phases of training: by the engine's events, by PyTorch's frames, by what comes before the first step. */
#include "synthetic.h"

#include "analyzer/training/phases.h"

#define PACKAGES "/venv/lib/site-packages"

static uint32_t nr_frames;

/* A stack of one more frame; returns its id. */
static uint32_t frame(struct synthetic *s, uint32_t parent, const char *function, const char *file)
{
	uint32_t id = TFMT_STACK_FIRST + nr_frames++;

	synthetic_code(s, id, function, file, 1);
	synthetic_frame(s, id, parent, TFMT_FRAME_PYTHON, id, 0);
	return id;
}

static void allocate(struct synthetic *s, uint32_t stack)
{
	s->python_stack = stack;
	synthetic_event(s, TFMT_TENSOR_ALLOC, 0, 0x1000 + s->time_ns, 512, 1 << 20);
}

/* The phases of all events of the trace, in their order. */
static void check(const char *path, const enum phase *expected, size_t nr)
{
	struct tfmt_reader *reader;
	struct phases phases = { 0 };
	struct tfmt_event ev;
	size_t i = 0;

	assert_int_equal(tfmt_reader_open(&reader, path, NULL), 0);
	phases.reader = reader;
	while (tfmt_reader_next(reader, &ev) > 0) {
		assert_true(i < nr);
		assert_string_equal(phase_names[phases_next(&phases, &ev)], phase_names[expected[i++]]);
	}
	assert_int_equal(i, nr);
	phases_release(&phases);
	tfmt_reader_close(reader);
}

static struct synthetic begin(void)
{
	struct tfmt_header header = synthetic_header(7);
	struct synthetic s;

	nr_frames = 0;
	synthetic_open(&s, "a.vtr", &header);
	return s;
}

static void test_frames(void **state)
{
	static const enum phase expected[] = {
		PHASE_INIT,      /* the program's own code, before anything else */
		PHASE_INIT,      /* through nn.Linear.__init__ */
		PHASE_OPTIMIZER, /* before the first step */
		PHASE_INIT,      /* an optimizer's construction tells nothing */
		PHASE_INIT,      /* a recurrent layer that is moved puts its weights together */
		PHASE_FORWARD,   /* a function of torch.nn */
		PHASE_FORWARD,   /* a recurrent layer that puts its weights together when it is called */
		PHASE_FORWARD,   /* a module of the program's, by PyTorch's frame around it */
		PHASE_FORWARD,   /* forward inside an optimizer's step: the innermost counts */
		PHASE_OTHER,     /* what is left of a closure there is not the optimizer's */
		PHASE_OPTIMIZER, /* zero_grad of a module */
		PHASE_OTHER,     /* the program's own code, from now on */
	};
	struct synthetic s = begin();
	uint32_t main_frame = frame(&s, 0, "<module>", "/home/u/train.py");
	uint32_t step = frame(&s, main_frame, "Optimizer.profile_hook_step.<locals>.wrapper",
			      PACKAGES "/torch/optim/optimizer.py");
	uint32_t call = frame(&s, main_frame, "Module._call_impl", PACKAGES "/torch/nn/modules/module.py");
	uint32_t closure = frame(&s, step, "closure", "/home/u/train.py");
	uint32_t to = frame(&s, main_frame, "Module.to", PACKAGES "/torch/nn/modules/module.py");
	uint32_t apply = frame(&s, frame(&s, to, "RNNBase._apply", PACKAGES "/torch/nn/modules/rnn.py"), "RNNBase._init_flat_weights",
			       PACKAGES "/torch/nn/modules/rnn.py");
	uint32_t rnn = frame(&s, call, "Net.forward", "/home/u/train.py");

	(void)state;
	allocate(&s, main_frame);
	allocate(&s, frame(&s, main_frame, "Linear.__init__", PACKAGES "/torch/nn/modules/linear.py"));
	allocate(&s, frame(&s, step, "Lion.step", "/home/u/lion.py"));
	allocate(&s, frame(&s, main_frame, "AdamW.__init__", PACKAGES "/torch/optim/adamw.py"));
	allocate(&s, frame(&s, apply, "RNNBase.flatten_parameters", PACKAGES "/torch/nn/modules/rnn.py"));
	allocate(&s, frame(&s, main_frame, "gelu", PACKAGES "/torch/nn/functional.py"));
	allocate(&s, frame(&s, rnn, "RNNBase.flatten_parameters", PACKAGES "/torch/nn/modules/rnn.py"));
	allocate(&s, frame(&s, call, "Net.forward", "/home/u/train.py"));
	allocate(&s, frame(&s, closure, "relu", PACKAGES "/torch/nn/functional.py"));
	allocate(&s, frame(&s, closure, "log", "/home/u/log.py"));
	allocate(&s, frame(&s, main_frame, "Module.zero_grad", PACKAGES "/torch/nn/modules/module.py"));
	allocate(&s, main_frame);
	synthetic_close(&s, 0);
	check("a.vtr", expected, sizeof(expected) / sizeof(expected[0]));
}

static void test_backward(void **state)
{
	static const enum phase expected[] = {
		PHASE_FORWARD,   /* an operation that made a node */
		PHASE_BACKWARD,  /* begin */
		PHASE_BACKWARD,  /* begin, nested */
		PHASE_BACKWARD,  /* end */
		PHASE_BACKWARD,  /* on the thread that called it */
		PHASE_OTHER,     /* on another one */
		PHASE_BACKWARD,  /* on another one, in a node */
		PHASE_OPTIMIZER, /* a step from within backward */
		PHASE_BACKWARD,  /* end */
		PHASE_OTHER,
	};
	struct synthetic s = begin();
	uint32_t main_frame = frame(&s, 0, "<module>", "/home/u/train.py");
	uint32_t node = TFMT_STACK_FIRST + nr_frames++;
	uint32_t step = frame(&s, node, "SGD.step", PACKAGES "/torch/optim/sgd.py");

	(void)state;
	synthetic_frame(&s, node, main_frame, TFMT_FRAME_NODE, 1, 1);
	s.thread = 1;
	s.flags = TFMT_FLAG_FORWARD;
	allocate(&s, main_frame);
	s.flags = 0;
	s.python_stack = 0;
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 1);
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 1);
	allocate(&s, main_frame);
	s.thread = 2;
	allocate(&s, main_frame);
	s.flags = TFMT_FLAG_BACKWARD;
	allocate(&s, node);
	allocate(&s, step);
	s.flags = 0;
	s.thread = 1;
	s.python_stack = 0;
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	allocate(&s, main_frame);
	synthetic_close(&s, 0);
	check("a.vtr", expected, sizeof(expected) / sizeof(expected[0]));
}

/* The end of a pass is lost, with the recorder's word or in a damaged place; nested ones, too. */
static void test_lost_end(void **state)
{
	static const enum phase expected[] = {
		PHASE_BACKWARD, /* begin */
		PHASE_OTHER,    /* events of another thread were lost */
		PHASE_BACKWARD, /* here still */
		PHASE_OTHER,    /* events of this thread were lost, too */
		PHASE_OTHER,
		PHASE_BACKWARD, /* begin again */
		PHASE_BACKWARD, /* a nested end whose begin was lost */
		PHASE_BACKWARD,
		PHASE_BACKWARD, /* end */
		PHASE_OTHER,
	};
	struct synthetic s = begin();
	uint32_t main_frame = frame(&s, 0, "<module>", "/home/u/train.py");

	(void)state;
	s.thread = 1;
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	s.thread = 2;
	synthetic_event(&s, TFMT_LOST, TFMT_DEVICE_NONE, 0, 3, 0);
	s.thread = 1;
	allocate(&s, main_frame);
	s.python_stack = 0;
	synthetic_event(&s, TFMT_LOST, TFMT_DEVICE_NONE, 0, 3, 0);
	allocate(&s, main_frame);
	s.python_stack = 0;
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 1);
	allocate(&s, main_frame);
	s.python_stack = 0;
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	allocate(&s, main_frame);
	synthetic_close(&s, 0);
	check("a.vtr", expected, sizeof(expected) / sizeof(expected[0]));
}

static void test_damage_ends_passes(void **state)
{
	struct tfmt_event begun = { .kind = TFMT_PHASE_BEGIN, .address = TFMT_PHASE_BACKWARD, .thread = 1 };
	struct tfmt_event later = { .kind = TFMT_DRIVER_ALLOC, .thread = 1 };
	struct phases phases = { 0 };

	(void)state;
	phases_next(&phases, &begun);
	assert_int_equal(phases_next(&phases, &later), PHASE_BACKWARD);
	phases_damaged(&phases);
	assert_int_equal(phases_next(&phases, &later), PHASE_OTHER);
	phases_release(&phases);
}

/* Stack ids and thread ids that cannot be right, and stacks that are not defined. */
static void test_damaged(void **state)
{
	static const enum phase expected[] = { PHASE_INIT, PHASE_INIT, PHASE_INIT };
	struct synthetic s = begin();

	(void)state;
	allocate(&s, 0xfffffff0u);
	s.thread = 0xfffffff0u;
	allocate(&s, TFMT_STACK_FIRST + 5);
	allocate(&s, TFMT_STACK_NO_PYTHON);
	synthetic_close(&s, 0);
	check("a.vtr", expected, sizeof(expected) / sizeof(expected[0]));
}

static void push(struct synthetic *s, uint32_t name, const char *text)
{
	uint8_t buf[64], *p = tfmt_put_string(buf, text, strlen(text));

	synthetic_define(s, TFMT_DEF_STRING, name, buf, p);
	s->python_stack = 0;
	synthetic_event(s, TFMT_RANGE_PUSH, TFMT_DEVICE_NONE, name, 0, 0);
}

static void pop(struct synthetic *s)
{
	s->python_stack = 0;
	synthetic_event(s, TFMT_RANGE_POP, TFMT_DEVICE_NONE, 0, 0, 0);
}

/* An optimizer written by hand has no frame that tells: the program names it. */
static void test_named(void **state)
{
	static const enum phase expected[] = {
		PHASE_INIT,      /* a range that names no phase */
		PHASE_FORWARD,   /* "Forward 3" */
		PHASE_FORWARD,   /* the program's own code there */
		PHASE_FORWARD,   /* in a range inside it, too */
		PHASE_FORWARD,
		PHASE_FORWARD,
		PHASE_OPTIMIZER, /* an optimizer's frame holds */
		PHASE_OTHER,     /* on another thread nothing is named */
		PHASE_OTHER,     /* the end of "Forward 3" */
		PHASE_OPTIMIZER, /* "optimizer.step" */
		PHASE_OPTIMIZER, /* its own code */
		PHASE_OPTIMIZER, /* what would be forward by its frames */
		PHASE_BACKWARD,  /* a pass of the engine's */
		PHASE_BACKWARD,
		PHASE_BACKWARD,
		PHASE_OTHER,     /* the end */
		PHASE_OTHER,
		PHASE_OTHER,     /* one end too many */
	};
	struct synthetic s = begin();
	uint32_t main_frame = frame(&s, 0, "<module>", "/home/u/train.py");
	uint32_t step = frame(&s, main_frame, "Lion.step", PACKAGES "/torch/optim/lion.py");
	uint32_t gelu = frame(&s, main_frame, "gelu", PACKAGES "/torch/nn/functional.py");

	(void)state;
	s.thread = 1;
	push(&s, 900, "step 3");
	push(&s, 901, "Forward 3");
	allocate(&s, main_frame);
	push(&s, 902, "attention");
	allocate(&s, main_frame);
	pop(&s);
	allocate(&s, step);
	s.thread = 2;
	allocate(&s, main_frame);
	s.thread = 1;
	pop(&s);
	push(&s, 903, "optimizer.step");
	allocate(&s, main_frame);
	allocate(&s, gelu);
	s.python_stack = 0;
	synthetic_event(&s, TFMT_PHASE_BEGIN, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	allocate(&s, gelu);
	s.python_stack = 0;
	synthetic_event(&s, TFMT_PHASE_END, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
	pop(&s);
	pop(&s);
	pop(&s);
	synthetic_close(&s, 0);
	check("a.vtr", expected, sizeof(expected) / sizeof(expected[0]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_frames, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_backward, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_lost_end, synthetic_enter, synthetic_leave),
		cmocka_unit_test(test_damage_ends_passes),
		cmocka_unit_test_setup_teardown(test_named, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_damaged, synthetic_enter, synthetic_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
