/* SPDX-License-Identifier: MIT */
/* What each event makes and ends: blocks, mappings, references to handles. Writer and reader have the same rules. */
#include "tracefmt/ledger_blocks.h"
#include "tracefmt/pages.h"

/*
 * A space that is not known counts as the device's: whoever adds one that is not the device's gives traces a bit that
 * readers must understand (FORMAT.md, section 9).
 */
static uint8_t ledger_group(unsigned space)
{
	static const uint8_t group[] = {
		[TFMT_SPACE_DEVICE] = TFMT_GROUP_DEVICE,     [TFMT_SPACE_PINNED] = TFMT_GROUP_PINNED,
		[TFMT_SPACE_MANAGED] = TFMT_GROUP_DEVICE,    [TFMT_SPACE_REGISTERED] = TFMT_GROUP_REGISTERED,
		[TFMT_SPACE_HANDLE] = TFMT_GROUP_HANDLE,     [TFMT_SPACE_POOL] = TFMT_GROUP_DEVICE,
		[TFMT_SPACE_ARRAY] = TFMT_GROUP_ARRAY,       [TFMT_SPACE_IPC] = TFMT_GROUP_DEVICE,
		[TFMT_SPACE_RESERVED] = TFMT_GROUP_RESERVED, [TFMT_SPACE_GRAPH] = TFMT_GROUP_DEVICE,
		[TFMT_SPACE_MULTICAST] = TFMT_GROUP_HANDLE,  [TFMT_SPACE_POOL_HOST] = TFMT_GROUP_DEVICE,
		[TFMT_SPACE_HANDLE_HOST] = TFMT_GROUP_HANDLE,
		[TFMT_SPACE_HANDLE_IMPORTED] = TFMT_GROUP_HANDLE,
	};

	return space < sizeof(group) ? group[space] : TFMT_GROUP_DEVICE;
}

/* Of the block that an event makes or ends. */
static inline unsigned event_group(const struct tfmt_event *ev)
{
	bool tensor = ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_TENSOR_FREE;

	return tensor ? TFMT_GROUP_TENSOR : ledger_group(ev->flags & TFMT_SPACE_MASK);
}

/* ---- events ---------------------------------------------------------------------------------- */

/* A block that this event makes. */
static int ledger_make(struct tfmt_ledger *l, const struct tfmt_block *b, const struct tfmt_event *ev)
{
	struct tfmt_origin origin;

	if (l->history)
		origin = tfmt_history_origin(l->history, ev);
	return tfmt_ledger_put(l, b, &origin);
}

static int ledger_alloc(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	unsigned space = ev->flags & TFMT_SPACE_MASK;
	struct tfmt_block b = {
		.address = ev->address,
		.size = ev->size,
		.ordinal = ev->ordinal,
		.shape = ev->shape,
		.stream = ev->stream,
		.device = ev->device,
		.space = (uint8_t)space,
		.references = 1,
		.group = (uint8_t)event_group(ev),
	};
	uint32_t slot;

	if (ev->kind == TFMT_DRIVER_ALLOC)
		b.context = (uint32_t)ev->aux;
	/* Memory of another process keeps its address however often it is opened. */
	if (b.group == TFMT_GROUP_DEVICE && space == TFMT_SPACE_IPC &&
	    tfmt_ledger_find(l, b.group, b.device, b.address, &slot) && l->block[slot].space == TFMT_SPACE_IPC) {
		l->block[slot].references++;
		return 0;
	}
	return ledger_make(l, &b, ev);
}

/* Fill a free, or the failure of one, with what it inherits from its block. */
static void event_inherit(struct tfmt_event *ev, const struct tfmt_block *b)
{
	ev->address = b->address;
	ev->size = b->size;
	ev->shape = b->shape;
	ev->device = b->device;
	if (b->group == TFMT_GROUP_TENSOR)
		ev->stream = b->stream;
	else if (b->group != TFMT_GROUP_MAPPING)
		ev->flags = (uint16_t)((ev->flags & ~TFMT_SPACE_MASK) | b->space);
}

static void ledger_unreference(struct tfmt_ledger *l, uint32_t slot)
{
	struct tfmt_block *b = &l->block[slot];

	if (b->references > 1) {
		b->references--;
		return;
	}
	if (l->history)
		tfmt_history_freed(l->history, b, &l->origin[slot], true);
	tfmt_ledger_drop(l, slot);
}

/* A driver free or unmap begins: it takes its thread's place. */
static struct tfmt_undo *ledger_begin_undo(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	struct tfmt_undo *u = &l->undo[ev->thread % TFMT_NR_UNDO];

	u->ordinal = ev->ordinal;
	u->thread = ev->thread;
	u->nr = 0;
	if (l->history)
		u->event = *ev;
	return u;
}

/* Remember a block that is about to end, of a mapping with its handle's slot. Returns 0 or TFMT_E_NOMEM. */
static int undo_add(const struct tfmt_ledger *l, struct tfmt_undo *u, uint32_t slot, const uint32_t *handle)
{
	struct tfmt_ended *e;

	if (u->nr == u->room) {
		uint32_t room = u->room ? 2 * u->room : 4096 / sizeof(*u->ended);
		size_t bytes = room * sizeof(*u->ended);
		void *grown = u->room ? tfmt_pages_grow(u->ended, u->room * sizeof(*u->ended), bytes)
				      : tfmt_pages_new(bytes);

		if (!grown)
			return TFMT_E_NOMEM;
		u->ended = grown;
		u->room = room;
	}
	e = &u->ended[u->nr++];
	e->block = l->block[slot];
	e->handle.live = handle;
	if (handle)
		e->handle = l->block[*handle];
	if (l->history)
		e->origin = l->origin[slot];
	if (l->history && handle)
		e->handle_origin = l->origin[*handle];
	return 0;
}

static int ledger_free(struct tfmt_ledger *l, struct tfmt_event *ev, uint32_t slot)
{
	const struct tfmt_block *b = &l->block[slot];
	int err = 0;

	event_inherit(ev, b);
	ev->alloc_ordinal = b->ordinal;
	if (ev->kind == TFMT_DRIVER_FREE)
		err = undo_add(l, ledger_begin_undo(l, ev), slot, NULL);
	ledger_unreference(l, slot);
	return err;
}

/* Does a block's key stand for something else by now? Then it has ended after all: the address was handed out again. */
static bool ledger_is_superseded(const struct tfmt_ledger *l, const struct tfmt_block *b)
{
	const struct tfmt_block *other;
	uint32_t slot;

	if (!tfmt_ledger_find(l, b->group, b->device, b->address, &slot))
		return false;
	other = &l->block[slot];
	return other->ordinal != b->ordinal && !(other->space == TFMT_SPACE_IPC && b->space == TFMT_SPACE_IPC);
}

/* Give a block its reference back, and its life if that was the last. */
static int ledger_restore(struct tfmt_ledger *l, const struct tfmt_block *ended, const struct tfmt_origin *origin)
{
	struct tfmt_block b = *ended;
	uint32_t slot;

	if (ledger_is_superseded(l, &b))
		return 0;
	if (tfmt_ledger_find(l, b.group, b.device, b.address, &slot)) {
		l->block[slot].references++;
		return 0;
	}
	b.references = 1;
	if (l->history)
		tfmt_history_freed(l->history, &b, origin, false);
	return tfmt_ledger_put(l, &b, origin);
}

static int ledger_undo(struct tfmt_ledger *l, struct tfmt_event *ev, struct tfmt_undo *u)
{
	int err = 0;

	event_inherit(ev, &u->ended[0].block);
	ev->alloc_ordinal = u->ordinal;
	for (uint32_t i = 0; !err && i < u->nr; i++) {
		const struct tfmt_ended *e = &u->ended[i];

		if (i)
			ev->size += e->block.size;
		if (e->handle.live && !ledger_is_superseded(l, &e->block))
			err = ledger_restore(l, &e->handle, &e->handle_origin);
		if (!err)
			err = ledger_restore(l, &e->block, &e->origin);
	}
	u->nr = 0;
	return err;
}

static int ledger_map(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	struct tfmt_block b = {
		.address = ev->address,
		.size = ev->size,
		.ordinal = ev->ordinal,
		.handle = ev->aux,
		.handle_ordinal = TFMT_NO_ORDINAL,
		.stream = ev->stream,
		.device = ev->device,
		.group = TFMT_GROUP_MAPPING,
	};
	struct tfmt_block replaced;
	uint32_t slot;

	if (tfmt_ledger_find(l, TFMT_GROUP_HANDLE, 0, ev->aux, &slot)) {
		l->block[slot].references++;
		b.handle_ordinal = l->block[slot].ordinal;
	}
	if (tfmt_ledger_find(l, TFMT_GROUP_MAPPING, 0, ev->address, &slot)) { /* unmapped unseen */
		replaced = l->block[slot];
		tfmt_ledger_drop(l, slot);
		if (tfmt_ledger_handle(l, &replaced, &slot))
			ledger_unreference(l, slot);
	}
	return ledger_make(l, &b, ev);
}

/* Ends the mappings that lie side by side from ev->address on. */
static int ledger_unmap(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	struct tfmt_undo *u = ledger_begin_undo(l, ev);
	uint64_t done = 0;
	uint32_t slot, handle;

	while (done < ev->size && tfmt_ledger_find(l, TFMT_GROUP_MAPPING, 0, ev->address + done, &slot)) {
		const struct tfmt_block mapping = l->block[slot];
		bool has_handle = tfmt_ledger_handle(l, &mapping, &handle);
		int err = undo_add(l, u, slot, has_handle ? &handle : NULL);

		if (err)
			return err;
		tfmt_ledger_drop(l, slot);
		if (has_handle)
			ledger_unreference(l, handle);
		if (!mapping.size)
			break;
		done += mapping.size;
	}
	return 0;
}

/*
 * A context is gone, and what was allocated in it. Physical memory and address ranges belong to no context.
 * Tensors stay until their allocator frees them.
 */
static void ledger_reset(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	static const bool ends[] = { [TFMT_GROUP_DEVICE] = true, [TFMT_GROUP_PINNED] = true,
				     [TFMT_GROUP_REGISTERED] = true, [TFMT_GROUP_ARRAY] = true,
				     [TFMT_GROUP_MAPPING] = false };
	uint32_t i;

	for (i = 0; i < l->nr_slots; i++) {
		const struct tfmt_block *b = &l->block[i];

		if (b->live && b->device == ev->device && b->context == ev->aux && ends[b->group])
			tfmt_ledger_drop(l, i);
	}
	if (!ev->aux && ev->device < TFMT_NR_DEVICES)
		l->totals.graph[ev->device] = 0;
}

/* Everything but frees, which writer and reader resolve differently. */
static int ledger_apply(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	uint32_t slot;

	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
	case TFMT_DRIVER_ALLOC:
		return ledger_alloc(l, ev);
	case TFMT_HANDLE_RETAIN:
		if (tfmt_ledger_find(l, TFMT_GROUP_HANDLE, 0, ev->address, &slot))
			l->block[slot].references++;
		return 0;
	case TFMT_MAP:
		return ledger_map(l, ev);
	case TFMT_UNMAP:
		return ledger_unmap(l, ev);
	case TFMT_RESET:
		ledger_reset(l, ev);
		return 0;
	case TFMT_POOL_INFO:
		if (!ev->address && ev->device < TFMT_NR_DEVICES)
			l->totals.graph[ev->device] = ev->size;
		return 0;
	default:
		return 0;
	}
}

static void ledger_note_reserved(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	if (ev->kind >= TFMT_TENSOR_ALLOC && ev->kind <= TFMT_TENSOR_OOM && ev->device < TFMT_NR_DEVICES)
		l->totals.reserved[ev->device] = ev->aux;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/*
 * They are nearly all events of a trace. A tensor's block has one key, no references and nothing to undo: this is
 * what is left of ledger_alloc() and ledger_free() then, for a reader's ledger that does not find them by address.
 * Of a writer's, ledger_record.c takes most.
 */
static inline void ledger_fill_tensor(struct tfmt_ledger *l, uint32_t slot, const struct tfmt_event *ev)
{
	tfmt_block_hold_tensor(&l->block[slot], ev);
	if (ev->device < TFMT_NR_DEVICES)
		l->totals.allocated[ev->device] += ev->size;
}

/* Before its slot leaves the index. */
static inline void ledger_end_tensor(struct tfmt_ledger *l, struct tfmt_event *ev, uint32_t slot)
{
	struct tfmt_block *b = &l->block[slot];
	uint64_t uncounted = 0;

	ev->address = b->address;
	ev->device = b->device;
	tfmt_block_end_tensor(b, slot, ev,
			      b->device < TFMT_NR_DEVICES ? &l->totals.allocated[b->device] : &uncounted, &l->unused);
}

static int ledger_replay_tensor_alloc(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	uint32_t slot;
	int err = tfmt_ledger_take_slot(l, &slot);

	if (!err)
		err = tfmt_ledger_add_ordinal(l, ev->ordinal, slot);
	if (!err)
		ledger_fill_tensor(l, slot, ev);
	return err;
}

/* ---- events of all kinds --------------------------------------------------------------------- */

/* The free that a TFMT_FREE_FAILED says did not happen; NULL if it is not known. */
static struct tfmt_undo *ledger_find_undo(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	struct tfmt_undo *u = &l->undo[ev->thread % TFMT_NR_UNDO];

	return u->nr && u->thread == ev->thread ? u : NULL;
}

static int ledger_record_any(struct tfmt_ledger *l, struct tfmt_event *ev)
{
	struct tfmt_undo *u;
	uint32_t slot;

	if (!tfmt_kind_is_free(ev->kind))
		return ledger_apply(l, ev);
	if (ev->kind == TFMT_FREE_FAILED) {
		u = ledger_find_undo(l, ev);
		return u && u->ended[0].block.address == ev->address ? ledger_undo(l, ev, u) : 0;
	}
	if (tfmt_ledger_find(l, event_group(ev), ev->device, ev->address, &slot))
		return ledger_free(l, ev, slot);
	if (ev->kind == TFMT_DRIVER_FREE)
		ledger_begin_undo(l, ev);
	return 0;
}

int tfmt_ledger_record(struct tfmt_ledger *l, struct tfmt_event *ev, uint64_t ordinal)
{
	int err;

	ev->ordinal = ordinal;
	ev->alloc_ordinal = TFMT_NO_ORDINAL;
	if (l->history)
		tfmt_history_before(l->history, ev);
	ledger_note_reserved(l, ev);
	err = ledger_record_any(l, ev);
	return err || !l->history ? err : tfmt_history_after(l->history, ev);
}

struct tfmt_event tfmt_block_event(const struct tfmt_block *b, const struct tfmt_origin *o)
{
	return (struct tfmt_event){
		.kind = b->group == TFMT_GROUP_TENSOR    ? TFMT_TENSOR_ALLOC
			: b->group == TFMT_GROUP_MAPPING ? TFMT_MAP
							 : TFMT_DRIVER_ALLOC,
		.time_ns = o->time_ns,
		.address = b->address,
		.size = b->size,
		.aux = o->aux,
		.python_stack = o->python_stack,
		.native_stack = o->native_stack,
		.shape = b->shape,
		.thread = o->thread,
		.stream = b->stream,
		.function = o->function,
		.flags = o->flags,
		.device = b->device,
		.ordinal = b->ordinal,
		.alloc_ordinal = TFMT_NO_ORDINAL,
	};
}

/* All but the allocations and matched frees of tensors. */
static TFMT_SELDOM int ledger_replay_other(struct tfmt_ledger *l, struct tfmt_event *ev)
{
	struct tfmt_undo *u;
	uint32_t slot;

	if (!tfmt_kind_is_free(ev->kind))
		return ledger_apply(l, ev);
	if (ev->kind == TFMT_FREE_FAILED) {
		u = ledger_find_undo(l, ev);
		if (u && u->ordinal == ev->alloc_ordinal)
			return ledger_undo(l, ev, u);
	} else if (ev->alloc_ordinal == TFMT_NO_ORDINAL) {
		if (ev->kind == TFMT_DRIVER_FREE)
			ledger_begin_undo(l, ev);
	} else if (tfmt_ledger_find_ordinal(l, ev->alloc_ordinal, &slot) &&
		   l->block[slot].group != TFMT_GROUP_MAPPING) {
		return ledger_free(l, ev, slot);
	}
	ev->alloc_ordinal = TFMT_NO_ORDINAL;
	return 0;
}

int tfmt_ledger_replay(struct tfmt_ledger *l, struct tfmt_event *ev)
{
	uint32_t slot;

	ledger_note_reserved(l, ev);
	if (!l->use_tensor_addresses && ev->kind == TFMT_TENSOR_ALLOC)
		return ledger_replay_tensor_alloc(l, ev);
	if (!l->use_tensor_addresses && ev->kind == TFMT_TENSOR_FREE &&
	    tfmt_ledger_find_ordinal(l, ev->alloc_ordinal, &slot) && l->block[slot].group == TFMT_GROUP_TENSOR) {
		ledger_end_tensor(l, ev, slot);
		tfmt_ordinals_remove(&l->by_ordinal, ev->alloc_ordinal, slot);
		return 0;
	}
	return ledger_replay_other(l, ev);
}
