/* SPDX-License-Identifier: MIT */
/*
 * dlsym() for programs that open NVIDIA's libraries themselves; see handle.h. The library that they open is loaded as
 * without us, so that its path, its file and what others need of it stay; only what is looked up in it is ours.
 */
#include "simgpu/handle.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * How the file names of the simulated libraries begin. NVRTC, nvJitLink and NVVM are not simulated: the real ones run.
 * NVML is found by its soname in our folder; one that stands before ours in the search path was put there on purpose.
 */
static const char *const libraries[] = {
	"libcuda.so",	  "libcudart.so",     "libcublas.so",    "libcublasLt.so", "libcudnn",
	"libcufft.so",	  "libcusolver.so",   "libcusolverMg.so", "libcusparse.so", "libcusparseLt.so", "libcurand.so",
	"libnccl.so",	  "libcupti.so",
};
#define NR_LIBRARIES (sizeof(libraries) / sizeof(*libraries))

/* Functions of the runtime that have another interface under the same name since a major version. */
static const struct {
	const char *name;
	int since;
} changed[] = {
	{ "cudaGraphInstantiate", 12 },
	{ "cudaGraphExecUpdate", 12 },
	{ "cudaGetDeviceProperties", 13 },
	{ "cudaGraphAddDependencies", 13 },
	{ "cudaGraphAddNode", 13 },
	{ "cudaGraphGetEdges", 13 },
	{ "cudaGraphNodeGetDependencies", 13 },
	{ "cudaGraphNodeGetDependentNodes", 13 },
	{ "cudaGraphRemoveDependencies", 13 },
	{ "cudaMemAdvise", 13 },
	{ "cudaMemPrefetchAsync", 13 },
	{ "cudaStreamGetCaptureInfo", 13 },
	{ "cudaStreamUpdateCaptureDependencies", 13 },
};

/* The next dlsym after ours: another preload's, or the C library's. */
typedef void *find_fn(void *handle, const char *name);
extern find_fn *sim_next_dlsym __attribute__((visibility("hidden")));
find_fn *sim_next_dlsym;

static const char *file_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Index in libraries[] of the one that PATH is a file of, or -1. */
static int library_of(const char *path)
{
	const char *file = file_of(path);

	for (size_t i = 0; i < NR_LIBRARIES; i++)
		if (!strncmp(file, libraries[i], strlen(libraries[i])))
			return (int)i;
	return -1;
}

bool sim_library_is_simulated(const char *path)
{
	return library_of(path) >= 0;
}

/* Its versioned sister is not ours: with that the C library's can be asked for before anything is known. */
static void find_next(void)
{
#ifdef __x86_64__
	static const char oldest[] = "GLIBC_2.2.5";
#else
	static const char oldest[] = "GLIBC_2.17";
#endif

	if (!__atomic_load_n(&sim_next_dlsym, __ATOMIC_ACQUIRE))
		__atomic_store_n(&sim_next_dlsym, (find_fn *)dlvsym(RTLD_NEXT, "dlsym", oldest), __ATOMIC_RELEASE);
}

void *sim_real_symbol(void *handle, const char *name)
{
	find_next();
	return sim_next_dlsym(handle, name);
}

/* A library that a program begins with cannot be searched by its link map until it was opened once. */
static void *own_handle(void)
{
	static void *known;
	void *own = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
	Dl_info info;

	if (!own && dladdr((void *)(uintptr_t)own_handle, &info)) {
		own = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
		__atomic_store_n(&known, own, __ATOMIC_RELEASE);
	}
	return own;
}

/* Whether CALLER lies in a real one: cuDNN, for one, is several files that ask each other. */
static bool is_in_simulated_library(const void *caller)
{
	Dl_info info;

	return dladdr(caller, &info) && library_of(info.dli_fname) >= 0;
}

/* Whether NAME means something else in the runtime of that file, whose major version its name ends with. */
static bool has_changed(const char *file, const char *name)
{
	static const char runtime[] = "libcudart.so.";
	int major = strncmp(file, runtime, strlen(runtime)) ? 0 : atoi(file + strlen(runtime));

	for (size_t i = 0; major && i < sizeof(changed) / sizeof(*changed); i++)
		if (major < changed[i].since && !strcmp(changed[i].name, name))
			return true;
	return false;
}

/* The lookup that fails and says why; loaders that keep quiet about that get one line for each library. */
static struct sim_lookup refuse(int library, void *own, const char *file, const char *name, const char *why)
{
	static atomic_bool said[NR_LIBRARIES];
	static __thread char text[256];

	snprintf(text, sizeof(text), "%s ('%s' of '%s' %s; what must have it needs a GPU)", name, name, file, why);
	if (!atomic_exchange(&said[library], true))
		fprintf(stderr,
			"simgpu: '%s' of '%s' %s: looking it up finds nothing, as in a version of the library without it; "
			"what must have it needs a GPU (said once for each library)\n",
			name, file, why);
	return (struct sim_lookup){ own, text };
}

struct sim_lookup sim_lookup_for(void *handle, const char *name, const void *caller)
{
	const struct link_map *map = handle;
	struct sim_lookup same = { handle, name };
	const char *file;
	int library;
	void *own;

	find_next();
	if (handle == RTLD_DEFAULT || handle == RTLD_NEXT || !name)
		return same;
	file = file_of(map->l_name);
	library = library_of(file);
	own = library < 0 ? NULL : own_handle();
	if (!own || handle == own || is_in_simulated_library(caller))
		return same;
	if (has_changed(file, name))
		return refuse(library, own, file, name, "is not the function of that name in the simulated runtime");
	if (sim_next_dlsym(own, name))
		return (struct sim_lookup){ own, name };
	return sim_next_dlsym(handle, name) ? refuse(library, own, file, name, "is not simulated") : same;
}
