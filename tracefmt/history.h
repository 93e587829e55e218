/* SPDX-License-Identifier: MIT */
/*
 * The history of a process as a flight recorder must remember it, once the frames that hold it are dropped: the
 * figures of the whole job, and the events in effect that make no block (open ranges, contexts, graphs, the
 * latest samples). Of blocks the ledger remembers how they were made (struct tfmt_origin).
 * Memory from mmap; one thread. Internal to tracefmt.
 */
#ifndef TFMT_HISTORY_H
#define TFMT_HISTORY_H

#include "tracefmt/passes.h"
#include "tracefmt/tracefmt.h"

struct tfmt_block;

/* What the event that made a block said, beside what the block has. */
struct tfmt_origin {
	uint64_t time_ns, aux;
	uint32_t python_stack, native_stack, thread;
	uint16_t function, flags;
};

#define TFMT_HISTORY_DEVICES (TFMT_NR_DEVICES + 1) /* the last: of no device */
#define TFMT_HISTORY_THREADS (1u << 16) /* of higher ids it is not known whether they are in backward */

struct tfmt_history {
	struct tfmt_figures figures;
	struct tfmt_passes passes;
	bool teardown; /* the interpreter is finalising: nothing counts any more */
	struct tfmt_event *open; /* events in effect, by ordinal */
	uint32_t nr_open, open_room;

	/* As the figures need it. */
	uint8_t time_shift;
	uint64_t time_ns; /* of the event being entered */
	uint64_t latest_ns;
	bool has_begun;   /* an event of forward or backward was seen */
	const struct tfmt_totals *totals;
	uint64_t requested[TFMT_HISTORY_DEVICES];
	uint64_t driver[TFMT_HISTORY_DEVICES];   /* device memory that the process took */
	uint64_t context[TFMT_HISTORY_DEVICES], code[TFMT_HISTORY_DEVICES]; /* what it is modelled to take for itself */
	uint64_t graph[TFMT_HISTORY_DEVICES];
	bool driver_peak_is_new[TFMT_HISTORY_DEVICES]; /* no tensor event has followed it yet */
	uint64_t *shape_bytes; /* by SHAPE id */
	uint32_t nr_shapes;
	uint8_t *is_driver;  /* by FUNCTION id, what the driver takes for itself: 1 context, 2 code; 0 others */
	uint8_t *in_backward; /* by thread */
};

/* A history of the events that a ledger with these totals records. NULL without memory. */
struct tfmt_history *tfmt_history_new(const struct tfmt_totals *totals, uint8_t time_shift);
void tfmt_history_free(struct tfmt_history *h);

/* A definition that the events use: of shapes and functions the figures depend. Without memory it knows less. */
void tfmt_history_define(struct tfmt_history *h, uint32_t type, uint32_t id, const uint8_t *payload, size_t len);

/* An event that tells of phases, or LOST. */
void tfmt_history_phase(struct tfmt_history *h, const struct tfmt_event *ev);

/* The ledger calls these: before an event is applied, as blocks come and go, and after it. */
static inline void tfmt_history_before(struct tfmt_history *h, const struct tfmt_event *ev)
{
	h->time_ns = ev->time_ns >> h->time_shift << h->time_shift;
	h->latest_ns = h->time_ns > h->latest_ns ? h->time_ns : h->latest_ns;
	h->teardown |= !!(ev->flags & TFMT_FLAG_TEARDOWN);
	if (ev->kind <= TFMT_TENSOR_OOM)
		h->has_begun |= !!(ev->flags & (TFMT_FLAG_BACKWARD | TFMT_FLAG_FORWARD));
	else if (ev->kind >= TFMT_LOST)
		tfmt_history_phase(h, ev);
}
void tfmt_history_enter(struct tfmt_history *h, const struct tfmt_block *b, const struct tfmt_origin *o);
void tfmt_history_leave(struct tfmt_history *h, const struct tfmt_block *b, const struct tfmt_origin *o);
/* A free took the block's last reference, or (taken = false) failed to after all. */
void tfmt_history_freed(struct tfmt_history *h, const struct tfmt_block *b, const struct tfmt_origin *o, bool taken);
/* Returns 0 or TFMT_E_NOMEM. */
int tfmt_history_after(struct tfmt_history *h, const struct tfmt_event *ev);

/* ---- tensors: nearly all events of a trace, hence here ---------------------------------------- */

static inline unsigned tfmt_history_row(uint8_t device)
{
	return device < TFMT_NR_DEVICES ? device : TFMT_FIGURES_PROCESS;
}

/* Only of devices are there totals. */
static inline uint64_t tfmt_history_total(const uint64_t *of, unsigned device)
{
	return device < TFMT_NR_DEVICES ? of[device] : 0;
}

/* Bytes of a shape, 0 if it is not known. */
static inline uint64_t tfmt_history_shape(const struct tfmt_history *h, uint32_t id)
{
	return id < h->nr_shapes ? h->shape_bytes[id] : 0;
}

/* How a block is made by this event. */
static inline struct tfmt_origin tfmt_history_origin(const struct tfmt_history *h, const struct tfmt_event *ev)
{
	unsigned flags = ev->flags;

	if (ev->thread < TFMT_HISTORY_THREADS && h->in_backward[ev->thread])
		flags |= TFMT_FLAG_IN_BACKWARD;
	if (h->has_begun)
		flags |= TFMT_FLAG_BEGUN;
	return (struct tfmt_origin){
		.time_ns = ev->time_ns,
		.aux = ev->aux,
		.python_stack = ev->python_stack,
		.native_stack = ev->native_stack,
		.thread = ev->thread,
		.function = ev->function,
		.flags = (uint16_t)flags,
	};
}

/* The allocator's report of what it has reserved, when so much of it is allocated; of the device's figures. */
static inline void tfmt_history_reserved(uint64_t *of, uint64_t bytes, uint64_t allocated)
{
	if (bytes <= of[TFMT_FIGURE_RESERVED_PEAK])
		return;
	of[TFMT_FIGURE_RESERVED_PEAK] = bytes;
	of[TFMT_FIGURE_RESERVED_PEAK_ALLOCATED] = allocated;
}

/* More of a device's memory is allocated to tensors than ever before. */
void tfmt_history_tensor_peak(struct tfmt_history *h, unsigned device, uint64_t allocated, uint64_t reserved);

#endif
