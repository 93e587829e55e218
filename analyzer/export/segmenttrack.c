/* SPDX-License-Identifier: MIT */
/* Following the driver's events of each device, and of tensors those that follow them. */
#include "analyzer/export/segmenttrack.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

struct segmenttrack_device {
	const struct replay_process *process;
	uint32_t ordinal;
	bool has_grown; /* memory was taken after the latest tensor */
	struct segments segments;
};

static struct segmenttrack_device *device_at(struct segmenttrack *t, const struct replay_process *process,
					     uint32_t ordinal)
{
	struct segmenttrack_device *d;

	for (size_t i = t->nr_devices; i-- > 0;)
		if (t->device[i].process == process && t->device[i].ordinal == ordinal)
			return &t->device[i];
	t->device = heap_grow(t->device, &t->room, t->nr_devices + 1, sizeof(*t->device));
	d = &t->device[t->nr_devices++];
	*d = (struct segmenttrack_device){ .process = process, .ordinal = ordinal };
	return d;
}

/* A tensor for which memory was taken: the range that it lies in is a segment of its stream, also when it is
 * gone. */
static void first_tensor(struct segmenttrack_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct segments_request r = { .address = ev->address,
				      .size = ev->size,
				      .time_ns = time_ns,
				      .private_id = ev->flags & TFMT_FLAG_CAPTURING ? 1 : SEGMENTS_SHARED,
				      .stream = ev->stream };

	d->has_grown = false;
	segments_alloc(&d->segments, &r);
	segments_free(&d->segments, ev->address, false);
}

static void take(struct segmenttrack_device *d, const struct tfmt_event *ev)
{
	unsigned space = ev->flags & TFMT_SPACE_MASK;

	if (ev->flags & TFMT_FLAG_MODELLED)
		return;
	if (space == TFMT_SPACE_DEVICE)
		segments_take(&d->segments, ev->address, ev->size);
	else if (space == TFMT_SPACE_RESERVED)
		segments_reserve(&d->segments, ev->address, ev->size);
	d->has_grown = true;
}

static void give(struct segmenttrack_device *d, const struct tfmt_event *ev)
{
	unsigned space = ev->flags & TFMT_SPACE_MASK;

	if (ev->flags & TFMT_FLAG_MODELLED || ev->alloc_ordinal == TFMT_NO_ORDINAL)
		return;
	if (space == TFMT_SPACE_DEVICE)
		segments_give(&d->segments, ev->address, ev->size);
	else if (space == TFMT_SPACE_RESERVED)
		segments_unreserve(&d->segments, ev->address);
}

/* A free that the driver refused: the books have it again. */
static void take_back(struct segmenttrack_device *d, const struct tfmt_event *ev)
{
	const struct block *b = books_block(d->process->books, BLOCK_DRIVER, ev->address);

	if (b)
		segments_take(&d->segments, b->address, b->size);
	b = books_block(d->process->books, BLOCK_MAPPING, ev->address);
	if (b)
		segments_map(&d->segments, b->address, b->size);
	d->has_grown = true;
}

/* The handle's device, whatever the current one is. */
static void map(struct segmenttrack *t, const struct replay_process *process, const struct tfmt_event *ev)
{
	const struct block *handle = books_block(process->books, BLOCK_HANDLE, ev->aux);
	uint32_t device = handle ? books_group(process->books, handle->group)->device : ev->device;
	struct segmenttrack_device *d;

	if (device >= TFMT_NR_DEVICES || ev->address & TFMT_TILE_ADDRESS)
		return;
	d = device_at(t, process, device);
	segments_map(&d->segments, ev->address, ev->size);
	d->has_grown = true;
}

/* The thread's current device need not be the memory's; addresses are unique in a process. */
static void unmap(struct segmenttrack *t, const struct replay_process *process, const struct tfmt_event *ev)
{
	for (size_t i = 0; i < t->nr_devices; i++)
		if (t->device[i].process == process)
			segments_give(&t->device[i].segments, ev->address, ev->size);
}

void segmenttrack_observe(struct segmenttrack *t, const struct replay_process *process,
			  const struct tfmt_event *ev, uint64_t time_ns)
{
	struct segmenttrack_device *d;

	if (ev->kind == TFMT_MAP)
		map(t, process, ev);
	else if (ev->kind == TFMT_UNMAP)
		unmap(t, process, ev);
	if (ev->device >= TFMT_NR_DEVICES)
		return;
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
		d = device_at(t, process, ev->device);
		if (d->has_grown)
			first_tensor(d, ev, time_ns);
		break;
	case TFMT_DRIVER_ALLOC:
		take(device_at(t, process, ev->device), ev);
		break;
	case TFMT_DRIVER_FREE:
		give(device_at(t, process, ev->device), ev);
		break;
	case TFMT_FREE_FAILED:
		take_back(device_at(t, process, ev->device), ev);
		break;
	case TFMT_RESET: /* a primary context has ended, with all that was allocated in it */
		if (!ev->aux)
			segments_give(&device_at(t, process, ev->device)->segments, 0, UINT64_MAX);
		break;
	default:
		break;
	}
}

/* The stream of the segment that an address lies in; 0 if it lies in none. */
static uint16_t stream_at(const struct segments *s, uint64_t address)
{
	const struct segments_block *b = segments_at(s, address);

	return b && s->segment[b->segment].used ? s->pool[s->segment[b->segment].pool].stream : 0;
}

void segmenttrack_list(struct segmentlist *l, struct segmenttrack *t, const struct replay_device *d,
		       const struct life *life, size_t nr_lives)
{
	struct segments *s = &device_at(t, d->process, d->ordinal)->segments;
	struct segments_request *unplaced = heap_alloc(nr_lives, sizeof(*unplaced));
	size_t nr_unplaced = 0;

	for (size_t i = 0; i < nr_lives; i++) {
		const struct group *g = books_group(d->process->books, life[i].group);
		struct segments_request r = { .address = life[i].address,
					      .size = life[i].size,
					      .requested = g->shape_bytes,
					      .group = (uint32_t)(i + 1),
					      .stream = stream_at(s, life[i].address) };

		if (!segments_alloc(s, &r).placed)
			unplaced[nr_unplaced++] = r;
	}
	segmentlist_make(l, s);
	for (size_t i = 0; i < nr_unplaced; i++)
		segmentlist_add(l, &unplaced[i]);
	free(unplaced);
}

void segmenttrack_release(struct segmenttrack *t)
{
	for (size_t i = 0; i < t->nr_devices; i++)
		segments_release(&t->device[i].segments);
	free(t->device);
	*t = (struct segmenttrack){ 0 };
}
