/* SPDX-License-Identifier: MIT */
/* Counts of dead code objects: of all, and by a hash of their addresses. */
#include "pywatch.h"

#include <stddef.h>

#include "pylayout.h"

#define PLACES 4096u /* a count too many is harmless: an object is looked at once more */

struct pywatch pywatch;

static struct {
	void (*dealloc)(void *code); /* the interpreter's own */
	_Atomic uint32_t deaths_at[PLACES];
} watch;

static inline _Atomic uint32_t *place_of(const void *code)
{
	return &watch.deaths_at[((uintptr_t)code >> 4) % PLACES];
}

uint32_t pywatch_deaths_at(const void *code)
{
	return atomic_load_explicit(place_of(code), memory_order_relaxed);
}

/* Counted before the memory can become another object's, which only the call makes possible. */
static void count_death(void *code)
{
	atomic_fetch_add_explicit(place_of(code), 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&pywatch.deaths, 1, memory_order_release);
	watch.dealloc(code);
}

void pywatch_begin(void *code_type)
{
	void **slot = (void **)((char *)code_type + PY_TYPE_DEALLOC);
	void *dealloc = __atomic_load_n(slot, __ATOMIC_ACQUIRE);

	if (!dealloc || pywatch.code_type)
		return;
	watch.dealloc = (void (*)(void *))dealloc;
	pywatch.code_type = code_type;
	__atomic_store_n(slot, (void *)count_death, __ATOMIC_RELEASE);
}
