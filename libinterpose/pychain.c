/* SPDX-License-Identifier: MIT */
/* Walks the frames from the newest on until it meets one below which nothing has changed. */
#include "pychain.h"

#include <string.h>

#include "instances.h"
#include "pyframes.h"
#include "pywatch.h"

static inline uint16_t *place_of(struct pychain *c, const void *frame)
{
	return &c->place[(uintptr_t)frame * 0x9e3779b97f4a7c15ull >> 56];
}

static inline struct pymet *met_of(struct pychain *c)
{
	return (struct pymet *)pychain_level(c, c->max + 1);
}

static enum pychain_way way_of(const struct pylayout *l)
{
	if (l->position != PYPOSITION_POINTER)
		return PYCHAIN_NUMBER;
	return l->frame_entry < 0 ? PYCHAIN_ADDRESS : PYCHAIN_ENTRY;
}

/* An instruction's address is even: whether native code has entered at the frame, 0 or 1, goes into its lowest bit. */
static inline uint64_t at_of(const struct pylayout *l, const void *frame, enum pychain_way way)
{
	long at = py_long(frame, l->frame_position);

	if (way == PYCHAIN_NUMBER)
		return (uint32_t)at;
	return way == PYCHAIN_ENTRY ? (uint64_t)at | *((const uint8_t *)frame + l->frame_entry) : (uint64_t)at;
}

/* Code has died somewhere: levels from the first on in whose place that was are not what they seem. */
static __attribute__((noinline)) void drop_dead(struct pychain *c)
{
	for (uint32_t i = 1; i <= c->nr; i++)
		if (pychain_level(c, i)->deaths != pywatch_deaths_at(pychain_level(c, i)->code))
			c->nr = i - 1;
}

/*
 * Fields are copied one by one: a struct just written field by field would be read in larger pieces, for which
 * a processor waits until the writes have reached its cache.
 */
static inline void meet_level(struct pymet *met, const struct pychain *c, uint32_t at)
{
	const struct pylevel *level = pychain_level(c, at);

	met->frame = c->spot[at].frame;
	met->level = at;
	met->id = level->id;
	met->flags = level->flags;
	met->position = level->position;
}

/* False if the frame holds no code object, so that it cannot be trusted. */
static bool meet_frame(struct pymet *met, struct pycode_cache *codes, const struct pylayout *l, const void *frame)
{
	const void *code = pyframe_code(l, frame);
	uint8_t owner = pyframe_owner(l, frame);
	struct pycode_seen seen;

	met->frame = frame;
	met->level = 0;
	if (pyframe_is_shim(l, owner)) {
		met->id = 0;
		met->position = 0;
		met->flags = PYLEVEL_HIDDEN | PYLEVEL_CALLED;
		return true;
	}
	if (!pycode_see(codes, l, code, &seen))
		return false;
	met->id = seen.id;
	met->position = pyframe_position(l, frame, code);
	met->flags = pyframe_is_entry(l, frame) ? PYLEVEL_CALLED : 0;
	if (owner != PYFRAME_OWNER_GENERATOR && met->position < seen.traceable)
		met->flags |= PYLEVEL_HIDDEN;
	else if (seen.has_module)
		met->flags |= PYLEVEL_MODULE;
	return true;
}

static inline void level_set(struct pychain *c, uint32_t at, const struct pylayout *l, const struct pymet *met)
{
	struct pylevel *level = pychain_level(c, at);

	c->spot[at].frame = met->frame;
	c->spot[at].at = at_of(l, met->frame, c->way);
	level->code = py_pointer(met->frame, l->frame_code);
	level->deaths = pywatch_deaths_at(pyframe_code(l, met->frame));
	level->id = met->id;
	level->position = met->position;
	level->flags = (uint16_t)met->flags;
	level->instance = 0;
}

static uint32_t instance_of(struct pychain *c, const struct pylayout *l, uintptr_t module)
{
	return instances_id((const void *)(module & ~(uintptr_t)l->tag), &c->latest_instance);
}

/* Another module than the one that was called. */
static __attribute__((noinline)) void change_module(struct pychain *c, const struct pylayout *l, struct pycall *call)
{
	call->module = *call->argument;
	pychain_level(c, call->level)->instance = instance_of(c, l, call->module);
	if (call->level <= c->kept)
		c->kept = call->level - 1;
}

/* A new level calls a module. Where so many do already, it stays unknown which, for nobody would see that change. */
static void note_module(struct pychain *c, const struct pylayout *l, uint32_t at)
{
	const uintptr_t *argument = (const uintptr_t *)((const char *)c->spot[at].frame + l->frame_locals);

	if (c->nr_calls == PYCHAIN_CALLS)
		return;
	pychain_level(c, at)->instance = instance_of(c, l, *argument);
	c->call[c->nr_calls++] = (struct pycall){ argument, *argument, at };
}

/* Of the kept levels, those from the first on that calls another module than it did are not what they were. */
static inline void look_at_modules(struct pychain *c, const struct pylayout *l)
{
	while (c->nr_calls && c->call[c->nr_calls - 1].level > c->kept)
		c->nr_calls--;
	for (struct pycall *call = c->call, *end = call + c->nr_calls; call < end; call++)
		if (*call->argument != call->module)
			change_module(c, l, call);
}

/*
 * The met frames become the levels above the kept ones; a level that stays where it was is in place already.
 * What a hidden one has entered, the next one that is shown stands for.
 */
static void join(struct pychain *c, const struct pylayout *l, uint32_t kept, uint32_t nr_met)
{
	uint32_t below = kept ? pychain_level(c, kept)->flags : 0;
	const struct pymet *all = met_of(c);

	c->kept = kept;
	c->nr = kept + nr_met;
	look_at_modules(c, l);
	for (uint32_t i = kept + 1; i <= c->nr; i++) {
		const struct pymet *met = &all[--nr_met];
		struct pylevel *level = pychain_level(c, i);

		if (met->level != i) {
			level_set(c, i, l, met);
			*place_of(c, met->frame) = (uint16_t)i;
		}
		level->flags &= (uint16_t)~PYLEVEL_ENTRY;
		if ((level->flags & PYLEVEL_CALLED) || ((below & PYLEVEL_HIDDEN) && (below & PYLEVEL_ENTRY)))
			level->flags |= PYLEVEL_ENTRY;
		if (level->flags & PYLEVEL_MODULE)
			note_module(c, l, i);
		below = level->flags;
	}
}

/*
 * Follows the chain as long as its frames are the levels from `top` down, which stay as they are. Their
 * number; *frame is then the next one.
 */
static inline __attribute__((always_inline)) uint32_t follow(const struct pychain *c, const struct pylayout *l,
							     uint32_t top, const void **frame, enum pychain_way way)
{
	const struct pylayout layout = *l; /* in registers: what is read below may be anything */
	const struct pyspot *first = &c->spot[top], *spot = first;
	const void *next = *frame;

	for (; spot->frame == next; spot--) {
		const void *known = spot->frame;

		/* The loads go by what is known, to the compiler another value: they need not wait for `next`. */
		__asm__("" : "+r"(known));
		if (at_of(&layout, known, way) != spot->at)
			break;
		if (way == PYCHAIN_NUMBER && py_pointer(known, layout.frame_code) != pychain_level(c, spot - c->spot)->code)
			break;
		next = py_pointer(known, layout.frame_back);
	}
	*frame = next;
	return (uint32_t)(first - spot);
}

static inline uint32_t known_from(const struct pychain *c, const struct pylayout *l, uint32_t top, const void **frame)
{
	if (top > c->nr)
		return 0;
	if (c->way == PYCHAIN_ADDRESS)
		return follow(c, l, top, frame, PYCHAIN_ADDRESS);
	if (c->way == PYCHAIN_ENTRY)
		return follow(c, l, top, frame, PYCHAIN_ENTRY);
	return follow(c, l, top, frame, PYCHAIN_NUMBER);
}

bool pychain_update(struct pychain *c, struct pycode_cache *codes, const struct pylayout *l, const void *newest,
		    const void *until)
{
	uint32_t deaths = pywatch_deaths(), nr_met = 0, kept = 0;
	const void *frame = newest;
	struct pymet *met = met_of(c);

	if (c->way == PYCHAIN_UNKNOWN) {
		c->way = way_of(l);
		c->spot[0].frame = c; /* of memory that no frame has */
	}
	if (c->deaths != deaths)
		drop_dead(c);
	if (c->until != until)
		c->nr = 0;
	c->deaths = deaths;
	c->until = until;
	while (frame && frame != until) {
		uint32_t top = *place_of(c, frame), n = known_from(c, l, top, &frame);

		if (n && n == top && (!frame || frame == until)) {
			kept = n;
			c->apart = until && !frame;
			if (nr_met)
				break;
			c->kept = c->nr = n; /* all as it was */
			look_at_modules(c, l);
			return true;
		}
		if (nr_met + n >= c->max) {
			c->nr = 0;
			c->too_many = true;
			return false;
		}
		for (uint32_t i = 0; i < n; i++)
			meet_level(&met[nr_met++], c, top - i);
		if (n)
			continue;
		if (!meet_frame(&met[nr_met], codes, l, frame))
			break;
		nr_met++;
		frame = py_pointer(frame, l->frame_back);
	}
	c->apart = until && !frame;
	c->too_many = kept + nr_met > c->max;
	if (c->too_many)
		kept = nr_met = 0;
	join(c, l, kept, nr_met);
	return kept + nr_met > 0;
}
