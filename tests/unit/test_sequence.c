/* SPDX-License-Identifier: MIT */
/* The members of an nn.Sequential, as its source lists them. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "analyzer/pysource/sequence.h"

static const char source[] = "class Net(nn.Module):\n"
			     "    def __init__(self, layers):\n"
			     "        self.body = nn.Sequential(nn.Conv2d(3, 64, kernel_size=(7, 7)), nn.BatchNorm2d(64),  # (\n"
			     "            nn.ReLU(inplace=True), nn.Conv2d(64, 64, 3) if layers else nn.Identity(),\n"
			     "            torch.nn.Unflatten(1, ('a)', 2)),\n"
			     "        )\n"
			     "        self.more = nn.Sequential(*layers)\n"
			     "        self.made = Sequential(first, nn.ReLU())\n"
			     "\n"
			     "body = nn.Sequential(Block())\n"
			     "body = body.cuda()\n"
			     "more = other.more = Stack(layers)\n"
			     "parts = nn.ModuleList([nn.Sequential(nn.Linear(8, 8),\n"
			     "    nn.GELU()) for _ in range(4)])\n"
			     "pair = nn.ModuleList([nn.Sequential(nn.Linear(8, 8)), nn.Sequential(nn.GELU())])\n"
			     "fast = nn.ModuleList(Sequential(nn.ReLU())\n"
			     "                     for _ in range(4))\n"
			     "def block(i, o):\n"
			     "    return nn.Sequential(\n"
			     "        nn.Conv2d(i, o, 3),\n"
			     "        nn.SiLU(),\n"
			     "    )\n"
			     "class Unit(nn.Sequential):\n"
			     "    def __init__(self, i, o):\n"
			     "        super().__init__(nn.Linear(i, o), nn.Tanh())\n"
			     "short = lambda i: nn.Sequential(nn.Linear(i, i), nn.ReLU())\n"
			     "down = nn.ModuleList([block(3, 8), block(8, (8)),\n"
			     "                      block(8, 16)])\n"
			     "up = nn.ModuleList()\n"
			     "for _ in range(3):\n"
			     "    up.append(block(8, 8))\n"
			     "units = nn.ModuleList(Unit(8, 8) for _ in range(2))\n"
			     "mixed = nn.ModuleList([block(3, 8), Unit(8, 8)])\n"
			     "shorts = nn.ModuleList([short(8), short(8)])\n"
			     "other = nn.ModuleList([make(8), make(8)])\n"
			     "none = nn.ModuleList()\n"
			     "twins = nn.ModuleList([nn.Sequential(nn.Linear(8, 8)), nn.Sequential(nn.Linear(8, 8))])\n"
			     "class Squeeze(nn.Module):\n"
			     "    def forward(self, x):\n"
			     "        return x.squeeze()\n"
			     "def conv(i):\n"
			     "    return nn.Conv2d(i, i, 3)\n"
			     "steps = nn.ModuleList([conv(3), nn.ReLU(True), Squeeze(), Unit(8, 8), conv(4), norm(4), conv(5)])\n"
			     "lines = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])\n"
			     "holes = nn.ModuleList([conv(3) if i else nn.Identity() for i in range(4)])\n"
			     "chain = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])\n"
			     "parts2 = nn.ModuleList([nn.Linear(8, 8), *(nn.Linear(8, 8) for _ in range(2))])\n"
			     "named = nn.Sequential(OrderedDict([('a', nn.Linear(8, 8))]))\n"
			     "self.tight=nn.Sequential(nn.Linear(8,8),nn.ReLU(True))\n"
			     "brief=lambda i:nn.Sequential(nn.Linear(i,i),nn.ReLU())\n"
			     "briefs=nn.ModuleList([brief(8),brief(8)])\n"
			     "if tight==other and tight<=more: f(tight=nn.Sequential(nn.GELU()))\n"
			     "def make(widths):\n"
			     "    layers = []  # layers\n"
			     "    for i in widths:\n"
			     "        layers += [nn.Conv2d(i, i, 3), nn.BatchNorm2d(i),\n"
			     "                   nn.ReLU()]\n"
			     "    layers.append(nn.Linear(8, 8))\n"
			     "    unlike = [nn.Linear(8, 8)]\n"
			     "    unlike.append(nn.ReLU(inplace=True))\n"
			     "    others = [nn.Linear(8, 8), nn.GELU()]\n"
			     "    others.append(widths)\n"
			     "    all_seen = nn.Sequential(*layers)\n"
			     "    not_seen = nn.Sequential(*unlike)\n"
			     "    not_told = nn.Sequential(*others)\n"
			     "    not_made = nn.Sequential(*widths)\n";

static char path[PATH_MAX];
static struct sourcetext sources;

static int enter(void **state)
{
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s", "/tmp/sequence.XXXXXX");
	f = fdopen(mkstemp(path), "w");
	fputs(source, f);
	return fclose(f);
}

static int leave(void **state)
{
	(void)state;
	sourcetext_release(&sources);
	return unlink(path);
}

static void test_members(void **state)
{
	struct sequence s;

	(void)state;
	assert_true(sequence_find(&s, &sources, path, 8, "body", false));
	assert_int_equal(s.nr, 5);
	assert_string_equal(s.class_name[0], "Conv2d");
	assert_string_equal(s.class_name[3], "Conv2d");
	assert_string_equal(s.class_name[4], "Unflatten");
	assert_int_equal(sequence_next(&s, -1, "Conv2d.forward"), 0);
	assert_int_equal(sequence_next(&s, 0, "_BatchNorm.forward"), 1);
	assert_int_equal(sequence_next(&s, 1, "Conv2d.forward"), 3);
	assert_int_equal(sequence_next(&s, 3, "Conv2d.forward"), -1);
	assert_int_equal(sequence_next(&s, -1, "Conv.forward"), -1);
}

static void test_nearest_statement_above(void **state)
{
	struct sequence s;

	(void)state;
	assert_true(sequence_find(&s, &sources, path, 12, "body", false));
	assert_int_equal(s.nr, 1);
	assert_string_equal(s.class_name[0], "Block");
}

static void test_not_listed(void **state)
{
	struct sequence s;

	(void)state;
	assert_false(sequence_find(&s, &sources, path, 8, "more", false));
	assert_false(sequence_find(&s, &sources, path, 8, "made", false));
	assert_false(sequence_find(&s, &sources, path, 12, "more", false));
	assert_false(sequence_find(&s, &sources, path, 8, "ody", false));
	assert_false(sequence_find(&s, &sources, path, 8, "", false));
	assert_false(sequence_find(&s, &sources, path, 2, "body", false));
	assert_false(sequence_find(&s, &sources, path, 99, "body", false));
	assert_false(sequence_find(&s, &sources, "/nowhere", 2, "body", false));
}

static void test_each_of_several(void **state)
{
	struct sequence s;

	(void)state;
	assert_true(sequence_find(&s, &sources, path, 18, "parts", true));
	assert_int_equal(s.nr, 2);
	assert_string_equal(s.class_name[1], "GELU");
	assert_true(sequence_find(&s, &sources, path, 18, "fast", true));
	assert_int_equal(s.nr, 1);
	assert_false(sequence_find(&s, &sources, path, 18, "pair", true)); /* they differ */
	assert_false(sequence_find(&s, &sources, path, 18, "parts", false));
	assert_false(sequence_find(&s, &sources, path, 8, "body", true));
}

static void test_several_made_elsewhere(void **state)
{
	static const struct {
		const char *name, *second;
	} lists[] = { { "down", "SiLU" }, { "up", "SiLU" }, { "units", "Tanh" }, { "shorts", "ReLU" } };
	struct sequence s;

	(void)state;
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++) {
		assert_true(sequence_find(&s, &sources, path, 38, lists[i].name, true));
		assert_int_equal(s.nr, 2);
		assert_string_equal(s.class_name[1], lists[i].second);
	}
	assert_true(sequence_find(&s, &sources, path, 38, "twins", true));
	assert_int_equal(s.nr, 1);
	assert_false(sequence_find(&s, &sources, path, 38, "mixed", true)); /* they differ */
	assert_false(sequence_find(&s, &sources, path, 38, "other", true)); /* not made here */
	assert_false(sequence_find(&s, &sources, path, 38, "none", true));
}

static void test_list_of_a_loop(void **state)
{
	struct sequence s;

	(void)state;
	assert_true(sequence_find_list(&s, &sources, path, 48, "steps"));
	assert_int_equal(sequence_next(&s, -1, "Conv2d.forward"), 0);
	assert_int_equal(sequence_next(&s, 0, "Net.Squeeze.forward"), 2);
	assert_int_equal(sequence_next(&s, 0, "Sequential.forward"), 3); /* Unit runs its base's */
	assert_int_equal(sequence_next(&s, 3, "Conv2d.forward"), 4);
	assert_int_equal(sequence_next(&s, 4, "Conv2d.forward"), SEQUENCE_UNTOLD); /* norm may be one */
	assert_int_equal(sequence_next(&s, 5, "Linear.forward"), SEQUENCE_END);
	assert_true(sequence_find_list(&s, &sources, path, 48, "lines") && s.is_alike);
	assert_int_equal(sequence_next(&s, 6, "Linear.forward"), 7);
	assert_true(sequence_find_list(&s, &sources, path, 48, "holes") && !s.is_alike);
	assert_int_equal(sequence_next(&s, -1, "Conv2d.forward"), SEQUENCE_UNTOLD);
	assert_true(sequence_find_list(&s, &sources, path, 48, "chain") && s.is_alike);
	assert_true(sequence_find_list(&s, &sources, path, 48, "parts2") && s.is_alike);
	assert_true(sequence_find_list(&s, &sources, path, 8, "body"));
	assert_int_equal(s.nr, 5);
	assert_false(sequence_find_list(&s, &sources, path, 48, "named")); /* by other names than numbers */
	assert_false(sequence_find_list(&s, &sources, path, 48, "none"));
}

/* Blanks are the writer's choice, but what stands in a call's brackets is an argument. */
static void test_without_blanks(void **state)
{
	struct sequence s;

	(void)state;
	assert_true(sequence_find(&s, &sources, path, 52, "tight", false));
	assert_int_equal(s.nr, 2);
	assert_string_equal(s.class_name[0], "Linear");
	assert_true(sequence_find(&s, &sources, path, 52, "briefs", true));
	assert_string_equal(s.class_name[1], "ReLU");
}

/* How often a loop goes round is not known; but who is seen may be counted. */
static void test_list_of_members_that_are_seen(void **state)
{
	struct sequence s;

	(void)state;
	assert_true(sequence_find(&s, &sources, path, 65, "all_seen", false));
	assert_int_equal(sequence_next(&s, -1, "Conv2d.forward"), 0);
	assert_int_equal(sequence_next(&s, 11, "Linear.forward"), 12);
	assert_false(sequence_find(&s, &sources, path, 65, "not_seen", false));
	assert_false(sequence_find(&s, &sources, path, 65, "not_told", false));
	assert_false(sequence_find(&s, &sources, path, 65, "not_made", false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_without_blanks, enter, leave),
		cmocka_unit_test_setup_teardown(test_list_of_members_that_are_seen, enter, leave),
		cmocka_unit_test_setup_teardown(test_members, enter, leave),
		cmocka_unit_test_setup_teardown(test_nearest_statement_above, enter, leave),
		cmocka_unit_test_setup_teardown(test_not_listed, enter, leave),
		cmocka_unit_test_setup_teardown(test_each_of_several, enter, leave),
		cmocka_unit_test_setup_teardown(test_several_made_elsewhere, enter, leave),
		cmocka_unit_test_setup_teardown(test_list_of_a_loop, enter, leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
