/* SPDX-License-Identifier: MIT */
/* A folder that stands for / in tests of what reads the kernel's files. */
#ifndef TESTS_FILE_TREE_H
#define TESTS_FILE_TREE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char root[64];

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/tree-XXXXXX");
	return !mkdtemp(root);
}

static int remove_root(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r '%s'", root);
	return system(command);
}

/* A file below root with its folders. */
static void put(const char *path, const char *text)
{
	char command[512];
	FILE *f;

	snprintf(command, sizeof(command), "mkdir -p \"$(dirname '%s/%s')\"", root, path);
	assert_int_equal(system(command), 0);
	snprintf(command, sizeof(command), "%s/%s", root, path);
	f = fopen(command, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

#endif
