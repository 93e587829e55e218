/* SPDX-License-Identifier: MIT */
/* Failed allocations that nothing followed. */
#include "analyzer/failures/oomwatch.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

static struct oomwatch_row *find(const struct oomwatch *w, const struct replay_process *p, const struct tfmt_event *ev)
{
	for (size_t i = 0; i < w->nr_rows; i++) {
		struct oomwatch_row *row = &w->row[i];

		if (row->process == p && row->device == ev->device && row->thread == ev->thread)
			return row;
	}
	return NULL;
}

static void add(struct oomwatch *w, const struct replay_process *p, const struct tfmt_event *ev)
{
	struct oomwatch_row *row = find(w, p, ev);

	if (!row) {
		w->row = heap_need(realloc(w->row, (w->nr_rows + 1) * sizeof(*w->row)));
		row = &w->row[w->nr_rows++];
		*row = (struct oomwatch_row){ .process = p, .device = ev->device, .thread = ev->thread };
	}
	row->pending = true;
}

void oomwatch_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct oomwatch *w = ctx;
	struct oomwatch_row *row;

	(void)time_ns;
	if (ev->kind == TFMT_TENSOR_OOM || ev->kind == TFMT_ALLOC_FAILED) {
		add(w, process, ev);
	} else if (w->nr_rows && (ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_DRIVER_ALLOC)) {
		row = find(w, process, ev);
		if (row)
			row->pending = false;
	}
}

bool oomwatch_has_failed(const struct replay_process *p)
{
	return p->end == REPLAY_END_SIGNAL || p->end == REPLAY_END_KILLED ||
	       (p->end == REPLAY_END_EXIT && p->summary->exit_status);
}

void oomwatch_release(struct oomwatch *w)
{
	free(w->row);
	*w = (struct oomwatch)OOMWATCH_INIT;
}
