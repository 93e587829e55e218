/* SPDX-License-Identifier: MIT */
/*
 * objects: the loaded objects of this process and the symbols they export, read from memory.
 *
 * dlopen and dlsym are not for hooks: they change what the program's next dlerror() says, allocate through its
 * malloc where they fail, and wait for whoever is loading a library, constructors and all. Here nothing is
 * allocated, and the loader's list is held only while it is walked. Objects of other namespaces (dlmopen) are
 * not seen.
 *
 * A *name* of an object is the soname it was linked with, else its file's name without the folder.
 *
 * Threading: anywhere, also in signal handlers that do not interrupt the loader itself.
 */
#ifndef IP_OBJECTS_H
#define IP_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tells objects that the program began with from those loaded later. The first call counts. */
void ip_objects_init(void);

/* The function or variable that the first object of a name beginning with `name` exports; NULL without either. */
void *ip_symbol_of(const char *name, const char *symbol);

/*
 * The definition that comes after this library's among the objects the program began with: what a call in the
 * program would reach if we were not there. NULL if there is none.
 */
void *ip_symbol_next(const char *symbol);

/* A function of the C library; also where we come after it: NVTX loads us into processes that are not traced. */
void *ip_symbol_libc(const char *symbol);

/*
 * The same symbol for a caller in a library: of the first object whose name begins with `name` among those that
 * the caller's own object says it needs. NULL if it needs none.
 */
void *ip_symbol_needed(const void *caller, const char *name, const char *symbol);

/*
 * The same symbol for a caller in a library that was loaded later: the first definition among the libraries that
 * were loaded with it, which are all those that it needs, or that are needed by one that needs it. NULL for a
 * caller in an object that the program began with.
 */
void *ip_symbol_beside(const void *caller, const char *symbol);

/* The first definition in any object but this library; NULL if there is none. */
void *ip_symbol_elsewhere(const char *symbol);

/* This library's own definition; NULL if it has none. */
void *ip_symbol_ours(const char *symbol);

/* The name of the object that holds an address, cut to size; false if none does. */
bool ip_object_name(const void *address, char *name, size_t size);

/* Both addresses lie in one object. */
bool ip_same_object(const void *a, const void *b);

/* An object of a name beginning with `name` is loaded. */
bool ip_object_loaded(const char *name);

/* How many objects have been unloaded so far, over all the process's life. */
uint64_t ip_objects_unloaded(void);

#endif
