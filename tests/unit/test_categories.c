/* SPDX-License-Identifier: MIT */
/* Steps, lives of blocks and what the blocks are for, on a made-up loop of training. */
#include "synthetic.h"

#include "analyzer/purpose/category.h"
#include "analyzer/replay/replay.h"

#define PACKAGES "/venv/lib/site-packages"
#define WEIGHT 4096
#define BATCH 512

/* A model of one weight, and the stacks of the loop around it. */
struct loop {
	struct synthetic s;
	uint32_t main, init, forward, node, group, zero, step_frame;
	uint64_t state[2], gradient, input;
	uint64_t next; /* address */
};

static uint32_t nr_frames;

static uint32_t frame(struct synthetic *s, uint32_t parent, const char *function, const char *file)
{
	uint32_t id = TFMT_STACK_FIRST + nr_frames++;

	synthetic_code(s, id, function, file, 1);
	synthetic_frame(s, id, parent, TFMT_FRAME_PYTHON, id, 0);
	return id;
}

static void begin(struct loop *l)
{
	struct tfmt_header header = synthetic_header(7);
	struct synthetic *s = &l->s;

	*l = (struct loop){ .next = 0x10000 };
	nr_frames = 0;
	synthetic_open(s, "a.vtr", &header);
	synthetic_shape(s, 1, 6, WEIGHT, WEIGHT / 4);
	synthetic_shape(s, 2, 6, BATCH, BATCH / 4);
	l->main = frame(s, 0, "<module>", "/home/u/train.py");
	l->init = frame(s, l->main, "Linear.__init__", PACKAGES "/torch/nn/modules/linear.py");
	l->forward = frame(s, l->main, "linear", PACKAGES "/torch/nn/functional.py");
	l->node = TFMT_STACK_FIRST + nr_frames++;
	synthetic_frame(s, l->node, l->forward, TFMT_FRAME_NODE, 1, 1);
	l->step_frame = frame(s, l->main, "Adam.step", PACKAGES "/torch/optim/adam.py");
	l->group = frame(s, l->step_frame, "Adam._init_group", PACKAGES "/torch/optim/adam.py");
	l->zero = frame(s, l->main, "Optimizer.zero_grad", PACKAGES "/torch/optim/optimizer.py");
}

static uint64_t allocate(struct loop *l, uint32_t stack, uint32_t shape, uint64_t size)
{
	uint64_t address = l->next;

	l->next += 0x10000;
	l->s.python_stack = stack;
	l->s.shape = shape;
	synthetic_event(&l->s, TFMT_TENSOR_ALLOC, 0, address, size, 1 << 20);
	return address;
}

static void free_at(struct loop *l, uint32_t stack, uint64_t address, uint64_t size)
{
	l->s.python_stack = stack;
	l->s.shape = 0;
	synthetic_event(&l->s, TFMT_TENSOR_FREE, 0, address, size, 1 << 20);
}

static void pass(struct loop *l, uint8_t kind)
{
	l->s.python_stack = 0;
	synthetic_event(&l->s, kind, TFMT_DEVICE_NONE, TFMT_PHASE_BACKWARD, 0, 0);
}

/* Forward and backward of one batch; the weight's gradient stays, or is added to the one that is there. */
static void cycle(struct loop *l)
{
	uint64_t saved, passing, input = allocate(l, l->main, 2, BATCH), gradient;

	l->s.flags = TFMT_FLAG_FORWARD;
	saved = allocate(l, l->forward, 2, 2 * BATCH);
	passing = allocate(l, l->forward, 2, BATCH);
	l->s.flags = 0;
	free_at(l, l->main, passing, BATCH);
	pass(l, TFMT_PHASE_BEGIN);
	l->s.flags = TFMT_FLAG_BACKWARD;
	gradient = allocate(l, l->node, 1, WEIGHT);
	free_at(l, l->node, saved, 2 * BATCH);
	if (l->gradient)
		free_at(l, l->node, gradient, WEIGHT);
	else
		l->gradient = gradient;
	l->s.flags = 0;
	pass(l, TFMT_PHASE_END);
	if (l->input)
		free_at(l, l->main, l->input, BATCH);
	l->input = input;
}

static void update(struct loop *l)
{
	uint64_t passing;

	for (int i = 0; i < 2 && !l->state[1]; i++)
		l->state[i] = allocate(l, l->group, 1, WEIGHT);
	passing = allocate(l, l->step_frame, 1, WEIGHT);
	free_at(l, l->step_frame, passing, WEIGHT);
}

static void zero_grad(struct loop *l)
{
	if (l->gradient)
		free_at(l, l->zero, l->gradient, WEIGHT);
	l->gradient = 0;
}

static struct replay loaded(struct loop *l)
{
	struct replay_options options = { .lives = true, .quiet = true };
	struct replay m = REPLAY_INIT;

	synthetic_close(&l->s, 0);
	assert_int_equal(replay_load(&m, "a.vtr", &options), 0);
	assert_int_equal(m.nr_devices, 1);
	return m;
}

static uint32_t count_steps(struct loop *l)
{
	struct replay m = loaded(l);
	uint32_t nr = steps_count(&m.process[0].lives->steps);

	replay_release(&m);
	return nr;
}

static void test_plain_loop(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	allocate(&l, l.init, 1, WEIGHT);
	for (int i = 0; i < 5; i++) {
		cycle(&l);
		update(&l);
		zero_grad(&l);
	}
	assert_int_equal(count_steps(&l), 5);
}

static void test_zero_grad_alone(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (int i = 0; i < 5; i++) { /* between forward and backward, an optimizer that allocates nothing */
		zero_grad(&l);
		cycle(&l);
	}
	assert_int_equal(count_steps(&l), 5);
}

/* Forward of a batch without a graph. */
static void evaluate(struct loop *l)
{
	uint64_t input = allocate(l, l->main, 2, BATCH), output = allocate(l, l->forward, 2, BATCH);

	free_at(l, l->main, output, BATCH);
	free_at(l, l->main, input, BATCH);
}

/* The last update leaves no sign, and what follows it is no step. */
static void test_evaluation_comes_last(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (int i = 0; i < 10; i++) {
		if (i % 2 == 0)
			zero_grad(&l);
		cycle(&l);
	}
	evaluate(&l);
	assert_int_equal(count_steps(&l), 5);
}

/* A trainer drops gradients at a line of its own before it evaluates, also after the last step. */
static void test_zero_grad_of_evaluation(void **state)
{
	struct loop l;
	uint32_t validate, zero, own;

	(void)state;
	begin(&l);
	validate = frame(&l.s, l.main, "validate", "/home/u/trainer.py");
	own = l.zero;
	zero = frame(&l.s, validate, "Optimizer.zero_grad", PACKAGES "/torch/optim/optimizer.py");
	for (int i = 0; i < 12; i++) {
		zero_grad(&l);
		cycle(&l);
		if (i % 4 != 3)
			continue;
		l.zero = zero;
		zero_grad(&l);
		l.zero = own;
		evaluate(&l);
	}
	assert_int_equal(count_steps(&l), 12);
}

/* Neither is a batch whose gradients are never used. */
static void test_batch_without_update_comes_last(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (int i = 0; i < 11; i++) {
		cycle(&l);
		if (i % 2 == 0)
			continue;
		update(&l);
		zero_grad(&l);
	}
	evaluate(&l);
	assert_int_equal(count_steps(&l), 5);
}

/* A CUDA graph's replay allocates nothing: only passes and updates are left of a step. */
static void test_forwards_unseen(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (int i = 0; i < 6; i++) {
		if (i < 2)
			cycle(&l);
		else
			allocate(&l, l.main, 2, BATCH);
		pass(&l, TFMT_PHASE_BEGIN);
		pass(&l, TFMT_PHASE_END);
		update(&l);
	}
	assert_int_equal(count_steps(&l), 6);
}

/* Two losses of one forward, each with an optimizer: the second one's graph is still there. */
static void test_updates_between_passes(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (int i = 0; i < 5; i++) {
		uint64_t loss;

		l.s.flags = TFMT_FLAG_FORWARD;
		loss = allocate(&l, l.forward, 2, BATCH);
		l.s.flags = 0;
		for (int k = 0; k < 2; k++) {
			pass(&l, TFMT_PHASE_BEGIN);
			pass(&l, TFMT_PHASE_END);
			update(&l);
		}
		free_at(&l, l.main, loss, BATCH);
	}
	assert_int_equal(count_steps(&l), 5);
}

static void test_accumulation(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (int i = 0; i < 12; i++) {
		cycle(&l);
		if (i % 4 != 3)
			continue;
		update(&l);
		zero_grad(&l);
	}
	assert_int_equal(count_steps(&l), 3);
}

static void test_no_sign_of_updates(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (int i = 0; i < 5; i++)
		cycle(&l);
	assert_int_equal(count_steps(&l), 5);
}

static void test_named_steps(void **state)
{
	struct loop l;

	(void)state;
	begin(&l);
	for (uint32_t i = 0; i < 6; i++) {
		char name[32];
		uint8_t buf[64], *p;

		snprintf(name, sizeof(name), "Iteration %u", i / 2);
		p = tfmt_put_string(buf, name, strlen(name));
		synthetic_define(&l.s, TFMT_DEF_STRING, i + 10, buf, p);
		if (i % 2 == 0)
			synthetic_event(&l.s, TFMT_RANGE_PUSH, TFMT_DEVICE_NONE, i + 10, 0, 0);
		cycle(&l);
		update(&l);
		zero_grad(&l);
		if (i % 2)
			synthetic_event(&l.s, TFMT_RANGE_POP, TFMT_DEVICE_NONE, 0, 0, 0);
	}
	assert_int_equal(count_steps(&l), 3);
}

static struct categories found(struct replay *m, enum group_mark mark, uint64_t total)
{
	struct categories c;
	enum lives_moment moment = categories_moment(&m->process[0], 0, mark);

	categories_find(&c, &m->process[0], 0, moment, total);
	return c;
}

/* The peak of the loop is in the first optimizer.step, or a later one that is as high: the first counts. */
static void test_peak(void **state)
{
	struct categories c;
	struct replay m;
	struct loop l;
	uint64_t peak;

	(void)state;
	begin(&l);
	allocate(&l, l.init, 1, WEIGHT);
	for (int i = 0; i < 3; i++) {
		cycle(&l);
		update(&l);
		zero_grad(&l);
	}
	m = loaded(&l);
	peak = m.device[0].books->allocated_peak_bytes;
	assert_int_equal(peak, 5 * WEIGHT + BATCH);
	assert_int_equal(lives_peak_phase(m.process[0].lives, 0), PHASE_OPTIMIZER);
	c = found(&m, MARK_TENSOR_PEAK, peak);
	assert_int_equal(c.sum[CATEGORY_PARAMETER].bytes, WEIGHT);
	assert_int_equal(c.sum[CATEGORY_GRADIENT].bytes, WEIGHT);
	assert_int_equal(c.sum[CATEGORY_OPTIMIZER_STATE].bytes, 2 * WEIGHT);
	assert_int_equal(c.sum[CATEGORY_TEMPORARY].bytes, WEIGHT);
	assert_int_equal(c.sum[CATEGORY_INPUT].bytes, BATCH);
	assert_int_equal(c.sum[CATEGORY_UNKNOWN].bytes, 0);
	assert_int_equal(c.nr_blocks, 6);
	categories_release(&c);
	replay_release(&m);
}

/* Forward's peak is a moment of its own, and what its blocks beyond their tensors have is rounding. */
static void test_forward(void **state)
{
	const struct lives_at *at;
	struct categories c;
	struct replay m;
	struct loop l;

	(void)state;
	begin(&l);
	allocate(&l, l.init, 1, WEIGHT);
	cycle(&l);
	m = loaded(&l);
	at = &m.process[0].lives->device[0]->moment[LIVES_PEAK_OF_PHASE + PHASE_FORWARD];
	assert_int_equal(at->bytes, WEIGHT + 4 * BATCH);
	categories_find(&c, &m.process[0], 0, LIVES_PEAK_OF_PHASE + PHASE_FORWARD, at->bytes);
	assert_int_equal(c.sum[CATEGORY_ACTIVATION].bytes, BATCH);
	assert_int_equal(c.rounding_bytes, BATCH);
	assert_int_equal(c.sum[CATEGORY_UNKNOWN].bytes, BATCH);
	assert_int_equal(c.sum[CATEGORY_TEMPORARY].bytes, BATCH);
	assert_int_equal(c.sum[CATEGORY_INPUT].bytes, BATCH);
	categories_release(&c);
	replay_release(&m);
}

/* Nothing tells forward without stacks: what it leaves for backward is taken for no data. */
static void test_no_stacks(void **state)
{
	uint64_t weight, saved, gradient;
	struct categories c;
	struct replay m;
	struct loop l;

	(void)state;
	begin(&l);
	weight = allocate(&l, 0, 1, WEIGHT);
	for (int i = 0; i < 3; i++) {
		saved = allocate(&l, 0, 2, BATCH);
		pass(&l, TFMT_PHASE_BEGIN);
		gradient = allocate(&l, 0, 1, WEIGHT);
		free_at(&l, 0, saved, BATCH);
		pass(&l, TFMT_PHASE_END);
		free_at(&l, 0, gradient, WEIGHT);
	}
	free_at(&l, 0, weight, WEIGHT);
	m = loaded(&l);
	c = found(&m, MARK_TENSOR_PEAK, 2 * WEIGHT + BATCH);
	assert_int_equal(c.sum[CATEGORY_INPUT].bytes, 0);
	assert_int_equal(c.sum[CATEGORY_GRADIENT].bytes, WEIGHT);
	assert_int_equal(c.sum[CATEGORY_UNKNOWN].bytes, WEIGHT + BATCH);
	categories_release(&c);
	replay_release(&m);
}

/* Memory runs out in the first forward, and the exception frees what forward has made. */
static void test_out_of_memory(void **state)
{
	uint64_t weight, saved, input;
	struct categories c;
	struct replay m;
	struct loop l;

	(void)state;
	begin(&l);
	weight = allocate(&l, l.init, 1, WEIGHT);
	input = allocate(&l, l.main, 2, BATCH);
	l.s.flags = TFMT_FLAG_FORWARD;
	saved = allocate(&l, l.forward, 2, BATCH);
	synthetic_event(&l.s, TFMT_TENSOR_OOM, 0, 0, 1 << 30, 1 << 20);
	l.s.flags = 0;
	free_at(&l, l.main, saved, BATCH);
	free_at(&l, l.main, input, BATCH);
	free_at(&l, l.main, weight, WEIGHT);
	m = loaded(&l);
	c = found(&m, MARK_OOM, m.device[0].books->moment[MARK_OOM].allocated_bytes);
	assert_int_equal(c.sum[CATEGORY_ACTIVATION].bytes, BATCH);
	assert_int_equal(c.sum[CATEGORY_PARAMETER].bytes, WEIGHT);
	assert_int_equal(c.sum[CATEGORY_INPUT].bytes, BATCH);
	categories_release(&c);
	replay_release(&m);
}

/* A rule of the user's comes before the table. */
static void test_rules(void **state)
{
	FILE *f = fopen("rules", "w");

	(void)state;
	assert_non_null(f);
	fputs("# FILE CATEGORY FUNCTION LIFE\nbatches.py input next_* freed\n*/adagrad.py - _init_group\n", f);
	assert_int_equal(fclose(f), 0);
	setenv("VRAMTRACE_CATEGORIES", "rules", 1);
	assert_int_equal(category_rules_load(), 0);
	unsetenv("VRAMTRACE_CATEGORIES");
	assert_int_equal(category_rules_match("/home/u/batches.py", "next_batch", false), CATEGORY_INPUT);
	assert_int_equal(category_rules_match("/home/u/batches.py", "next_batch", true), CATEGORY_NO_RULE);
	assert_int_equal(category_rules_match(PACKAGES "/torch/optim/adagrad.py", "_init_group", true), CATEGORY_PASS_OVER);
	assert_int_equal(category_rules_match(PACKAGES "/torch/optim/sgd.py", "_init_group", true),
			 CATEGORY_OPTIMIZER_STATE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plain_loop),    cmocka_unit_test(test_zero_grad_alone),
		cmocka_unit_test(test_accumulation),  cmocka_unit_test(test_no_sign_of_updates),
		cmocka_unit_test(test_named_steps),   cmocka_unit_test(test_peak),
		cmocka_unit_test(test_forward),	      cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_forwards_unseen), cmocka_unit_test(test_updates_between_passes),
		cmocka_unit_test(test_evaluation_comes_last), cmocka_unit_test(test_zero_grad_of_evaluation),
		cmocka_unit_test(test_batch_without_update_comes_last), cmocka_unit_test(test_no_stacks),
	};
	const struct CMUnitTest rules[] = { cmocka_unit_test(test_rules) };
	int failed;

	/* Rules are read once in a process: first, and of no effect on the stacks of the others. */
	failed = cmocka_run_group_tests_name("rules", rules, synthetic_enter, synthetic_leave);
	return failed + cmocka_run_group_tests_name("categories", tests, synthetic_enter, synthetic_leave);
}
