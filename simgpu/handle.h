/* SPDX-License-Identifier: MIT */
/*
 * The libraries that simgpu stands in for, when a program asks for their functions by the handle of a real one
 * (dlopen and dlsym) instead of being linked with it. Safe on any thread; takes the loader's lock for a moment.
 */
#ifndef SIMGPU_HANDLE_H
#define SIMGPU_HANDLE_H

#include <stdbool.h>

/* Whether PATH, a file name with or without folders, is one of a library that is simulated. */
bool sim_library_is_simulated(const char *path);

/*
 * What is to be looked up for CALLER, an address in its code, instead of NAME by HANDLE: NAME by our own handle where
 * HANDLE is that of a simulated library, else the same. The real libraries' own lookups in each other stay theirs. Where the real library has NAME and we do not, it is a name that nobody has and that says so: the lookup
 * fails as in a library without NAME, and dlerror() tells why. The first such lookup in each library is said on stderr.
 */
struct sim_lookup {
	void *handle;
	const char *name;	/* the caller's, or valid until this thread's next call */
};
struct sim_lookup sim_lookup_for(void *handle, const char *name, const void *caller);

/* What NAME is in the library of HANDLE itself, simulated or not; NULL if it has none. */
void *sim_real_symbol(void *handle, const char *name);

#endif
