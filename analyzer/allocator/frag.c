/* SPDX-License-Identifier: MIT */
/* Keeping the segments of each device while its events pass by, and noticing where free memory did not help. */
#include "analyzer/allocator/frag.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"

#define SHORTAGES_MAX 1024 /* threads of a damaged trace must not make us allocate by them */

void frag_init(struct frag *f)
{
	*f = (struct frag){ 0 };
	series_init(&f->series);
}

static void shortage_release(struct frag_shortage *s)
{
	free(s->pool);
	free(s->largest);
}

void frag_release(struct frag *f)
{
	for (size_t i = 0; i < f->nr_devices; i++) {
		struct frag_device *d = f->device[i];

		segments_release(&d->segments);
		expandable_release(&d->expandable);
		for (int k = 0; k < NR_FRAG_MOMENTS; k++)
			blockers_moment_release(&d->moment[k].blocks);
		for (uint32_t k = 0; k < d->nr_shortages; k++)
			shortage_release(&d->shortage[k]);
		free(d->shortage);
		free(d);
	}
	free(f->device);
	series_release(&f->series);
	*f = (struct frag){ 0 };
}

static struct frag_device *find_device(const struct frag *f, const struct replay_process *process, uint32_t ordinal)
{
	for (size_t i = f->nr_devices; i-- > 0;)
		if (f->device[i]->process == process && f->device[i]->ordinal == ordinal)
			return f->device[i];
	return NULL;
}

struct frag_device *frag_of(const struct frag *f, const struct replay_device *d)
{
	return find_device(f, d->process, d->ordinal);
}

static struct frag_device *get_device(struct frag *f, const struct replay_process *process, uint32_t ordinal)
{
	struct frag_device *d = find_device(f, process, ordinal);

	if (d)
		return d;
	f->device = heap_grow(f->device, &f->devices_room, f->nr_devices + 1, sizeof(*f->device));
	d = heap_alloc(1, sizeof(*d));
	d->process = process;
	d->ordinal = ordinal;
	d->books = books_device(process->books, ordinal);
	f->device[f->nr_devices++] = d;
	return d;
}

/* ---- figures ------------------------------------------------------------------------------------ */

/* One segment of each pool is never full, and grows no further. */
static uint64_t slack_bytes(const struct segments *s)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < s->nr_pools; i++)
		bytes += s->pool[i].small ? TORCH_SMALL_SEGMENT : TORCH_LARGE_SEGMENT;
	return bytes;
}

static uint64_t cached_bytes(const struct device_books *b)
{
	return b->reserved_bytes > b->allocated_bytes ? b->reserved_bytes - b->allocated_bytes : 0;
}

static struct frag_figures figures_now(const struct frag_device *d, uint64_t time_ns)
{
	const struct device_books *b = d->books;
	const struct segments *s = &d->segments;

	return (struct frag_figures){
		.time_ns = time_ns,
		.reserved = b->reserved_bytes,
		.allocated = b->allocated_bytes,
		.cached = cached_bytes(b),
		.pending = s->pending_bytes,
		.stuck = s->free_bytes - s->whole_bytes,
		.held = s->held_bytes,
		.empty_cache = s->whole_bytes - s->held_bytes,
		.split = s->split_bytes,
		.largest_free = segments_largest_free(s),
		.requested = s->requested_bytes,
		.known = s->known_bytes,
		.forced = s->forced_bytes,
		.slack = slack_bytes(s),
		.segments = s->nr_used,
	};
}

static void take_blocks(struct frag_device *d, enum frag_when when)
{
	blockers_take(&d->moment[when].blocks, &d->segments, when == FRAG_PEAK);
}

static void moment_reached(struct frag_device *d, enum frag_when when, uint64_t time_ns)
{
	d->moment[when].reached = true;
	d->moment[when].figures = figures_now(d, time_ns);
}

static void look_for_peak(struct frag_device *d, uint64_t time_ns)
{
	const struct device_books *b = d->books;
	const struct frag_moment *peak = &d->moment[FRAG_PEAK];

	if (!b->reported || b->driver_unsure || (peak->reached && b->reserved_bytes <= peak->figures.reserved))
		return;
	moment_reached(d, FRAG_PEAK, time_ns);
	segments_mark(&d->segments);
}

static void enter_series(struct frag *f, const struct frag_device *d, uint64_t time_ns)
{
	const struct device_books *b = d->books;
	const struct segments *s = &d->segments;
	struct series_values now = { {
	    [FRAG_RESERVED] = b->reserved_bytes,
	    [FRAG_ALLOCATED] = b->allocated_bytes,
	    [FRAG_CACHED] = cached_bytes(b),
	    [FRAG_STUCK] = s->free_bytes - s->whole_bytes,
	    [FRAG_LARGEST] = segments_largest_free(s),
	} };

	series_enter(&f->series, d->process->books, d->ordinal, time_ns, &now);
}

/* ---- harm --------------------------------------------------------------------------------------- */

static void harm(struct frag_device *d, enum frag_harm which, const struct tfmt_event *ev, uint64_t time_ns,
		 uint64_t free_bytes, uint64_t largest)
{
	struct frag_cases *c = &d->harm[which];

	/* Of failures the last explains the end; else the largest request says most. */
	if (!c->count++ || ev->size > c->asked || which == FRAG_FAILED) {
		uint64_t count = c->count;

		*c = (struct frag_cases){ count, ev->size, free_bytes, largest, time_ns, ev->python_stack,
					  ev->native_stack };
	}
}

static struct frag_shortage *shortage_of(struct frag_device *d, uint32_t thread)
{
	for (uint32_t i = 0; i < d->nr_shortages; i++)
		if (d->shortage[i].thread == thread)
			return &d->shortage[i];
	return NULL;
}

/* The driver has refused this thread memory: the cache is about to be emptied. What did it hold? */
static void shortage_begin(struct frag_device *d, uint32_t thread)
{
	const struct segments *s = &d->segments;
	struct frag_shortage *new;

	if (shortage_of(d, thread) || d->nr_shortages == SHORTAGES_MAX)
		return;
	d->shortage = heap_grow(d->shortage, &d->shortages_room, d->nr_shortages + 1, sizeof(*d->shortage));
	new = &d->shortage[d->nr_shortages++];
	*new = (struct frag_shortage){ .thread = thread, .nr_pools = s->nr_pools };
	new->pool = heap_alloc(s->nr_pools, sizeof(*new->pool));
	new->largest = heap_alloc(s->nr_pools, sizeof(*new->largest));
	for (uint32_t i = 0; i < s->nr_pools; i++) {
		new->pool[i] = s->pool[i];
		new->largest[i] = segments_largest_of(s, i);
	}
}

static void shortage_end(struct frag_device *d, struct frag_shortage *s)
{
	shortage_release(s);
	*s = d->shortage[--d->nr_shortages];
}

/* Index of the pool of a request, -1 if it has no segment. */
static int64_t pool_of(const struct frag_device *d, const struct tfmt_event *ev)
{
	uint32_t private_id = ev->flags & TFMT_FLAG_CAPTURING ? d->private_id : SEGMENTS_SHARED;
	const struct segments_pool *pool =
	    segments_find_pool(&d->segments, ev->stream, ev->size <= TORCH_SMALL_MAX, private_id);

	return pool ? pool - d->segments.pool : -1;
}

/*
 * The thread has what it was short of, or has given up. A block that was large enough but was not used was another's,
 * or in use by another stream: then there was no fragmentation.
 */
static void shortage_over(struct frag_device *d, const struct tfmt_event *ev, uint64_t time_ns, int64_t pool)
{
	struct frag_shortage *s = shortage_of(d, ev->thread);

	if (!s)
		return;
	/* What a failed attempt has left in the cache is no sign of anything. */
	if (pool >= 0 && pool < s->nr_pools && s->pool && s->largest && s->pool[pool].free_bytes >= ev->size &&
	    s->largest[pool] < ev->size && !d->has_failed)
		harm(d, FRAG_RETRY, ev, time_ns, s->pool[pool].free_bytes, s->largest[pool]);
	d->has_failed = false;
	shortage_end(d, s);
}

/* ---- events ------------------------------------------------------------------------------------- */

/* The pool of the graph being captured: one that its blocks lie in, else a new one. */
static uint32_t private_id_of(struct frag_device *d, const struct tfmt_event *ev)
{
	bool capturing = ev->flags & TFMT_FLAG_CAPTURING;
	const struct segments_block *at;

	if (capturing && !d->was_capturing)
		d->private_id++;
	d->was_capturing = capturing;
	if (!capturing)
		return SEGMENTS_SHARED;
	at = segments_at(&d->segments, ev->address);
	if (at && d->segments.segment[at->segment].used) {
		uint32_t id = d->segments.pool[d->segments.segment[at->segment].pool].private_id;

		if (id != SEGMENTS_SHARED && id != SEGMENTS_OTHER) {
			d->graphs_share |= id != d->private_id;
			return id;
		}
	}
	return d->private_id;
}

static uint64_t requested_bytes(struct frag_device *d, const struct tfmt_event *ev)
{
	struct tfmt_shape shape;

	if (d->told_bytes && d->told_address == ev->address)
		return d->told_bytes;
	if (ev->shape && tfmt_reader_shape(d->process->reader, ev->shape, &shape))
		return shape.bytes;
	return 0;
}

static void tensor_alloc(struct frag_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	const struct block *block = books_block(d->process->books, BLOCK_TENSOR, ev->address);
	struct segments_request r = {
		.address = ev->address,
		.size = ev->size,
		.requested = requested_bytes(d, ev),
		.time_ns = time_ns,
		.group = block ? block->group : 0,
		.private_id = private_id_of(d, ev),
		.stream = ev->stream,
	};
	struct segments_outcome o;
	int64_t pool = pool_of(d, ev);

	o = segments_alloc(&d->segments, &r);
	expandable_alloc(&d->expandable, &r);
	d->told_bytes = 0;
	if (ev->before) /* still live when the recording began to be kept: in which state of the cache is not known */
		return;
	shortage_over(d, ev, time_ns, pool);
	if (o.grown_bytes && !o.fitted && o.stuck_before >= ev->size) {
		harm(d, FRAG_SEGMENT, ev, time_ns, o.stuck_before, 0);
		segments_force(&d->segments, o.segment, o.grown_bytes);
	}
	if (d->segments.reserved_bytes != d->books->reserved_bytes)
		d->disagreements++;
	look_for_peak(d, time_ns);
}

static void tensor_oom(struct frag_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	int64_t pool = pool_of(d, ev);
	uint64_t largest = pool < 0 ? 0 : segments_largest_of(&d->segments, (uint32_t)pool);
	uint64_t free_bytes = pool < 0 ? 0 : d->segments.pool[pool].free_bytes;

	d->failures++;
	shortage_over(d, ev, time_ns, -1); /* it failed: that is said, not that it was tried again */
	d->has_failed = true;
	d->failed_ns = time_ns;
	d->failed_kept = expandable_kept(&d->expandable);
	if (free_bytes < ev->size || largest >= ev->size)
		return;
	harm(d, FRAG_FAILED, ev, time_ns, free_bytes, largest);
	moment_reached(d, FRAG_FAILURE, time_ns);
	d->expandable_kept = d->failed_kept;
	take_blocks(d, FRAG_FAILURE);
}

/* The allocator tells of itself: what is asked for, and when what was freed is really free. */
static void told(struct frag_device *d, const struct tfmt_event *ev)
{
	switch (ev->aux & (TFMT_ALLOCATOR_IN_TENSOR - 1)) {
	case TFMT_ALLOCATOR_ALLOC:
		d->told_address = ev->address;
		d->told_bytes = ev->size;
		break;
	case TFMT_ALLOCATOR_FREE_COMPLETED:
		d->completed_address = ev->address;
		segments_complete(&d->segments, ev->address);
		break;
	case TFMT_ALLOCATOR_SEGMENT_FREE:
	case TFMT_ALLOCATOR_SEGMENT_UNMAP:
		if (ev->aux & TFMT_ALLOCATOR_IN_TENSOR)
			shortage_begin(d, ev->thread);
		break;
	default:
		break;
	}
}

static void tensor_free(struct frag_device *d, const struct tfmt_event *ev)
{
	/* Told of before if it was free at once; without the tracker nobody says. */
	bool pending = d->books->told.allocs && d->completed_address != ev->address;

	segments_free(&d->segments, ev->address, pending);
	expandable_free(&d->expandable, ev->address);
	d->completed_address = 0;
}

/* A free that the driver refused: the books have it again. */
static void free_failed(struct frag_device *d, const struct tfmt_event *ev)
{
	const struct books *books = d->process->books;
	const struct block *b = books_block(books, BLOCK_DRIVER, ev->address);

	if (b)
		segments_take(&d->segments, b->address, b->size);
	b = books_block(books, BLOCK_MAPPING, ev->address);
	if (b)
		segments_map(&d->segments, b->address, b->size);
}

static enum tfmt_space space_of(const struct tfmt_event *ev)
{
	return (enum tfmt_space)(ev->flags & TFMT_SPACE_MASK);
}

static void driver_alloc(struct frag_device *d, const struct tfmt_event *ev)
{
	if (ev->flags & TFMT_FLAG_MODELLED)
		return;
	if (space_of(ev) == TFMT_SPACE_DEVICE)
		segments_take(&d->segments, ev->address, ev->size);
	else if (space_of(ev) == TFMT_SPACE_RESERVED)
		segments_reserve(&d->segments, ev->address, ev->size);
}

static void driver_free(struct frag_device *d, const struct tfmt_event *ev)
{
	if ((ev->flags & TFMT_FLAG_MODELLED) || ev->alloc_ordinal == TFMT_NO_ORDINAL)
		return;
	if (space_of(ev) == TFMT_SPACE_DEVICE) {
		const struct segments_block *b = segments_at(&d->segments, ev->address);

		if (b && b->state != SEGMENTS_IDLE)
			expandable_empty_cache(&d->expandable);
		segments_give(&d->segments, ev->address, ev->size);
	} else if (space_of(ev) == TFMT_SPACE_RESERVED) {
		segments_unreserve(&d->segments, ev->address);
	}
}

/* The memory's device, whatever the current one is. */
static void map(struct frag_device *d, const struct tfmt_event *ev)
{
	if (!(ev->address & TFMT_TILE_ADDRESS))
		segments_map(&d->segments, ev->address, ev->size);
}

/* The thread's current device need not be the memory's; addresses are unique in a process. */
static void unmap(struct frag *f, const struct replay_process *process, const struct tfmt_event *ev)
{
	for (size_t i = 0; i < f->nr_devices; i++) {
		if (f->device[i]->process == process)
			segments_give(&f->device[i]->segments, ev->address, ev->size);
	}
}

static void refused(struct frag_device *d, const struct tfmt_event *ev)
{
	if (books_owner(d->process->books, ev->native_stack, 0).torch_allocator)
		shortage_begin(d, ev->thread);
}

/* A primary context has ended, with all that was allocated in it. */
static void reset(struct frag_device *d, const struct tfmt_event *ev)
{
	if (ev->aux)
		return;
	segments_give(&d->segments, 0, UINT64_MAX);
	expandable_release(&d->expandable);
}

/* Which of the process's devices an event changes; the handle's for what is mapped. */
static uint32_t device_of(const struct replay_process *process, const struct tfmt_event *ev)
{
	const struct block *handle = NULL;

	if (ev->kind == TFMT_MAP)
		handle = books_block(process->books, BLOCK_HANDLE, ev->aux);
	return handle ? books_group(process->books, handle->group)->device : ev->device;
}

static void device_event(struct frag *f, struct frag_device *d, const struct tfmt_event *ev, uint64_t time_ns)
{
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
		tensor_alloc(d, ev, time_ns);
		break;
	case TFMT_TENSOR_FREE:
		tensor_free(d, ev);
		break;
	case TFMT_TENSOR_OOM:
		tensor_oom(d, ev, time_ns);
		break;
	case TFMT_DRIVER_ALLOC:
		driver_alloc(d, ev);
		break;
	case TFMT_DRIVER_FREE:
		driver_free(d, ev);
		break;
	case TFMT_FREE_FAILED:
		free_failed(d, ev);
		break;
	case TFMT_ALLOC_FAILED:
		refused(d, ev);
		break;
	case TFMT_MAP:
		map(d, ev);
		break;
	case TFMT_ALLOCATOR:
		told(d, ev);
		break;
	default:
		reset(d, ev);
		break;
	}
	if (!ev->before)
		enter_series(f, d, time_ns);
}

static bool changes_memory(const struct tfmt_event *ev)
{
	switch (ev->kind) {
	case TFMT_TENSOR_ALLOC:
	case TFMT_TENSOR_FREE:
	case TFMT_TENSOR_OOM:
	case TFMT_DRIVER_ALLOC:
	case TFMT_DRIVER_FREE:
	case TFMT_FREE_FAILED:
	case TFMT_ALLOC_FAILED:
	case TFMT_MAP:
	case TFMT_ALLOCATOR:
	case TFMT_RESET:
		return true;
	default:
		return false;
	}
}

void frag_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct frag *f = ctx;
	struct frag_device *d;
	uint32_t device;

	if (ev->kind == TFMT_UNMAP)
		unmap(f, process, ev);
	if (!changes_memory(ev))
		return;
	device = device_of(process, ev);
	if (device >= TFMT_NR_DEVICES)
		return;
	d = get_device(f, process, device);
	device_event(f, d, ev, time_ns);
}

struct frag_cached frag_cached(const struct frag *f, const struct replay_process *process, uint32_t ordinal, uint16_t stream)
{
	const struct frag_device *d = find_device(f, process, ordinal);
	const struct segments_pool *pool =
		d ? segments_find_pool(&d->segments, stream, false, SEGMENTS_SHARED) : NULL;

	return (struct frag_cached){
		.largest = pool ? segments_largest_of(&d->segments, (uint32_t)(pool - d->segments.pool)) : 0,
		.of_graphs = d ? d->segments.held_bytes : 0,
		.graphs_share = d && d->graphs_share,
	};
}

void frag_finish(struct frag *f)
{
	for (size_t i = 0; i < f->nr_devices; i++) {
		struct frag_device *d = f->device[i];

		take_blocks(d, FRAG_PEAK);
		moment_reached(d, FRAG_END, d->process->last_ns);
		take_blocks(d, FRAG_END);
	}
}

/* ---- judgement ---------------------------------------------------------------------------------- */

/* What was stuck at the reserved peak, beyond what a segment of each pool may leave unused. */
static uint64_t stuck_bytes(const struct frag_figures *peak)
{
	return peak->stuck > peak->slack ? peak->stuck - peak->slack : 0;
}

bool frag_is_expandable(const struct frag_device *d)
{
	for (uint32_t i = 0; i < d->segments.nr_segments; i++)
		if (d->segments.segment[i].used && d->segments.segment[i].page_bytes)
			return true;
	return false;
}

uint64_t frag_saved_by_growing(const struct frag_device *d)
{
	uint64_t reserved = d->moment[FRAG_PEAK].figures.reserved;
	uint64_t peak = expandable_peak(&d->expandable);

	return reserved > peak ? reserved - peak : 0;
}

uint64_t frag_forced_bytes(const struct frag_device *d)
{
	const struct frag_figures *p = &d->moment[FRAG_PEAK].figures;
	uint64_t stuck = stuck_bytes(p);
	uint64_t forced = p->forced > p->empty_cache ? p->forced - p->empty_cache : 0;

	return forced < stuck ? forced : stuck;
}

bool frag_is_stuck(const struct frag_device *d)
{
	const struct frag_figures *p = &d->moment[FRAG_PEAK].figures;

	return (double)stuck_bytes(p) > FRAG_STUCK_SHARE * (double)p->reserved;
}

/* Did it matter where the blocks lay? Nothing says that it did not where segments grow already. */
static bool growing_would_help(const struct frag_device *d)
{
	return frag_is_expandable(d) ||
	       (double)frag_saved_by_growing(d) > FRAG_SAVED_SHARE * (double)d->moment[FRAG_PEAK].figures.reserved;
}

bool frag_is_scarce(uint64_t reserved, uint64_t capacity)
{
	return (double)reserved > FRAG_SCARCE_SHARE * (double)capacity;
}

bool frag_is_finding(const struct frag_device *d, enum frag_harm which)
{
	if (which != FRAG_SEGMENT)
		return d->harm[which].count > 0;
	return growing_would_help(d) &&
	       (double)frag_forced_bytes(d) > FRAG_FORCED_SHARE * (double)d->moment[FRAG_PEAK].figures.reserved;
}
