/* SPDX-License-Identifier: MIT */
/* Texts and shapes interned by 32 threads at once: one id each, the same for all, defined before anybody gets it. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "libinterpose/interpose.h"
#include "libinterpose/shapes.h"
#include "libinterpose/strings.h"

enum { NR_THREADS = 32, NR_TEXTS = 600, NR_SHAPES = 600, ROUNDS = 3 };

static struct ip_recorder recorder = { .state = IP_RECORDING, .generation = 1 };
struct ip_recorder *ip_recorder = &recorder;

/* Ids that have been defined, by type. */
static _Atomic unsigned defined[TFMT_NR_DEF_TYPES][65536];

bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len)
{
	assert_true(payload && len && type < TFMT_NR_DEF_TYPES && id < 65536);
	atomic_fetch_add(&defined[type][id], 1);
	return true;
}

static uint32_t ids[NR_THREADS][NR_TEXTS + NR_SHAPES];

static uint32_t text_of(unsigned i)
{
	char text[32];
	int len = snprintf(text, sizeof(text), "range number %u", i);

	return i % 3 ? ip_string(text, (size_t)len) : ip_function_named(text);
}

static uint32_t shape_of(struct shape_cache *c, unsigned i)
{
	int64_t sizes[3] = { 1 + i % 40, 1 + i / 40, 7 };

	return shape_intern(c, 6, sizes, 3, NULL);
}

/* Each thread begins elsewhere, so that all find some that are there and make some that are not. */
static void *intern(void *arg)
{
	uint32_t *mine = arg;
	struct shape_cache *c = shape_cache_new();
	unsigned first = (unsigned)(mine - ids[0]) % NR_TEXTS;

	for (unsigned n = 0; n < ROUNDS * NR_TEXTS; n++) {
		unsigned i = (first + n) % NR_TEXTS;

		mine[i] = text_of(i);
		mine[NR_TEXTS + i] = shape_of(c, i);
		assert_true(defined[TFMT_DEF_SHAPE][mine[NR_TEXTS + i]] == 1);
	}
	shape_cache_free(c);
	return NULL;
}

static void test_threads_agree(void **state)
{
	pthread_t thread[NR_THREADS];

	(void)state;
	for (unsigned i = 0; i < NR_THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, intern, ids[i]), 0);
	for (unsigned i = 0; i < NR_THREADS; i++)
		pthread_join(thread[i], NULL);
	for (unsigned i = 1; i < NR_THREADS; i++)
		assert_memory_equal(ids[i], ids[0], sizeof(ids[0]));
}

static void test_each_is_defined_once(void **state)
{
	(void)state;
	for (unsigned i = 0; i < NR_TEXTS; i++) {
		assert_int_equal(defined[i % 3 ? TFMT_DEF_STRING : TFMT_DEF_FUNCTION][ids[0][i]], 1);
		for (unsigned j = 0; j < i; j++)
			assert_true(i % 3 == 0 || j % 3 == 0 || ids[0][i] != ids[0][j]);
	}
	for (unsigned i = 0; i < NR_SHAPES; i++)
		assert_int_equal(defined[TFMT_DEF_SHAPE][ids[0][NR_TEXTS + i]], 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads_agree),
		cmocka_unit_test(test_each_is_defined_once),
	};

	return cmocka_run_group_tests_name("interning", tests, NULL, NULL);
}
