/* SPDX-License-Identifier: MIT */
/* The table of library names behind enum owner. */
#include "analyzer/owner.h"

#include <stdlib.h>
#include <string.h>

const char *const owner_names[NR_OWNERS] = {
	[OWNER_UNKNOWN] = "unknown",   [OWNER_PROGRAM] = "program",   [OWNER_TORCH] = "torch",
	[OWNER_NCCL] = "nccl",         [OWNER_CUBLAS] = "cublas",     [OWNER_CUDNN] = "cudnn",
	[OWNER_CUFFT] = "cufft",       [OWNER_CUSOLVER] = "cusolver", [OWNER_CUSPARSE] = "cusparse",
	[OWNER_CURAND] = "curand",     [OWNER_NVSHMEM] = "nvshmem",   [OWNER_TRITON] = "triton",
	[OWNER_CONTEXT] = "context",   [OWNER_CODE] = "code",
};

const char *const owner_titles[NR_OWNERS] = {
	[OWNER_UNKNOWN] = "unknown",   [OWNER_PROGRAM] = "the program", [OWNER_TORCH] = "PyTorch",
	[OWNER_NCCL] = "NCCL",         [OWNER_CUBLAS] = "cuBLAS",       [OWNER_CUDNN] = "cuDNN",
	[OWNER_CUFFT] = "cuFFT",       [OWNER_CUSOLVER] = "cuSOLVER",   [OWNER_CUSPARSE] = "cuSPARSE",
	[OWNER_CURAND] = "cuRAND",     [OWNER_NVSHMEM] = "NVSHMEM",     [OWNER_TRITON] = "Triton",
	[OWNER_CONTEXT] = "context",   [OWNER_CODE] = "code",
};

enum owner owner_named(const char *name)
{
	for (int i = 0; i < NR_OWNERS; i++)
		if (!strcmp(owner_names[i], name))
			return (enum owner)i;
	return OWNER_UNKNOWN;
}

/* File names that begin so belong to ...; the first match counts. */
static const struct {
	const char *prefix;
	enum owner owner;
} libraries[] = {
	{ "libc10", OWNER_TORCH },
	{ "libtorch", OWNER_TORCH },
	{ "libcaffe2", OWNER_TORCH },
	{ "libnccl", OWNER_NCCL },
	{ "libcublas", OWNER_CUBLAS },
	{ "libcudnn", OWNER_CUDNN },
	{ "libcufft", OWNER_CUFFT },
	{ "libcusolver", OWNER_CUSOLVER },
	{ "libcusparse", OWNER_CUSPARSE },
	{ "libcurand", OWNER_CURAND },
	{ "libnvshmem", OWNER_NVSHMEM },
	{ "libtriton", OWNER_TRITON },
};

/* The layer below whoever asked; libcuda.so.1 is a link to libsimgpu.so when the device is simulated. */
static const char *const cuda_layer[] = { "libcuda.so", "libcudart", "libinterpose.so", "libsimgpu.so" };

#define CACHED_MAX (1u << 26) /* ids come from a trace: a damaged one must not make us allocate by them */
#define STACK_DEPTH_MAX 100000 /* a damaged trace may link its frames in a circle */

bool owner_is_cuda_layer(const char *path)
{
	const char *name = mapping_base_name(path);

	for (size_t i = 0; i < sizeof(cuda_layer) / sizeof(*cuda_layer); i++)
		if (!strncmp(name, cuda_layer[i], strlen(cuda_layer[i])))
			return true;
	return false;
}

bool owner_is_libc(const char *path)
{
	const char *name = mapping_base_name(path);

	return !strncmp(name, "libc.so", strlen("libc.so")) || !strncmp(name, "ld-linux", strlen("ld-linux"));
}

static enum owner owner_of_file(const char *path)
{
	const char *name = mapping_base_name(path);

	for (size_t i = 0; i < sizeof(libraries) / sizeof(*libraries); i++)
		if (!strncmp(name, libraries[i].prefix, strlen(libraries[i].prefix)))
			return libraries[i].owner;
	/* Triton's launchers and drivers are compiled into its cache folder. */
	return strstr(path, "/triton/") || strstr(path, "/.triton/") ? OWNER_TRITON : OWNER_PROGRAM;
}

static struct owner_verdict judge(struct mapping *m, uint32_t native_stack)
{
	struct owner_verdict verdict = { OWNER_UNKNOWN, false };
	struct tfmt_frame frame;
	uint32_t id = native_stack;

	for (int depth = 0; depth < STACK_DEPTH_MAX; depth++) {
		const struct tfmt_module *module;
		bool innermost = depth == 0;

		if (id < TFMT_STACK_FIRST || !tfmt_reader_frame(m->reader, id, &frame))
			break;
		id = frame.parent;
		if (frame.kind != TFMT_FRAME_NATIVE)
			continue;
		module = mapping_find(
		    m, frame.a - !innermost); /* a return address may be the first byte behind a call */
		if (module && owner_is_cuda_layer(module->path))
			continue;
		verdict.owner = module ? owner_of_file(module->path) : OWNER_PROGRAM;
		verdict.torch_allocator =
		    module && !strncmp(mapping_base_name(module->path), "libc10_cuda", strlen("libc10_cuda"));
		break;
	}
	return verdict;
}

void owner_cache_release(struct owner_cache *c)
{
	free(c->verdict);
	free(c->known);
	*c = (struct owner_cache){ 0 };
}

static bool cache_grow(struct owner_cache *c, uint32_t wanted)
{
	uint32_t room = c->room ? c->room : 256;
	struct owner_verdict *verdict;
	bool *known;

	while (room <= wanted)
		room *= 2;
	verdict = realloc(c->verdict, room * sizeof(*verdict));
	if (!verdict)
		return false;
	c->verdict = verdict;
	known = realloc(c->known, room * sizeof(*known));
	if (!known)
		return false;
	c->known = known;
	memset(known + c->room, 0, (room - c->room) * sizeof(*known));
	c->room = room;
	return true;
}

struct owner_verdict owner_of_stack(struct owner_cache *c, struct mapping *m, uint32_t native_stack)
{
	if (native_stack < TFMT_STACK_FIRST)
		return (struct owner_verdict){ OWNER_UNKNOWN, false };
	if (native_stack >= CACHED_MAX || (native_stack >= c->room && !cache_grow(c, native_stack)))
		return judge(m, native_stack);
	if (!c->known[native_stack]) {
		c->verdict[native_stack] = judge(m, native_stack);
		c->known[native_stack] = true;
	}
	return c->verdict[native_stack];
}
