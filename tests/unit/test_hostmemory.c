/* SPDX-License-Identifier: MIT */
/* What the kernel's files tell of a control group's memory, in the layouts that machines and containers have. */
#include "tests/unit/file_tree.h"

#include "analyzer/recording/hostmemory.h"

#define EVENTS "low 0\nhigh 5\nmax 17\noom 2\noom_kill 3\noom_group_kill 0\n"
#define STAT_2 "anon 4096\nfile 8192\nshmem 12288\nshmem_thp 0\n"
#define CONTROL "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"
#define STAT_1 "cache 1\nshmem 5\ntotal_cache 1\ntotal_shmem 20480\n"

static void expect(bool is_machine, uint64_t kills, uint64_t limit, uint64_t shared)
{
	struct hostmemory h;

	hostmemory_read(&h, root);
	assert_true(h.is_known);
	assert_int_equal(h.is_machine, is_machine);
	assert_int_equal(h.nr_kills, kills);
	assert_int_equal(h.limit_bytes, limit);
	assert_int_equal(h.shared_bytes, shared);
}

static void version_2(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/user.slice/job\n");
	put("sys/fs/cgroup/user.slice/job/memory.events", EVENTS);
	put("sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n");
	put("sys/fs/cgroup/user.slice/job/memory.stat", STAT_2);
	/* Another group's figures are not ours. */
	put("sys/fs/cgroup/user.slice/memory.events", "oom_kill 99\n");
	expect(false, 3, 1 << 30, 12288);
}

static void version_2_in_a_container(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/\n");
	put("sys/fs/cgroup/memory.events", EVENTS);
	put("sys/fs/cgroup/memory.max", "max\n");
	expect(false, 3, 0, 0);
}

static void version_1(void **state)
{
	(void)state;
	put("proc/self/cgroup", "9:name=systemd:/\n4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n");
	put("sys/fs/cgroup/memory/job/memory.oom_control", CONTROL);
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "536870912\n");
	put("sys/fs/cgroup/memory/job/memory.stat", STAT_1);
	put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill 99\n");
	expect(false, 7, 512 << 20, 20480);
}

static void version_1_under_the_name_outside(void **state)
{
	(void)state;
	put("proc/self/cgroup", "4:memory:/docker/0123456789\n");
	put("sys/fs/cgroup/memory/memory.oom_control", CONTROL);
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	expect(false, 7, 0, 0);
}

static void no_group_but_the_machine(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/\n");
	put("proc/vmstat", "nr_free_pages 17\noom_kill 14\n");
	expect(true, 14, 0, 0);
}

static void nothing_known(void **state)
{
	struct hostmemory h;

	(void)state;
	hostmemory_read(&h, root);
	assert_false(h.is_known);
}

static void notes_of_one_host(void **state)
{
	char trace[128];
	struct hostmemory h;

	(void)state;
	put("node.7.host", "oom_kills 0\nmachine 0\nlimit_bytes 0\nshared_bytes 0\n");
	put("node.8.host", "oom_kills 2\nmachine 0\nlimit_bytes 4096\nshared_bytes 17\n");
	put("node2.9.host", "oom_kills 5\nmachine 0\nlimit_bytes 1\nshared_bytes 1\n");
	put("node.odd.name.host", "nonsense");
	snprintf(trace, sizeof(trace), "%s/node.1.2.vtr", root);
	hostmemory_noted(&h, trace, "node");
	assert_true(h.is_known);
	assert_int_equal(h.nr_kills, 2);
	assert_int_equal(h.limit_bytes, 4096);
	assert_int_equal(h.shared_bytes, 17);
	hostmemory_noted(&h, trace, "nod");
	assert_false(h.is_known);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_root, remove_root)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(version_2), TEST(version_2_in_a_container), TEST(version_1),
		TEST(version_1_under_the_name_outside), TEST(no_group_but_the_machine), TEST(nothing_known),
		TEST(notes_of_one_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
