/* SPDX-License-Identifier: MIT */
/* The real functions, which the wrappers call; see resolve.h. */
#include "resolve.h"

#include <dlfcn.h>
#include <string.h>

#include "interpose.h"
#include "objects.h"

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

static _Atomic uint32_t driver_epoch;

/*
 * An interposer that the program began with goes before what a lookup found in the driver, so that a wrapper
 * forwards to the same function whichever way it was reached.
 */
void *ip_remember_driver(enum ip_fn fn, void *found)
{
	void *real = atomic_load_explicit(&real_driver[fn], memory_order_acquire), *next;

	if (real || !found)
		return real;
	next = ip_symbol_next(ip_hooks[fn].name);
	if (atomic_compare_exchange_strong(&real_driver[fn], &real, next ? next : found))
		return next ? next : found;
	return real;
}

void *ip_driver_symbol(const char *name)
{
	return ip_symbol_of(IP_DRIVER_OBJECT, name);
}

static IP_COLD void *find_driver(enum ip_fn fn)
{
	void *next = ip_symbol_next(ip_hooks[fn].name);

	return ip_remember_driver(fn, next ? next : ip_driver_symbol(ip_hooks[fn].name));
}

void *ip_real_driver(enum ip_fn fn)
{
	void *real = atomic_load_explicit(&real_driver[fn], memory_order_acquire);

	return real ? real : find_driver(fn);
}

int ip_no_driver(void)
{
	return ip_object_loaded(IP_DRIVER_OBJECT) ? 500 : 303;
}

uint32_t ip_driver_epoch(void)
{
	return atomic_load_explicit(&driver_epoch, memory_order_relaxed);
}

void *ip_real_torch(const char *library, const char *symbol, const void *wrapper)
{
	void *next = ip_symbol_next(symbol);

	if (next && next != wrapper)
		return next;
	next = ip_symbol_of(library, symbol);
	return next ? next : ip_symbol_elsewhere(symbol);
}

void *ip_real_libc(const char *symbol)
{
	return dlsym(RTLD_NEXT, symbol);
}

static void *simulated_report, *simulated_listen;

void ip_resolve_prepare(void)
{
	simulated_report = ip_symbol_next("simgpu_report");
	simulated_listen = ip_symbol_next("simgpu_listen");
}

void *ip_simulated_report(void)
{
	return simulated_report;
}

void *ip_simulated_listen(void)
{
	return simulated_listen;
}

/* ---- for each caller its own --------------------------------------------------------------------- */

/* One place in a program that calls the runtime or NCCL, and where that call goes. */
struct call_site {
	const void *caller;
	void *_Atomic real; /* NULL: forgotten */
	unsigned what;
	const struct call_site *next;
};
#define SITE_BUCKETS 256u
#define SITE_MAX 1024u

static struct call_site sites[SITE_MAX];
static _Atomic unsigned nr_sites;

/* Memory for a call site, never given back: a program has some tens of them. */
static struct call_site *site_new(void)
{
	unsigned i = atomic_load_explicit(&nr_sites, memory_order_relaxed);

	while (i < SITE_MAX && !atomic_compare_exchange_weak(&nr_sites, &i, i + 1))
		;
	return i < SITE_MAX ? &sites[i] : NULL;
}

static bool is_in_runtime(const void *function)
{
	char name[64];

	return ip_object_name(function, name, sizeof(name)) &&
	       !strncmp(name, IP_RUNTIME_OBJECT, strlen(IP_RUNTIME_OBJECT));
}

/*
 * Another interposer, the simulated GPU among them, goes first; then the caller's own libcudart; then that which
 * the program was linked with; then any.
 */
static void *find_runtime(unsigned fn, const void *caller)
{
	const char *symbol = ip_hooks[fn].name;
	void *next = ip_symbol_next(symbol), *own;

	if (next && !is_in_runtime(next))
		return next;
	own = ip_symbol_needed(caller, IP_RUNTIME_OBJECT, symbol);
	if (own || next)
		return own ? own : next;
	return ip_symbol_of(IP_RUNTIME_OBJECT, symbol);
}

/* Remembered for each call site. The memory is inherited by fork children, which go on using the list. */
void *ip_real_at(unsigned what, const void *caller, void *(*find)(unsigned what, const void *caller))
{
	static const struct call_site *_Atomic bucket[SITE_BUCKETS];
	uintptr_t hash = (uintptr_t)caller >> 2 ^ (uintptr_t)caller >> 10;
	const struct call_site *_Atomic *list = &bucket[hash % SITE_BUCKETS];
	const struct call_site *s;
	struct call_site *fresh;
	void *real;

	for (s = atomic_load_explicit(list, memory_order_acquire); s; s = s->next) {
		real = atomic_load_explicit(&s->real, memory_order_relaxed);
		if (s->caller == caller && s->what == what && real)
			return real;
	}
	real = find(what, caller);
	fresh = real ? site_new() : NULL;
	if (fresh) {
		fresh->caller = caller;
		fresh->real = real;
		fresh->what = what;
		fresh->next = atomic_load(list);
		while (!atomic_compare_exchange_weak(list, &fresh->next, fresh))
			;
	}
	return real;
}

void *ip_real_runtime(enum ip_fn fn, const void *caller)
{
	return ip_real_at(fn, caller, find_runtime);
}

/* ---- libraries that leave ---------------------------------------------------------------------- */

static bool is_loaded(const void *address)
{
	return ip_same_object(address, address);
}

void ip_forget_unloaded(void)
{
	unsigned nr = atomic_load(&nr_sites);
	bool driver_left = false;

	for (unsigned fn = 1; fn < FN_NR; fn++) {
		void *real = atomic_load_explicit(&real_driver[fn], memory_order_relaxed);

		if (real && !is_loaded(real)) {
			atomic_store(&real_driver[fn], NULL);
			driver_left = true;
		}
	}
	for (unsigned i = 0; i < nr && i < SITE_MAX; i++) {
		void *real = atomic_load_explicit(&sites[i].real, memory_order_relaxed);

		if (real && (!is_loaded(real) || !is_loaded(sites[i].caller)))
			atomic_store(&sites[i].real, NULL);
	}
	if (driver_left)
		atomic_fetch_add(&driver_epoch, 1);
}
