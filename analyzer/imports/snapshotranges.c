/* SPDX-License-Identifier: MIT */
/* Beginnings and ends of ranges and phases between the entries. */
#include "analyzer/imports/snapshotranges.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/imports/snapshotdefine.h"

static void write_event(struct tracemaker *t, enum tfmt_kind kind, uint64_t time_ns, uint8_t device, uint64_t address,
			uint64_t size, uint64_t aux)
{
	struct tfmt_event ev = { .kind = (uint8_t)kind,
				.time_ns = time_ns,
				.device = device,
				.address = address,
				.size = size,
				.aux = aux };

	tracemaker_event(t, &ev);
}

void snapshotranges_label(struct snapshotranges *r, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns,
			  uint32_t device, uint32_t label)
{
	if (label == r->label[device])
		return;
	if (r->label[device])
		write_event(t, TFMT_RANGE_END, time_ns, (uint8_t)device, 0, 0, r->label_id[device]);
	r->label[device] = label;
	r->label_id[device] = ++r->nr_ids;
	if (label)
		write_event(t, TFMT_RANGE_START, time_ns, (uint8_t)device, label, SNAPSHOTDEFINE_LABELS(s), r->nr_ids);
}

/* The phase of training that an annotation of PyTorch's names; 0 = none. */
static enum tfmt_phase phase_of(const char *name)
{
	if (!strncmp(name, "Optimizer.step#", strlen("Optimizer.step#")))
		return TFMT_PHASE_OPTIMIZER;
	if (!strncmp(name, "Optimizer.zero_grad#", strlen("Optimizer.zero_grad#")))
		return TFMT_PHASE_ZERO_GRAD;
	return 0;
}

static void begin(struct snapshotranges *r, struct tracemaker *t, const struct snapshot_annotation *a, uint64_t time_ns,
		  enum tfmt_phase phase)
{
	r->open = heap_grow(r->open, &r->open_room, r->nr_open + 1, sizeof(*r->open));
	r->open[r->nr_open++] = (struct snapshotranges_open){ a->name, ++r->nr_ids, a->device };
	write_event(t, TFMT_RANGE_START, time_ns, a->device, a->name, 0, r->nr_ids);
	if (phase)
		write_event(t, TFMT_PHASE_BEGIN, time_ns, TFMT_DEVICE_NONE, phase, 0, r->depth++);
}

/* It ends the latest of its name; one that began before the snapshot's annotations ends nothing. */
static void end(struct snapshotranges *r, struct tracemaker *t, const struct snapshot_annotation *a, uint64_t time_ns,
		enum tfmt_phase phase)
{
	size_t at = r->nr_open;

	while (at && (r->open[at - 1].name != a->name || r->open[at - 1].device != a->device))
		at--;
	if (!at)
		return;
	if (phase && r->depth)
		write_event(t, TFMT_PHASE_END, time_ns, TFMT_DEVICE_NONE, phase, 0, --r->depth);
	write_event(t, TFMT_RANGE_END, time_ns, a->device, 0, 0, r->open[at - 1].id);
	memmove(r->open + at - 1, r->open + at, (r->nr_open - at) * sizeof(*r->open));
	r->nr_open--;
}

void snapshotranges_until(struct snapshotranges *r, const struct snapshot *s, struct tracemaker *t, uint64_t time_ns)
{
	for (; r->next < s->nr_annotations; r->next++) {
		const struct snapshot_annotation *a = &s->annotation[r->next];
		uint64_t at_ns = a->time_us * NS_PER_US;
		enum tfmt_phase phase;

		if (!a->name || a->device >= TFMT_NR_DEVICES)
			continue;
		if (at_ns > time_ns)
			return;
		phase = phase_of(framestacks_text(&s->stacks, a->name));
		if (a->is_end)
			end(r, t, a, at_ns, phase);
		else
			begin(r, t, a, at_ns, phase);
	}
}

void snapshotranges_release(struct snapshotranges *r)
{
	free(r->open);
	r->open = NULL;
}
