/* SPDX-License-Identifier: MIT */
/* Getting into every copy of NVTX in the process, and letting the tool in that was there before. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "env.h"
#include "interpose.h"
#include "nvtx.h"

#define VARIABLE "NVTX_INJECTION64_PATH"
#define OTHER_VARIABLE "VRAMTRACE_NVTX_NEXT" /* what it named before us; children find it there */
#define OWN_NAME "/libinterpose.so"

typedef int (*initialize)(nvtx_get_table get);

IP_EXPORT int InitializeInjectionNvtx(nvtx_get_table get);
IP_EXPORT int InitializeInjectionNvtx2(nvtx_get_table get);
IP_EXPORT int InitializeInjectionNvtxExtension(void *module);

static char other[PATH_MAX]; /* "" = none */
static _Atomic bool other_failed;

/* This library's file, absolute: the program may have another folder when NVTX loads it. */
static bool own_path(char path[static PATH_MAX])
{
	size_t n = 0;
	Dl_info info;

	if (!dladdr(&other, &info) || !info.dli_fname)
		return false;
	if (info.dli_fname[0] != '/') {
		if (!getcwd(path, PATH_MAX))
			return false;
		n = strlen(path);
	}
	return snprintf(path + n, PATH_MAX - n, n ? "/%s" : "%s", info.dli_fname) < (int)(PATH_MAX - n);
}

static bool is_ours(const char *path)
{
	size_t len = strlen(path), own = strlen(OWN_NAME);

	return len >= own && !strcmp(path + len - own, OWN_NAME);
}

void nvtx_init(void)
{
	const char *there = getenv(VARIABLE), *before = getenv(OTHER_VARIABLE);
	char path[PATH_MAX];

	nvtx_open_init();
	if (!own_path(path))
		return;
	if (there && *there && is_ours(there))
		snprintf(other, sizeof(other), "%s", before ? before : "");
	else if (there && *there)
		snprintf(other, sizeof(other), "%s", there);
	if (*other || before)
		ip_env_export(OTHER_VARIABLE, other);
	ip_env_export(VARIABLE, path);
}

bool nvtx_has_other(void)
{
	return *other && !atomic_load(&other_failed);
}

const char *nvtx_support(void)
{
	static char text[2][PATH_MAX + 64];
	bool failed = atomic_load(&other_failed);

	if (!*other)
		return "on";
	snprintf(text[failed], sizeof(text[failed]), failed ? "on, but '%s' cannot be loaded" : "chained to %s", other);
	return text[failed];
}

/* ---- the other tool --------------------------------------------------------------------------- */

/* One of its entry points; it stays loaded. */
static void *other_symbol(const char *name)
{
	/* Not preloaded, we are here because the variable that names us was inherited: so was the other one. */
	const char *path = ip_is_on() ? other : secure_getenv(OTHER_VARIABLE);
	void *handle = path && *path && !is_ours(path) ? dlopen(path, RTLD_LAZY) : NULL;

	return handle ? dlsym(handle, name) : NULL;
}

/*
 * What stands in the other tool's table: where there is a handler of ours, a pointer to what that calls next, else
 * the copy's own. Tools may change their mind later, so it lives as long as the process.
 */
static nvtx_function **proxy_table(int module, nvtx_function **real, unsigned size)
{
	nvtx_function **table = nvtx_keep(size * sizeof(*table));

	if (!table)
		return NULL;
	memcpy(table, real, size * sizeof(*table));
	for (unsigned i = 0; i < nvtx_nr_handlers; i++) {
		const struct nvtx_handler *h = &nvtx_handlers[i];

		if (h->module == module && h->id < size)
			table[h->id] = module == NVTX_CORE ? &nvtx_core_next[h->id] : &nvtx_core2_next[h->id];
	}
	return table;
}

static int proxy_get_module(int module, nvtx_function ***table, unsigned *size)
{
	const struct nvtx_callbacks *callbacks = ip_tls.nvtx_copy.callbacks;
	unsigned nr = 0;

	if (!callbacks || !table || !callbacks->get_module(module, table, &nr))
		return 0;
	if (size)
		*size = nr;
	if (module == NVTX_CORE || module == NVTX_CORE2)
		*table = proxy_table(module, *table, nr);
	return *table != NULL;
}

static const void *proxy_get(uint32_t id)
{
	static const struct nvtx_callbacks proxy = { sizeof(proxy), proxy_get_module };
	nvtx_get_table get = ip_tls.nvtx_copy.get;

	if (!get)
		return NULL;
	return id == NVTX_TABLE_CALLBACKS ? &proxy : get(id);
}

static void initialize_other(struct ip_nvtx_copy copy, const char *entry)
{
	struct ip_nvtx_copy outer = ip_tls.nvtx_copy; /* a tool may use NVTX itself */
	initialize init = (initialize)other_symbol(entry);

	ip_tls.nvtx_copy = copy;
	if (!init || !init(proxy_get))
		atomic_store(&other_failed, true);
	ip_tls.nvtx_copy = outer;
}

/* ---- our own entry points ---------------------------------------------------------------------- */

/* Put our handlers into a module's table of a copy; false if it has none. */
static bool install(const struct nvtx_callbacks *callbacks, int module)
{
	nvtx_function **table = NULL;
	unsigned size = 0;

	if (!callbacks->get_module(module, &table, &size) || !table)
		return false;
	for (unsigned i = 0; i < nvtx_nr_handlers; i++) {
		const struct nvtx_handler *h = &nvtx_handlers[i];

		if (h->module == module && h->id < size && table[h->id])
			*table[h->id] = h->function;
	}
	return true;
}

/* What NVTX does with 0: nothing, from then on. */
static int inject(nvtx_get_table get, const char *entry)
{
	struct ip_nvtx_copy copy = { .get = get };
	bool core, core2;
	initialize init;

	if (!ip_is_on()) {
		init = (initialize)other_symbol(entry);
		return init ? init(get) : 0;
	}
	copy.callbacks = get(NVTX_TABLE_CALLBACKS);
	if (!copy.callbacks || copy.callbacks->struct_bytes < sizeof(*copy.callbacks))
		return 0;
	if (*other)
		initialize_other(copy, entry);
	core = install(copy.callbacks, NVTX_CORE);
	core2 = install(copy.callbacks, NVTX_CORE2);
	return core || core2;
}

/* The entry point of NVTX 3, and of libnvToolsExt (NVTX 2) from CUDA 11 on. */
IP_EXPORT int InitializeInjectionNvtx2(nvtx_get_table get)
{
	int saved = errno, result = inject(get, "InitializeInjectionNvtx2");

	errno = saved;
	return result;
}

/* That of an older libnvToolsExt, with the same tables. */
IP_EXPORT int InitializeInjectionNvtx(nvtx_get_table get)
{
	int saved = errno, result = inject(get, "InitializeInjectionNvtx");

	errno = saved;
	return result;
}

/*
 * Extensions (payloads, counters, memory regions): the other tool's alone. A tool that handles none of their
 * functions must say yes all the same: after a no, nvtxDomainIsEnabled() tells programs to be silent.
 */
IP_EXPORT int InitializeInjectionNvtxExtension(void *module)
{
	int saved = errno, (*init)(void *) = (int (*)(void *))other_symbol("InitializeInjectionNvtxExtension");
	int result = init ? init(module) : ip_is_on() || other_symbol("InitializeInjectionNvtx2");

	errno = saved;
	return result;
}
