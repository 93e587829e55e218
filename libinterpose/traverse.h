/* SPDX-License-Identifier: MIT */
/*
 * traverse: asks a class what its object holds, by its tp_traverse, as Python's collector does.
 *
 * That is anybody's code, written for threads of Python's. Where a copy of the process looks (census.h) there is no such
 * thread, and a class that wants one faults; a copy must not end for that. Nor for memory that is not there, which it reads
 * without asking the kernel for it first: of a graph of 100,000 nodes that is most of the time.
 */
#ifndef IP_TRAVERSE_H
#define IP_TRAVERSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int traverse_visit_fn(const void *object, void *arg);
typedef int traverse_fn(const void *object, traverse_visit_fn *visit, void *arg);

/*
 * From here on a fault in traverse_object() ends the asking and not the process, and one in traverse_read() the reading; one
 * elsewhere, in `visit` as well, ends the process as ever. Only in a copy, which has one thread and no handlers: this sets
 * handlers of SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT.
 */
void traverse_survive(void);

/* Call traverse. What it has not come to when it faults stays unknown. */
void traverse_object(traverse_fn *traverse, const void *object, traverse_visit_fn *visit, void *arg);

/* How often it has faulted. */
uint64_t traverse_nr_faults(void);

/* Copy memory that may not be there; false if it is not all there. Before traverse_survive(), or without it, by the kernel. */
bool traverse_read(void *to, const void *from, size_t bytes);

#endif
