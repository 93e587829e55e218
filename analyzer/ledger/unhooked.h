/* SPDX-License-Identifier: MIT */
/*
 * Memory calls that reached the driver past the hooks: CUPTI told of them (TFMT_UNHOOKED). They change no
 * ledger; how many there were says how far the ledger is to be trusted.
 */
#ifndef VT_UNHOOKED_H
#define VT_UNHOOKED_H

#include <stddef.h>
#include <stdint.h>

#include "analyzer/ui/emit.h"
#include "tracefmt/tracefmt.h"

/* Zero before first use. */
struct unhooked {
	uint64_t allocs, alloc_bytes, frees, others;
	uint16_t function; /* of the first */
};

/* Enter one TFMT_UNHOOKED event. */
void unhooked_add(struct unhooked *u, const struct tfmt_event *ev);

/*
 * "2 allocations (64 MiB), 1 free; first cuMemAlloc_v2" into buf, which it returns; NULL when there were
 * none.
 */
char *unhooked_text(char *buf, size_t size, const struct unhooked *u, const struct tfmt_reader *reader);

/* "unhooked": { "allocs", "bytes", "frees", "others" }. */
void unhooked_json(struct emit *e, const struct unhooked *u);

#endif
