/* SPDX-License-Identifier: MIT */
/* TOML files as trees: types, lines, order, and the reason when there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/recording/toml.h"

static char path[] = "/tmp/test_toml-XXXXXX";

static struct toml_file *open_text(const char *text, const struct toml_node **root, char **reason,
				   unsigned *line)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	return toml_open(path, root, reason, line);
}

static void test_types_and_order(void **state)
{
	const struct toml_node *root, *node;
	struct toml_file *file;
	unsigned line;
	char *reason;

	(void)state;
	file = open_text("z = \"text\"\n# a comment\na = -3\nm = 2.5\nb = true\nd = 2024-01-01\n[t]\nx = 1\n",
			 &root, &reason, &line);
	assert_non_null(file);
	node = root->first;
	assert_string_equal(node->key, "z");
	assert_int_equal(node->type, TOML_STRING);
	assert_string_equal(node->string, "text");
	node = node->next;
	assert_string_equal(node->key, "a");
	assert_int_equal(node->line, 3);
	assert_int_equal(node->type, TOML_INTEGER);
	assert_int_equal(node->integer, -3);
	node = node->next;
	assert_int_equal(node->type, TOML_FLOAT);
	assert_true(node->number > 2.4 && node->number < 2.6);
	node = node->next;
	assert_int_equal(node->type, TOML_BOOLEAN);
	assert_true(node->boolean);
	node = node->next;
	assert_int_equal(node->type, TOML_TIME);
	node = node->next;
	assert_int_equal(node->type, TOML_TABLE);
	assert_string_equal(node->first->key, "x");
	assert_int_equal(node->first->line, 8);
	assert_null(node->next);
	toml_close(file);
}

static void test_array_of_tables(void **state)
{
	const struct toml_node *root, *row;
	struct toml_file *file;
	unsigned line;
	char *reason;

	(void)state;
	file = open_text("[[row]]\nn = 1\n[[row]]\nn = 2\n", &root, &reason, &line);
	assert_non_null(file);
	assert_int_equal(root->first->type, TOML_ARRAY);
	row = root->first->first;
	assert_null(row->key);
	assert_int_equal(row->first->integer, 1);
	assert_int_equal(row->next->first->integer, 2);
	assert_int_equal(row->next->line, 3);
	assert_null(row->next->next);
	toml_close(file);
}

static void test_wrong_files(void **state)
{
	static const struct {
		const char *text;
		unsigned line;
	} wrong[] = {
		{ "a = 1\nb = \n", 2 },  { "a = 1\na = 2\n", 2 }, { "[t\n", 1 },
		{ "a = \"no end\n", 1 }, { "a = \xff\n", 1 },   { "a = 1\n[[[b]]]\n", 2 },
		{ "[=\n", 1 },		 { "[[\n", 1 },	   { "\u00e9 = 1\n", 1 },
	};
	const struct toml_node *root;
	unsigned line;
	char *reason;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_null(open_text(wrong[i].text, &root, &reason, &line));
		assert_int_equal(line, wrong[i].line);
		assert_true(*reason);
		free(reason);
	}
	assert_null(toml_open("/nonexistent.toml", &root, &reason, &line));
	assert_int_equal(line, 0);
	assert_string_equal(reason, "No such file or directory");
	free(reason);
	assert_null(toml_open("/tmp", &root, &reason, &line));
	assert_string_equal(reason, "Is a directory");
	free(reason);
}

static int make_path(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state)
{
	(void)state;
	return unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_types_and_order),
		cmocka_unit_test(test_array_of_tables),
		cmocka_unit_test(test_wrong_files),
	};

	return cmocka_run_group_tests(tests, make_path, remove_path);
}
