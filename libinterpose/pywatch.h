/* SPDX-License-Identifier: MIT */
/*
 * pywatch: tells when code objects die, so that an address is known to stand for the object seen there
 * before.
 *
 * The interpreter's destructor of code objects (PyCode_Type.tp_dealloc) is replaced by one that counts the
 * death and then calls it. That is the one write to the interpreter's memory: a pointer in a type object,
 * stored once when recording starts. Nothing of the language shows it; every code object dies as it would,
 * a few nanoseconds later.
 *
 * Threading: code objects may die on several threads at once (interpreters with a GIL each). Whoever sees
 * an object in a frame that runs it sees the counts of all deaths before its birth.
 */
#ifndef IP_PYWATCH_H
#define IP_PYWATCH_H

#include <stdatomic.h>
#include <stdint.h>

/* What each capture asks. */
struct pywatch {
	const void *code_type;
	_Atomic uint32_t deaths;
};
extern struct pywatch pywatch;

/*
 * Watch the code objects of the interpreter whose PyCode_Type this is, from now on. Once is enough for a
 * process and its forks. One thread only; others may run Python meanwhile.
 */
void pywatch_begin(void *code_type);

/* The type whose objects are watched, NULL = none are. */
static inline const void *pywatch_code_type(void)
{
	return pywatch.code_type;
}

/* How many watched code objects have died. */
static inline uint32_t pywatch_deaths(void)
{
	return atomic_load_explicit(&pywatch.deaths, memory_order_acquire);
}

/* Those among them that were at this address, or at one that shares its count. */
uint32_t pywatch_deaths_at(const void *code);

#endif
