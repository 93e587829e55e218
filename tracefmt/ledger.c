/* SPDX-License-Identifier: MIT */
/* What is live at one point of the event stream: blocks, mappings, handle references, totals. */
#include "tracefmt/ledger.h"
#include "tracefmt/pages.h"
#include "tracefmt/varint.h"

#include <string.h>

#define LEDGER_FIRST_SLOTS 1024

int tfmt_ledger_init(struct tfmt_ledger *l, bool reader)
{
	l->use_ordinals = reader;
	l->use_tensor_addresses = !reader;
	l->max_slots = LEDGER_FIRST_SLOTS;
	l->block = tfmt_pages_new(l->max_slots * sizeof(*l->block));
	if (!l->block || tfmt_index_init(&l->by_address) || (reader && tfmt_ordinals_init(&l->by_ordinal))) {
		tfmt_ledger_release(l);
		return TFMT_E_NOMEM;
	}
	return 0;
}

void tfmt_ledger_release(struct tfmt_ledger *l)
{
	tfmt_pages_free(l->block, l->max_slots * sizeof(*l->block));
	l->block = NULL;
	tfmt_pages_free(l->origin, l->max_origins * sizeof(*l->origin));
	l->origin = NULL;
	tfmt_history_free(l->history);
	l->history = NULL;
	tfmt_index_release(&l->by_address);
	if (l->use_ordinals)
		tfmt_ordinals_release(&l->by_ordinal);
	for (unsigned i = 0; i < TFMT_NR_UNDO; i++) {
		tfmt_pages_free(l->undo[i].ended, l->undo[i].room * sizeof(struct tfmt_ended));
		l->undo[i] = (struct tfmt_undo){ 0 };
	}
}

int tfmt_ledger_keep_history(struct tfmt_ledger *l, uint8_t time_shift)
{
	l->max_origins = l->max_slots;
	l->origin = tfmt_pages_new(l->max_origins * sizeof(*l->origin));
	l->history = l->origin ? tfmt_history_new(&l->totals, time_shift) : NULL;
	return l->history ? 0 : TFMT_E_NOMEM;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

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

static bool block_has_address(const struct tfmt_ledger *l, const struct tfmt_block *b)
{
	return l->use_tensor_addresses || b->group != TFMT_GROUP_TENSOR;
}

static bool ledger_find(const struct tfmt_ledger *l, unsigned group, unsigned device, uint64_t address,
			uint32_t *slot)
{
	uint32_t hash = tfmt_block_hash(group, device, address);
	uint64_t at = hash;

	while (tfmt_index_next(&l->by_address, hash, &at, slot)) {
		const struct tfmt_block *b = &l->block[*slot];

		if (b->address == address && b->group == group &&
		    (group != TFMT_GROUP_TENSOR || b->device == device))
			return true;
	}
	return false;
}

/* A block that outlived its place among the latest. */
static TFMT_SELDOM bool ledger_find_old(const struct tfmt_ledger *l, uint64_t ordinal, uint32_t *slot)
{
	uint32_t hash = tfmt_hash(ordinal);
	uint64_t at = hash;

	while (tfmt_index_next(&l->by_ordinal.old, hash, &at, slot)) {
		if (l->block[*slot].ordinal == ordinal)
			return true;
	}
	return false;
}

static inline bool ledger_find_ordinal(const struct tfmt_ledger *l, uint64_t ordinal, uint32_t *slot)
{
	uint32_t recent = *tfmt_ordinals_place(&l->by_ordinal, ordinal);

	*slot = recent - 1;
	return (recent && l->block[*slot].ordinal == ordinal) || ledger_find_old(l, ordinal, slot);
}

/* The total that a block counts in, NULL if none. */
static uint64_t *block_total(struct tfmt_ledger *l, const struct tfmt_block *b)
{
	bool has_device = b->device < TFMT_NR_DEVICES;

	if (b->group == TFMT_GROUP_TENSOR)
		return has_device ? &l->totals.allocated[b->device] : NULL;
	if (b->group == TFMT_GROUP_MAPPING)
		return NULL;
	switch (b->space) {
	case TFMT_SPACE_PINNED:
	case TFMT_SPACE_REGISTERED:
	case TFMT_SPACE_POOL_HOST:
	case TFMT_SPACE_HANDLE_HOST:
		return &l->totals.pinned;
	case TFMT_SPACE_MANAGED:
		return has_device ? &l->totals.managed[b->device] : NULL;
	case TFMT_SPACE_IPC:
	case TFMT_SPACE_RESERVED:
	case TFMT_SPACE_GRAPH:
	case TFMT_SPACE_MULTICAST:
	case TFMT_SPACE_HANDLE_IMPORTED:
		return NULL;
	default:
		return has_device ? &l->totals.driver[b->device] : NULL;
	}
}

static void ledger_give_slot(struct tfmt_ledger *l, uint32_t slot)
{
	l->block[slot].live = false;
	l->block[slot].next_unused = l->unused;
	l->unused = slot + 1;
}

static void ledger_drop(struct tfmt_ledger *l, uint32_t slot)
{
	struct tfmt_block *b = &l->block[slot];
	uint64_t *total = block_total(l, b);

	if (total)
		*total -= *total < b->size ? *total : b->size;
	if (l->history)
		tfmt_history_leave(l->history, b, &l->origin[slot]);
	if (block_has_address(l, b))
		tfmt_index_remove(&l->by_address, tfmt_block_hash(b->group, b->device, b->address), slot);
	if (l->use_ordinals)
		tfmt_ordinals_remove(&l->by_ordinal, b->ordinal, slot);
	ledger_give_slot(l, slot);
}

/* Room for twice as many blocks' origins, unless there was a time when only the blocks could not be had. */
static int ledger_grow_origins(struct tfmt_ledger *l)
{
	size_t bytes = l->max_origins * sizeof(*l->origin);
	void *grown;

	if (!l->origin || l->max_origins > l->max_slots)
		return 0;
	grown = tfmt_pages_grow(l->origin, bytes, 2 * bytes);
	if (!grown)
		return TFMT_E_NOMEM;
	l->origin = grown;
	l->max_origins *= 2;
	return 0;
}

/* Room for twice as many blocks. Returns 0, or TFMT_E_NOMEM and the ledger is as it was. */
static TFMT_SELDOM int ledger_grow(struct tfmt_ledger *l)
{
	size_t bytes = l->max_slots * sizeof(*l->block);
	void *grown;

	if (l->max_slots > UINT32_MAX / 4 || ledger_grow_origins(l))
		return TFMT_E_NOMEM;
	grown = tfmt_pages_grow(l->block, bytes, 2 * bytes);
	if (!grown)
		return TFMT_E_NOMEM;
	l->block = grown;
	l->max_slots *= 2;
	return 0;
}

static inline int ledger_take_slot(struct tfmt_ledger *l, uint32_t *slot)
{
	if (l->unused) {
		*slot = l->unused - 1;
		l->unused = l->block[*slot].next_unused;
		return 0;
	}
	if (l->nr_slots == l->max_slots && ledger_grow(l))
		return TFMT_E_NOMEM;
	*slot = l->nr_slots++;
	return 0;
}

/* The place is another's: the older of the two goes to the index. */
static TFMT_SELDOM int ledger_move_ordinal(struct tfmt_ledger *l, uint64_t ordinal, uint32_t slot)
{
	uint32_t *place = tfmt_ordinals_place(&l->by_ordinal, ordinal), other = *place - 1;
	uint64_t other_ordinal = l->block[other].ordinal;

	if (other_ordinal > ordinal)
		return tfmt_ordinals_add_old(&l->by_ordinal, ordinal, slot);
	*place = slot + 1;
	return tfmt_ordinals_add_old(&l->by_ordinal, other_ordinal, other);
}

/* A block that is not among those of the ordinals becomes one. Returns 0 or TFMT_E_NOMEM. */
static inline int ledger_add_ordinal(struct tfmt_ledger *l, uint64_t ordinal, uint32_t slot)
{
	uint32_t *place = tfmt_ordinals_place(&l->by_ordinal, ordinal);

	if (*place)
		return ledger_move_ordinal(l, ordinal, slot);
	*place = slot + 1;
	return 0;
}

/*
 * Make a block live; one believed live under the same key was freed unseen and is dropped. origin is looked at if
 * there is a history.
 */
static int ledger_put(struct tfmt_ledger *l, const struct tfmt_block *b, const struct tfmt_origin *origin)
{
	uint64_t *total;
	uint32_t slot;
	int err;

	if (block_has_address(l, b) && ledger_find(l, b->group, b->device, b->address, &slot))
		ledger_drop(l, slot);
	err = ledger_take_slot(l, &slot);
	if (!err && block_has_address(l, b))
		err = tfmt_index_add(&l->by_address, tfmt_block_hash(b->group, b->device, b->address), slot);
	if (!err && l->use_ordinals)
		err = ledger_add_ordinal(l, b->ordinal, slot);
	if (err)
		return err;
	l->block[slot] = *b;
	l->block[slot].live = true;
	total = block_total(l, b);
	if (total)
		*total += b->size;
	if (l->history) {
		l->origin[slot] = *origin;
		tfmt_history_enter(l->history, b, origin);
	}
	return 0;
}

int tfmt_ledger_use_addresses(struct tfmt_ledger *l)
{
	uint32_t i, other;
	int err;

	if (l->use_tensor_addresses)
		return 0;
	l->use_tensor_addresses = true;
	for (i = 0; i < l->nr_slots; i++) {
		const struct tfmt_block *b = &l->block[i];

		if (!b->live || b->group != TFMT_GROUP_TENSOR)
			continue;
		if (ledger_find(l, b->group, b->device, b->address, &other)) {
			if (l->block[other].ordinal > b->ordinal)
				continue;
			ledger_drop(l, other);
		}
		err = tfmt_index_add(&l->by_address, tfmt_block_hash(b->group, b->device, b->address), i);
		if (err)
			return err;
	}
	return 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* A block that this event makes. */
static int ledger_make(struct tfmt_ledger *l, const struct tfmt_block *b, const struct tfmt_event *ev)
{
	struct tfmt_origin origin;

	if (l->history)
		origin = tfmt_history_origin(l->history, ev);
	return ledger_put(l, b, &origin);
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
	    ledger_find(l, b.group, b.device, b.address, &slot) && l->block[slot].space == TFMT_SPACE_IPC) {
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
	ledger_drop(l, slot);
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

	if (!ledger_find(l, b->group, b->device, b->address, &slot))
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
	if (ledger_find(l, b.group, b.device, b.address, &slot)) {
		l->block[slot].references++;
		return 0;
	}
	b.references = 1;
	if (l->history)
		tfmt_history_freed(l->history, &b, origin, false);
	return ledger_put(l, &b, origin);
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

bool tfmt_ledger_handle(const struct tfmt_ledger *l, const struct tfmt_block *mapping, uint32_t *slot)
{
	return ledger_find(l, TFMT_GROUP_HANDLE, 0, mapping->handle, slot) &&
	       l->block[*slot].ordinal == mapping->handle_ordinal;
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

	if (ledger_find(l, TFMT_GROUP_HANDLE, 0, ev->aux, &slot)) {
		l->block[slot].references++;
		b.handle_ordinal = l->block[slot].ordinal;
	}
	if (ledger_find(l, TFMT_GROUP_MAPPING, 0, ev->address, &slot)) { /* unmapped unseen */
		replaced = l->block[slot];
		ledger_drop(l, slot);
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

	while (done < ev->size && ledger_find(l, TFMT_GROUP_MAPPING, 0, ev->address + done, &slot)) {
		const struct tfmt_block mapping = l->block[slot];
		bool has_handle = tfmt_ledger_handle(l, &mapping, &handle);
		int err = undo_add(l, u, slot, has_handle ? &handle : NULL);

		if (err)
			return err;
		ledger_drop(l, slot);
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
			ledger_drop(l, i);
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
		if (ledger_find(l, TFMT_GROUP_HANDLE, 0, ev->address, &slot))
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
	const struct tfmt_block *b = &l->block[slot];
	uint64_t *total = &l->totals.allocated[b->device % TFMT_NR_DEVICES];

	ev->address = b->address;
	ev->size = b->size;
	ev->shape = b->shape;
	ev->device = b->device;
	ev->stream = b->stream;
	if (b->device < TFMT_NR_DEVICES)
		*total -= *total < b->size ? *total : b->size;
	ledger_give_slot(l, slot);
}

static int ledger_replay_tensor_alloc(struct tfmt_ledger *l, const struct tfmt_event *ev)
{
	uint32_t slot;
	int err = ledger_take_slot(l, &slot);

	if (!err)
		err = ledger_add_ordinal(l, ev->ordinal, slot);
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
	if (ledger_find(l, event_group(ev), ev->device, ev->address, &slot))
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
	return err || !l->history ? err : tfmt_history_behind(l->history, ev);
}

bool tfmt_ledger_is_live(const struct tfmt_ledger *l, const struct tfmt_block *b, uint32_t *slot)
{
	return ledger_find(l, b->group, b->device, b->address, slot) && l->block[*slot].ordinal == b->ordinal;
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
	} else if (ledger_find_ordinal(l, ev->alloc_ordinal, &slot) &&
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
	    ledger_find_ordinal(l, ev->alloc_ordinal, &slot) && l->block[slot].group == TFMT_GROUP_TENSOR) {
		ledger_end_tensor(l, ev, slot);
		tfmt_ordinals_remove(&l->by_ordinal, ev->alloc_ordinal, slot);
		return 0;
	}
	return ledger_replay_other(l, ev);
}
