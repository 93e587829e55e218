/* SPDX-License-Identifier: MIT */
/* Frames of a file to events and definitions, whatever state the file is in. */
#include "tracefmt/reader.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tfmt_reader_complain(struct tfmt_reader *r, int err, uint64_t offset, const char *format, ...)
{
	va_list args;

	if (err == TFMT_E_CUT)
		r->summary.cut = true;
	else if (err == TFMT_E_GIVEN_UP)
		r->summary.nr_given_up++;
	else
		r->summary.nr_damaged++;
	if (r->summary.nr_damaged + r->summary.cut == 1 && err != TFMT_E_GIVEN_UP)
		r->summary.first_damage_offset = offset;
	r->error_offset = offset;
	va_start(args, format);
	vsnprintf(r->message, sizeof(r->message), format, args);
	va_end(args);
	return err;
}

/* ---- open and close -------------------------------------------------------------------------- */

static int reader_init(struct tfmt_reader *r, const char *path)
{
	r->path = strdup(path);
	r->window = malloc(TFMT_READER_WINDOW);
	r->payload = calloc(1, TFMT_FRAME_RAW_MAX + TFMT_VARINTS_AHEAD);
	r->zstd = ZSTD_createDCtx();
	r->decoder.way = tfmt_way_best();
	if (!r->path || !r->window || !r->payload || !r->zstd || tfmt_ledger_init(&r->ledger, true))
		return TFMT_E_NOMEM;
	return tfmt_reader_open_file(r);
}

/* Aligned beyond what calloc() does, and as untouched as it leaves it. */
static struct tfmt_reader *reader_new(void)
{
	const size_t align = _Alignof(struct tfmt_reader);
	uint8_t *memory = calloc(1, sizeof(struct tfmt_reader) + align - 1);
	struct tfmt_reader *r;

	if (!memory)
		return NULL;
	r = (struct tfmt_reader *)(memory + (align - (uintptr_t)memory % align) % align);
	r->memory = memory;
	return r;
}

int tfmt_reader_open(struct tfmt_reader **out, const char *path, uint64_t *offset)
{
	struct tfmt_reader *r = reader_new();
	uint64_t where = 0;
	size_t header_bytes = 0;
	int err, reason;

	*out = NULL;
	if (offset)
		*offset = 0;
	if (!r)
		return TFMT_E_NOMEM;
	r->fd = r->kept_ring = -1;
	err = reader_init(r, path);
	if (!err)
		err = tfmt_header_get(&r->header, r->window, r->window_bytes, &header_bytes, &where);
	if (err) {
		reason = errno;
		tfmt_reader_close(r);
		if (offset)
			*offset = where;
		errno = reason;
		return err;
	}
	r->offset = header_bytes;
	*out = r;
	return 0;
}

int tfmt_header_read(const char *path, struct tfmt_header *out)
{
	struct tfmt_reader *r = reader_new();
	size_t bytes;
	uint64_t offset;
	int err, reason;

	memset(out, 0, sizeof(*out));
	if (!r)
		return TFMT_E_NOMEM;
	r->fd = -1;
	err = reader_init(r, path);
	if (!err)
		err = tfmt_header_get(out, r->window, r->window_bytes, &bytes, &offset);
	reason = errno;
	tfmt_reader_close(r);
	errno = reason;
	return err;
}

void tfmt_reader_close(struct tfmt_reader *r)
{
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	ZSTD_freeDCtx(r->zstd);
	free(r->figures);
	tfmt_ledger_release(&r->ledger);
	tfmt_definitions_release(&r->definitions);
	free(r->joined.event);
	free(r->joined.definitions);
	free(r->payload);
	free(r->window);
	free(r->path);
	free(r->memory);
}

/* ---- one frame ------------------------------------------------------------------------------- */

int tfmt_reader_unpack(struct tfmt_reader *r, const struct tfmt_frame_core *core, const uint8_t *stored)
{
	size_t n;

	if (core->compression == TFMT_COMPRESSION_NONE && core->stored_bytes == core->raw_bytes) {
		memcpy(r->payload, stored, core->raw_bytes);
		return 0;
	}
	if (core->compression != TFMT_COMPRESSION_ZSTD)
		return TFMT_E_DAMAGED;
	n = ZSTD_decompressDCtx(r->zstd, r->payload, TFMT_FRAME_RAW_MAX, stored, core->stored_bytes);
	return ZSTD_isError(n) || n != core->raw_bytes ? TFMT_E_DAMAGED : 0;
}

static int frame_end(struct tfmt_reader *r, const uint8_t *payload, size_t len)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	struct tfmt_status s = { 0 };

	s.end = tfmt_varint_get32(&c);
	s.exit_status = (int32_t)tfmt_unzigzag(tfmt_varint_get(&c));
	s.stop = tfmt_varint_get32(&c);
	s.stop_errno = (int32_t)tfmt_unzigzag(tfmt_varint_get(&c));
	s.stop_time_ns = tfmt_varint_get(&c);
	s.lost_events = tfmt_varint_get(&c);
	s.not_captured = tfmt_varint_get(&c);
	s.unsupported_calls = tfmt_varint_get(&c);
	if (c.p < c.end) {
		s.waits = tfmt_varint_get(&c);
		s.longest_wait_ns = tfmt_varint_get(&c);
	}
	if (c.bad)
		return TFMT_E_DAMAGED;
	r->status = s;
	r->has_status = r->has_end_frame = true;
	return 0;
}

static int load_figures(struct tfmt_reader *r, struct tfmt_cursor *c)
{
	if (!r->figures)
		r->figures = calloc(1, sizeof(*r->figures));
	if (!r->figures)
		return TFMT_E_NOMEM;
	while (c->p < c->end && !c->bad) {
		uint64_t figure = tfmt_varint_get(c);
		uint64_t row = tfmt_varint_get(c);
		uint64_t value = tfmt_varint_get(c);

		if (!c->bad && figure < TFMT_NR_FIGURES && row <= TFMT_FIGURES_PROCESS)
			r->figures->of[row][figure] = value;
	}
	r->summary.window_ns = r->figures->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_TIME];
	return c->bad ? TFMT_E_DAMAGED : 0;
}

/* What was in effect where the kept frames begin: events, or figures. */
static int frame_checkpoint(struct tfmt_reader *r, const struct tfmt_frame_core *core)
{
	struct tfmt_cursor c = { r->payload, r->payload + core->raw_bytes, false };
	int err = 0;

	while (!err && c.p < c.end) {
		uint64_t id = tfmt_varint_get(&c), bytes = tfmt_varint_get(&c);
		const uint8_t *p = tfmt_bytes_get(&c, bytes);
		struct tfmt_cursor column = { p, p ? p + bytes : p, false };

		if (!p)
			err = TFMT_E_DAMAGED;
		else if (id == TFMT_COLUMN_FIGURES)
			err = load_figures(r, &column);
	}
	if (!err && core->nr_records)
		err = tfmt_decoder_begin_checkpoint(&r->decoder, r->payload, core->raw_bytes, core->nr_records,
						    r->at.time, r->header.time_shift);
	if (err)
		r->decoder.nr_events = r->decoder.nr_ready = r->decoder.index = 0;
	return err;
}

/* Take in a good frame's payload. Returns 0, TFMT_E_NOMEM or TFMT_E_DAMAGED. */
static int frame_load(struct tfmt_reader *r, const struct tfmt_frame_core *core, const uint8_t *stored)
{
	int err;

	switch (core->type) {
	case TFMT_TYPE_EVENTS:
		r->has_events = r->definitions.ignores_passes = true;
		r->next_ordinal = r->at.ordinal + core->nr_records;
		err = tfmt_reader_unpack(r, core, stored);
		if (!err)
			err = tfmt_decoder_begin(&r->decoder, r->payload, core->raw_bytes, core->nr_records,
						 r->at.ordinal, r->at.time, r->header.time_shift);
		if (err) {
			r->decoder.nr_events = r->decoder.nr_ready = r->decoder.index = 0;
			r->lost_in_damage += core->nr_records;
			r->lost_since_header = true;
		} else if (r->copier) {
			r->copier->events(r->copier, core, r->payload);
		}
		return err;
	case TFMT_TYPE_DEFINITIONS:
		err = tfmt_reader_unpack(r, core, stored);
		return err ? err
			   : tfmt_definitions_add_frame(&r->definitions, r->payload, core->raw_bytes,
							core->nr_records, r->offset);
	case TFMT_TYPE_CHECKPOINT:
		r->summary.nr_checkpoints += r->has_events && !core->nr_records;
		if (r->has_events || !r->at.ordinal)
			return 0;
		err = tfmt_reader_unpack(r, core, stored);
		if (!err)
			err = frame_checkpoint(r, core);
		if (!err && r->copier)
			r->copier->events(r->copier, core, r->payload);
		return err;
	case TFMT_TYPE_END:
		r->summary.indexed = r->at.index_bytes != 0;
		err = tfmt_reader_unpack(r, core, stored);
		return err ? err : frame_end(r, r->payload, core->raw_bytes);
	default:
		return 0;
	}
}

static void reader_accept(struct tfmt_reader *r, const struct tfmt_frame_core *core)
{
	memcpy(&r->at, &r->incoming, offsetof(struct tfmt_checkpoint, ring));
	memcpy(r->at.ring, r->incoming.ring, r->incoming.nr_rings * sizeof(*r->at.ring));
	r->ledger.totals = r->at.totals;
	r->lost_since_header = false;
	r->next_ordinal = r->at.ordinal;
	r->next_sequence = core->sequence + 1;
	r->summary.nr_frames++;
	if (r->copier)
		r->copier->accepted(r->copier, core);
}

/*
 * Was what the incoming frame does not follow left out by a flight recorder, on purpose? Its nr_dropped is then so
 * many frames. What the recorder does to the trace while that is read is a loss all the same.
 */
static bool reader_is_kept(struct tfmt_reader *r)
{
	struct tfmt_checkpoint *in = &r->incoming;
	uint64_t known = r->summary.dropped_frames;
	bool is_kept = (in->nr_dropped || in->nr_left_out) && !r->has_events && !r->is_rereading;

	if (!is_kept)
		in->nr_dropped = 0;
	else if (in->nr_left_out) /* frames that told of it may be damaged */
		in->nr_dropped = in->nr_left_out > known ? in->nr_left_out - (uint32_t)known : 0;
	return is_kept;
}

/* Definitions of a frame were more than a reader takes. */
static int reader_tell_beyond(struct tfmt_reader *r, uint64_t offset)
{
	const struct tfmt_beyond *b = &r->definitions.beyond;
	const char *comma = "";
	char text[256];
	int at = 0;

	if (b->refused) {
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "%u definitions were refused (they may take %llu bytes so far, INFO has %u keys at most)",
			       b->refused, (unsigned long long)TFMT_DEFINITIONS_MAX(r->offset), TFMT_INFO_MAX);
		comma = ", ";
	}
	if (b->values) {
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%s%u INFO values were cut at %u bytes", comma,
			       b->values, TFMT_INFO_VALUE_MAX);
		comma = ", ";
	}
	if (b->stacks)
		at += snprintf(text + at, sizeof(text) - (size_t)at,
			       "%sstacks of more than %u frames were cut at %u places", comma, TFMT_STACK_DEPTH_MAX,
			       b->stacks);
	return tfmt_reader_complain(r, TFMT_E_DAMAGED, offset,
				    "beyond what a reader takes, in the frame at offset %llu: %s",
				    (unsigned long long)offset, text);
}

/*
 * Take in the frame at r->offset, whose checksum holds, after `skipped` bytes that were none.
 * Returns 1, or damage to report.
 */
static int reader_take(struct tfmt_reader *r, const uint8_t *bytes, const struct tfmt_frame_core *core,
		       uint64_t skipped)
{
	uint64_t offset = r->offset, lost;
	uint32_t missing;
	int err;

	r->offset += (uint64_t)core->header_bytes + core->stored_bytes;
	if (tfmt_checkpoint_get(&r->incoming, bytes + TFMT_FRAME_CORE, core->header_bytes - TFMT_FRAME_CORE))
		return tfmt_reader_complain(
			r, TFMT_E_DAMAGED, offset,
			"the header of the frame at offset %llu cannot be read; it was skipped",
			(unsigned long long)offset);
	if (core->sequence < r->next_sequence && r->is_rereading)
		return 1;
	if (core->sequence < r->next_sequence || r->incoming.ordinal < r->next_ordinal)
		return tfmt_reader_complain(r, TFMT_E_DAMAGED, offset,
					    "the frame at offset %llu does not belong there; it was skipped",
					    (unsigned long long)offset);
	missing = core->sequence - r->next_sequence;
	lost = r->incoming.ordinal - r->next_ordinal;
	if (reader_is_kept(r)) {
		missing -= r->incoming.nr_dropped < missing ? r->incoming.nr_dropped : missing;
		r->summary.dropped_frames += r->incoming.nr_dropped;
		r->summary.dropped_events += lost;
		r->summary.nr_events += lost;
		lost = 0;
	}
	r->is_rereading = false;
	r->lost_in_damage += lost;
	reader_accept(r, core);
	err = frame_load(r, core, bytes + core->header_bytes);
	if (err == TFMT_E_NOMEM)
		return err;
	if (!err && core->type == TFMT_TYPE_DEFINITIONS && tfmt_beyond_any(&r->definitions.beyond))
		return reader_tell_beyond(r, offset);
	if (err)
		return tfmt_reader_complain(
			r, err, offset,
			"the frame at offset %llu, of %u records, cannot be decoded; what could not was skipped",
			(unsigned long long)offset, core->nr_records);
	if (!skipped && !missing && r->at.nr_given_up)
		return tfmt_reader_complain(r, TFMT_E_GIVEN_UP, offset,
					    "%llu events are missing before offset %llu: the recording was repaired",
					    (unsigned long long)lost, (unsigned long long)offset);
	if (skipped || missing || lost)
		return tfmt_reader_complain(
			r, TFMT_E_DAMAGED, offset - skipped,
			"%llu bytes at offset %llu were skipped: %u frame%s with %llu event%s missing",
			(unsigned long long)skipped, (unsigned long long)(offset - skipped), missing,
			missing == 1 ? "" : "s", (unsigned long long)lost, lost == 1 ? " is" : "s are");
	return 1;
}

/* The next good frame after damage: its offset in r->offset, or false. */
static bool reader_search(struct tfmt_reader *r, uint64_t from, struct tfmt_frame_core *core)
{
	size_t available;

	for (;;) {
		const uint8_t *bytes = tfmt_reader_window(r, from, &available), *found;

		if (available < TFMT_FRAME_CORE)
			return false;
		found = memmem(bytes, available, TFMT_FRAME_MAGIC, TFMT_FRAME_MAGIC_BYTES);
		if (!found) {
			from += available - (TFMT_FRAME_MAGIC_BYTES - 1);
			continue;
		}
		from += (uint64_t)(found - bytes);
		bytes = tfmt_reader_window(r, from, &available);
		if (available && tfmt_frame_check(bytes, available, core) == TFMT_FRAME_GOOD) {
			r->offset = from;
			return true;
		}
		from++;
	}
}

/* Load the next frame. Returns 1, 0 when there is none, or damage to report. */
static int reader_frame(struct tfmt_reader *r)
{
	struct tfmt_frame_core core;
	uint64_t offset = r->offset;
	size_t available;
	const uint8_t *bytes = tfmt_reader_window(r, offset, &available);

	r->tail = TFMT_FRAME_GOOD;
	if (!available)
		return 0;
	r->tail = tfmt_frame_check(bytes, available, &core);
	if (r->tail == TFMT_FRAME_GOOD)
		return reader_take(r, bytes, &core, 0);
	if (!reader_search(r, offset + 1, &core))
		return 0;
	r->tail = TFMT_FRAME_GOOD;
	r->summary.damaged_bytes += r->offset - offset;
	return reader_take(r, tfmt_reader_window(r, r->offset, &available), &core, r->offset - offset);
}

/* ---- events ---------------------------------------------------------------------------------- */

static inline void reader_make_plain(const struct tfmt_reader *r, struct tfmt_event *ev, uint32_t nr)
{
	if (!r->gives_plain_stacks || !r->definitions.plain_frames.entry)
		return;
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t stack = ev[i].python_stack;
		uint32_t plain = stack < r->definitions.nr_plain ? r->definitions.plain[stack] : 0;

		ev[i].called_stack = stack;
		ev[i].python_stack = plain ? plain : tfmt_reader_plain_stack(r, stack);
	}
}

static int reader_deliver(struct tfmt_reader *r, const struct tfmt_event *ev)
{
	if (ev->before)
		return 1;
	r->summary.nr_events++;
	if (ev->kind == TFMT_LOST)
		r->lost_in_events += ev->size;
	return 1;
}

/* The rest of the frame cannot be decoded. */
static TFMT_SELDOM int reader_abandon(struct tfmt_reader *r)
{
	struct tfmt_decoder *d = &r->decoder;
	uint32_t lost = d->nr_events - d->index, of = d->nr_events;

	if (!d->is_checkpoint) {
		r->lost_in_damage += lost;
		r->lost_since_header = true;
	}
	d->nr_events = d->nr_ready = d->index = 0;
	return tfmt_reader_complain(r, TFMT_E_DAMAGED, r->offset,
				    "%u of %u events of the frame before offset %llu cannot be decoded", lost,
				    of, (unsigned long long)r->offset);
}

/* The next event of the frame that is loaded, 0 if there is none. */
static inline int reader_next_framed(struct tfmt_reader *r, struct tfmt_event *ev)
{
	struct tfmt_decoder *d = &r->decoder;
	int got;

	while ((got = tfmt_decoder_ready(d)) > 0) {
		*ev = *tfmt_decoder_event(d);
		d->index++;
		if (!tfmt_kind_is_known(ev->kind))
			continue;
		reader_make_plain(r, ev, 1);
		got = tfmt_ledger_replay(&r->ledger, ev);
		return got ? got : reader_deliver(r, ev);
	}
	return got < 0 ? reader_abandon(r) : 0;
}

/* All that are ready: events of which none needs a closer look. Returns how many, or TFMT_E_NOMEM. */
static int reader_replay_ready(struct tfmt_reader *r, const struct tfmt_event **out)
{
	struct tfmt_decoder *d = &r->decoder;
	struct tfmt_event *ev = tfmt_decoder_event(d);
	uint32_t ready = d->nr_ready - d->index, nr;

	reader_make_plain(r, ev, ready);
	nr = tfmt_ledger_replay_all(&r->ledger, ev, ready);
	d->index += nr;
	r->summary.nr_events += nr;
	if (nr < ready)
		r->stage = TFMT_READER_SHORT;
	*out = ev;
	return nr ? (int)nr : TFMT_E_NOMEM;
}

/*
 * Another frame, or the next stage. Returns 0, 1 where a trace that is followed has no further frame yet, or damage to
 * report.
 */
static int reader_advance(struct tfmt_reader *r)
{
	int got;

	if (r->decoder.is_checkpoint) /* the header counts what events of the past cannot: what was reserved at last */
		r->ledger.totals = r->at.totals;
	r->decoder.is_checkpoint = false;
	got = reader_frame(r);
	if (got)
		return got < 0 ? got : 0;
	if (r->is_followed && tfmt_reader_has_grown(r))
		return 0;
	r->is_waiting = r->is_followed && !r->has_end_frame && tfmt_reader_is_locked(r);
	return r->is_waiting ? 1 : tfmt_reader_join(r);
}

static int reader_next_joined(struct tfmt_reader *r, struct tfmt_event *ev)
{
	int err;

	if (r->joined.damage[0]) {
		err = tfmt_reader_complain(r, TFMT_E_DAMAGED, r->offset,
					   "events not yet in the trace are lost: its ring file %s", r->joined.damage);
		r->joined.damage[0] = 0;
		r->lost_since_header = true;
		return err;
	}
	if (r->joined.next == r->joined.nr_events) {
		r->stage = TFMT_READER_DONE;
		return 0;
	}
	*ev = r->joined.event[r->joined.next++];
	ev->called_stack = 0;
	reader_make_plain(r, ev, 1);
	ev->time_ns = ev->time_ns >> r->header.time_shift << r->header.time_shift;
	err = tfmt_ledger_record(&r->ledger, ev, r->next_ordinal++);
	r->summary.joined_events++;
	return err ? err : reader_deliver(r, ev);
}

/* No event is left in the frame that was loaded. */
static TFMT_SELDOM int reader_next_elsewhere(struct tfmt_reader *r, struct tfmt_event *ev)
{
	int got = 0;

	while (!got && r->stage != TFMT_READER_DONE) {
		if (r->stage == TFMT_READER_SHORT)
			return TFMT_E_NOMEM;
		if (r->stage == TFMT_READER_JOINED) {
			got = reader_next_joined(r, ev);
			continue;
		}
		got = reader_advance(r);
		if (got > 0)
			return 0;
		if (!got && r->stage == TFMT_READER_FRAMES)
			got = reader_next_framed(r, ev);
	}
	return got;
}

/* There is no event, but an end or an error. */
static TFMT_SELDOM int reader_stop(struct tfmt_reader *r, int got)
{
	if (got == TFMT_E_NOMEM) {
		r->stage = TFMT_READER_DONE;
		tfmt_reader_complain(r, got, r->offset, "there is not enough memory to read on");
	}
	tfmt_reader_conclude(r);
	return got;
}

void tfmt_reader_plain_stacks(struct tfmt_reader *r)
{
	r->gives_plain_stacks = true;
}

void tfmt_reader_follow(struct tfmt_reader *r, bool follow)
{
	r->is_followed = follow;
}

bool tfmt_reader_is_waiting(const struct tfmt_reader *r)
{
	return r->is_waiting;
}

int tfmt_reader_next(struct tfmt_reader *r, struct tfmt_event *ev)
{
	int got = r->stage == TFMT_READER_FRAMES ? reader_next_framed(r, ev) : 0;

	if (!got)
		got = reader_next_elsewhere(r, ev);
	return got > 0 ? got : reader_stop(r, got);
}

int tfmt_reader_events(struct tfmt_reader *r, const struct tfmt_event **ev)
{
	int got;

	if (r->stage == TFMT_READER_FRAMES && r->decoder.is_plain && r->decoder.index < r->decoder.nr_ready) {
		got = reader_replay_ready(r, ev);
		return got > 0 ? got : reader_stop(r, got);
	}
	*ev = &r->single; /* the first event of a batch, or damage */
	return tfmt_reader_next(r, &r->single);
}
