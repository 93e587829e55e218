/* SPDX-License-Identifier: MIT */
/* Counting memory calls past the hooks, and saying so. */
#include "analyzer/ledger/books.h"

#include <inttypes.h>
#include <stdio.h>

#include "analyzer/base/human.h"

void unhooked_add(struct unhooked *u, const struct tfmt_event *ev)
{
	if (!u->allocs && !u->frees && !u->others)
		u->function = ev->function;
	if (ev->aux == TFMT_UNHOOKED_ALLOC) {
		u->allocs++;
		u->alloc_bytes += ev->size;
	} else if (ev->aux == TFMT_UNHOOKED_FREE) {
		u->frees++;
	} else {
		u->others++;
	}
}

static size_t append(char *buf, size_t size, size_t used, uint64_t nr, const char *what)
{
	if (!nr || used >= size)
		return used;
	return used + (size_t)snprintf(buf + used, size - used, "%s%" PRIu64 " %s%s", used ? ", " : "", nr,
				       what, nr == 1 ? "" : "s");
}

char *unhooked_text(char *buf, size_t size, const struct unhooked *u, const struct tfmt_reader *reader)
{
	const char *name = tfmt_reader_function(reader, u->function);
	size_t used = append(buf, size, 0, u->allocs, "allocation");
	char bytes[HUMAN_MAX];

	human_bytes(bytes, u->alloc_bytes);
	if (u->allocs && used < size)
		used += (size_t)snprintf(buf + used, size - used, " (%s)", bytes);
	used = append(buf, size, used, u->frees, "free");
	used = append(buf, size, used, u->others, "other call");
	if (!used)
		return NULL;
	if (*name && used < size)
		snprintf(buf + used, size - used, "; first %s", name);
	return buf;
}
