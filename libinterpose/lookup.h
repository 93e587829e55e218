/* SPDX-License-Identifier: MIT */
/*
 * lookup: how callers that look driver functions up by name get our wrappers.
 *
 * libcudart, NCCL, cuBLAS and PyTorch reach the driver through dlsym and cuGetProcAddress. Both are wrapped, call
 * the real lookup first, and replace only what it found, only if that is the driver's, and only by the wrapper of
 * the same ABI. Names are matched in full: libraries look up their own cudnnCreate in the same way.
 *
 * Never replaced: what the driver itself, its helpers and other tools look up; what a library looks up that our
 * wrapper forwards to, for it would call itself for ever; functions of a driver in another namespace.
 *
 * Threading: anywhere. No lock, no allocation of our own; dlerror() says what it would without us.
 */
#ifndef IP_LOOKUP_H
#define IP_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IP_ANY_VERSION INT32_MAX /* the caller did not say for which version of CUDA it looks */

/*
 * cuGetProcAddress has found `found` under this base name, for this version of CUDA: our wrapper of that very
 * function, or `found` itself. per_thread: asked for the variant with the per-thread default stream.
 */
void *ip_wrap(const char *base, int version, bool per_thread, void *found, const void *caller);

/* Notes for the trace on libraries that were loaded out of our sight: text `which` (from 0), when there is one. */
#define IP_LOAD_NOTES 3u
bool ip_load_note(unsigned which, char *text, size_t size);

/*
 * Around the recorder's own calls of dlopen and dlsym on a thread of the program, once in a process: what the
 * program's next dlerror() there says is not changed by them. Between the two, the loader is nobody else's.
 */
bool ip_dlerror_keep(void);
void ip_dlerror_give_back(bool is_kept);

/*
 * A lookup that the program made has found nothing but a wrapper: its dlerror() says what it would without us.
 * `object`: the link map that was looked from, NULL = the program's.
 */
void ip_dlerror_missing(const void *object, const char *name, const char *version);

/* The program itself calls the loader: an older message is gone. */
void ip_dlerror_drop(void);

/* A lookup of ours has failed for the program's own, which has found something: the C library's message goes. */
void ip_dlerror_clear(void);

/* What arch_*.c enters, with the caller's arguments and return address. */
#define IP_LOOKUP_PASS NULL         /* not ours: jump to the real function */
#define IP_LOOKUP_NONE ((void *)1)  /* answer NULL */
void *ip_lookup_enter(void *handle, const char *name, const char *version, const void *caller);
int ip_dlopen_enter(const char *file, int flags); /* returns the flags to go on with */
void ip_dlmopen_enter(long space, const char *file);

#endif
