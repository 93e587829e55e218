/* SPDX-License-Identifier: MIT */
/* census_kinds: what an object is, by its class. In a copy of the process. */
#ifndef IP_CENSUS_KINDS_H
#define IP_CENSUS_KINDS_H

#include "census_walk.h"

/* What is known of classes already; NULL without memory. */
struct census_type *census_types_new(void);

/* enum tfmt_object_kind of this class's objects. */
uint8_t census_kind_of(struct census_walk *w, const void *type);

/* Memory of the copy's own: zero, and taken as it is used; NULL without address space. */
void *census_map(size_t bytes);

#endif
