/* SPDX-License-Identifier: MIT */
/* Lists of ranks, and command lines of PyTorch's launcher. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/command.h"
#include "analyzer/launch/ranks.h"

static void check_list(const char *list, unsigned world_size, const char *expected)
{
	struct ranks r = RANKS_INIT;

	assert_int_equal(ranks_parse(&r, list, world_size, 0), expected ? 0 : RUN_TROUBLE);
	if (expected)
		assert_string_equal(r.list, expected);
	ranks_release(&r);
}

static void test_lists(void **state)
{
	(void)state;
	check_list("0", 1, "0");
	check_list("17,0", 512, "0,17");
	check_list("0-3,8", 16, "0,1,2,3,8");
	check_list("511", 512, "511");
	check_list("512", 512, NULL);
	check_list("0-8", 8, NULL);
	check_list("1,1", 8, NULL);
	check_list("0-2,1", 8, NULL);
	check_list("3-2", 8, NULL);
	check_list("", 8, NULL);
	check_list(",", 8, NULL);
	check_list("0,", 8, NULL);
	check_list("0-", 8, NULL);
	check_list("-1", 8, NULL);
	check_list("0 1", 8, NULL);
	check_list("0x1", 8, NULL);
	check_list("99999999999999999999", 8, NULL);
	check_list("0-99999999999999999999", 8, NULL);
}

static void test_nodes(void **state)
{
	struct ranks r = RANKS_INIT;

	(void)state;
	assert_int_equal(ranks_parse(&r, "0", 4, 0), 0);
	assert_int_equal(ranks_node_gpus(&r), 4);
	ranks_release(&r);
	assert_int_equal(ranks_parse(&r, "0", 512, 0), 0);
	assert_int_equal(ranks_node_gpus(&r), 8);
	ranks_release(&r);
	assert_int_equal(ranks_parse(&r, "0", 512, 4), 0);
	assert_int_equal(ranks_node_gpus(&r), 4);
	ranks_release(&r);
	assert_int_equal(ranks_parse(&r, "0", 512, -1), RUN_TROUBLE);
	ranks_release(&r);
	assert_int_equal(ranks_parse(&r, "0", 512, 65), RUN_TROUBLE);
	ranks_release(&r);
}

/* The words of LINE, NULL-terminated. */
static const char **split(char *line)
{
	static const char *words[32];
	size_t n = 0;

	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		words[n++] = word;
	words[n] = NULL;
	return words;
}

/* What remains of a launcher's command line: EXPECTED, "" if it is none, NULL if it does not fit the job. */
static void check_launcher(const char *line, unsigned world_size, int64_t gpus_per_node, const char *expected,
			   unsigned expected_per_node)
{
	struct ranks r = RANKS_INIT;
	char copy[512], rest[512] = "";

	strcpy(copy, line);
	assert_int_equal(ranks_parse(&r, "0", world_size, gpus_per_node), 0);
	assert_int_equal(ranks_understand_launcher(&r, split(copy), gpus_per_node != 0), expected ? 0 : RUN_TROUBLE);
	for (size_t i = 0; expected && r.program && r.program[i]; i++) {
		strcat(rest, i ? " " : "");
		strcat(rest, r.program[i]);
	}
	if (expected) {
		assert_string_equal(rest, expected);
		assert_int_equal(r.gpus_per_node, expected_per_node);
	}
	ranks_release(&r);
}

#define RUN "/opt/python3 -m torch.distributed.run "

static void test_launchers(void **state)
{
	(void)state;
	check_launcher("python train.py --nproc-per-node 3", 8, 0, "", 8);
	check_launcher("python -m train", 8, 0, "", 8);
	check_launcher(RUN "--nproc-per-node 8 train.py -x 1", 8, 0, "/opt/python3 -u train.py -x 1", 8);
	check_launcher(RUN "--nproc_per_node=4 --nnodes=4 train.py", 16, 0, "/opt/python3 -u train.py", 4);
	check_launcher(RUN "--nnodes 1:64 --nproc-per-node gpu train.py", 512, 0, "/opt/python3 -u train.py", 8);
	check_launcher(RUN "--standalone --nproc-per-node auto train.py", 4, 4, "/opt/python3 -u train.py", 4);
	check_launcher(RUN "--rdzv-backend c10d --rdzv-endpoint=h:1 --rdzv_id 7 -r 3 --nproc-per-node 2 -m a.b -v", 2,
		       0, "/opt/python3 -u -m a.b -v", 2);
	check_launcher(RUN "--nproc-per-node 2 --no-python ./train -v", 2, 0, "./train -v", 2);
	check_launcher(RUN "--nproc-per-node 2 -- train.py", 2, 0, "/opt/python3 -u train.py", 2);
	check_launcher("python -m torch.distributed.launch --nproc-per-node 2 t.py", 2, 0, "python -u t.py", 2);
	check_launcher(RUN "train.py", 8, 0, NULL, 0);
	check_launcher(RUN "--nproc-per-node 8 train.py", 16, 0, NULL, 0);
	check_launcher(RUN "--nproc-per-node 8 train.py", 8, 4, NULL, 0);
	check_launcher(RUN "--nproc-per-node 8x train.py", 8, 0, NULL, 0);
	check_launcher(RUN "--nproc-per-node 8", 8, 0, NULL, 0);
	check_launcher("/does/not/exist/torchrun --nproc-per-node 8 train.py", 8, 0, NULL, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_nodes),
		cmocka_unit_test(test_launchers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
