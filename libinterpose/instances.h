/* SPDX-License-Identifier: MIT */
/*
 * instances: an id for each nn.Module that is called or moved, so that a stack tells which of the layers of a loop it is.
 *
 * An object is known by its address and its class; one that is made later where it lay, of the same class, has its id.
 *
 * Threading: any number of threads at once. Finding one that is known takes no lock.
 */
#ifndef IP_INSTANCES_H
#define IP_INSTANCES_H

#include <stdbool.h>
#include <stdint.h>

#include "pylayout.h"

#define INSTANCES_MAX (1u << 15) /* of a program that makes more, the later ones have no id */

/*
 * Begin with none, dropping inherited ones without touching their memory (fork child). While no other thread uses them.
 * Without memory, no instance has an id.
 */
void instances_init(void);

/*
 * The id of an object that is alive, 1 or more; its definition is committed. 0: it has none. *latest is the calling thread's,
 * 0 at first: where the one that it asked for before lies.
 */
uint32_t instances_id(const void *object, uint32_t *latest);

#endif
