/* SPDX-License-Identifier: MIT */
/* What was counted when the backward passes began that a flight recorder dropped. */
#include "analyzer/pages/print_passes.h"

#include <inttypes.h>

#include "analyzer/base/human.h"

static const struct tfmt_pass *passes_of(const struct replay_device *d, uint32_t *nr)
{
	*nr = 0;
	return d->process->is_kept ? tfmt_reader_passes(d->process->reader, d->ordinal, nr) : NULL;
}

void print_passes(struct emit *e, const struct replay_device *d)
{
	char from[HUMAN_MAX], to[HUMAN_MAX], each[HUMAN_MAX];
	const struct tfmt_pass *pass, *last;
	uint64_t distance;
	uint32_t nr;

	pass = passes_of(d, &nr);
	if (nr < 2)
		return;
	last = &pass[nr - 1];
	if (nr > 2)
		pass++; /* before the first there was no optimizer's state, for one */
	distance = last->number - pass->number;
	if (!distance || distance > INT32_MAX) /* nothing that a recorder wrote */
		return;
	emit_text(e, "before (backward passes %" PRIu64 " to %" PRIu64 "): %s to %s, %s each", pass->number, last->number,
		  human_bytes(from, pass->allocated), human_bytes(to, last->allocated),
		  human_bytes_delta(each, (int64_t)(last->allocated - pass->allocated) / (int64_t)distance));
}

void json_passes(struct emit *e, const struct replay_device *d)
{
	const struct tfmt_pass *pass;
	uint32_t nr;

	pass = passes_of(d, &nr);
	emit_array_begin(e, "passes_before", NULL);
	for (uint32_t i = 0; i < nr; i++) {
		emit_object_begin(e, NULL, NULL);
		emit_uint(e, "pass", NULL, pass[i].number);
		emit_uint(e, "time_ns", NULL, replay_time(d->process, pass[i].time_ns));
		emit_uint(e, "allocated_bytes", NULL, pass[i].allocated);
		emit_uint(e, "peak_bytes", NULL, pass[i].peak);
		emit_uint(e, "allocs", NULL, pass[i].allocs);
		emit_uint(e, "frees", NULL, pass[i].frees);
		emit_object_end(e);
	}
	emit_array_end(e);
}
