/* SPDX-License-Identifier: MIT */
/* The memory of a model by formula; tests/e2e/test_estimate.py has the figures and transformers' models. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyzer/estimate/sizing.h"

#define assert_near(a, b, error) assert_true(fabs((a) - (b)) <= (error))

static const struct sizing_job job = {
	.parameters = 1e9,
	.active = 1e9,
	.trainable = 1,
	.parameter_bytes = 4,
	.compute_bytes = 4,
	.optimizer = SIZING_ADAM,
	.batch = 2,
	.length = 1000,
	.layers = 10,
	.hidden = 512,
	.heads = 8,
	.kv_heads = 2,
	.head_dim = 64,
	.activations_per_token = NAN,
	.activations_ratio = NAN,
	.measured_activations = NAN,
	.gpus = 1,
	.tensor_parallel = 1,
	.context_bytes = 5e8,
};

static void test_total_is_the_larger_side(void **state)
{
	struct sizing_job j = job;
	struct sizing s = sizing_of(&j);

	(void)state;
	assert_near(s.per_token, 4.6894e-4 * 1e9 + 1.8494e6, 1e-6);
	assert_near(s.activations, 2000 * s.per_token * 4, 1);
	assert_near(s.total, 5e8 + 4e9 + 8e9 + s.activations, 1);
	/* With one token gradients and intermediates are more than activations. */
	j.batch = j.length = 1;
	s = sizing_of(&j);
	assert_near(s.total, 5e8 + 4e9 + 8e9 + 4e9 + 4e9, 1);
	j.is_fused = true;
	assert_near(sizing_of(&j).total, 5e8 + 4e9 + 8e9 + 4e9, 1);
	j.keeps_gradients = true;
	s = sizing_of(&j);
	assert_near(s.total, 5e8 + 4e9 + 8e9 + 4e9 + s.activations, 1);
}

static void test_checkpointing(void **state)
{
	struct sizing_job j = job;
	double all = sizing_of(&j).activations;

	(void)state;
	j.is_checkpointing = true;
	assert_near(sizing_of(&j).activations, 10 * 2000 * 512 * 4.0 + all / 10, 1);
}

static void test_what_was_measured_grows_with_the_batch(void **state)
{
	struct sizing_job j = job;

	(void)state;
	j.measured_activations = 6e9;
	j.measured_batch = j.batch;
	assert_near(sizing_of(&j).total, 5e8 + 4e9 + 8e9 + 8e9, 0);
	j.batch = 4 * j.measured_batch;
	assert_near(sizing_of(&j).total, 5e8 + 4e9 + 8e9 + 24e9, 0);
}

static void test_parts_add_up(void **state)
{
	struct sizing_job j = job;
	struct sizing s;

	(void)state;
	j.trainable = 0.25;
	j.gpus = 8;
	j.tensor_parallel = 2;
	for (j.zero = 0; j.zero <= 3; j.zero++) {
		s = sizing_of(&j);
		assert_near(sizing_part(&j, 7.5e8, 0) + sizing_part(&j, 2.5e8, 2.5e8),
			    s.model + s.optimizer + s.gradients, 1);
	}
}

static void test_inference(void **state)
{
	struct sizing_job j = job;

	(void)state;
	j.is_inference = true;
	assert_near(sizing_of(&j).kv_cache, 2.0 * 10 * 2 * 2 * 1000 * 64 * 4, 0);
	assert_near(sizing_of(&j).total, 5e8 + 4e9 + 2.0 * 10 * 2 * 2 * 1000 * 64 * 4, 0);
}

static void test_largest_batch(void **state)
{
	struct sizing_job j = job;

	(void)state;
	for (double capacity = 1e9; capacity < 1e12; capacity *= 1.3) {
		double batch = sizing_largest_batch(&j, capacity);

		j.batch = batch + 1;
		assert_true(sizing_of(&j).total > capacity);
		j.batch = batch;
		assert_true(batch < 1 || sizing_of(&j).total <= capacity);
	}
}

static void test_images(void **state)
{
	(void)state;
	assert_near(sizing_image_tokens(336, 336, 14), 576, 0);
	assert_near(sizing_image_tokens(1024, 1024, 14), 5329, 0);
	assert_near(sizing_image_tokens(10, 100, 14), 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_total_is_the_larger_side),
		cmocka_unit_test(test_checkpointing),
		cmocka_unit_test(test_what_was_measured_grows_with_the_batch),
		cmocka_unit_test(test_parts_add_up),
		cmocka_unit_test(test_inference),
		cmocka_unit_test(test_largest_batch),
		cmocka_unit_test(test_images),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
