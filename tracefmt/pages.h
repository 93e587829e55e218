/* SPDX-License-Identifier: MIT */
/*
 * Zeroed memory straight from the kernel, for code that runs inside a traced process and so may not use
 * its malloc. Internal to tracefmt.
 */
#ifndef TFMT_PAGES_H
#define TFMT_PAGES_H

#include <stddef.h>

/* Zeroed pages, NULL if there are none. Untouched pages cost nothing. */
void *tfmt_pages_new(size_t bytes);

/* Give back what tfmt_pages_new(bytes) returned; NULL is allowed. */
void tfmt_pages_free(void *p, size_t bytes);

/* Grow, keeping the content; the new part is zero. NULL and the old pages untouched if there is no memory. */
void *tfmt_pages_grow(void *p, size_t old_bytes, size_t new_bytes);

#endif
