/* SPDX-License-Identifier: MIT */
/* Which names an anonymous copy keeps, and that what analysis goes by is the same for those it does not. */
#include "synthetic.h"

#include "analyzer/exchange/alias.h"
#include "analyzer/stacks/owner_rules.h"

static struct alias a;

static const char *text(enum tfmt_text_kind kind, const char *s)
{
	static char out[512];
	struct tfmt_text t = { kind, s, strlen(s) };

	alias_texts(&a, &t, 1);
	snprintf(out, sizeof(out), "%.*s", (int)t.len, t.s);
	return out;
}

static const char *pair(enum tfmt_text_kind first, const char *x, const char *y, int which)
{
	static char out[512];
	struct tfmt_text t[] = { { first, x, strlen(x) }, { first + 1, y, strlen(y) } };

	alias_texts(&a, t, 2);
	snprintf(out, sizeof(out), "%.*s", (int)t[which].len, t[which].s);
	return out;
}

static const char *function(const char *name, const char *file)
{
	return pair(TFMT_TEXT_CODE_NAME, name, file, 0);
}

static const char *info(const char *key, const char *value)
{
	return pair(TFMT_TEXT_INFO_KEY, key, value, 1);
}

static void paths(void **state)
{
	(void)state;
	assert_string_equal(alias_path(&a, "/home/u/proj/train.py"), "/path-1/file-1.py");
	assert_string_equal(alias_path(&a, "/home/u/proj/model.py"), "/path-1/file-2.py");
	assert_string_equal(alias_path(&a, "/data/train.py"), "/path-2/file-1.py");
	assert_string_equal(alias_path(&a, "train.py"), "file-1.py");
	assert_string_equal(alias_path(&a, "/home/u/proj/train.py"), "/path-1/file-1.py");
	assert_string_equal(alias_path(&a, "/home/u/e/lib/site-packages/torch/nn/x.py"),
			    "/path-3/lib/site-packages/torch/nn/x.py");
	assert_string_equal(alias_path(&a, "/home/u/e/lib/site-packages/mine/x.py"),
			    "/path-3/lib/site-packages/path-4/file-3.py");
	assert_string_equal(alias_path(&a, "/home/u/lib/libmine.so.1.2"), "/path-5/lib/file-4.so.1.2");
	assert_string_equal(alias_path(&a, "/home/u/lib/libnccl.so.2"), "/path-5/lib/libnccl.so.2");
	assert_string_equal(alias_path(&a, "/home/u/lib/libmine.so.1.2 (deleted)"),
			    "/path-5/lib/file-4.so.1.2 (deleted)");
	assert_string_equal(alias_path(&a, "<frozen importlib._bootstrap>"), "<frozen importlib._bootstrap>");
	assert_string_equal(alias_path(&a, "[vdso]"), "[vdso]");
	assert_string_equal(alias_path(&a, "/x"), "/file-5");
	assert_string_equal(alias_path(&a, ""), "");
}

static void rules_go_on_fitting(void **state)
{
	static const char *const rows[] = {
		"/home/u/.triton/cache/AB12/cuda_utils.so",
		"/home/u/torch_extensions/py311/async_io/async_io.so",
		"/src/vllm/_C.abi3.so",
		"/src/vllm/cumem_allocator.abi3.so",
		"/src/torch/_C.cpython-311.so",
		"/opt/tensorrt_libs/libx.so",
		"/usr/lib/python3.11/ctypes/__init__.py",
		"/home/u/bin/python3.11",
		"/src/mine/libmine.so",
		"/home/u/e/dist-packages/jax_cuda12_plugin/x.so",
		"/home/u/e/site-packages/flash_attn_interface.py",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(owner_rules_match(alias_path(&a, rows[i]), NULL, NULL),
				 owner_rules_match(rows[i], NULL, NULL));
		assert_null(strstr(alias_path(&a, rows[i]), "/u/"));
		assert_null(strstr(alias_path(&a, rows[i]), "src"));
	}
	assert_string_equal(alias_path(&a, "/src/torch/nn/mine.py"), "/path-4/torch/nn/file-9.py");
	assert_string_equal(alias_path(&a, "/src/torch/nn/init.py"), "/path-4/torch/nn/init.py");
}

static void functions(void **state)
{
	(void)state;
	assert_string_equal(function("step", "/home/u/train.py"), "function-1");
	assert_string_equal(function("Net.forward", "/home/u/train.py"), "function-2");
	assert_string_equal(function("step", "/elsewhere/x.py"), "function-1");
	assert_string_equal(function("<module>", "/home/u/train.py"), "<module>");
	assert_string_equal(function("Linear.forward", "/e/site-packages/torch/nn/modules/linear.py"),
			    "Linear.forward");
	assert_string_equal(function("Mine.zero_grad", "/src/torch/nn/mine.py"), "function-3.zero_grad");
	assert_string_equal(function("Mine.other", "/src/torch/nn/mine.py"), "function-4");
}

static void facts(void **state)
{
	(void)state;
	assert_string_equal(info("note", "1"), "note-1");
	assert_string_equal(info("argv", "x"), "arguments-1");
	assert_string_equal(info("job", "20260101-7"), "job-1");
	assert_string_equal(info("job", "20260101-8.run2of3"), "job-3.run2of3");
	assert_string_equal(alias_job(&a, "20260101-8.run1of3"), "job-3.run1of3");
	assert_string_equal(info("rank", "17"), "17");
	assert_string_equal(info("torch", "2.4.0+cu121"), "2.4.0+cu121");
	assert_string_equal(info("allocator_conf", "expandable_segments:True,max_split_size_mb:64"),
			    "expandable_segments:True,max_split_size_mb:64");
	assert_string_equal(info("allocator_conf", "roundup_power2_divisions:[256:1,>:4]"),
			    "roundup_power2_divisions:[256:1,>:4]");
	assert_string_equal(info("allocator_conf", "mine:secret"), "value-1");
	assert_string_equal(info("nvtx", "on"), "on");
	assert_string_equal(info("program", "python3.11"), "python3.11");
	assert_string_equal(info("simulated", "a100-80"), "a100-80");
	assert_string_equal(info("simulated", "alices-gpu"), "gpu-1");
	assert_string_equal(info("cupti", "off: in Python a profiler may want CUPTI"),
			    "off: in Python a profiler may want CUPTI");
	assert_string_equal(info("cupti", "off: '/home/u/a b/x.so' has it"), "value-2");
	assert_string_equal(info("nvtx", "chained to /home/u/a b/libtool.so"),
			    "chained to /path-1/file-1.so");
	assert_string_equal(info("keep", "1048576 bytes, 3 steps"), "1048576 bytes, 3 steps");
	assert_string_equal(pair(TFMT_TEXT_INFO_KEY, "keep_failed", "x", 0), "keep_failed");
	assert_string_equal(pair(TFMT_TEXT_INFO_KEY, "mine", "x", 0), "key-1");
	assert_string_equal(pair(TFMT_TEXT_INFO_KEY, "unsupported.cuFoo", "1", 0), "unsupported.cuFoo");
}

static void others(void **state)
{
	(void)state;
	assert_string_equal(text(TFMT_TEXT_FUNCTION, "cudaMalloc"), "cudaMalloc");
	assert_string_equal(text(TFMT_TEXT_FUNCTION, "nccl, communicator 1 of 8 ranks"),
			    "nccl, communicator 1 of 8 ranks");
	assert_string_equal(text(TFMT_TEXT_FUNCTION, "cudaMalloc, communicator 2"),
			    "cudaMalloc, communicator 2");
	assert_string_equal(text(TFMT_TEXT_FUNCTION, "cudaMalloc, of alice"), "call-1");
	assert_string_equal(text(TFMT_TEXT_FUNCTION, "mine"), "call-2");
	assert_string_equal(text(TFMT_TEXT_THREAD, "pt_autograd_0"), "pt_autograd_0");
	assert_string_equal(text(TFMT_TEXT_THREAD, "alice"), "thread-1");
	assert_string_equal(text(TFMT_TEXT_DEVICE, "NVIDIA H100 80GB HBM3"), "NVIDIA H100 80GB HBM3");
	assert_string_equal(text(TFMT_TEXT_UUID, "GPU-1"), "uuid-1");
	assert_string_equal(text(TFMT_TEXT_STRING, "MmBackward0"), "range-1");
	assert_true(alias_is_torch_node("MmBackward0"));
	assert_true(alias_is_torch_node("torch::autograd::AccumulateGrad"));
	assert_false(alias_is_torch_node("MyFnBackward"));
	assert_false(alias_is_torch_node("torch::autograd::CppNode<Mine>"));
}

static void hosts_sort_as_before(void **state)
{
	const char *hosts[12] = { "a-b", "a", "c1", "c10", "c2", "d", "e", "f", "g", "h", "i", "j" };
	struct alias own = { 0 };

	(void)state;
	alias_host_order(&own, hosts, 12);
	assert_string_equal(alias_host(&own, "a-b"), "host-01");
	assert_string_equal(alias_host(&own, "j"), "host-12");
	alias_release(&own);
}

static void definitions_with_other_strings(void **state)
{
	uint8_t payload[256], *p = payload, *out;
	struct tfmt_text found[TFMT_DEFINITION_TEXTS];
	size_t len;

	(void)state;
	p = tfmt_put_varint(p, 2);
	p = tfmt_put_varint(p, 300);
	p = tfmt_put_string(p, "name", 4);
	p = tfmt_put_string(p, "a file", 6);
	memcpy(p, "table", 5);
	p += 5;
	assert_int_equal(tfmt_definition_texts(TFMT_DEF_CODE, payload, (size_t)(p - payload), found), 2);
	assert_int_equal(found[0].kind, TFMT_TEXT_CODE_NAME);
	assert_memory_equal(found[1].s, "a file", 6);
	found[0] = (struct tfmt_text){ TFMT_TEXT_CODE_NAME, "another", 7 };
	assert_int_equal(
		tfmt_definition_rewrite(TFMT_DEF_CODE, payload, (size_t)(p - payload), found, &out, &len), 0);
	assert_int_equal(len, (size_t)(p - payload) + 3);
	assert_memory_equal(out + 3, "\7another\6a filetable", 20);
	free(out);
	/* What follows the known part of a thread's is nobody knows what: it does not come along. */
	p = tfmt_put_string(tfmt_put_varint(payload, 7), "t", 1);
	memcpy(p, "unknown", 7);
	assert_int_equal(tfmt_definition_texts(TFMT_DEF_THREAD, payload, (size_t)(p - payload) + 7, found),
			 1);
	assert_int_equal(tfmt_definition_rewrite(TFMT_DEF_THREAD, payload, (size_t)(p - payload) + 7, found,
						 &out, &len),
			 0);
	assert_int_equal(len, 3);
	free(out);
	assert_int_equal(tfmt_definition_texts(TFMT_DEF_CODE, payload, 2, found), TFMT_E_DAMAGED);
	assert_int_equal(tfmt_definition_texts(99, payload, 2, found), 0);
	assert_int_equal(tfmt_definition_rewrite(99, payload, 2, found, &out, &len), TFMT_E_INVALID);
}

static int begin(void **state)
{
	(void)state;
	a = (struct alias){ 0 };
	return 0;
}

static int end(void **state)
{
	(void)state;
	alias_release(&a);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(paths, begin, end),
		cmocka_unit_test_setup_teardown(rules_go_on_fitting, begin, end),
		cmocka_unit_test_setup_teardown(functions, begin, end),
		cmocka_unit_test_setup_teardown(facts, begin, end),
		cmocka_unit_test_setup_teardown(others, begin, end),
		cmocka_unit_test(hosts_sort_as_before),
		cmocka_unit_test(definitions_with_other_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
