/* SPDX-License-Identifier: MIT */
/* Modules and kernels: names without code. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "simgpu/callback.h"
#include "simgpu/image.h"
#include "simgpu/module.h"
#include "simgpu/taken.h"

enum {
	MODULE_MAGIC = 0x4d4f4455,
	FUNCTION_MAGIC = 0x46554e43,
	DEFAULT_DYNAMIC_SHARED = 48 * 1024,
	REGISTERS = 32
};

/* Also what a CUlibrary is. */
struct module {
	uint32_t magic;
	uint32_t id;
	int architecture, compiled;	/* what the image was made for, and what of it runs */
	struct function *functions;
	struct sim_symbols symbols;
	size_t code_bytes;		/* of a device's memory, where it is loaded */
	uint64_t taken[SIM_MAX_DEVICES];	/* those bytes as sim_take() has them; 0: not loaded there */
};

/* Also what a CUkernel is. */
struct function {
	uint32_t magic;
	struct module *module;
	struct function *next;
	int dynamic_shared_bytes;	/* the most a launch may ask for */
	int carveout;
	char name[];
};

static struct module *module_of(void *handle)
{
	struct module *m = handle;

	return m && m->magic == MODULE_MAGIC ? m : NULL;
}

static struct function *function_of(void *handle)
{
	struct function *f = handle;

	return f && f->magic == FUNCTION_MAGIC ? f : NULL;
}

/* ---- modules --------------------------------------------------------------------------------- */

static int compute_capability(void)
{
	return sim_profile()->cc_major * 10 + sim_profile()->cc_minor;
}

static size_t image_bytes(const void *image)
{
	return sim_image_bytes(image, compute_capability());
}

/* Load M's code on DEV, once. */
static CUresult load_on(struct module *m, int dev)
{
	CUresult ret = CUDA_SUCCESS;

	sim_lock();
	if (m->code_bytes && !m->taken[dev]) {
		__atomic_store_n(&m->taken[dev], sim_take_locked(dev, "code", m->code_bytes), __ATOMIC_RELAXED);
		ret = m->taken[dev] ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	sim_unlock();
	return ret;
}

/* A library's code is loaded where it is first used. */
static CUresult load_here(struct module *m)
{
	int dev;

	if (!m->code_bytes || sim_context_need(&dev) || __atomic_load_n(&m->taken[dev], __ATOMIC_RELAXED))
		return CUDA_SUCCESS;
	return load_on(m, dev);
}

/* Of an image by itself, and of a collection only as a module: what is linked into programs counts as context. */
static bool counts(const void *image, bool is_library)
{
	return !is_library || !sim_image_is_collection(image);
}

/* TOLD: what CUPTI is told of as the image. */
static CUresult module_new(void **handle, const void *image, const void *told, size_t bytes, bool is_library)
{
	static uint32_t last_id;
	const int cc = compute_capability();
	struct module *m;

	if (!handle)
		return CUDA_ERROR_INVALID_VALUE;
	m = sim_zalloc(sizeof(*m));
	m->magic = MODULE_MAGIC;
	m->architecture = m->compiled = cc;
	if (image) {
		m->architecture = sim_image_architecture(image, cc, &m->compiled);
		sim_symbols_read(&m->symbols, image, cc);
		if (counts(image, is_library))
			m->code_bytes = sim_image_binary_bytes(image, cc) + m->symbols.variable_bytes;
	}
	m->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
	*handle = m;
	sim_tell_module_loaded(m->id, told, bytes);
	return CUDA_SUCCESS;
}

/* The file's content, with a NUL after it; NULL if it cannot be read. */
static char *read_image(const char *path, size_t *bytes)
{
	FILE *f = path ? fopen(path, "re") : NULL;
	char *content = NULL;
	struct stat st;

	if (f && !fstat(fileno(f), &st) && S_ISREG(st.st_mode)) {
		content = sim_zalloc((size_t)st.st_size + 1);
		*bytes = fread(content, 1, (size_t)st.st_size, f);
	}
	if (f)
		fclose(f);
	return content;
}

/* Load a new module's code on DEV; it goes where there is no room for it. */
static CUresult load_or_unload(void *handle, int dev)
{
	CUresult ret = load_on(module_of(handle), dev);

	if (ret)
		cuModuleUnload(handle);
	return ret;
}

static CUresult module_load(void **handle, const void *image)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (ret || !image)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	ret = module_new(handle, image, image, image_bytes(image), false);
	return ret ? ret : load_or_unload(*handle, dev);
}

/* From a file: CUPTI is told of no image, for this one goes when the call returns. */
static CUresult load_file(void **handle, const char *path, bool is_library)
{
	size_t bytes = 0;
	int dev = 0;
	CUresult ret = is_library ? CUDA_SUCCESS : sim_context_need(&dev);
	char *image;

	if (ret)
		return ret;
	image = read_image(path, &bytes);
	if (!image)
		return CUDA_ERROR_FILE_NOT_FOUND;
	ret = module_new(handle, image, NULL, bytes, is_library);
	free(image);
	return ret || is_library ? ret : load_or_unload(*handle, dev);
}

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
	return module_load((void **)module, image);
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int nr, CUjit_option *options,
			    void **values)
{
	(void)nr;
	(void)options;
	(void)values;
	return module_load((void **)module, image);
}

CUresult cuModuleLoadFatBinary(CUmodule *module, const void *image)
{
	return module_load((void **)module, image);
}

CUresult cuModuleLoad(CUmodule *module, const char *path)
{
	return load_file((void **)module, path, false);
}

CUresult cuModuleUnload(CUmodule handle)
{
	struct module *m = module_of(handle);
	struct function *f, *next;

	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	sim_tell_module_unloading(m->id);
	for (f = m->functions; f; f = next) {
		next = f->next;
		f->magic = 0;
		free(f);
	}
	for (int dev = 0; dev < SIM_MAX_DEVICES && m->code_bytes; dev++)
		sim_give(m->taken[dev]);
	sim_symbols_release(&m->symbols);
	m->magic = 0;
	free(m);
	return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}

/* Any name exists: which ones an image defines is not looked at. */
static CUresult get_function(void **handle, struct module *m, const char *name)
{
	struct function *f;

	if (!m)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!handle || !name || !*name)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	for (f = m->functions; f && strcmp(f->name, name); f = f->next)
		;
	if (!f) {
		f = sim_zalloc(sizeof(*f) + strlen(name) + 1);
		f->magic = FUNCTION_MAGIC;
		f->module = m;
		f->dynamic_shared_bytes = DEFAULT_DYNAMIC_SHARED;
		strcpy(f->name, name);
		f->next = m->functions;
		m->functions = f;
	}
	sim_unlock();
	*handle = f;
	return CUDA_SUCCESS;
}

/* Functions of the image, as far as it can be read: up to NR of them. */
static CUresult list_functions(void **list, unsigned nr, struct module *m, const char *refused)
{
	CUresult ret = CUDA_SUCCESS;

	if (!m || !list)
		return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (!m->symbols.is_read) {
		sim_refuse(refused, true);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	for (unsigned i = 0; i < nr && i < m->symbols.nr_kernels && !ret; i++)
		ret = get_function(&list[i], m, m->symbols.kernels[i]);
	return ret;
}

static CUresult count_functions(unsigned *nr, const struct module *m, const char *refused)
{
	if (!m || !nr)
		return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (!m->symbols.is_read) {
		sim_refuse(refused, true);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	*nr = (unsigned)m->symbols.nr_kernels;
	return CUDA_SUCCESS;
}

CUresult cuModuleGetFunctionCount(unsigned int *nr, CUmodule module)
{
	return count_functions(nr, module_of(module), "cuModuleGetFunctionCount");
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int nr, CUmodule module)
{
	return list_functions((void **)functions, nr, module_of(module), "cuModuleEnumerateFunctions");
}

CUresult cuLibraryGetKernelCount(unsigned int *nr, CUlibrary library)
{
	return count_functions(nr, module_of(library), "cuLibraryGetKernelCount");
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int nr, CUlibrary library)
{
	return list_functions((void **)kernels, nr, module_of(library), "cuLibraryEnumerateKernels");
}

/* A variable, in the memory of the current device. */
static CUresult get_global(CUdeviceptr *dptr, size_t *bytes, struct module *m, const char *name, const char *refused)
{
	int dev;
	CUresult ret = sim_context_need(&dev);

	if (ret)
		return ret;
	if (!m || !name)
		return m ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (!m->symbols.is_read) {
		sim_refuse(refused, true);
		return CUDA_ERROR_NOT_SUPPORTED;
	}
	ret = load_here(m);
	return ret ? ret : sim_symbols_variable(&m->symbols, name, dev, dptr, bytes);
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule module, const char *name)
{
	return get_global(dptr, bytes, module_of(module), name, "cuModuleGetGlobal");
}

CUresult cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
	return get_global(dptr, bytes, module_of(library), name, "cuLibraryGetGlobal");
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
	return get_function((void **)function, module_of(module), name);
}

/* ---- libraries: modules that load by themselves ---------------------------------------------- */

CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jit, void **jit_values,
			   unsigned int nr_jit, CUlibraryOption *options, void **values, unsigned int nr)
{
	(void)jit;
	(void)jit_values;
	(void)nr_jit;
	(void)options;
	(void)values;
	(void)nr;
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!code)
		return CUDA_ERROR_INVALID_VALUE;
	return module_new((void **)library, code, code, image_bytes(code), true);
}

CUresult cuLibraryLoadFromFile(CUlibrary *library, const char *path, CUjit_option *jit, void **jit_values,
			       unsigned int nr_jit, CUlibraryOption *options, void **values, unsigned int nr)
{
	(void)jit;
	(void)jit_values;
	(void)nr_jit;
	(void)options;
	(void)values;
	(void)nr;
	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	return load_file((void **)library, path, true);
}

CUresult cuLibraryUnload(CUlibrary library)
{
	return cuModuleUnload((CUmodule)library);
}

CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name)
{
	return get_function((void **)kernel, module_of(library), name);
}

CUresult cuLibraryGetModule(CUmodule *module, CUlibrary library)
{
	if (!module_of(library) || !module)
		return CUDA_ERROR_INVALID_HANDLE;
	*module = (CUmodule)library;
	return load_here(module_of(library));
}

CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel)
{
	if (!function_of(kernel) || !function)
		return CUDA_ERROR_INVALID_HANDLE;
	*function = (CUfunction)kernel;
	return load_here(function_of(kernel)->module);
}

CUresult cuKernelGetLibrary(CUlibrary *library, CUkernel kernel)
{
	struct function *f = function_of(kernel);

	if (!f || !library)
		return CUDA_ERROR_INVALID_HANDLE;
	*library = (CUlibrary)f->module;
	return CUDA_SUCCESS;
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
	if (!function_of(function) || !state)
		return CUDA_ERROR_INVALID_VALUE;
	*state = CU_FUNCTION_LOADING_STATE_LOADED;
	return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel kernel)
{
	struct function *f = function_of(kernel);

	if (!f || !name)
		return CUDA_ERROR_INVALID_HANDLE;
	*name = f->name;
	return CUDA_SUCCESS;
}

const char *sim_function_name(CUfunction function)
{
	struct function *f = function_of(function);

	return f ? f->name : NULL;
}

CUresult cuFuncGetName(const char **name, CUfunction function)
{
	return cuKernelGetName(name, (CUkernel)function);
}

CUresult cuFuncGetModule(CUmodule *module, CUfunction function)
{
	struct function *f = function_of(function);

	if (!f || !module)
		return CUDA_ERROR_INVALID_HANDLE;
	*module = (CUmodule)f->module;
	return CUDA_SUCCESS;
}

/* ---- attributes ------------------------------------------------------------------------------ */

static CUresult get_attribute(int *value, CUfunction_attribute a, struct function *f)
{
	if (!f || !value)
		return CUDA_ERROR_INVALID_HANDLE;
	switch (a) {
	case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
		*value = 1024;
		break;
	case CU_FUNC_ATTRIBUTE_NUM_REGS:
		*value = REGISTERS;
		break;
	case CU_FUNC_ATTRIBUTE_PTX_VERSION:
		*value = f->module->architecture;
		break;
	case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
		*value = f->module->compiled;
		break;
	case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
		*value = f->dynamic_shared_bytes;
		break;
	case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
		*value = f->carveout;
		break;
	default:
		*value = 0;
	}
	return a >= 0 && a < CU_FUNC_ATTRIBUTE_MAX ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult set_attribute(CUfunction_attribute a, int value, struct function *f)
{
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (a == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
		if (value < 0 || value > sim_profile()->smem_optin_bytes)
			return CUDA_ERROR_INVALID_VALUE;
		f->dynamic_shared_bytes = value;
	} else if (a == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) {
		f->carveout = value;
	}
	return CUDA_SUCCESS;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute a, CUfunction function)
{
	return get_attribute(value, a, function_of(function));
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute a, int value)
{
	return set_attribute(a, value, function_of(function));
}

CUresult cuKernelGetAttribute(int *value, CUfunction_attribute a, CUkernel kernel, CUdevice dev)
{
	(void)dev;
	return get_attribute(value, a, function_of(kernel));
}

CUresult cuKernelSetAttribute(CUfunction_attribute a, int value, CUkernel kernel, CUdevice dev)
{
	(void)dev;
	return set_attribute(a, value, function_of(kernel));
}

CUresult sim_kernel_check(CUfunction function, unsigned long long grid, unsigned long long block, unsigned shared)
{
	struct function *f = function_of(function);

	if (!sim_initialised())
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!f)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!grid || !block || block > 1024 || shared > (unsigned)sim_profile()->smem_optin_bytes)
		return CUDA_ERROR_INVALID_VALUE;
	return load_here(f->module); /* a kernel of a library may be launched as it is */
}
