/* SPDX-License-Identifier: MIT */
/* Zeroed memory from mmap. */
#include "tracefmt/pages.h"

#include <sys/mman.h>

void *tfmt_pages_new(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void tfmt_pages_free(void *p, size_t bytes)
{
	if (p)
		munmap(p, bytes);
}

void *tfmt_pages_grow(void *p, size_t old_bytes, size_t new_bytes)
{
	void *q;

	if (!p)
		return tfmt_pages_new(new_bytes);
	q = mremap(p, old_bytes, new_bytes, MREMAP_MAYMOVE);
	return q == MAP_FAILED ? NULL : q;
}
