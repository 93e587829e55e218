/* SPDX-License-Identifier: MIT */
/* Lookups by name, and libraries that are loaded past us; see lookup.h. */
#include "lookup.h"

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "cupti.h"
#include "interpose.h"
#include "objects.h"
#include "resolve.h"

/* The real ones, for the entries in arch_*.c to jump to. */
extern void *(*ip_real_dlsym)(void *, const char *);
extern void *(*ip_real_dlvsym)(void *, const char *, const char *);
extern void *ip_real_dlopen, *ip_real_dlmopen;
void *(*ip_real_dlsym)(void *, const char *);
void *(*ip_real_dlvsym)(void *, const char *, const char *);
void *ip_real_dlopen, *ip_real_dlmopen;

/* At the first call of any: other libraries' constructors come before ours. */
static void find_real(void)
{
	if (ip_real_dlsym)
		return;
	ip_real_dlopen = ip_symbol_libc("dlopen");
	ip_real_dlmopen = ip_symbol_libc("dlmopen");
	ip_real_dlvsym = (void *(*)(void *, const char *, const char *))ip_symbol_libc("dlvsym");
	__atomic_store_n(&ip_real_dlsym, (void *(*)(void *, const char *))ip_symbol_libc("dlsym"), __ATOMIC_RELEASE);
}

static bool begins_with_one_of(const char *name, const char *const *prefix, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (!strncmp(name, prefix[i], strlen(prefix[i])))
			return true;
	return false;
}

/* The simulated device is runtime and driver in one object: what it looks up is the runtime's doing. */
static bool is_simulated(const void *caller)
{
	const void *report = ip_symbol_next("simgpu_report");

	return report && ip_same_object(report, caller);
}

/* The driver, its helpers and NVIDIA's tools find the real functions: their own memory is not the program's. */
static bool is_exempt(const void *caller)
{
	static const char *const names[] = {
		"libcuda.so", "libcuda-", "libnvidia-", "libcupti.so", "libnvperf", "libToolsInjection",
		"libTreeLauncher", "libInterceptor", "libsanitizer-", "libinterpose.so",
	};
	char name[64];

	return ip_object_name(caller, name, sizeof(name)) &&
	       begins_with_one_of(name, names, sizeof(names) / sizeof(*names));
}

static bool is_in_driver(const void *address)
{
	char name[64];

	return ip_object_name(address, name, sizeof(name)) &&
	       !strncmp(name, IP_DRIVER_OBJECT, strlen(IP_DRIVER_OBJECT));
}

/* The wrapper for a caller that has found the driver's function; `found` for those who must have that. */
static void *wrapper_for(enum ip_fn fn, void *found, const void *caller)
{
	bool simulated = is_simulated(caller);
	void *real = !simulated && is_exempt(caller) ? NULL : ip_remember_driver(fn, found);

	return real && (simulated || !ip_same_object(real, caller)) ? ip_hooks[fn].wrapper : found;
}

/* ---- dlsym and dlvsym ---------------------------------------------------------------------------- */

static enum ip_fn hook_named(const char *name)
{
	for (unsigned fn = 1; fn < FN_NR; fn++)
		if (!strcmp(ip_hooks[fn].name, name))
			return (enum ip_fn)fn;
	return FN_NONE;
}

static void *look_up(void *handle, const char *name, const char *version)
{
	return version ? ip_real_dlvsym(handle, name, version) : ip_real_dlsym(handle, name);
}

/* Of glibc, whose handles are link maps: the program's own, as dlopen(NULL) gives it. */
static bool is_global_scope(const void *handle)
{
	return handle == RTLD_DEFAULT || handle == _r_debug.r_map;
}

/*
 * The global scope has our symbol: what would be there without us? The next in that scope, else, for a library that
 * looks in RTLD_DEFAULT, what was loaded with it. That has no versions to tell apart: where a library is found by name,
 * it is the one that was linked with.
 */
static void *look_up_beyond_us(void *handle, const char *name, const char *version, const void *caller)
{
	void *found = look_up(RTLD_NEXT, name, version);
	struct link_map *map = NULL;
	Dl_info info;

	if (found)
		return found;
	if (handle == RTLD_DEFAULT) {
		found = ip_symbol_beside(caller, name);
		dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP);
	}
	if (found)
		ip_dlerror_clear();
	else
		ip_dlerror_missing(map, name, version);
	return found;
}

/* Found in the driver, or by a handle of the driver where somebody else has replaced it, or an interposer's. */
static bool is_driver_function(enum ip_fn fn, void *handle, const void *found)
{
	if (is_in_driver(found) || found == ip_symbol_next(ip_hooks[fn].name))
		return true;
	return handle != RTLD_DEFAULT && is_in_driver(((const struct link_map *)handle)->l_ld);
}

/* Not the driver's or the runtime's: only what stands in the global scope because of us alone must not be found. */
static void *look_up_other(void *handle, const char *name, const char *version, const void *caller)
{
	void *ours = is_global_scope(handle) ? ip_symbol_ours(name) : NULL;

	if (ours && look_up(handle, name, version) == ours && !look_up_beyond_us(handle, name, version, caller))
		return IP_LOOKUP_NONE;
	return IP_LOOKUP_PASS;
}

void *ip_lookup_enter(void *handle, const char *name, const char *version, const void *caller)
{
	bool ours = false;
	enum ip_fn fn;
	void *found;

	find_real();
	ip_dlerror_drop();
	if (handle == RTLD_NEXT || !name)
		return IP_LOOKUP_PASS;
	fn = name[0] == 'c' && name[1] == 'u' ? hook_named(name) : FN_NONE;
	if (!strncmp(name, "cupti", 5) && !is_exempt(caller))
		ip_cupti_looked_up(name);
	if (fn == FN_NONE)
		return look_up_other(handle, name, version, caller);
	found = look_up(handle, name, version);
	if (!found) /* the caller's own lookup says so best */
		return IP_LOOKUP_PASS;
	if (found == ip_hooks[fn].wrapper) {
		ours = true;
		found = look_up_beyond_us(handle, name, version, caller);
		if (!found)
			return IP_LOOKUP_NONE;
	}
	if (ip_hooks[fn].stream == STREAM_RUNTIME) /* of two runtimes by handle the caller has named one */
		return ours ? ip_hooks[fn].wrapper : found;
	return ours || is_driver_function(fn, handle, found) ? wrapper_for(fn, found, caller) : found;
}

/* ---- cuGetProcAddress ---------------------------------------------------------------------------- */

/* Which rows of hooks.def a base name stands for. */
struct abi {
	const char *base;
	int version;
	enum ip_fn fn;
};

static const struct abi abis[] = {
#define DRIVER(symbol, base, version, stream, records) { base, version, FN_##symbol },
#include "hooks.def"
};

/*
 * The ABI that was found is that of the driver's exported symbol at the same address. Where the driver answers
 * with other addresses, it is the newest that the driver has up to the version asked for, among the versions we
 * know: to a newer one any ABI could belong.
 */
static enum ip_fn abi_found(const char *base, int version, bool per_thread, const void *found)
{
	const struct abi *by_address = NULL, *by_version = NULL;

	for (const struct abi *a = abis; a < abis + sizeof(abis) / sizeof(*abis); a++) {
		enum ip_stream_variant stream = ip_hooks[a->fn].stream;
		bool asked_for = a->version <= version && stream != (per_thread ? STREAM_LEGACY : STREAM_PER_THREAD);
		const void *exported;

		if (strcmp(a->base, base))
			continue;
		exported = ip_driver_symbol(ip_hooks[a->fn].name);
		if (exported && asked_for && (!by_version || a->version > by_version->version))
			by_version = a;
		if (exported == found && (!by_address || asked_for))
			by_address = a;
	}
	if (by_address)
		return by_address->fn;
	return by_version && version <= CUDA_VERSION ? by_version->fn : FN_NONE;
}

void *ip_wrap(const char *base, int version, bool per_thread, void *found, const void *caller)
{
	enum ip_fn fn = abi_found(base, version, per_thread, found);

	return fn == FN_NONE || found == ip_hooks[fn].wrapper ? found : wrapper_for(fn, found, caller);
}

/* ---- libraries loaded past us -------------------------------------------------------------------- */

enum { NOTE_TAKEN_BACK, NOTE_DEEP, NOTE_APART };

static struct {
	_Atomic uint32_t state; /* 0 nothing, 1 being written, 2 there */
	char file[128];
} notes[IP_LOAD_NOTES];

static void note(unsigned which, const char *file)
{
	const char *slash = strrchr(file, '/');
	uint32_t nothing = 0;

	if (!atomic_compare_exchange_strong(&notes[which].state, &nothing, 1))
		return;
	snprintf(notes[which].file, sizeof(notes[which].file), "%s", slash ? slash + 1 : file);
	atomic_store(&notes[which].state, 2);
}

bool ip_load_note(unsigned which, char *text, size_t size)
{
	static const char *const format[IP_LOAD_NOTES] = {
		[NOTE_TAKEN_BACK] = "'%s' was to be loaded with RTLD_DEEPBIND, which would hide its calls: "
				    "loaded without",
		[NOTE_DEEP] = "'%s' was loaded with RTLD_DEEPBIND: what it and libraries loaded with it call "
			      "is not recorded",
		[NOTE_APART] = "'%s' was loaded into a namespace of its own (dlmopen): what it calls is not recorded",
	};

	if (atomic_load(&notes[which].state) != 2)
		return false;
	snprintf(text, size, format[which], notes[which].file);
	return true;
}

/*
 * RTLD_DEEPBIND has a library find the C library's dlsym before ours. From NVIDIA's own libraries the flag is
 * taken: they are linked with -Bsymbolic, or export nothing that others do, so all that changes for them is
 * whose libc functions they call. Whoever else asks for it may need it to tell his symbols from others of the
 * same name, and keeps it.
 */
int ip_dlopen_enter(const char *file, int flags)
{
	static const char *const cuda[] = {
		"libcuda.so", "libcudart.so", "libnccl.so", "libcublas.so", "libcublasLt.so", "libcudnn", "libcufft.so",
		"libcusparse.so", "libcusolver.so", "libcurand.so",
	};
	const char *slash = file ? strrchr(file, '/') : NULL;
	const char *name = slash ? slash + 1 : file;

	find_real();
	ip_dlerror_drop();
	if (!(flags & RTLD_DEEPBIND) || !name || flags & RTLD_NOLOAD)
		return flags;
	if (!begins_with_one_of(name, cuda, sizeof(cuda) / sizeof(*cuda))) {
		note(NOTE_DEEP, file);
		return flags;
	}
	note(NOTE_TAKEN_BACK, file);
	return flags & ~RTLD_DEEPBIND;
}

void ip_dlmopen_enter(long space, const char *file)
{
	find_real();
	ip_dlerror_drop();
	if (space != LM_ID_BASE && file)
		note(NOTE_APART, file);
}
