/* SPDX-License-Identifier: MIT */
/* Settings of PyTorch's allocator: what is read, what is refused in which words, and the sizes that follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/allocator/allocconf.h"

#define MIB (1ull << 20)
#define OLD ALLOCCONF_VERSION(2u, 6u)
#define NEW ALLOCCONF_VERSION(2u, 11u)

static struct allocconf read_well(const char *text, unsigned version)
{
	struct allocconf c;
	char why[256] = "";

	if (!allocconf_read(&c, text, version, why, sizeof(why)))
		fail_msg("'%s': %s", text, why);
	return c;
}

static void is_refused(const char *text, unsigned version, const char *said)
{
	struct allocconf c;
	char why[256] = "";

	assert_false(allocconf_read(&c, text, version, why, sizeof(why)));
	assert_string_equal(why, said);
}

static void settings_are_read(void **state)
{
	struct allocconf c = read_well(" max_split_size_mb : 128 , garbage_collection_threshold:0.8", NEW);

	(void)state;
	assert_int_equal(c.max_split_bytes, 128 * MIB);
	assert_true(c.gc_threshold > 0.79 && c.gc_threshold < 0.81);
	c = read_well("backend:cudaMallocAsync,pinned_use_background_threads:True", NEW);
	assert_int_equal(c.backend, ALLOCCONF_ASYNC);
	c = read_well("expandable_segments:True", NEW);
	assert_true(c.expandable && c.max_split_bytes == UINT64_MAX);
	assert_int_equal(read_well(NULL, NEW).large_segment_bytes, 20 * MIB);
	assert_int_equal(read_well("", OLD).large_segment_bytes, 20 * MIB);
	assert_int_equal(read_well("large_segment_size_mb:32,", NEW).large_segment_bytes, 32 * MIB);
	/* What follows the digits does not matter to PyTorch, and what is below 0 is a very large number. */
	assert_int_equal(read_well("max_split_size_mb:128.5", NEW).max_split_bytes, 128 * MIB);
	assert_int_equal(read_well("max_split_size_mb:-5", NEW).max_split_bytes, UINT64_MAX);
}

static void what_is_given_later_changes_some(void **state)
{
	struct allocconf c = read_well("expandable_segments:True,max_split_size_mb:64,roundup_power2_divisions:4", NEW);
	char why[128];

	(void)state;
	assert_true(allocconf_change(&c, "garbage_collection_threshold:0.5,large_segment_size_mb:32", why, sizeof(why)));
	assert_true(c.expandable && c.gc_threshold > 0.4);
	assert_int_equal(c.max_split_bytes, UINT64_MAX);
	assert_int_equal(c.divisions[3], 0);
	assert_true(allocconf_change(&c, "expandable_segments:False,max_non_split_rounding_mb:40", why, sizeof(why)));
	assert_true(!c.expandable && c.gc_threshold < 0.1);
	assert_int_equal(c.large_segment_bytes, 32 * MIB);
	assert_int_equal(c.unsplit_rounding_bytes, 40 * MIB);
	assert_true(allocconf_change(&c, "", why, sizeof(why)));
	assert_int_equal(c.unsplit_rounding_bytes, 32 * MIB);
	assert_false(allocconf_change(&c, "max_split_size_mb:3", why, sizeof(why)));
}

static void others_are_refused(void **state)
{
	(void)state;
	is_refused("foo:1", NEW, "Unrecognized key 'foo' in CUDA allocator config.");
	is_refused("foo:1", OLD, "Unrecognized CachingAllocator option: foo");
	is_refused("max_split_size_mb:10", NEW, "CachingAllocator option max_split_size_mb too small, must be >= 20");
	is_refused("max_split_size_mb:20", OLD, "CachingAllocator option max_split_size_mb too small, must be > 20");
	is_refused("garbage_collection_threshold:0", NEW, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
	is_refused("garbage_collection_threshold:nan", NEW, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
	is_refused("per_process_memory_fraction:1.5", NEW, "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
	is_refused("expandable_segments=True", NEW, "Unrecognized key 'expandable_segments=True' in CUDA allocator config.");
	is_refused("large_segment_size_mb:32", OLD, "'large_segment_size_mb' came with PyTorch 2.11; this is 2.6");
	is_refused("max_split_size_mb:x", NEW, "stoull: 'x' is no number");
	is_refused("roundup_power2_divisions:[256:1", NEW,
		   "Expected closing bracket ']' in ConfigTokenizer but reached end of config");
	is_refused("max_split_size_mb", NEW, "Expected ':' at index 1 in ConfigTokenizer but got ''");
}

static void sizes_are_rounded(void **state)
{
	struct allocconf c = read_well("", NEW);

	(void)state;
	assert_int_equal(allocconf_rounded(&c, 1), 512);
	assert_int_equal(allocconf_rounded(&c, 513), 1024);
	assert_int_equal(allocconf_rounded(&c, MIB + 1), MIB + 512);
	assert_int_equal(allocconf_segment(&c, MIB), 2 * MIB);
	assert_int_equal(allocconf_segment(&c, MIB + 512), 20 * MIB);
	assert_int_equal(allocconf_segment(&c, 10485760), 10485760);
	assert_int_equal(allocconf_segment(&c, 10486272), 12582912);
	c = read_well("roundup_power2_divisions:4", NEW);
	assert_int_equal(allocconf_rounded(&c, 1200), 1536); /* not above 512 times the divisions */
	assert_int_equal(allocconf_rounded(&c, 5000), 5120);
	assert_int_equal(allocconf_rounded(&c, 3145733), 3670016);
	c = read_well("roundup_power2_divisions:8", NEW);
	assert_int_equal(allocconf_rounded(&c, 1025 * MIB), 1152 * MIB);
}

/* The first interval holds for all below it; ">" begins after the last in 2.11, with it in 2.6. */
static void a_list_has_intervals(void **state)
{
	struct allocconf c = read_well("roundup_power2_divisions:[256:1,512:2,>:4]", NEW);

	(void)state;
	assert_int_equal(c.divisions[0], 1);
	assert_int_equal(c.divisions[8], 1);
	assert_int_equal(c.divisions[9], 2);
	assert_int_equal(c.divisions[10], 4);
	assert_int_equal(c.divisions[15], 4);
	c = read_well("roundup_power2_divisions:[256:1,512:2,>:4]", OLD);
	assert_int_equal(c.divisions[8], 1);
	assert_int_equal(c.divisions[9], 4);
	c = read_well("roundup_power2_divisions:[>:4]", NEW);
	assert_int_equal(c.divisions[0], 4);
}

static void versions_are_read(void **state)
{
	(void)state;
	assert_int_equal(allocconf_version("2.11.0+cu130"), NEW);
	assert_int_equal(allocconf_version("2.6"), OLD);
	assert_int_equal(allocconf_version("newest"), 0);
	assert_int_equal(allocconf_version(NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_read),	cmocka_unit_test(what_is_given_later_changes_some),
		cmocka_unit_test(others_are_refused),
		cmocka_unit_test(sizes_are_rounded),	cmocka_unit_test(a_list_has_intervals),
		cmocka_unit_test(versions_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
