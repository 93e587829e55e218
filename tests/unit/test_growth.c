/* SPDX-License-Identifier: MIT */
/* Growth of a series, and reading one from a text; tests/e2e/test_leaks_series.py compares with numpy. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/growth/growth.h"
#include "analyzer/growth/seriestext.h"

#define assert_near(a, b, error) assert_true(fabs((a) - (b)) <= (error))

static void test_accelerating(void **state)
{
	static const double gb[] = { 18.2, 18.5, 18.9, 19.4, 20.1, 20.9, 21.8, 22.9, 24.2 };
	struct growth_reading r[9];
	struct growth g;

	(void)state;
	for (int i = 0; i < 9; i++)
		r[i] = (struct growth_reading){ 100 * (i + 1), gb[i] * 1e9 };
	growth_find(&g, r, 9, 24 * 1073741824.0 - 5e8);
	assert_int_equal(g.shape, GROWTH_ACCELERATING);
	assert_true(g.believes_quadratic);
	assert_near(g.quadratic.limit_step, 980, 5);
	assert_near(g.linear.limit_step, 1140, 10);
	assert_ptr_equal(growth_believed(&g), &g.quadratic);
}

/* The same readings ten thousand million steps later, and a million times as large. */
static void test_scale(void **state)
{
	struct growth_reading r[20];
	struct growth g, far;

	(void)state;
	for (int i = 0; i < 20; i++)
		r[i] = (struct growth_reading){ i, 1000 + 10 * i + (i * 7919) % 5 };
	growth_find(&g, r, 20, 2000);
	for (int i = 0; i < 20; i++)
		r[i] = (struct growth_reading){ r[i].step + 1e10, r[i].bytes * 1e6 };
	growth_find(&far, r, 20, 2000e6);
	assert_int_equal(far.shape, g.shape);
	assert_near(far.slope, g.slope * 1e6, 1);
	assert_near(far.linear.limit_step - 1e10, g.linear.limit_step, 0.01);
}

static void test_few(void **state)
{
	const struct growth_reading same[] = { { 5, 1 }, { 5, 2 }, { 5, 3 }, { 5, 4 }, { 5, 5 } };
	struct growth_reading r[] = { { 1, 10 }, { 2, 20 }, { 3, 30 } };
	struct growth g;

	(void)state;
	for (size_t nr = 0; nr <= 3; nr++) {
		growth_find(&g, r, nr, 100);
		assert_int_equal(g.shape, GROWTH_UNKNOWN);
	}
	growth_find(&g, same, 5, 100);
	assert_int_equal(g.shape, GROWTH_UNKNOWN);
	assert_false(g.linear.is_known);
}

static void read_text(struct seriestext *s, const char *text, struct seriestext_rules rules)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");

	assert_int_equal(seriestext_read(s, &rules, f), 0);
	fclose(f);
}

static void test_units(void **state)
{
	static const struct {
		const char *text;
		struct seriestext_rules rules;
		double bytes; /* negative: no reading */
	} cases[] = {
		{ "1,100", { .key = NULL }, 100 },
		{ "1,100", { .unit_bytes = 1024 }, 102400 },
		{ "1;1.5GB", { .key = NULL }, 1.5e9 },
		{ "1\t1.5GB", { .is_binary = true }, 1.5 * 1073741824 },
		{ "1 2GiB", { .key = NULL }, 2147483648 },
		{ "1,2,3", { .key = NULL }, -1 },
		{ "1,2 parsecs", { .key = NULL }, -1 },
		{ "step 1 mem 2G", { .key = NULL }, 2147483648 },
		{ "step 1 mem 2", { .key = NULL }, -1 },
		{ "step 1 mem 2", { .unit_bytes = 1e9 }, 2e9 },
		{ "step 1 peak_mem_mb 9 mem_mb 2", { .key = NULL }, 2e6 },
		{ "step 1 peak_mem_mb 9", { .key = NULL }, 9e6 },
		{ "step 1 a 3GB mem 2GB", { .key = "a" }, 3e9 },
		{ "step 1 memory (MiB): 1,024", { .key = NULL }, 1073741824 },
		{ "step 1 mem -2GB", { .key = NULL }, -1 },
		{ "step 1 mem 1e300GB", { .key = NULL }, -1 },
		{ "step nan mem 1GB", { .key = NULL }, -1 },
	};
	struct seriestext *s = malloc(sizeof(*s));

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		read_text(s, cases[i].text, cases[i].rules);
		assert_int_equal(s->nr, cases[i].bytes >= 0);
		if (s->nr)
			assert_near(s->reading[0].bytes, cases[i].bytes, 1e-3);
	}
	free(s);
}

/* Each of the readings that are kept of a long series stands for as many, and is their mean. */
static void test_thinned_out(void **state)
{
	struct seriestext *s = malloc(sizeof(*s));
	const struct seriestext_rules rules = { .key = NULL };
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	for (int i = 0; i < 100000; i++)
		fprintf(f, "%d,%d\n", i, 5 * i);
	fclose(f);
	f = fmemopen(text, size, "r");
	assert_int_equal(seriestext_read(s, &rules, f), 0);
	fclose(f);
	assert_int_equal(s->nr_readings, 100000);
	assert_int_equal(s->thinned, 128);
	for (size_t i = 0; i < s->nr; i++)
		assert_near(s->reading[i].bytes, 5 * s->reading[i].step, 1e-6);
	assert_near(s->reading[1].step - s->reading[0].step, 128, 1e-6);
	free(text);
	free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_accelerating), cmocka_unit_test(test_scale),
		cmocka_unit_test(test_few),          cmocka_unit_test(test_units),
		cmocka_unit_test(test_thinned_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
