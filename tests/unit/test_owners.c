/* SPDX-License-Identifier: MIT */
/* Whose memory it is: built-in rules, a user's own, the stack they are applied to, and NCCL's communicators. */
#include "synthetic.h"

#include "analyzer/holders/outside.h"
#include "analyzer/replay/replay.h"
#include "analyzer/stacks/owner_rules.h"

#define MiB (1ull << 20)
#define TRACE "host.1.1.vtr"
#define RULES                                                  \
	"# mine first\n"                                       \
	"libfoo*.so   foo-lib   # a comment\n"                 \
	"\n"                                                   \
	"*/vendor/*   vendor\n"                                \
	"libglue.so   -\n"                                     \
	"libcublas*   my.blas\n"                               \
	"libc10_cuda* -\n"                                     \
	"libtorch_cuda.so  sdpa  *flash*\n"

static const struct replay_options quiet = { .quiet = true };

static const char *owner_of(const char *path)
{
	int owner = owner_rules_match(path, NULL, NULL);

	return owner == OWNER_PASS_OVER ? "-" : owner == OWNER_NO_RULE ? "" : owner_names[owner];
}

static void libraries_by_their_files(void **state)
{
	static const char *const rows[][2] = {
		{ "/e/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", "nccl" },
		{ "/usr/lib/libcudnn_graph.so.9", "cudnn" },
		{ "/usr/lib/libcufft.so.12", "cufft" },
		{ "/e/site-packages/torch/lib/libtorch_cuda.so", "torch" },
		{ "/e/site-packages/torch/_C.cpython-311-x86_64-linux-gnu.so", "torch" },
		{ "/e/site-packages/bitsandbytes/libbitsandbytes_cuda130.so", "bitsandbytes" },
		{ "/e/site-packages/cupy/cuda/memory.cpython-311-x86_64-linux-gnu.so", "cupy" },
		{ "/e/dist-packages/cupy_backends/cuda/api/runtime.cpython-310.so", "cupy" },
		{ "/e/site-packages/jax_plugins/xla_cuda12/xla_cuda_plugin.so", "jax" },
		{ "/e/site-packages/tensorflow/libtensorflow_cc.so.2", "tensorflow" },
		{ "/usr/lib/x86_64-linux-gnu/libnvinfer.so.10", "tensorrt" },
		{ "/e/site-packages/onnxruntime/capi/libonnxruntime_providers_cuda.so", "onnxruntime" },
		{ "/e/site-packages/flash_attn_2_cuda.cpython-311-x86_64-linux-gnu.so", "flash-attn" },
		{ "/src/vllm/vllm/_C.abi3.so", "vllm" },
		{ "/home/me/vllm/build/mine.so", "" }, /* a folder of that name is not the project */
		{ "/e/site-packages/nvidia/nvshmem/lib/libnvshmem_host.so.3", "nvshmem" },
		{ "/usr/lib/ucx/libuct_cuda.so.0", "ucx" },
		{ "/usr/lib/libucp.so.0", "ucx" },
		{ "/e/site-packages/faiss/_swigfaiss_avx2.cpython-311-x86_64-linux-gnu.so", "faiss" },
		{ "/e/site-packages/librmm/lib64/librmm.so", "rmm" },
		{ "/e/site-packages/cv2/cv2.abi3.so", "opencv" },
		{ "/root/.triton/cache/ab/__triton_launcher.cpython-311-x86_64-linux-gnu.so", "triton" },
		{ "/root/.cache/torch_extensions/py311_cu130/fused_adam/fused_adam.so", "deepspeed" },
		{ "/e/site-packages/numba/cuda/cudadrv/driver.py", "numba" },
		{ "/usr/lib/x86_64-linux-gnu/libffi.so.8", "-" },
		{ "/e/site-packages/cuda/bindings/driver.cpython-311-x86_64-linux-gnu.so", "-" },
		{ "/usr/bin/python3.11", "-" },
		{ "/home/me/train", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_string_equal(owner_of(rows[i][0]), rows[i][1]);
}

static const char *flash(void *ctx)
{
	(void)ctx;
	return "at::native::flash_forward";
}

static const char *other(void *ctx)
{
	(void)ctx;
	return "at::native::add";
}

static void the_users_rules_come_first(void **state)
{
	const char *torch = "/e/site-packages/torch/lib/libtorch_cuda.so";

	(void)state;
	assert_string_equal(owner_of("/opt/libfoo-1.so"), "foo-lib");
	assert_string_equal(owner_of("/opt/vendor/lib/libbar.so"), "vendor");
	assert_string_equal(owner_of("/opt/libglue.so"), "-");
	assert_string_equal(owner_of("/usr/lib/libcublasLt.so.13"), "my.blas");
	assert_true(owner_rules_need_functions());
	assert_string_equal(owner_names[owner_rules_match(torch, flash, NULL)], "sdpa");
	assert_string_equal(owner_names[owner_rules_match(torch, other, NULL)], "torch");
	assert_string_equal(owner_of(torch), "torch");
}

enum { FN_MALLOC = 1, FN_INIT, FN_REDUCE, FN_UNKNOWN, FN_MODELLED, FN_DAMAGED };

/* The stacks that the trace's events name. */
static void define_stacks(struct synthetic *s)
{
	synthetic_module(s, 0, 0x10000, 0x20000, "/x/libinterpose.so");
	synthetic_module(s, 1, 0x20000, 0x30000, "/usr/lib/libffi.so.8");
	synthetic_module(s, 2, 0x30000, 0x40000, "/usr/bin/python3.11");
	synthetic_module(s, 3, 0x40000, 0x50000, "/opt/libfoo.so");
	synthetic_module(s, 4, 0x50000, 0x60000, "/opt/libnccl.so.2");
	synthetic_code(s, 1, "alloc", "/e/site-packages/numba/cuda/cudadrv/driver.py", 3);
	synthetic_code(s, 2, "main", "/home/me/train.py", 9);
	synthetic_code(s, 3, "__call__", "/usr/lib/python3.11/ctypes/__init__.py", 9);
	synthetic_frame(s, 2, 0, TFMT_FRAME_NATIVE, 0x30010, 0); /* python <- libffi <- us */
	synthetic_frame(s, 3, 2, TFMT_FRAME_NATIVE, 0x20010, 0);
	synthetic_frame(s, 4, 3, TFMT_FRAME_NATIVE, 0x10010, 0);
	synthetic_frame(s, 5, 0, TFMT_FRAME_NATIVE, 0x40010, 0); /* libfoo <- us */
	synthetic_frame(s, 6, 5, TFMT_FRAME_NATIVE, 0x10010, 0);
	synthetic_frame(s, 7, 0, TFMT_FRAME_NATIVE, 0x50010, 0); /* NCCL <- us */
	synthetic_frame(s, 8, 7, TFMT_FRAME_NATIVE, 0x10010, 0);
	synthetic_frame(s, 9, 0, TFMT_FRAME_PYTHON, 2, 0); /* train.py <- numba <- ctypes */
	synthetic_frame(s, 10, 9, TFMT_FRAME_PYTHON_ENTRY, 1, 0); /* called back by native code */
	synthetic_frame(s, 11, 10, TFMT_FRAME_PYTHON, 3, 0);
	synthetic_function(s, FN_MALLOC, "cuMemAlloc_v2");
	synthetic_function(s, FN_INIT, "ncclCommInitRank, communicator 2 of 8 ranks");
	synthetic_function(s, FN_REDUCE, "ncclAllReduce, communicator 2 of 8 ranks");
	synthetic_function(s, FN_UNKNOWN, "ncclGroupEnd");
	synthetic_function(s, FN_MODELLED, "nccl, communicator 3");
	synthetic_function(s, FN_DAMAGED, "ncclAllReduce, communicator 70000 of 8 ranks");
}

/* Memory taken by each way into the driver. */
static void take_memory(struct synthetic *s)
{
	s->function = FN_MALLOC;
	s->native_stack = 4;
	s->python_stack = 11;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, 0x100000, 1 * MiB, 0);
	s->python_stack = 9;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, 0x200000, 2 * MiB, 0);
	s->native_stack = 6;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, 0x400000, 4 * MiB, 0);
	s->native_stack = 8;
	s->function = FN_INIT;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, 0x800000, 8 * MiB, 0);
	s->flags = TFMT_OBJECT_COMMUNICATOR;
	synthetic_event(s, TFMT_OBJECT_NEW, 0, 0x5555, 8, 5);
	s->flags = 0;
	s->function = FN_REDUCE;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, 0x1000000, 16 * MiB, 0);
	s->function = FN_UNKNOWN;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, 0x2000000, 32 * MiB, 0);
	s->function = FN_DAMAGED; /* no such number: nobody's in particular, and no reason to give up */
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, 0x8000000, 128 * MiB, 0);
	s->function = FN_MODELLED;
	s->flags = TFMT_FLAG_MODELLED;
	synthetic_event(s, TFMT_DRIVER_ALLOC, 0, TFMT_MODELLED_ADDRESS, 64 * MiB, 0);
	s->flags = 0;
}

/* The sum by owner is the peak, and NCCL's by communicator its part. */
static void calls_of_a_trace(void **state)
{
	struct tfmt_header header = synthetic_header(1);
	struct synthetic s;
	struct replay m = REPLAY_INIT;
	struct outside o;
	uint64_t sum = 0;

	(void)state;
	synthetic_open(&s, TRACE, &header);
	define_stacks(&s);
	take_memory(&s);
	synthetic_close(&s, 0);
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	outside_find(&o, &m.device[0]);
	for (int i = 0; i < NR_OWNERS; i++)
		sum += o.owner[i];
	assert_int_equal(sum, 255 * MiB);
	assert_int_equal(o.owner[OWNER_PROGRAM], 2 * MiB);
	assert_int_equal(o.owner[OWNER_NCCL], 248 * MiB);
	for (int i = OWNER_OTHERS; i < NR_OWNERS; i++)
		if (o.owner[i])
			assert_int_equal(o.owner[i], !strcmp(owner_names[i], "numba") ? 1 * MiB : 4 * MiB);
	assert_int_equal(o.nccl.nr_rows, 3);
	assert_int_equal(o.nccl.row[0].bytes, 160 * MiB); /* of one of them: nobody can say which */
	assert_int_equal(o.nccl.row[0].number, 0);
	assert_int_equal(o.nccl.row[0].nr_ranks, 0);
	assert_int_equal(o.nccl.row[1].number, 2);
	assert_int_equal(o.nccl.row[1].nr_ranks, 8);
	assert_int_equal(o.nccl.row[1].rank, 5);
	assert_int_equal(o.nccl.row[1].bytes, 24 * MiB);
	assert_int_equal(o.nccl.row[2].number, 3);
	assert_int_equal(o.nccl.row[2].rank, -1);
	assert_int_equal(o.nccl.row[2].bytes, 64 * MiB);
	outside_release(&o);
	replay_release(&m);
}

/* PyTorch's allocator is on the way also where a rule passes its file over, or one after it. */
static void the_allocator_is_seen_in_a_file_passed_over(void **state)
{
	struct tfmt_header header = synthetic_header(1);
	struct owner_answer verdict;
	struct synthetic s;
	struct replay m = REPLAY_INIT;

	(void)state;
	synthetic_open(&s, TRACE, &header);
	synthetic_module(&s, 0, 0x10000, 0x20000, "/x/libinterpose.so");
	synthetic_module(&s, 1, 0x20000, 0x30000, "/e/site-packages/torch/lib/libc10_cuda.so");
	synthetic_module(&s, 2, 0x30000, 0x40000, "/e/site-packages/torch/lib/libtorch_cuda.so");
	synthetic_frame(&s, 2, 0, TFMT_FRAME_NATIVE, 0x30010, 0);
	synthetic_frame(&s, 3, 2, TFMT_FRAME_NATIVE, 0x20010, 0);
	synthetic_frame(&s, 4, 3, TFMT_FRAME_NATIVE, 0x10010, 0);
	s.native_stack = 4;
	synthetic_event(&s, TFMT_DRIVER_ALLOC, 0, 0x100000, 1 * MiB, 0);
	synthetic_close(&s, 0);
	assert_int_equal(replay_load(&m, TRACE, &quiet), 0);
	verdict = books_owner(m.process[0].books, 4, 0);
	assert_int_equal(verdict.owner, OWNER_TORCH);
	assert_true(verdict.torch_allocator);
	assert_int_equal(m.device[0].books->reserved_peak_bytes, 1 * MiB);
	replay_release(&m);
}

static void what_a_function_says_of_its_communicator(void **state)
{
	uint32_t number, nr_ranks;

	(void)state;
	assert_true(communicator_of("ncclAllReduce, communicator 12 of 512 ranks", &number, &nr_ranks));
	assert_int_equal(number, 12);
	assert_int_equal(nr_ranks, 512);
	assert_true(communicator_of("nccl, communicator 3", &number, &nr_ranks));
	assert_int_equal(nr_ranks, 0);
	assert_false(communicator_of("cudaMalloc", &number, &nr_ranks));
	assert_false(communicator_of("f, communicator x", &number, &nr_ranks));
	assert_int_equal(number, 0);
	assert_int_equal(owner_named("nccl, communicator 3"), OWNER_NCCL);
	assert_int_equal(owner_named("ncclx"), OWNER_UNKNOWN);
}

static int enter(void **state)
{
	int failed = synthetic_enter(state);
	FILE *f = failed ? NULL : fopen("owners", "w");

	if (!f)
		return -1;
	fputs(RULES, f);
	fclose(f);
	setenv("VRAMTRACE_OWNERS", "owners", 1);
	return owner_rules_load();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(libraries_by_their_files),
		cmocka_unit_test(the_users_rules_come_first),
		cmocka_unit_test(calls_of_a_trace),
		cmocka_unit_test(the_allocator_is_seen_in_a_file_passed_over),
		cmocka_unit_test(what_a_function_says_of_its_communicator),
	};

	return cmocka_run_group_tests(tests, enter, synthetic_leave);
}
