/* SPDX-License-Identifier: MIT */
/* Whether a machine has a GPU of its own, from what its file system shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/hostlimits.h"

static char root[] = "/tmp/hostlimits-XXXXXX";

static void path_in(char out[static 128], const char *name)
{
	snprintf(out, 128, "%s/%s", root, name);
}

static void make_folder(const char *name)
{
	char path[128];

	path_in(path, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void remove_path(const char *name)
{
	char path[128];

	path_in(path, name);
	assert_int_equal(remove(path), 0);
}

static void no_driver_no_gpu(void **state)
{
	(void)state;
	assert_false(hostlimits_has_gpu(root));
	assert_false(hostlimits_has_gpu("/no-such-folder"));
}

static void a_node_of_any_number_is_a_gpu(void **state)
{
	char path[128];
	FILE *f;

	(void)state;
	make_folder("dev");
	make_folder("dev/nvidia-caps");
	assert_false(hostlimits_has_gpu(root));
	path_in(path, "dev/nvidia3");
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_true(hostlimits_has_gpu(root));
	remove_path("dev/nvidia3");
	remove_path("dev/nvidia-caps");
	remove_path("dev");
}

static void a_listed_board_is_a_gpu(void **state)
{
	(void)state;
	make_folder("proc");
	make_folder("proc/driver");
	make_folder("proc/driver/nvidia");
	make_folder("proc/driver/nvidia/gpus");
	assert_false(hostlimits_has_gpu(root));
	make_folder("proc/driver/nvidia/gpus/0000:01:00.0");
	assert_true(hostlimits_has_gpu(root));
	remove_path("proc/driver/nvidia/gpus/0000:01:00.0");
	remove_path("proc/driver/nvidia/gpus");
	remove_path("proc/driver/nvidia");
	remove_path("proc/driver");
	remove_path("proc");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_driver_no_gpu),
		cmocka_unit_test(a_node_of_any_number_is_a_gpu),
		cmocka_unit_test(a_listed_board_is_a_gpu),
	};
	int failed;

	if (!mkdtemp(root))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(root);
	return failed;
}
