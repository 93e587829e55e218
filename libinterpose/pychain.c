/* SPDX-License-Identifier: MIT */
/* Walks the frames from the newest on until it meets one below which nothing has changed. */
#include "pychain.h"

#include <string.h>

#include "pyframes.h"
#include "pywatch.h"

static inline uint16_t *place_of(struct pychain *c, const void *frame)
{
	return &c->place[(uintptr_t)frame * 0x9e3779b97f4a7c15ull >> 56];
}

/* A frame's place in its code, and what tells the kinds of frames apart, in one word. */
static inline uint64_t standing(const struct pylayout *l, const void *frame)
{
	uint64_t at, kind = pyframe_owner(l, frame);

	if (l->frame_entry >= 0)
		kind |= (uint64_t)pyframe_is_entry(l, frame) << 7;
	if (l->position == PYPOSITION_POINTER)
		at = (uintptr_t)py_pointer(frame, l->frame_position);
	else
		at = (uint32_t)py_int(frame, l->frame_position);
	return at ^ kind << 56;
}

static inline bool stands(const struct pylayout *l, const struct pylevel *level, const void *frame)
{
	return level->frame == frame && level->code == pyframe_code(l, frame) && level->at == standing(l, frame);
}

/* Code has died somewhere: levels from the first on in whose place that was are not what they seem. */
static __attribute__((noinline)) void drop_dead(struct pychain *c)
{
	for (uint32_t i = 0; i < c->nr; i++)
		if (c->level[i].deaths != pywatch_deaths_at(c->level[i].code))
			c->nr = i;
}

/* False if the frame holds no code object, so that it cannot be trusted. */
static bool read_frame(struct pycode_cache *codes, const struct pylayout *l, const void *frame, struct pylevel *out)
{
	uint8_t owner = pyframe_owner(l, frame);
	struct pycode_seen seen;

	*out = (struct pylevel){ .frame = frame, .code = pyframe_code(l, frame), .at = standing(l, frame) };
	out->deaths = pywatch_deaths_at(out->code);
	if (pyframe_is_shim(l, owner)) {
		out->flags = PYLEVEL_HIDDEN | PYLEVEL_CALLED;
		return true;
	}
	if (!pycode_see(codes, l, out->code, &seen))
		return false;
	out->id = seen.id;
	out->position = pyframe_position(l, frame, out->code);
	if (owner != PYFRAME_OWNER_GENERATOR && out->position < seen.traceable)
		out->flags |= PYLEVEL_HIDDEN;
	if (pyframe_is_entry(l, frame))
		out->flags |= PYLEVEL_CALLED;
	return true;
}

/*
 * The new levels go above the kept ones. What a hidden one has entered, the next one that is shown stands
 * for.
 */
static void join(struct pychain *c, uint32_t kept, uint32_t nr_fresh)
{
	c->kept = kept;
	c->nr = kept + nr_fresh;
	for (uint32_t i = kept; i < c->nr; i++) {
		struct pylevel *level = &c->level[i];
		uint32_t below = i ? level[-1].flags : 0;

		*level = c->fresh[--nr_fresh];
		level->flags &= ~(uint32_t)PYLEVEL_ENTRY;
		if ((level->flags & PYLEVEL_CALLED) || ((below & PYLEVEL_HIDDEN) && (below & PYLEVEL_ENTRY)))
			level->flags |= PYLEVEL_ENTRY;
		*place_of(c, level->frame) = (uint16_t)i;
	}
}

/*
 * Follows the chain as long as its frames are the levels from `top` down, which stay as they are. Their
 * number; *frame is then the next one.
 */
static inline uint32_t follow(const struct pychain *c, const struct pylayout *l, uint32_t top, const void **frame)
{
	uint32_t n = 0;

	while (n <= top && top < c->nr && stands(l, &c->level[top - n], *frame)) {
		*frame = py_pointer(*frame, l->frame_back);
		n++;
	}
	return n;
}

bool pychain_update(struct pychain *c, struct pycode_cache *codes, const struct pylayout *l, const void *newest,
		    const void *until)
{
	uint32_t deaths = pywatch_deaths(), nr_fresh = 0, kept = 0;
	const void *frame = newest;

	if (c->deaths != deaths)
		drop_dead(c);
	if (c->until != until)
		c->nr = 0;
	c->deaths = deaths;
	c->until = until;
	while (frame && frame != until) {
		uint32_t top = *place_of(c, frame), n = follow(c, l, top, &frame);

		if (n == top + 1 && (!frame || frame == until)) {
			kept = n;
			break;
		}
		if (nr_fresh + n >= PYCHAIN_MAX) {
			c->nr = 0;
			return false;
		}
		for (uint32_t i = 0; i < n; i++)
			c->fresh[nr_fresh++] = c->level[top - i];
		if (n)
			continue;
		if (!read_frame(codes, l, frame, &c->fresh[nr_fresh]))
			break;
		nr_fresh++;
		frame = py_pointer(frame, l->frame_back);
	}
	if (kept + nr_fresh > PYCHAIN_MAX)
		kept = nr_fresh = 0;
	join(c, kept, nr_fresh);
	return kept + nr_fresh > 0;
}
