/* SPDX-License-Identifier: MIT */
/* Whether a machine's file system shows a driver in the kernel, and what is said where it does not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/gpu/realgpu.h"

static char root[] = "/tmp/realgpu-XXXXXX";

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

static void make_file(const char *name)
{
	char path[128];
	FILE *f;

	path_in(path, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
}

static void nothing_shows_no_driver(void **state)
{
	(void)state;
	assert_false(realgpu_has_driver(root));
	assert_false(realgpu_has_driver("/no-such-folder"));
}

static void boards_nodes_alone_are_no_driver(void **state)
{
	(void)state;
	make_folder("dev");
	make_folder("dev/nvidia-caps");
	make_file("dev/nvidia0");
	assert_false(realgpu_has_driver(root));
	remove_path("dev/nvidia0");
	remove_path("dev/nvidia-caps");
	remove_path("dev");
}

static void a_control_node_may_be_a_drivers(void **state)
{
	static const char *const nodes[] = { "dev/nvidiactl", "dev/dxg", "dev/nvmap" };

	(void)state;
	make_folder("dev");
	for (unsigned i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		make_file(nodes[i]);
		assert_true(realgpu_has_driver(root));
		remove_path(nodes[i]);
		assert_false(realgpu_has_driver(root));
	}
	remove_path("dev");
}

static void a_loaded_module_is_a_driver(void **state)
{
	(void)state;
	make_folder("proc");
	make_folder("proc/driver");
	make_folder("proc/driver/nvidia");
	assert_false(realgpu_has_driver(root));
	make_file("proc/driver/nvidia/version");
	assert_true(realgpu_has_driver(root));
	remove_path("proc/driver/nvidia/version");
	remove_path("proc/driver/nvidia");
	remove_path("proc/driver");
	remove_path("proc");
}

static void there_is_a_gpu_or_a_reason(void **state)
{
	static struct realgpu g;

	(void)state;
	assert_int_equal(realgpu_ask(&g), g.nr > 0);
	assert_true(g.nr > 0 || g.why[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_shows_no_driver),
		cmocka_unit_test(boards_nodes_alone_are_no_driver),
		cmocka_unit_test(a_control_node_may_be_a_drivers),
		cmocka_unit_test(a_loaded_module_is_a_driver),
		cmocka_unit_test(there_is_a_gpu_or_a_reason),
	};
	int failed;

	if (!mkdtemp(root))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(root);
	return failed;
}
