/* SPDX-License-Identifier: MIT */
/* Real functions and lookups by name; see resolve.h. */
#include "resolve.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>

#include "interpose.h"

#define DRIVER(symbol, base, version, stream, records) extern char symbol[];
#define RUNTIME(symbol, records) extern char symbol[];
#include "hooks.def"
#undef DRIVER
#undef RUNTIME

const struct ip_hook ip_hooks[FN_NR] = {
#define DRIVER(symbol, base, version, stream, records) \
	[FN_##symbol] = { #symbol, base, version, STREAM_##stream, symbol },
#define RUNTIME(symbol, records) [FN_##symbol] = { #symbol, #symbol, 0, STREAM_RUNTIME, symbol },
#include "hooks.def"
#undef DRIVER
#undef RUNTIME
};

/* What each driver wrapper forwards to; written once with the first real function seen. */
static void *_Atomic real_driver[FN_NR];

/* Used by the dlsym entry in arch_*.c: it jumps there with the caller's own return address. */
extern void *(*ip_real_dlsym)(void *, const char *);
void *(*ip_real_dlsym)(void *, const char *);

static void find_real_dlsym(void)
{
	static const char *const versions[] = { "GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17" };

	for (unsigned i = 0; !ip_real_dlsym && i < sizeof(versions) / sizeof(*versions); i++)
		ip_real_dlsym = (void *(*)(void *, const char *))dlvsym(RTLD_NEXT, "dlsym", versions[i]);
}

static void *real_dlsym(void *handle, const char *name)
{
	if (!ip_real_dlsym)
		find_real_dlsym();
	return ip_real_dlsym ? ip_real_dlsym(handle, name) : NULL;
}

static void *driver_handle(void)
{
	static void *_Atomic handle;
	void *h = atomic_load_explicit(&handle, memory_order_acquire);

	if (!h) {
		h = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
		atomic_store_explicit(&handle, h, memory_order_release);
	}
	return h;
}

void *ip_driver_symbol(const char *name)
{
	void *h = driver_handle();

	return h ? real_dlsym(h, name) : NULL;
}

static void *remember(enum ip_fn fn, void *real)
{
	void *none = NULL;

	if (real && real != ip_hooks[fn].wrapper)
		atomic_compare_exchange_strong(&real_driver[fn], &none, real);
	return atomic_load_explicit(&real_driver[fn], memory_order_acquire);
}

void *ip_real_driver(enum ip_fn fn)
{
	void *real = atomic_load_explicit(&real_driver[fn], memory_order_acquire);
	int saved;

	if (real)
		return real;
	saved = errno;
	real = real_dlsym(RTLD_NEXT, ip_hooks[fn].name);
	if (!real || real == ip_hooks[fn].wrapper)
		real = ip_driver_symbol(ip_hooks[fn].name);
	errno = saved;
	return remember(fn, real);
}

void *ip_real_torch(const char *library, const char *symbol, const void *wrapper)
{
	void *real = real_dlsym(RTLD_NEXT, symbol), *h;

	if (real && real != wrapper)
		return real;
	h = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
	real = h ? real_dlsym(h, symbol) : NULL;
	return real == wrapper ? NULL : real;
}

void *ip_real_libc(const char *symbol)
{
	return real_dlsym(RTLD_NEXT, symbol);
}

static void *simulated_report, *simulated_listen;

void ip_resolve_prepare(void)
{
	simulated_report = real_dlsym(RTLD_DEFAULT, "simgpu_report");
	simulated_listen = real_dlsym(RTLD_DEFAULT, "simgpu_listen");
}

void *ip_simulated_report(void)
{
	return simulated_report;
}

void *ip_simulated_listen(void)
{
	return simulated_listen;
}

/* ---- the runtime of a caller ------------------------------------------------------------------ */

/* One place in a program that calls the runtime, and where that call goes. */
struct call_site {
	const void *caller;
	void *real;
	enum ip_fn fn;
	const struct call_site *next;
};
#define SITE_BUCKETS 256u

/* The first libcudart among the DT_NEEDED entries of a loaded object, as a handle; NULL if there is none. */
static void *needed_runtime(const struct link_map *map)
{
	const char *strings = NULL;

	for (const ElfW(Dyn) *d = map->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr;
	for (const ElfW(Dyn) *d = map->l_ld; strings && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED && !strncmp(strings + d->d_un.d_val, "libcudart.so", 12))
			return dlopen(strings + d->d_un.d_val, RTLD_LAZY | RTLD_NOLOAD);
	return NULL;
}

/* A caller without a libcudart of its own got ours through another library: take the first one loaded. */
static void *any_runtime(void)
{
	static const char *const names[] = { "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0" };
	void *h = NULL;

	for (unsigned i = 0; !h && i < sizeof(names) / sizeof(*names); i++)
		h = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
	return h;
}

/* Memory for a call site, never given back: a program has some tens of them. */
static struct call_site *site_new(void)
{
	static struct call_site site[1024];
	static _Atomic unsigned nr;
	unsigned i = atomic_load_explicit(&nr, memory_order_relaxed);

	while (i < sizeof(site) / sizeof(*site) && !atomic_compare_exchange_weak(&nr, &i, i + 1))
		;
	return i < sizeof(site) / sizeof(*site) ? &site[i] : NULL;
}

static bool is_in_runtime(void *function)
{
	const char *base;
	Dl_info info;

	if (!dladdr(function, &info) || !info.dli_fname)
		return false;
	base = strrchr(info.dli_fname, '/');
	return !strncmp(base ? base + 1 : info.dli_fname, "libcudart.so", 12);
}

/* Another interposer, the simulated GPU among them, goes first; then the caller's own libcudart; then any. */
static void *find_runtime(enum ip_fn fn, const void *caller)
{
	void *next = real_dlsym(RTLD_NEXT, ip_hooks[fn].name), *h = NULL, *real;
	struct link_map *map = NULL;
	Dl_info info;

	if (next == ip_hooks[fn].wrapper)
		next = NULL;
	if (next && !is_in_runtime(next))
		return next;
	if (dladdr1(caller, &info, (void **)&map, RTLD_DL_LINKMAP) && map)
		h = needed_runtime(map);
	real = h ? real_dlsym(h, ip_hooks[fn].name) : NULL;
	if (real || next)
		return real ? real : next;
	h = any_runtime();
	return h ? real_dlsym(h, ip_hooks[fn].name) : NULL;
}

/*
 * Remembered for each call site: lookups take the loader's lock and, where they fail, the program's malloc. The
 * memory is inherited by fork children, which go on using the list.
 */
void *ip_real_runtime(enum ip_fn fn, const void *caller)
{
	static const struct call_site *_Atomic bucket[SITE_BUCKETS];
	uintptr_t hash = (uintptr_t)caller >> 2 ^ (uintptr_t)caller >> 10;
	const struct call_site *_Atomic *list = &bucket[hash % SITE_BUCKETS];
	const struct call_site *s;
	struct call_site *fresh;
	int saved = errno;
	void *real;

	for (s = atomic_load_explicit(list, memory_order_acquire); s; s = s->next)
		if (s->caller == caller && s->fn == fn)
			return s->real;
	real = find_runtime(fn, caller);
	fresh = real ? site_new() : NULL;
	if (fresh) {
		*fresh = (struct call_site){ .caller = caller, .real = real, .fn = fn, .next = atomic_load(list) };
		while (!atomic_compare_exchange_weak(list, &fresh->next, fresh))
			;
	}
	errno = saved;
	return real;
}

/* ---- lookups by name -------------------------------------------------------------------------- */

/* The driver, its helpers and other tools look up the real functions: they must find them. */
static bool is_exempt(const void *caller)
{
	static const char *const prefix[] = { "libcuda.so", "libnvidia-", "libcupti.so", "libnvperf", "libinterpose.so" };
	const char *base;
	Dl_info info;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return false;
	base = strrchr(info.dli_fname, '/');
	base = base ? base + 1 : info.dli_fname;
	for (unsigned i = 0; i < sizeof(prefix) / sizeof(*prefix); i++)
		if (!strncmp(base, prefix[i], strlen(prefix[i])))
			return true;
	return false;
}

static enum ip_fn driver_hook(const char *name)
{
	for (unsigned fn = 1; fn < FN_NR; fn++)
		if (ip_hooks[fn].stream != STREAM_RUNTIME && !strcmp(ip_hooks[fn].name, name))
			return (enum ip_fn)fn;
	return FN_NONE;
}

/* For the dlsym entry: NULL = not ours, jump to the real dlsym; DLSYM_NOT_FOUND = answer NULL; else the answer. */
#define DLSYM_NOT_FOUND ((void *)1)
void *ip_dlsym_hook(void *handle, const char *name, const void *caller);
void *ip_dlsym_hook(void *handle, const char *name, const void *caller)
{
	enum ip_fn fn;
	void *real;

	if (!ip_real_dlsym)
		find_real_dlsym();
	if (handle == RTLD_NEXT || !name || name[0] != 'c' || name[1] != 'u')
		return NULL;
	fn = driver_hook(name);
	if (fn == FN_NONE || is_exempt(caller))
		return NULL;
	real = real_dlsym(handle, name);
	if (real == ip_hooks[fn].wrapper) /* the global scope: what would be there without us? */
		real = real_dlsym(RTLD_NEXT, name);
	if (!real)
		return DLSYM_NOT_FOUND;
	remember(fn, real);
	return ip_hooks[fn].wrapper;
}

void *ip_wrap(const char *base, int version, int per_thread, void *found)
{
	enum ip_fn best = FN_NONE;

	for (unsigned fn = 1; fn < FN_NR; fn++) {
		const struct ip_hook *h = &ip_hooks[fn];

		if (h->stream == STREAM_RUNTIME || h->version > version || strcmp(h->base, base) ||
		    h->stream == (per_thread ? STREAM_LEGACY : STREAM_PER_THREAD))
			continue;
		if (best == FN_NONE || h->version > ip_hooks[best].version)
			best = (enum ip_fn)fn;
	}
	if (best == FN_NONE || found == ip_hooks[best].wrapper)
		return found;
	remember(best, found);
	return ip_hooks[best].wrapper;
}
