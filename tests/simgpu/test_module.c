/* SPDX-License-Identifier: MIT */
/* What modules define by name: kernels and variables, read from their images. */
#define __CUDA_API_VERSION_INTERNAL 1
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "simgpu/report.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

static const char ptx[] =
	".version 9.0\n.target sm_90\n.address_size 64\n"
	"\t.file\t1 \"/a;b/{c}.cu\"\n"
	".extern .global .align 4 .u32 elsewhere;\n"
	"/* .global .u32 commented; */\n"
	".visible .global .align 4 .u32 counter = 7;\n"
	".visible .const .align 8 .f64 coeffs[2] = {0d3FF8000000000000, 0d4004000000000000};\n"
	".global .align 1 .b8 bytes[4] = {1, 0x2, -1};\n"
	".global .align 16 .v4 .f32 many[1024][2];\n"
	".global .attribute(.managed) .u64 where = counter;\n"
	".func helper(.param .b32 a) { .local .b8 x[8]; { ret; } }\n"
	".visible .entry first(.param .u64 p) .maxntid 32 { .reg .b32 r; ret; }\n"
	".entry second() { ret; }\n";

static void variables_have_size_address_and_first_value(void **state)
{
	CUmodule module;
	CUdeviceptr p, q;
	double coeffs[2];
	unsigned word, nr;
	size_t bytes;
	CUfunction functions[2];
	const char *name;

	(void)state;
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetGlobal_v2(&p, &bytes, module, "counter"));
	assert_int_equal(bytes, 4);
	OK(cuMemcpyDtoH_v2(&word, p, 4));
	assert_int_equal(word, 7);
	OK(cuMemsetD32_v2(p, 9, 1));
	OK(cuModuleGetGlobal_v2(&q, NULL, module, "counter"));
	assert_int_equal(q, p);
	OK(cuMemcpyDtoH_v2(&word, q, 4));
	assert_int_equal(word, 9);
	OK(cuModuleGetGlobal_v2(&p, &bytes, module, "coeffs"));
	assert_int_equal(bytes, 16);
	OK(cuMemcpyDtoH_v2(coeffs, p, 16));
	assert_true(coeffs[0] == 1.5 && coeffs[1] == 2.5);
	OK(cuModuleGetGlobal_v2(&p, &bytes, module, "bytes"));
	assert_int_equal(bytes, 4);
	OK(cuMemcpyDtoH_v2(&word, p, 4));
	assert_int_equal(word, 0x00ff0201);
	OK(cuModuleGetGlobal_v2(NULL, &bytes, module, "many"));
	assert_int_equal(bytes, 1024 * 2 * 16);
	OK(cuModuleGetGlobal_v2(&p, &bytes, module, "where"));
	assert_int_equal(bytes, 8);
	assert_int_equal(cuModuleGetGlobal_v2(&p, &bytes, module, "elsewhere"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetGlobal_v2(&p, &bytes, module, "commented"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetGlobal_v2(&p, &bytes, module, "x"), CUDA_ERROR_NOT_FOUND);
	assert_int_equal(cuModuleGetGlobal_v2(&p, &bytes, (CUmodule)state, "x"), CUDA_ERROR_INVALID_HANDLE);
	OK(cuModuleGetFunctionCount(&nr, module));
	assert_int_equal(nr, 2);
	OK(cuModuleEnumerateFunctions(functions, 2, module));
	OK(cuFuncGetName(&name, functions[1]));
	assert_string_equal(name, "second");
	OK(cuModuleUnload(module));
}

static void variables_take_memory_while_loaded(void **state)
{
	static const char big[] = ".version 9.0\n.target sm_90\n.global .align 4 .b8 big[67108864];\n";
	size_t before, loaded, after, total;
	CUmodule module;

	(void)state;
	OK(cuMemGetInfo_v2(&before, &total));
	OK(cuModuleLoadData(&module, big));
	OK(cuMemGetInfo_v2(&loaded, &total));
	assert_int_equal(before - loaded, 64 << 20);
	OK(cuModuleUnload(module));
	OK(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(after, before);
}

/* One whose code and variables find no room is none, and takes nothing. */
static void modules_without_room_take_nothing(void **state)
{
	static const char huge[] = ".version 9.0\n.target sm_90\n.global .align 4 .b8 huge[4398046511104];\n";
	char path[] = "/tmp/simgpu-module-XXXXXX";
	size_t before, after, total;
	CUmodule module;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, huge, sizeof(huge)), sizeof(huge));
	close(fd);
	OK(cuMemGetInfo_v2(&before, &total));
	assert_int_equal(cuModuleLoadData(&module, huge), CUDA_ERROR_OUT_OF_MEMORY);
	assert_int_equal(cuModuleLoad(&module, path), CUDA_ERROR_OUT_OF_MEMORY);
	OK(cuMemGetInfo_v2(&after, &total));
	assert_int_equal(after, before);
	unlink(path);
}

/* Symbols whose names lie outside of a damaged binary are left out. */
static void names_outside_of_a_binary_are_left_out(void **state)
{
	static struct {
		Elf64_Ehdr head;
		Elf64_Sym symbols[2];
		char names[8];
		Elf64_Shdr sections[3];
	} binary = {
		.head = { .e_ident = ELFMAG, .e_shoff = offsetof(__typeof__(binary), sections), .e_shnum = 3,
			  .e_shentsize = sizeof(Elf64_Shdr), .e_shstrndx = 2 },
		.symbols = { { .st_name = 0, .st_info = STT_FUNC, .st_other = 0x10, .st_shndx = 2 },
			     { .st_name = 1 << 28, .st_info = STT_FUNC, .st_other = 0x10, .st_shndx = 2 } },
		.names = "kernel",
		.sections = { { 0 },
			      { .sh_type = SHT_SYMTAB, .sh_offset = offsetof(__typeof__(binary), symbols),
				.sh_size = 2 * sizeof(Elf64_Sym), .sh_link = 2 },
			      { .sh_type = SHT_STRTAB, .sh_offset = offsetof(__typeof__(binary), names), .sh_size = 8 } },
	};
	CUfunction function;
	const char *name;
	CUmodule module;
	unsigned nr;

	(void)state;
	binary.head.e_ident[EI_CLASS] = ELFCLASS64;
	OK(cuModuleLoadData(&module, &binary));
	OK(cuModuleGetFunctionCount(&nr, module));
	assert_int_equal(nr, 1);
	OK(cuModuleEnumerateFunctions(&function, 1, module));
	OK(cuFuncGetName(&name, function));
	assert_string_equal(name, "kernel");
	OK(cuModuleUnload(module));
	binary.sections[2].sh_size = 6; /* without the NUL */
	OK(cuModuleLoadData(&module, &binary));
	OK(cuModuleGetFunctionCount(&nr, module));
	assert_int_equal(nr, 0);
	OK(cuModuleUnload(module));
}

/* Link-time intermediates do not tell: refused by name. */
static void images_that_cannot_be_read_are_refused(void **state)
{
	static const unsigned char intermediate[16] = { 0xed, 0x43, 0x4e, 0x7f };
	const struct simgpu_report *report;
	CUlibrary library;
	CUdeviceptr p = 5;
	size_t bytes = 5;
	uint32_t i;

	(void)state;
	OK(cuLibraryLoadData(&library, intermediate, NULL, NULL, 0, NULL, NULL, 0));
	assert_int_equal(cuLibraryGetGlobal(&p, &bytes, library, "x"), CUDA_ERROR_NOT_SUPPORTED);
	assert_int_equal(p, 5);
	assert_int_equal(bytes, 5);
	report = simgpu_report();
	for (i = 0; i < report->nr_names && strcmp(report->names[i].name, "cuLibraryGetGlobal"); i++)
		;
	assert_true(i < report->nr_names);
	assert_int_equal(report->names[i].calls, 1);
	OK(cuLibraryUnload(library));
}

/* An H100's SM has 228 KiB, of which each block takes 1 KiB, and a block uses at most 227. */
static void blocks_share_an_sm_evenly(void **state)
{
	CUfunction first;
	CUmodule module;
	size_t bytes;

	(void)state;
	OK(cuModuleLoadData(&module, ptx));
	OK(cuModuleGetFunction(&first, module, "first"));
	OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, first, 1, 32));
	assert_int_equal(bytes, 227 << 10);
	OK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, first, 4, 32));
	assert_int_equal(bytes, 56 << 10);
	assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, first, 0, 32), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, first, 1, 1025), CUDA_ERROR_INVALID_VALUE);
	assert_int_equal(cuOccupancyAvailableDynamicSMemPerBlock(NULL, first, 1, 32), CUDA_ERROR_INVALID_VALUE);
	OK(cuModuleUnload(module));
}

static int set_up(void **state)
{
	CUcontext context;

	(void)state;
	return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(variables_have_size_address_and_first_value),
		cmocka_unit_test(variables_take_memory_while_loaded),
		cmocka_unit_test(modules_without_room_take_nothing),
		cmocka_unit_test(names_outside_of_a_binary_are_left_out),
		cmocka_unit_test(blocks_share_an_sm_evenly),
		cmocka_unit_test(images_that_cannot_be_read_are_refused),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
