/* SPDX-License-Identifier: MIT */
/*
 * traverse: asks a class what its object holds, by its tp_traverse, as Python's collector does.
 *
 * That is anybody's code, written for threads of Python's. Where a copy of the process looks (census.h) there is no such
 * thread, and a class that wants one faults; a copy must not end for that.
 */
#ifndef IP_TRAVERSE_H
#define IP_TRAVERSE_H

#include <stdint.h>

typedef int traverse_visit_fn(const void *object, void *arg);
typedef int traverse_fn(const void *object, traverse_visit_fn *visit, void *arg);

/*
 * From here on a fault in traverse_object() ends the asking and not the process; one elsewhere, in `visit` as well, ends the
 * process as ever. Only in a copy, which has one thread and no handlers: this sets handlers of SIGSEGV, SIGBUS, SIGFPE,
 * SIGILL and SIGABRT.
 */
void traverse_survive(void);

/* Call traverse. What it has not come to when it faults stays unknown. */
void traverse_object(traverse_fn *traverse, const void *object, traverse_visit_fn *visit, void *arg);

/* How often it has faulted. */
uint64_t traverse_nr_faults(void);

#endif
