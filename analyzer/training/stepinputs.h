/* SPDX-License-Identifier: MIT */
/*
 * Step inputs: of each cycle of training (steps.h) how much was allocated at most, and of each place outside of
 * forward, backward and the optimizer the shapes of its tensors as they changed, once training has begun: among them
 * are the batches.
 *
 * Memory is bounded: of long trainings the last cycles are kept, and the last changes of each place.
 */
#ifndef VT_STEPINPUTS_H
#define VT_STEPINPUTS_H

#include "analyzer/ledger/books.h"
#include "analyzer/training/lives.h"

#define STEPINPUTS_CYCLES 2048
#define STEPINPUTS_CHANGES 4096
#define STEPINPUTS_PLACES 64
#define STEPINPUTS_DIMS 4 /* of a batch; tensors with more are none */

struct stepinputs_change {
	uint64_t ordinal; /* of the first allocation that had it; of a place's last change, of the first in that cycle */
	uint32_t nr;      /* allocations one after the other, in one cycle */
	uint32_t cycle;   /* as lives.h counts them: of the batch, the one before */
	uint64_t dims[STEPINPUTS_DIMS];
	uint64_t bytes;
	uint8_t nr_dims;
};

struct stepinputs_place {
	uint32_t python_stack;
	struct stepinputs_change *change; /* in order */
	uint32_t nr_changes;
	size_t room;
};

struct stepinputs_device {
	const struct books *books; /* its process's */
	const struct device_books *figures; /* its own */
	const struct lives *lives;
	uint32_t ordinal;
	uint64_t *peak_bytes; /* by cycle, from first_cycle on */
	uint32_t first_cycle, nr_cycles;
	struct stepinputs_place *place;
	uint32_t nr_places;
};

struct stepinputs {
	struct stepinputs_device *device;
	size_t nr_devices, devices_room;
};
#define STEPINPUTS_INIT { 0 }

/* After an event of a process was entered in its books; `lives` are the same process's, NULL: they are not kept. */
void stepinputs_observe(struct stepinputs *s, const struct books *books, const struct lives *lives,
			const struct tfmt_event *ev);
void stepinputs_release(struct stepinputs *s);

/* Of a device of the process with these books; NULL: nothing is known. */
const struct stepinputs_device *stepinputs_of(const struct stepinputs *s, const struct books *books, uint32_t ordinal);

/* Of a place, the first change at an event or after it; nr_changes = none. */
uint32_t stepinputs_from(const struct stepinputs_place *p, uint64_t ordinal);

/* What a place had in effect at an event: its latest change up to there, NULL = none. */
const struct stepinputs_change *stepinputs_at(const struct stepinputs_place *p, uint64_t ordinal);

/*
 * Does what stepinputs_observe() does with an allocation in the latest cycle of the device that was seen last, if only
 * its peak may be new: true of nearly all. false: nothing was done.
 */
static inline bool stepinputs_raise(struct stepinputs *s, const struct books *books, const struct tfmt_event *ev)
{
	const struct stepinputs_device *d = s->nr_devices ? &s->device[s->nr_devices - 1] : NULL;
	uint64_t bytes, *peak;

	if (!d || d->books != books || d->ordinal != ev->device || !d->nr_cycles ||
	    d->lives->now.phase == PHASE_OTHER || d->lives->now.nr_cycles != d->first_cycle + d->nr_cycles - 1)
		return false;
	bytes = d->figures->allocated_bytes;
	peak = &d->peak_bytes[d->nr_cycles - 1];
	*peak = bytes > *peak ? bytes : *peak; /* no branch: which way it goes cannot be foreseen */
	return true;
}

#endif
