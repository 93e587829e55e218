/* SPDX-License-Identifier: MIT */
/* What a RECORDING argument resolves to: a trace, a directory, its newest generation; and the errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/recording/recording.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/vramtrace-test-XXXXXX");
	return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return chdir("/") || system(command);
}

static void touch(const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fclose(f);
}

static void a_file_is_one_trace(void **state)
{
	struct recording r;
	char why[256];

	(void)state;
	touch("any.name");
	assert_int_equal(recording_open(&r, "any.name", why, sizeof(why)), 0);
	assert_int_equal(r.nr_traces, 1);
	assert_string_equal(r.trace[0], "any.name");
	assert_null(r.folder);
	recording_release(&r);
}

static void a_directory_is_its_traces_in_order(void **state)
{
	struct recording r;
	char why[256];

	(void)state;
	mkdir("train.vtr", 0700);
	touch("train.vtr/host.2.20.vtr");
	touch("train.vtr/host.1.10.vtr");
	touch("train.vtr/host.1.10.ring");
	touch("train.vtr/job");
	touch("train.vtr/.vtr");
	mkdir("train.vtr/folder.vtr", 0700);
	assert_int_equal(recording_open(&r, "train.vtr/", why, sizeof(why)), 0);
	assert_int_equal(r.nr_traces, 2);
	assert_string_equal(r.trace[0], "train.vtr/host.1.10.vtr");
	assert_string_equal(r.trace[1], "train.vtr/host.2.20.vtr");
	recording_release(&r);
}

static void the_newest_generation_counts(void **state)
{
	struct recording r;
	char why[256];

	(void)state;
	mkdir("train.vtr", 0700);
	touch("train.vtr/old.vtr");
	mkdir("train.vtr/g2", 0700);
	touch("train.vtr/g2/two.vtr");
	mkdir("train.vtr/g10", 0700);
	touch("train.vtr/g10/ten.vtr");
	mkdir("train.vtr/g11x", 0700);
	touch("train.vtr/g99"); /* a file is no generation */
	assert_int_equal(recording_open(&r, "train.vtr", why, sizeof(why)), 0);
	assert_int_equal(r.nr_traces, 1);
	assert_string_equal(r.trace[0], "train.vtr/g10/ten.vtr");
	recording_release(&r);
}

static void what_is_missing_is_said(void **state)
{
	struct recording r;
	char why[256];

	(void)state;
	assert_int_equal(recording_open(&r, "nowhere.vtr", why, sizeof(why)), -1);
	assert_string_equal(why, "cannot open 'nowhere.vtr': No such file or directory");
	recording_release(&r);
	mkdir("empty.vtr", 0700);
	assert_int_equal(recording_open(&r, "empty.vtr", why, sizeof(why)), -1);
	assert_non_null(strstr(why, "'empty.vtr' holds no trace"));
	recording_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_file_is_one_trace, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(a_directory_is_its_traces_in_order, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(the_newest_generation_counts, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(what_is_missing_is_said, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
