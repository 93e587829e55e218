/* SPDX-License-Identifier: MIT */
/* Events and definitions to frames in a file. Runs inside a traced process: memory from mmap, no lock, no
 * stdio. */
#include "tracefmt/writer.h"
#include "tracefmt/columns.h"
#include "tracefmt/frame.h"
#include "tracefmt/keep.h"
#include "tracefmt/merge.h"
#include "tracefmt/pages.h"
#include "tracefmt/varint.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

/* Type, id, offset, whole length and length of a chunk, as varints of 32 bits. */
#define CHUNK_HEADER_MAX 25
/* With less room than this a chunk waits for the next frame. */
#define CHUNK_LEAST 64
#define ZSTD_HASH_LOG 16 /* 256 KiB */
#define ZSTD_MIN_MATCH 7

/* ---- open and close -------------------------------------------------------------------------- */

/*
 * zstd's parameters at a level. Its own choice for inputs of this size is a table of positions so small that most are
 * overwritten before they are of use; events take a quarter more time then, and not a byte less. Its fast levels also
 * look for matches shorter than columns of varints repay: those save one byte in 300 and cost time at both ends.
 */
static ZSTD_compressionParameters zstd_parameters(int level)
{
	ZSTD_compressionParameters zstd = ZSTD_getCParams(level, TFMT_FRAME_RAW_MAX, 0);

	if (zstd.hashLog < ZSTD_HASH_LOG)
		zstd.hashLog = ZSTD_HASH_LOG;
	if (zstd.strategy == ZSTD_fast)
		zstd.minMatch = ZSTD_MIN_MATCH;
	return zstd;
}

/* A writer with all its buffers, in one mapping. */
static struct tfmt_writer *writer_new(int fd, int level, uint8_t time_shift)
{
	size_t zstd_bytes = (ZSTD_estimateCStreamSize_usingCParams(zstd_parameters(level)) + 63) & ~(size_t)63;
	size_t self_bytes = (sizeof(struct tfmt_writer) + 63) & ~(size_t)63;
	size_t bytes =
		self_bytes + zstd_bytes + TFMT_ENCODER_MEMORY + 2 * TFMT_FRAME_RAW_MAX + TFMT_FRAME_MAX;
	struct tfmt_writer *w = tfmt_pages_new(bytes);
	uint8_t *p = (uint8_t *)w;

	if (!w)
		return NULL;
	w->fd = fd;
	w->level = INT_MIN;
	w->highest_level = level;
	w->memory = w;
	w->memory_bytes = bytes;
	p += self_bytes;
	w->zstd = ZSTD_initStaticCCtx(p, zstd_bytes);
	if (w->zstd)
		tfmt_writer_level(w, level);
	p += zstd_bytes;
	tfmt_encoder_init(&w->encoder, p, time_shift);
	p += TFMT_ENCODER_MEMORY;
	w->definitions = p;
	w->raw = p + TFMT_FRAME_RAW_MAX;
	w->frame = p + 2 * TFMT_FRAME_RAW_MAX;
	return w;
}

static bool writer_make_room(const struct tfmt_writer *w, int reason)
{
	bool is_full = reason == ENOSPC || reason == EDQUOT || reason == EFBIG;

	return is_full && w->make_room && w->make_room(w->make_room_context);
}

/*
 * Write at the end of the last whole frame, and cut back to it if not all could be written: what lies in
 * the file always reads. pwrite, so that the descriptor's offset, which others may share, does not matter.
 */
static int writer_write(struct tfmt_writer *w, const uint8_t *p, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(w->fd, p + done, len - done, (off_t)(w->bytes + done));

		int reason = n < 0 ? errno : EIO;

		if (n <= 0 && (reason == EINTR || writer_make_room(w, reason)))
			continue;
		if (n <= 0) {
			w->error = reason;
			/* What remains of the frame does no harm if this fails too: its checksum tells. */
			while (done && ftruncate(w->fd, (off_t)w->bytes) && errno == EINTR)
				continue;
			return TFMT_E_IO;
		}
		done += (size_t)n;
	}
	w->bytes += len;
	return 0;
}

int tfmt_writer_open(struct tfmt_writer **out, int fd, const struct tfmt_header *header, int level)
{
	struct tfmt_writer *w;
	int err;

	*out = NULL;
	if (header->must & ~TFMT_MUST_KNOWN)
		return TFMT_E_INVALID;
	w = writer_new(fd, level, header->time_shift);
	if (!w)
		return TFMT_E_NOMEM;
	err = w->zstd ? tfmt_ledger_init(&w->ledger, false) : TFMT_E_NOMEM;
	if (!err) {
		w->header_bytes = (uint32_t)tfmt_header_put(w->raw, header);
		err = writer_write(w, w->raw, w->header_bytes);
	}
	if (err) {
		int reason = w->error;

		tfmt_writer_close(w);
		errno = reason;
		return err;
	}
	*out = w;
	return 0;
}

int tfmt_writer_resume(struct tfmt_writer **out, int fd, uint64_t offset, uint32_t sequence,
		       uint8_t time_shift, int level, const struct tfmt_checkpoint *at,
		       struct tfmt_ledger *ledger)
{
	struct tfmt_writer *w = writer_new(fd, level, time_shift);

	*out = w;
	if (!w || !w->zstd) {
		tfmt_ledger_release(ledger);
		tfmt_writer_close(w);
		*out = NULL;
		return TFMT_E_NOMEM;
	}
	w->ledger = *ledger;
	w->written = *at;
	w->written.totals = ledger->totals;
	memcpy(w->order, at->order, sizeof(w->order));
	w->next_ordinal = at->ordinal;
	w->bytes = offset;
	w->sequence = sequence;
	return 0;
}

void tfmt_writer_close(struct tfmt_writer *w)
{
	if (!w)
		return;
	tfmt_keep_release(w);
	tfmt_ledger_release(&w->ledger);
	tfmt_pages_free(w->memory, w->memory_bytes);
}

void tfmt_writer_level(struct tfmt_writer *w, int level)
{
	ZSTD_compressionParameters zstd;

	level = level < w->highest_level ? level : w->highest_level;
	if (level == w->level)
		return;
	w->level = level;
	zstd = zstd_parameters(level);
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_hashLog, (int)zstd.hashLog);
	ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_minMatch, (int)zstd.minMatch);
}

void tfmt_writer_on_full(struct tfmt_writer *w, bool (*make_room)(void *context), void *context)
{
	w->make_room = make_room;
	w->make_room_context = context;
}

int tfmt_writer_errno(const struct tfmt_writer *w)
{
	return w->error;
}

uint64_t tfmt_writer_bytes(const struct tfmt_writer *w)
{
	return w->bytes;
}

/* ---- frames ---------------------------------------------------------------------------------- */

void tfmt_writer_store(struct tfmt_writer *w, uint8_t *to, const uint8_t *raw, size_t len,
		       struct tfmt_frame_core *core)
{
	size_t n = len > 1 ? ZSTD_compress2(w->zstd, to, len - 1, raw, len) : 0;

	core->raw_bytes = (uint32_t)len;
	if (n && !ZSTD_isError(n)) {
		core->compression = TFMT_COMPRESSION_ZSTD;
		core->stored_bytes = (uint32_t)n;
		return;
	}
	memcpy(to, raw, len);
	core->compression = TFMT_COMPRESSION_NONE;
	core->stored_bytes = (uint32_t)len;
}

int tfmt_writer_frame(struct tfmt_writer *w, enum tfmt_frame_type type, const uint8_t *raw, size_t len,
		      uint32_t nr_records)
{
	uint8_t *payload = tfmt_checkpoint_put(w->frame + TFMT_FRAME_CORE, &w->written);
	struct tfmt_frame_core core = {
		.type = (uint8_t)type,
		.header_bytes = (uint16_t)(payload - w->frame),
		.sequence = w->sequence,
		.nr_records = nr_records,
	};
	int err;

	tfmt_writer_store(w, payload, raw, len, &core);
	tfmt_frame_seal(w->frame, &core);
	err = writer_write(w, w->frame, (size_t)core.header_bytes + core.stored_bytes);
	if (!err) {
		w->sequence++;
		w->written.nr_given_up = w->written.nr_dropped = 0;
	}
	return err;
}

/*
 * Write the buffered definitions as covering the definition ring up to `to`; an empty frame if all of them
 * went out before, as covering nothing.
 */
static int writer_put_definitions(struct tfmt_writer *w, uint64_t to)
{
	uint64_t offset = w->bytes;
	int err;

	if (!w->nr_definitions && to == w->written.definitions.to)
		return 0;
	w->written.definitions.to = to;
	err = tfmt_writer_frame(w, TFMT_TYPE_DEFINITIONS, w->definitions, w->definitions_bytes, w->nr_definitions);
	w->written.definitions.from = to;
	w->definitions_bytes = w->nr_definitions = 0;
	if (!err && w->keep)
		err = tfmt_keep_definitions(w, offset);
	return err;
}

/* The frame of the buffered events covers the rings up to where the merge has read them. */
static void writer_cover(struct tfmt_writer *w, const struct tfmt_merge *merge)
{
	const uint64_t *position;
	uint32_t nr = merge ? tfmt_merge_positions(merge, &position) : 0, i;

	for (i = 0; i < nr; i++)
		w->written.ring[i].to = position[i];
	if (w->written.nr_rings < nr)
		w->written.nr_rings = nr;
}

/* The next frame begins after what has been written. */
static void writer_proceed(struct tfmt_writer *w)
{
	uint32_t i;

	for (i = 0; i < w->written.nr_rings; i++)
		w->written.ring[i].from = w->written.ring[i].to;
	w->written.ordinal = w->next_ordinal;
	w->written.time = w->encoder.last_time;
	w->written.totals = w->ledger.totals;
}

static int writer_put_events(struct tfmt_writer *w, const struct tfmt_merge *merge)
{
	uint32_t nr = w->encoder.nr_events;
	int err;

	if (!nr)
		return 0;
	writer_cover(w, merge);
	w->written.time = w->encoder.first_time;
	memcpy(w->written.order, w->order, sizeof(w->order));
	err = tfmt_writer_frame(w, TFMT_TYPE_EVENTS, w->raw, tfmt_encoder_finish(&w->encoder, w->raw), nr);
	writer_proceed(w);
	return err;
}

int tfmt_writer_flush(struct tfmt_writer *w, const struct tfmt_merge *merge, uint64_t definition_position)
{
	int err;

	if (w->error)
		return TFMT_E_IO;
	if (definition_position < w->written.definitions.from)
		definition_position = w->written.definitions.from;
	err = writer_put_definitions(w, definition_position);
	return err ? err : writer_put_events(w, merge);
}

/* ---- definitions ----------------------------------------------------------------------------- */

static void writer_add_chunk(struct tfmt_writer *w, uint32_t type, uint32_t id, const uint8_t *payload,
			     size_t whole, size_t offset, size_t len)
{
	uint8_t *start = w->definitions + w->definitions_bytes, *p = start;

	p = tfmt_varint_put(p, type);
	p = tfmt_varint_put(p, id);
	p = tfmt_varint_put(p, offset);
	p = tfmt_varint_put(p, whole);
	p = tfmt_varint_put(p, len);
	if (len)
		memcpy(p, payload + offset, len);
	w->definitions_bytes += (uint32_t)(p + len - start);
	w->nr_definitions++;
}

int tfmt_writer_definition(struct tfmt_writer *w, uint32_t type, uint32_t id, const void *payload, size_t len)
{
	size_t offset = 0;

	if (w->error)
		return TFMT_E_IO;
	if (len > UINT32_MAX)
		return TFMT_E_INVALID;
	do {
		size_t room = TFMT_FRAME_RAW_MAX - w->definitions_bytes - CHUNK_HEADER_MAX,
		       chunk = len - offset;

		if (chunk > room)
			chunk = room;
		writer_add_chunk(w, type, id, payload, len, offset, chunk);
		offset += chunk;
		/* Not all of it is in: this frame covers nothing of the definition ring. */
		if (TFMT_FRAME_RAW_MAX - w->definitions_bytes < CHUNK_HEADER_MAX + CHUNK_LEAST) {
			int err = writer_put_definitions(w, w->written.definitions.from);

			if (err)
				return err;
		}
	} while (offset < len);
	if (type < TFMT_NR_HIGHEST && w->written.highest[type] < (uint64_t)id + 1)
		w->written.highest[type] = (uint64_t)id + 1;
	if (w->ledger.history)
		tfmt_history_define(w->ledger.history, type, id, payload, len);
	if (w->keep && type == TFMT_DEF_INFO)
		tfmt_infokeys_define(&w->keep->info, id, payload, len);
	return 0;
}

static int writer_define_passes(struct tfmt_writer *w)
{
	struct tfmt_passes *p = &w->ledger.history->passes;
	int err = tfmt_writer_definition(w, TFMT_DEF_PASSES, p->id, p->batch, p->batch_bytes);

	tfmt_passes_next(p);
	return err;
}

int tfmt_writer_put_passes(struct tfmt_writer *w)
{
	int err = w->ledger.history->passes.batch_bytes ? writer_define_passes(w) : 0;

	return err ? err : writer_put_definitions(w, w->written.definitions.from);
}

/* ---- events ---------------------------------------------------------------------------------- */

uint32_t tfmt_writer_room(const struct tfmt_writer *w)
{
	return tfmt_encoder_room(&w->encoder);
}

/* Events of one domain come in long runs, whose order stays in a register. */
static void writer_note_orders(struct tfmt_writer *w, const struct tfmt_event *ev, uint32_t nr)
{
	uint32_t i = 0;

	while (i < nr) {
		unsigned domain = tfmt_domain(ev[i].kind, ev[i].device);
		uint64_t order = w->order[domain];

		for (; i < nr && tfmt_domain(ev[i].kind, ev[i].device) == domain; i++)
			order = order <= ev[i].order ? ev[i].order + 1 : order;
		w->order[domain] = order;
	}
}

int tfmt_writer_batch(struct tfmt_writer *w, struct tfmt_event *ev, uint32_t nr)
{
	int err;

	if (w->error)
		return TFMT_E_IO;
	err = tfmt_ledger_record_all(&w->ledger, ev, nr, w->next_ordinal);
	if (!err && w->ledger.history && tfmt_passes_fill(&w->ledger.history->passes))
		err = writer_define_passes(w);
	if (err)
		return err;
	writer_note_orders(w, ev, nr);
	/* The reader knows a free's stream from the allocation. No branch here: none could be foreseen. */
	for (uint32_t i = 0; i < nr; i++)
		ev[i].stream &=
			(uint16_t)(((ev[i].alloc_ordinal != TFMT_NO_ORDINAL) & (ev[i].kind == TFMT_TENSOR_FREE)) - 1);
	tfmt_encoder_add(&w->encoder, ev, nr);
	w->next_ordinal += nr;
	return tfmt_encoder_is_full(&w->encoder);
}

int tfmt_writer_event(struct tfmt_writer *w, const struct tfmt_event *ev)
{
	struct tfmt_event copy = *ev;

	return tfmt_writer_batch(w, &copy, 1);
}

int tfmt_writer_event_read(struct tfmt_writer *w, const struct tfmt_event *ev, const struct tfmt_totals *totals)
{
	struct tfmt_event copy = *ev;

	if (w->error)
		return TFMT_E_IO;
	if (copy.alloc_ordinal != TFMT_NO_ORDINAL && copy.kind == TFMT_TENSOR_FREE)
		copy.stream = 0;
	tfmt_encoder_add(&w->encoder, &copy, 1);
	w->next_ordinal = ev->ordinal + 1;
	w->ledger.totals = *totals;
	return tfmt_encoder_is_full(&w->encoder);
}

/* ---- copies ---------------------------------------------------------------------------------- */

void tfmt_writer_stand(struct tfmt_writer *w, const struct tfmt_checkpoint *at, uint32_t nr_missing)
{
	uint32_t nr_given_up = w->written.nr_given_up + at->nr_given_up;
	uint32_t nr_dropped = w->written.nr_dropped + at->nr_dropped;
	uint32_t nr_left_out = at->nr_left_out ? w->written.nr_left_out + at->nr_dropped : 0;

	memcpy(&w->written, at, offsetof(struct tfmt_checkpoint, ring));
	w->written.nr_given_up = nr_given_up;
	w->written.nr_dropped = nr_dropped;
	w->written.nr_left_out = nr_left_out;
	w->written.index_bytes = 0;
	w->written.nr_rings = 0;
	w->written.definitions = (struct tfmt_span){ 0 };
	memcpy(w->order, at->order, sizeof(w->order));
	w->next_ordinal = at->ordinal;
	w->ledger.totals = at->totals;
	w->sequence += nr_missing + at->nr_dropped;
}

void tfmt_writer_give_up(struct tfmt_writer *w, uint32_t nr_missing)
{
	w->written.nr_given_up += nr_missing;
}

int tfmt_writer_events(struct tfmt_writer *w, enum tfmt_frame_type type, const uint8_t *payload, size_t len,
		       uint32_t nr)
{
	return w->error ? TFMT_E_IO : tfmt_writer_frame(w, type, payload, len, nr);
}

void tfmt_writer_expect(const struct tfmt_writer *w, const struct tfmt_event *ev, uint32_t nr)
{
	tfmt_ledger_expect(&w->ledger, ev, nr);
}

/* ---- the end --------------------------------------------------------------------------------- */

int tfmt_writer_end(struct tfmt_writer *w, const struct tfmt_status *s)
{
	uint8_t *p = w->raw;
	int err = tfmt_writer_flush(w, NULL, 0);

	if (err)
		return err;
	if (w->keep)
		tfmt_keep_index(w);
	p = tfmt_varint_put(p, s->end);
	p = tfmt_varint_put(p, tfmt_zigzag(s->exit_status));
	p = tfmt_varint_put(p, s->stop);
	p = tfmt_varint_put(p, tfmt_zigzag(s->stop_errno));
	p = tfmt_varint_put(p, s->stop_time_ns);
	p = tfmt_varint_put(p, s->lost_events);
	p = tfmt_varint_put(p, s->not_captured);
	p = tfmt_varint_put(p, s->unsupported_calls);
	p = tfmt_varint_put(p, s->waits);
	p = tfmt_varint_put(p, s->longest_wait_ns);
	return tfmt_writer_frame(w, TFMT_TYPE_END, w->raw, (size_t)(p - w->raw), 1);
}
