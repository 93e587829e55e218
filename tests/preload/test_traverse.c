/* SPDX-License-Identifier: MIT */
/* Reading memory that may not be there, in the program by the kernel and in a copy without it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "libinterpose/traverse.h"

#define PAGE 4096

static uint8_t *page; /* one that is there, before one that is not */

static int begin(void **state)
{
	(void)state;
	page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		return -1;
	for (int i = 0; i < PAGE; i++)
		page[i] = (uint8_t)i;
	return munmap(page + PAGE, PAGE);
}

/* What is there comes whole, of whatever length and place; what is not, or not all, does not. */
static bool reads_right(void)
{
	uint8_t out[100];

	for (size_t bytes = 1; bytes <= sizeof(out); bytes++)
		for (size_t at = 0; at < 9; at++)
			if (!traverse_read(out, page + at, bytes) || memcmp(out, page + at, bytes))
				return false;
	return traverse_read(out, page + PAGE - 20, 20) && !traverse_read(out, page + PAGE - 20, 21) &&
	       !traverse_read(out, page + PAGE, 1) && !traverse_read(out, NULL, 8) && traverse_read(out, page, 8);
}

static void program(void **state)
{
	(void)state;
	assert_true(reads_right());
}

static int visit(const void *object, void *arg)
{
	(void)object;
	*(int *)arg += reads_right();
	return 0;
}

/* A class that has two objects, and then touches what is not there. */
static int traverse(const void *object, traverse_visit_fn *visit_fn, void *arg)
{
	visit_fn(object, arg);
	visit_fn(object, arg);
	*(volatile uint8_t *)(uintptr_t)object = 1;
	visit_fn(object, arg);
	return 0;
}

static int in_copy(void)
{
	int nr = 0;

	traverse_survive();
	if (!reads_right() || traverse_nr_faults())
		return 1;
	/* Reading while a class is asked is no part of that, and the class may fault after it. */
	traverse_object(traverse, page + PAGE, visit, &nr);
	return nr == 2 && traverse_nr_faults() == 1 && reads_right() ? 0 : 2;
}

static void copy(void **state)
{
	int status = -1;
	pid_t pid = fork();

	(void)state;
	if (!pid)
		_exit(in_copy());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(program),
		cmocka_unit_test(copy),
	};

	return cmocka_run_group_tests(tests, begin, NULL);
}
