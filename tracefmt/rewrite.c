/* SPDX-License-Identifier: MIT */
/*
 * Dropping the beginning of a trace: its definitions, then what follows a checkpoint, to another file.
 * Frames are copied as they are; definitions are packed anew, so that a long job's many small frames do not add up.
 */
#include "tracefmt/keep.h"
#include "tracefmt/pages.h"
#include "tracefmt/varint.h"
#include "tracefmt/writer.h"

#include <string.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#define COPY_BYTES (256u << 10)
#define CLOCK_MAX 64 /* bytes of a CLOCK chunk */
#define CHUNK_HEADER_MAX 25

struct tfmt_rewrite {
	int fd;
	struct tfmt_mark mark; /* what is kept begins there */
	uint64_t bytes;        /* written to fd */
	uint64_t from;         /* of the old file: what is copied next */
	uint64_t shift;        /* of what is copied: its old offset minus the new one */
	uint32_t next_definition;
	bool is_old_info;      /* the INFO that the latest chunks are of has a later value */
	uint32_t sequence; /* of the next frame */
	uint32_t nr_dropped; /* frames left out right before it */
	uint32_t nr_left_out; /* frames left out before it, in all */
	bool has_definitions, has_checkpoint; /* both are in the file, the latter's first frame */
	uint32_t nr_records, payload_bytes;
	uint32_t nr_frames;    /* DEFINITIONS frames written, and where they are */
	uint64_t *definition;
	uint64_t definition_bytes;
	uint8_t fields[TFMT_CHECKPOINT_MAX + TFMT_DROPPED_MAX]; /* of the checkpoint's frames */
	size_t fields_bytes;
	uint8_t clock[CLOCK_MAX]; /* the latest CLOCK: older ones say nothing about what is kept */
	size_t clock_bytes;
	ZSTD_DCtx *zstd;
	void *memory;
	size_t memory_bytes;
	uint8_t payload[TFMT_FRAME_RAW_MAX]; /* definitions, packed */
	uint8_t raw[TFMT_FRAME_RAW_MAX];
	uint8_t out[TFMT_FRAME_MAX];
	union {
		uint8_t frame[TFMT_FRAME_MAX];
		uint8_t copy[COPY_BYTES];
	};
};

/* ---- reading and writing --------------------------------------------------------------------- */

static int append(struct tfmt_rewrite *d, const uint8_t *p, size_t len)
{
	int err = tfmt_write_at(d->fd, p, len, d->bytes);

	if (!err)
		d->bytes += len;
	return err;
}

/* The frame at an offset, in d->frame. */
static int read_frame(const struct tfmt_writer *w, struct tfmt_rewrite *d, uint64_t offset,
		      struct tfmt_frame_core *core)
{
	uint64_t left = w->bytes - offset;
	size_t len = left < TFMT_FRAME_MAX ? (size_t)left : TFMT_FRAME_MAX;
	int err = tfmt_read_at(w->fd, d->frame, len, offset);

	if (err)
		return err;
	return tfmt_frame_check(d->frame, len, core) == TFMT_FRAME_GOOD ? 0 : TFMT_E_DAMAGED;
}

/* The header of a frame before the kept events says what the checkpoint's says, and what was left out before it. */
static uint8_t *put_fields(struct tfmt_rewrite *d)
{
	uint8_t *p = d->out + TFMT_FRAME_CORE;

	memcpy(p, d->fields, d->fields_bytes);
	p += d->fields_bytes;
	return tfmt_checkpoint_put_dropped(p, d->nr_dropped, d->nr_left_out);
}

/* Seal and append the frame that begins in d->out. */
static int append_frame(struct tfmt_rewrite *d, struct tfmt_frame_core *core)
{
	core->sequence = d->sequence;
	tfmt_frame_seal(d->out, core);
	d->sequence++;
	d->nr_dropped = 0;
	return append(d, d->out, (size_t)core->header_bytes + core->stored_bytes);
}

/* ---- definitions ----------------------------------------------------------------------------- */

/* Write the packed definitions. */
static int pack_flush(struct tfmt_writer *w, struct tfmt_rewrite *d)
{
	uint8_t *payload = put_fields(d);
	struct tfmt_frame_core core = {
		.type = TFMT_TYPE_DEFINITIONS,
		.header_bytes = (uint16_t)(payload - d->out),
		.nr_records = d->nr_records,
	};

	if (!d->nr_records)
		return 0;
	tfmt_writer_store(w, payload, d->payload, d->payload_bytes, &core);
	d->payload_bytes = d->nr_records = 0;
	d->definition[d->nr_frames++] = d->bytes;
	return append_frame(d, &core);
}

static int pack(struct tfmt_writer *w, struct tfmt_rewrite *d, const uint8_t *chunk, size_t len)
{
	int err = d->payload_bytes + len > TFMT_FRAME_RAW_MAX ? pack_flush(w, d) : 0;

	if (err)
		return err;
	memcpy(d->payload + d->payload_bytes, chunk, len);
	d->payload_bytes += (uint32_t)len;
	d->nr_records++;
	return 0;
}

/* Is this chunk of a value that a later one has replaced? Its key is in the first chunk only. */
static bool is_old_info(const struct tfmt_writer *w, struct tfmt_rewrite *d, uint64_t id, uint64_t offset,
			const uint8_t *bytes, size_t len)
{
	if (!offset)
		d->is_old_info = tfmt_infokeys_is_old(&w->keep->info, (uint32_t)id, bytes, len);
	return d->is_old_info;
}

static int pack_frame(struct tfmt_writer *w, struct tfmt_rewrite *d, const struct tfmt_frame_core *core)
{
	const uint8_t *stored = d->frame + core->header_bytes;
	struct tfmt_cursor c = { stored, stored + core->stored_bytes, false };
	int err = 0;

	if (core->compression == TFMT_COMPRESSION_ZSTD) {
		size_t n = ZSTD_decompressDCtx(d->zstd, d->raw, sizeof(d->raw), stored, core->stored_bytes);

		if (ZSTD_isError(n))
			return TFMT_E_DAMAGED;
		c = (struct tfmt_cursor){ d->raw, d->raw + n, false };
	}
	while (!err && c.p < c.end) {
		const uint8_t *chunk = c.p, *bytes;
		uint64_t type = tfmt_varint_get(&c), id = tfmt_varint_get(&c), offset = tfmt_varint_get(&c), len;

		tfmt_varint_get(&c); /* whole */
		len = tfmt_varint_get(&c);
		bytes = tfmt_bytes_get(&c, len);
		if ((!bytes && len) || c.bad)
			return TFMT_E_DAMAGED;
		if (type == TFMT_DEF_INFO && is_old_info(w, d, id, offset, bytes, (size_t)len))
			continue;
		len = (uint64_t)(c.p - chunk);
		if (type == TFMT_DEF_CLOCK && len <= CLOCK_MAX) {
			memcpy(d->clock, chunk, len);
			d->clock_bytes = len;
			continue;
		}
		err = pack(w, d, chunk, (size_t)len);
	}
	return err;
}

/* One frame's definitions, or the end of all. Returns bytes that it took, or an error. */
static int64_t step_definitions(struct tfmt_writer *w, struct tfmt_rewrite *d)
{
	struct tfmt_frame_core core;
	int err;

	if (d->next_definition < d->mark.nr_definitions) {
		err = read_frame(w, d, w->keep->definition[d->next_definition++], &core);
		if (!err)
			err = pack_frame(w, d, &core);
		return err ? err : (int64_t)core.raw_bytes + core.stored_bytes;
	}
	/* It goes where it makes no frame more: their sequence numbers are all taken. */
	if (d->payload_bytes + d->clock_bytes <= TFMT_FRAME_RAW_MAX && d->clock_bytes)
		pack(w, d, d->clock, d->clock_bytes);
	err = pack_flush(w, d);
	d->has_definitions = true;
	d->definition_bytes = d->bytes - w->header_bytes;
	return err ? err : (int64_t)TFMT_FRAME_RAW_MAX;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* The checkpoint's first frame; the next one's sequence is known, so that it may tell what packing has saved. */
static int64_t step_checkpoint(struct tfmt_writer *w, struct tfmt_rewrite *d)
{
	struct tfmt_frame_core core;
	uint8_t *payload;
	int err = read_frame(w, d, d->mark.offset, &core);

	if (err)
		return err;
	d->nr_dropped += d->mark.sequence - d->sequence;
	d->nr_left_out += d->mark.sequence - d->sequence;
	d->sequence = d->mark.sequence;
	payload = put_fields(d);
	memcpy(payload, d->frame + core.header_bytes, core.stored_bytes);
	core.header_bytes = (uint16_t)(payload - d->out);
	d->has_checkpoint = true;
	err = append_frame(d, &core);
	d->shift = d->from - d->bytes;
	return err ? err : (int64_t)core.raw_bytes;
}

static int64_t step_copy(struct tfmt_writer *w, struct tfmt_rewrite *d)
{
	uint64_t left = w->bytes - d->from;
	size_t len = left < COPY_BYTES ? (size_t)left : COPY_BYTES;
	int err = tfmt_read_at(w->fd, d->copy, len, d->from);

	if (!err)
		err = append(d, d->copy, len);
	d->from += len;
	return err ? err : (int64_t)len;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static uint64_t kept_bytes(const struct tfmt_writer *w, const struct tfmt_mark *m)
{
	return w->header_bytes + m->definition_bytes + (w->bytes - m->offset);
}

static const struct tfmt_mark *choose(const struct tfmt_writer *w, uint64_t max_bytes, uint64_t step)
{
	const struct tfmt_keep *k = w->keep;
	uint32_t i = 0;

	while (i + 1 < k->nr_marks && kept_bytes(w, &k->mark[i]) > max_bytes)
		i++;
	while (i + 1 < k->nr_marks && k->mark[i + 1].step <= step && step)
		i++;
	return k->nr_marks ? &k->mark[i] : NULL;
}

uint64_t tfmt_writer_drop_bytes(const struct tfmt_writer *w, uint64_t max_bytes, uint64_t step)
{
	const struct tfmt_mark *m = w->keep->rewrite ? NULL : choose(w, max_bytes, step);

	return m ? kept_bytes(w, m) : 0;
}

static struct tfmt_rewrite *rewrite_new(uint32_t nr_definitions)
{
	size_t self = (sizeof(struct tfmt_rewrite) + 63) & ~(size_t)63;
	size_t zstd = (ZSTD_estimateDCtxSize() + 63) & ~(size_t)63;
	size_t bytes = self + zstd + ((size_t)nr_definitions + 1) * sizeof(uint64_t);
	struct tfmt_rewrite *d = tfmt_pages_new(bytes);

	if (!d)
		return NULL;
	d->memory = d;
	d->memory_bytes = bytes;
	d->zstd = ZSTD_initStaticDCtx((uint8_t *)d + self, zstd);
	d->definition = (uint64_t *)((uint8_t *)d + self + zstd);
	return d;
}

int tfmt_writer_drop_begin(struct tfmt_writer *w, int fd, uint64_t max_bytes, uint64_t step)
{
	const struct tfmt_mark *m = choose(w, max_bytes, step);
	struct tfmt_rewrite *d = m ? rewrite_new(m->nr_definitions) : NULL;
	struct tfmt_frame_core core;
	int err;

	if (!d || !d->zstd) {
		if (d)
			tfmt_pages_free(d->memory, d->memory_bytes);
		return m ? TFMT_E_NOMEM : TFMT_E_INVALID;
	}
	w->keep->rewrite = d;
	d->fd = fd;
	d->mark = *m;
	d->from = m->next;
	err = tfmt_read_at(w->fd, d->copy, w->header_bytes, 0);
	if (!err)
		err = append(d, d->copy, w->header_bytes);
	if (!err)
		err = read_frame(w, d, m->offset, &core);
	if (err)
		return err;
	d->fields_bytes = core.header_bytes - TFMT_FRAME_CORE;
	memcpy(d->fields, d->frame + TFMT_FRAME_CORE, d->fields_bytes);
	d->sequence = d->nr_dropped = d->nr_left_out = m->sequence - m->nr_definitions;
	return 0;
}

int tfmt_writer_drop_step(struct tfmt_writer *w, uint64_t bytes)
{
	struct tfmt_rewrite *d = w->keep->rewrite;

	for (uint64_t done = 0; done < bytes;) {
		int64_t n;

		if (d->has_checkpoint && d->from == w->bytes)
			return 1;
		n = !d->has_definitions ? step_definitions(w, d)
		    : !d->has_checkpoint ? step_checkpoint(w, d)
					 : step_copy(w, d);
		if (n < 0)
			return (int)n;
		done += (uint64_t)n;
	}
	return d->has_checkpoint && d->from == w->bytes;
}

void tfmt_writer_drop_commit(struct tfmt_writer *w)
{
	struct tfmt_keep *k = w->keep;
	struct tfmt_rewrite *d = k->rewrite;
	uint32_t nr = d->mark.nr_definitions, i, marks = 0;

	/* Packing has made none more. */
	memcpy(k->definition, d->definition, d->nr_frames * sizeof(*k->definition));
	k->definition_bytes = d->definition_bytes + k->definition_bytes - d->mark.definition_bytes;
	k->begin = d->mark.offset + d->mark.bytes - d->shift;
	for (i = nr; i < k->nr_definitions; i++)
		k->definition[d->nr_frames + i - nr] = k->definition[i] - d->shift;
	for (i = 0; i < k->nr_marks; i++) {
		struct tfmt_mark m = k->mark[i];

		if (m.offset <= d->mark.offset)
			continue;
		m.offset -= d->shift;
		m.next -= d->shift;
		m.nr_definitions -= nr - d->nr_frames;
		m.definition_bytes = d->definition_bytes + m.definition_bytes - d->mark.definition_bytes;
		k->mark[marks++] = m;
	}
	k->nr_definitions -= nr - d->nr_frames;
	k->nr_marks = marks;
	w->fd = d->fd;
	w->bytes = d->bytes;
	tfmt_writer_drop_abort(w);
}

void tfmt_writer_drop_abort(struct tfmt_writer *w)
{
	struct tfmt_rewrite *d = w->keep->rewrite;

	w->keep->rewrite = NULL;
	if (d)
		tfmt_pages_free(d->memory, d->memory_bytes);
}
