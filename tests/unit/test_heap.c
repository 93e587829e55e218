/* SPDX-License-Identifier: MIT */
/* Memory of the analyzer's own: zeroed, growing, and the end of the process where there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/base/heap.h"
#include "analyzer/command.h"

static void test_elements_are_zero(void **state)
{
	uint64_t *numbers = heap_alloc(1000, sizeof(*numbers));
	void *none = heap_alloc(0, sizeof(*numbers));

	(void)state;
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(numbers[i], 0);
	assert_non_null(none);
	free(numbers);
	free(none);
}

static void test_an_array_grows_by_doubling(void **state)
{
	uint32_t *numbers = NULL;
	size_t room = 0, nr_moves = 0;

	(void)state;
	for (uint32_t i = 0; i < 100000; i++) {
		size_t before = room;

		numbers = heap_grow(numbers, &room, i + 1, sizeof(*numbers));
		nr_moves += room != before;
		assert_true(room > i);
		numbers[i] = i;
	}
	for (uint32_t i = 0; i < 100000; i++)
		assert_int_equal(numbers[i], i);
	assert_true(nr_moves < 20);
	free(numbers);
}

static void test_a_copy_is_its_own(void **state)
{
	char text[] = "loss.backward()", *copy = heap_copy(text);

	(void)state;
	text[0] = 'L';
	assert_string_equal(copy, "loss.backward()");
	free(copy);
}

/* Runs a child that asks for too much; returns its exit status, and what it says on stderr. */
static int status_of(void (*ask)(void), char *said, size_t size)
{
	int ends[2], status;
	ssize_t length;
	pid_t child;

	assert_int_equal(pipe(ends), 0);
	child = fork();
	assert_true(child >= 0);
	if (!child) {
		dup2(ends[1], STDERR_FILENO);
		ask();
		_exit(0);
	}
	close(ends[1]);
	length = read(ends[0], said, size - 1);
	said[length > 0 ? length : 0] = 0;
	close(ends[0]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void ask_where_there_is_none(void)
{
	heap_need(NULL);
}

static void ask_to_grow_too_far(void)
{
	size_t room = 0;

	heap_grow(NULL, &room, SIZE_MAX / 2, 8);
}

static void test_without_memory_the_process_ends(void **state)
{
	char said[256];

	(void)state;
	assert_int_equal(status_of(ask_where_there_is_none, said, sizeof(said)), CMD_TROUBLE);
	assert_string_equal(said, "vramtrace: out of memory\n");
	assert_int_equal(status_of(ask_to_grow_too_far, said, sizeof(said)), CMD_TROUBLE);
	assert_string_equal(said, "vramtrace: out of memory\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_elements_are_zero),
		cmocka_unit_test(test_an_array_grows_by_doubling),
		cmocka_unit_test(test_a_copy_is_its_own),
		cmocka_unit_test(test_without_memory_the_process_ends),
	};

	return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
