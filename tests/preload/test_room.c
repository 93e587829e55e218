/* SPDX-License-Identifier: MIT */
/* What room a copy of the process has below the limits of control groups, in the layouts that machines and containers have. */
#include "tests/unit/file_tree.h"

#include "libinterpose/census_room.h"

static void expect(uint64_t memory, uint64_t tasks)
{
	static struct census_room r;

	census_room_look(&r, root);
	assert_int_equal(census_room_memory(&r), memory);
	assert_int_equal(census_room_tasks(&r), tasks);
}

static void no_files(void **state)
{
	(void)state;
	expect(UINT64_MAX, UINT64_MAX);
}

/* The least of a group's and of those it lies in; files that were read count as free where memory is short. */
static void version_2(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0::/user/job\n");
	put("sys/fs/cgroup/user/job/memory.max", "4294967296\n");
	put("sys/fs/cgroup/user/job/memory.current", "1073741824\n");
	put("sys/fs/cgroup/user/job/pids.max", "max\n");
	put("sys/fs/cgroup/user/job/pids.current", "7\n");
	put("sys/fs/cgroup/user/pids.max", "100\n");
	put("sys/fs/cgroup/user/pids.current", "90\n");
	expect(3221225472, 10);
	put("sys/fs/cgroup/user/job/memory.high", "1600000000\n");
	put("sys/fs/cgroup/user/job/memory.stat", "anon 1000000000\ninactive_file 3741824\nactive_file 500\n");
	expect(1600000000 - 1070000000, 10);
	put("sys/fs/cgroup/user/memory.max", "1073741824\n");
	put("sys/fs/cgroup/user/memory.current", "1173741824\n");
	expect(0, 10);
}

static void version_1(void **state)
{
	(void)state;
	put("proc/self/cgroup", "9:name=systemd:/\n8:pids:/job\n4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n");
	put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000\n");
	put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "900000\n");
	put("sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 50000\n");
	put("sys/fs/cgroup/pids/job/pids.max", "20\n");
	put("sys/fs/cgroup/pids/job/pids.current", "20\n");
	expect(150000, 0);
}

/* The group has the name that it has outside; what is seen is the group itself. */
static void version_1_in_a_container(void **state)
{
	(void)state;
	put("proc/self/cgroup", "4:memory:/docker/0123456789\n");
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000000\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "500000000\n");
	expect(1500000000, UINT64_MAX);
}

static void damaged(void **state)
{
	(void)state;
	put("proc/self/cgroup", "0\n:\n0::/job");
	put("sys/fs/cgroup/job/memory.max", "\n");
	put("sys/fs/cgroup/job/memory.current", "many\n");
	put("sys/fs/cgroup/job/pids.max", "5");
	put("sys/fs/cgroup/job/pids.current", "");
	expect(UINT64_MAX, UINT64_MAX);
}

static void this_process(void **state)
{
	(void)state;
	assert_in_range(census_room_resident(), 1 << 16, 1ull << 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(no_files, make_root, remove_root),
		cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
		cmocka_unit_test_setup_teardown(version_1, make_root, remove_root),
		cmocka_unit_test_setup_teardown(version_1_in_a_container, make_root, remove_root),
		cmocka_unit_test_setup_teardown(damaged, make_root, remove_root),
		cmocka_unit_test(this_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
