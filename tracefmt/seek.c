/* SPDX-License-Identifier: MIT */
/*
 * Reading on from a time: at the last checkpoint before it. The index says where that is, and where the definitions
 * before it lie; without one, or one that is wrong, the headers of the frames do. What either leads to is looked at
 * before anything is made of it.
 */
#include "tracefmt/seek.h"
#include "tracefmt/reader.h"
#include "tracefmt/varint.h"

#include <stdlib.h>
#include <string.h>

struct seek {
	struct tfmt_reader *r;
	uint64_t time_ns;          /* all events from this one on are wanted */
	struct tfmt_place place;   /* where to begin; offset 0: none is known yet */
	uint8_t *frame;            /* the frame looked at; the fields of its header are in r->incoming */
	struct tfmt_frame_core core;
	uint8_t *list;             /* payload of an INDEX frame */
	uint32_t next_sequence;    /* of the definitions taken in: at least */
	/* Bytes of the definition ring: up to the end of the definitions taken in, and up to the place. */
	uint64_t definitions_to, checkpoint_definitions_to;
	uint64_t highest[TFMT_NR_HIGHEST], checkpoint_highest[TFMT_NR_HIGHEST]; /* ids of definitions, likewise */
};

/* ---- frames ---------------------------------------------------------------------------------- */

static uint64_t frame_bytes(const struct tfmt_frame_core *core)
{
	return (uint64_t)core->header_bytes + core->stored_bytes;
}

/* Is there a frame, as far as its first bytes tell? They are in s->core. */
static bool see_frame(struct seek *s, uint64_t offset)
{
	uint64_t left = s->r->file_bytes - offset;

	return offset < s->r->file_bytes && left >= TFMT_FRAME_CORE &&
	       !tfmt_read_at(s->r->fd, s->frame, TFMT_FRAME_CORE, offset) &&
	       tfmt_frame_check(s->frame, TFMT_FRAME_CORE, &s->core) != TFMT_FRAME_BAD && frame_bytes(&s->core) <= left;
}

/* All of it, of this type, and it is good. */
static bool read_frame(struct seek *s, uint64_t offset, enum tfmt_frame_type type)
{
	size_t len;

	if (!see_frame(s, offset) || s->core.type != type)
		return false;
	len = (size_t)frame_bytes(&s->core);
	return !tfmt_read_at(s->r->fd, s->frame, len, offset) &&
	       tfmt_frame_check(s->frame, len, &s->core) == TFMT_FRAME_GOOD &&
	       !tfmt_checkpoint_get(&s->r->incoming, s->frame + TFMT_FRAME_CORE,
				    s->core.header_bytes - TFMT_FRAME_CORE);
}

static bool unpack(struct seek *s)
{
	return !tfmt_reader_unpack(s->r, &s->core, s->frame + s->core.header_bytes);
}

/* A figure of the process, of those with which a checkpoint ends; 0: it is not among them. */
static uint64_t figure_of(const uint8_t *payload, size_t len, enum tfmt_figure wanted)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	uint64_t found = 0;

	while (c.p < c.end) {
		uint64_t id = tfmt_varint_get(&c), bytes = tfmt_varint_get(&c);
		const uint8_t *p = tfmt_bytes_get(&c, bytes);
		struct tfmt_cursor column = { p, p ? p + bytes : p, false };

		while (id == TFMT_COLUMN_FIGURES && column.p < column.end) {
			uint64_t figure = tfmt_varint_get(&column), row = tfmt_varint_get(&column);
			uint64_t value = tfmt_varint_get(&column);

			if (figure == wanted && row == TFMT_FIGURES_PROCESS && !column.bad)
				found = value;
		}
	}
	return found;
}

/* Its last frame says how many events those before it hold: is this the last one of so many? */
static bool ends_checkpoint(struct seek *s, uint64_t nr_events, struct tfmt_place *place)
{
	const struct tfmt_checkpoint *in = &s->r->incoming;
	const uint8_t *payload = s->r->payload;

	if (!unpack(s) || figure_of(payload, s->core.raw_bytes, TFMT_FIGURE_CHECKPOINT_EVENTS) != nr_events + 1)
		return false;
	memcpy(s->checkpoint_highest, in->highest, sizeof(in->highest));
	s->checkpoint_definitions_to = in->definitions.to;
	place->time_ns = figure_of(payload, s->core.raw_bytes, TFMT_FIGURE_TIME);
	return true;
}

/* Is there a whole checkpoint? Says what it is of, and what follows it. */
static bool read_checkpoint(struct seek *s, uint64_t offset, struct tfmt_place *place, uint64_t *next)
{
	const struct tfmt_checkpoint *in = &s->r->incoming;
	uint64_t nr_events = 0;
	uint32_t nr = 0;

	*place = (struct tfmt_place){ .offset = offset };
	for (*next = offset; read_frame(s, *next, TFMT_TYPE_CHECKPOINT); nr++) {
		if (!nr) {
			place->sequence = s->core.sequence;
			place->ordinal = in->ordinal;
		}
		if (s->core.sequence != place->sequence + nr || in->ordinal != place->ordinal || !in->ordinal)
			return false;
		*next += frame_bytes(&s->core);
		nr_events += s->core.nr_records;
		if (!s->core.nr_records)
			return ends_checkpoint(s, nr_events, place);
	}
	return false;
}

/* Take in the definitions of a frame. Returns 0, TFMT_E_NOMEM, or TFMT_E_DAMAGED: there is no such frame. */
static int take_definitions(struct seek *s, uint64_t offset)
{
	struct tfmt_summary *summary = &s->r->summary;
	const struct tfmt_checkpoint *in = &s->r->incoming;

	if (!read_frame(s, offset, TFMT_TYPE_DEFINITIONS) || s->core.sequence < s->next_sequence || !unpack(s))
		return TFMT_E_DAMAGED;
	if (s->next_sequence && in->definitions.from != s->definitions_to) /* others come in between */
		return TFMT_E_DAMAGED;
	s->next_sequence = s->core.sequence + 1;
	s->definitions_to = in->definitions.to;
	memcpy(s->highest, in->highest, sizeof(in->highest));
	if (in->nr_left_out || in->nr_dropped) {
		summary->dropped_events = in->ordinal;
		summary->dropped_frames = in->nr_left_out ? in->nr_left_out : in->nr_dropped;
	}
	return tfmt_definitions_add_frame(&s->r->definitions, s->r->payload, s->core.raw_bytes, s->core.nr_records,
					  offset + frame_bytes(&s->core));
}

/* As if no definition had been taken in. */
static void forget(struct seek *s)
{
	struct tfmt_definitions *d = &s->r->definitions;

	tfmt_definitions_release(d);
	*d = (struct tfmt_definitions){ .hear = d->hear, .hearer = d->hearer };
	s->r->summary.dropped_events = s->r->summary.dropped_frames = 0;
	s->place.offset = 0;
	s->next_sequence = 0;
}

/* ---- with the index -------------------------------------------------------------------------- */

/* END, the file's last frame, tells where the index is. */
static bool find_index(struct seek *s, uint64_t *begin, uint64_t *end)
{
	uint64_t bytes = s->r->file_bytes, at = bytes < TFMT_FRAME_MAX ? 0 : bytes - TFMT_FRAME_MAX;
	size_t len = (size_t)(bytes - at);
	uint8_t *tail = s->r->window, *p = tail;

	/* In the reader's window, which is large enough, and is filled again. */
	s->r->window_bytes = 0;
	if (tfmt_read_at(s->r->fd, tail, len, at))
		return false;
	while ((p = memmem(p, len - (size_t)(p - tail), TFMT_FRAME_MAGIC, TFMT_FRAME_MAGIC_BYTES))) {
		*end = at + (uint64_t)(p++ - tail);
		if (!see_frame(s, *end) || s->core.type != TFMT_TYPE_END || *end + frame_bytes(&s->core) != bytes ||
		    !read_frame(s, *end, TFMT_TYPE_END))
			continue;
		*begin = *end - s->r->incoming.index_bytes;
		return s->r->incoming.index_bytes && *begin < *end;
	}
	return false;
}

/* Show fn each entry of one of the lists. fn returns 0, or an error, which ends that. */
static int each_entry(struct seek *s, uint64_t begin, uint64_t end, enum tfmt_index_list what,
		      int (*fn)(struct seek *s, const struct tfmt_place *entry))
{
	int err = 0;

	while (!err && begin < end) {
		struct tfmt_place entry = { 0 };
		struct tfmt_cursor c;

		if (!read_frame(s, begin, TFMT_TYPE_INDEX) || !unpack(s))
			return TFMT_E_DAMAGED;
		begin += frame_bytes(&s->core);
		memcpy(s->list, s->r->payload, s->core.raw_bytes);
		c = (struct tfmt_cursor){ s->list, s->list + s->core.raw_bytes, false };
		if (tfmt_varint_get(&c) != what)
			continue;
		while (!err && c.p < c.end) {
			entry.offset += tfmt_varint_get(&c);
			if (what == TFMT_INDEX_CHECKPOINTS) {
				entry.sequence += tfmt_varint_get32(&c);
				entry.ordinal += tfmt_varint_get(&c);
				entry.time_ns += tfmt_varint_get(&c);
			}
			err = c.bad ? TFMT_E_DAMAGED : fn(s, &entry);
		}
	}
	return err;
}

static int choose_checkpoint(struct seek *s, const struct tfmt_place *entry)
{
	if (entry->time_ns < s->time_ns)
		s->place = *entry;
	return 0;
}

static int choose_definitions(struct seek *s, const struct tfmt_place *entry)
{
	return entry->offset < s->place.offset ? take_definitions(s, entry->offset) : 0;
}

static bool same_place(const struct tfmt_place *a, const struct tfmt_place *b)
{
	return a->offset == b->offset && a->sequence == b->sequence && a->ordinal == b->ordinal &&
	       a->time_ns == b->time_ns;
}

/* What the definitions that were taken in end with is what the checkpoint says. */
static bool definitions_are_all(const struct seek *s)
{
	return s->next_sequence <= s->place.sequence && s->definitions_to == s->checkpoint_definitions_to &&
	       !memcmp(s->highest, s->checkpoint_highest, sizeof(s->highest));
}

/* Returns 0: the place is known, or the index has none. TFMT_E_DAMAGED: there is no index, or it is not true. */
static int look_in_index(struct seek *s)
{
	uint64_t begin, end, next;
	struct tfmt_place found;
	int err;

	if (!find_index(s, &begin, &end))
		return TFMT_E_DAMAGED;
	err = each_entry(s, begin, end, TFMT_INDEX_CHECKPOINTS, choose_checkpoint);
	if (err || !s->place.offset)
		return err;
	if (!read_checkpoint(s, s->place.offset, &found, &next) || !same_place(&found, &s->place))
		return TFMT_E_DAMAGED;
	err = each_entry(s, begin, end, TFMT_INDEX_DEFINITIONS, choose_definitions);
	return !err && !definitions_are_all(s) ? TFMT_E_DAMAGED : err;
}

/* ---- without it ------------------------------------------------------------------------------ */

/*
 * Is it the frame that comes next? What a flight recorder has left out is not missing. Of events only the header is
 * read.
 */
static bool goes_on(struct seek *s, uint64_t offset, uint32_t sequence, bool has_events)
{
	const struct tfmt_checkpoint *in = &s->r->incoming;

	if (!see_frame(s, offset))
		return false;
	if (s->core.type == TFMT_TYPE_EVENTS)
		return s->core.sequence == sequence;
	return read_frame(s, offset, (enum tfmt_frame_type)s->core.type) &&
	       (s->core.sequence == sequence || (!has_events && (in->nr_dropped || in->nr_left_out)));
}

/*
 * Go from frame to frame. The first time for the place, until a checkpoint is too late or something is wrong: that is
 * for the reader, which comes by there. The second time, with loads, for the definitions before it.
 */
static int walk(struct seek *s, uint64_t until, bool loads)
{
	uint64_t at = s->r->offset, next;
	bool has_events = false;
	uint32_t sequence = 0;
	int err = 0;

	for (; at < until && goes_on(s, at, sequence, has_events); sequence++, at = next) {
		struct tfmt_place place;

		sequence = s->core.sequence;
		next = at + frame_bytes(&s->core);
		has_events |= s->core.type == TFMT_TYPE_EVENTS;
		if (loads && s->core.type == TFMT_TYPE_DEFINITIONS)
			err = take_definitions(s, at);
		if (err)
			return err;
		if (loads || s->core.type != TFMT_TYPE_CHECKPOINT || !has_events)
			continue;
		if (!read_checkpoint(s, at, &place, &next) || place.time_ns >= s->time_ns)
			break;
		s->place = place;
		sequence = s->core.sequence;
	}
	return loads && at != until ? TFMT_E_DAMAGED : 0;
}

static int look_in_frames(struct seek *s)
{
	struct tfmt_place found;
	uint64_t next;
	int err = walk(s, s->r->file_bytes, false);

	if (err || !s->place.offset)
		return err;
	err = walk(s, s->place.offset, true);
	if (!err && !read_checkpoint(s, s->place.offset, &found, &next)) /* what it says of definitions */
		err = TFMT_E_DAMAGED;
	return !err && !definitions_are_all(s) ? TFMT_E_DAMAGED : err;
}

/* ---- both ------------------------------------------------------------------------------------ */

static int seek_place(struct seek *s)
{
	int err = look_in_index(s);

	if (err == TFMT_E_DAMAGED) {
		forget(s);
		err = look_in_frames(s);
	}
	if (err == TFMT_E_DAMAGED) {
		forget(s);
		err = 0;
	}
	return err;
}

static void go_to(struct tfmt_reader *r, const struct tfmt_place *place)
{
	r->offset = place->offset;
	r->next_sequence = place->sequence;
	r->next_ordinal = place->ordinal;
	r->summary.nr_events = place->ordinal;
}

int tfmt_reader_seek(struct tfmt_reader *r, uint64_t time_ns)
{
	struct seek s = { .r = r, .time_ns = time_ns };
	int err;

	if (r->summary.nr_frames || r->summary.nr_damaged || r->stage != TFMT_READER_FRAMES)
		return TFMT_E_INVALID;
	if (r->is_pipe)
		return 0;
	s.frame = malloc(TFMT_FRAME_MAX + TFMT_FRAME_RAW_MAX);
	if (!s.frame)
		return TFMT_E_NOMEM;
	s.list = s.frame + TFMT_FRAME_MAX;
	err = seek_place(&s);
	free(s.frame);
	if (err || !s.place.offset)
		return err;
	go_to(r, &s.place);
	return 1;
}
