/* SPDX-License-Identifier: MIT */
/* Wrappers of the driver's calls that load and unload device code. */
#include <elf.h>
#include <string.h>
#include <sys/stat.h>

#include "hooks_driver.h"
#include "samples.h"

/*
 * Bytes of device code: as CUPTI told, else of a cubin, which is an ELF file that ends with its tables. PTX
 * and fat binaries hold more than is loaded, or less; what they come to is not told.
 */
static uint64_t image_bytes(const void *image)
{
	uint64_t told = ip_cupti_module_bytes();
	uint64_t sections, segments;
	Elf64_Ehdr elf;

	if (told || !image || memcmp(image, ELFMAG, SELFMAG) != 0)
		return told;
	memcpy(&elf, image, sizeof(elf));
	if (elf.e_ident[EI_CLASS] != ELFCLASS64)
		return 0;
	sections = elf.e_shoff + (uint64_t)elf.e_shnum * elf.e_shentsize;
	segments = elf.e_phoff + (uint64_t)elf.e_phnum * elf.e_phentsize;
	return sections > segments ? sections : segments;
}

static uint64_t file_bytes(const char *path)
{
	int saved = errno;
	uint64_t bytes = ip_cupti_module_bytes();
	struct stat st;

	if (!bytes && !stat(path, &st))
		bytes = (uint64_t)st.st_size;
	errno = saved;
	return bytes;
}

static void loaded(enum tfmt_object object, uint16_t function, const void *handle, uint64_t bytes)
{
	int saved = errno;
	struct ip_thread *t;

	if (object == TFMT_OBJECT_MODULE && !ip_context_number())
		ip_context_used(function, ip_driver_device());
	t = ip_driver_born((struct tfmt_record){ .kind = TFMT_OBJECT_NEW,
						 .flags = (uint16_t)object,
						 .function = function,
						 .device = IP_CURRENT_DEVICE,
						 .address = (uintptr_t)handle,
						 .size = bytes });
	if (t)
		ip_sample_now(t, ip_driver_device());
	errno = saved;
}

WRAP(cuModuleLoad, (CUmodule *out, const char *path), (out, path),
     loaded(TFMT_OBJECT_MODULE, FN_cuModuleLoad, *out, file_bytes(path)))
WRAP(cuModuleLoadData, (CUmodule *out, const void *image), (out, image),
     loaded(TFMT_OBJECT_MODULE, FN_cuModuleLoadData, *out, image_bytes(image)))
WRAP(cuModuleLoadDataEx,
     (CUmodule *out, const void *image, unsigned nr, CUjit_option *options, void **values),
     (out, image, nr, options, values),
     loaded(TFMT_OBJECT_MODULE, FN_cuModuleLoadDataEx, *out, image_bytes(image)))
WRAP(cuModuleLoadFatBinary, (CUmodule *out, const void *image), (out, image),
     loaded(TFMT_OBJECT_MODULE, FN_cuModuleLoadFatBinary, *out, image_bytes(image)))
WRAP(cuModuleUnload, (CUmodule module), (module),
     ip_driver_gone(FN_cuModuleUnload, TFMT_OBJECT_MODULE, (uintptr_t)module))

#define OPTIONS                                                                                              \
	CUjit_option *jit, void **jit_values, unsigned nr_jit, CUlibraryOption *options, void **values,      \
		unsigned nr
#define OPTION_ARGS jit, jit_values, nr_jit, options, values, nr

WRAP(cuLibraryLoadData, (CUlibrary *out, const void *image, OPTIONS), (out, image, OPTION_ARGS),
     loaded(TFMT_OBJECT_LIBRARY, FN_cuLibraryLoadData, *out, image_bytes(image)))
WRAP(cuLibraryLoadFromFile, (CUlibrary *out, const char *path, OPTIONS), (out, path, OPTION_ARGS),
     loaded(TFMT_OBJECT_LIBRARY, FN_cuLibraryLoadFromFile, *out, file_bytes(path)))
WRAP(cuLibraryUnload, (CUlibrary library), (library),
     ip_driver_gone(FN_cuLibraryUnload, TFMT_OBJECT_LIBRARY, (uintptr_t)library))
