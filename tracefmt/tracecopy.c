/* SPDX-License-Identifier: MIT */
/* Copying a trace frame by frame, with other definitions. */
#include "tracefmt/reader.h"
#include "tracefmt/writer.h"

#include <errno.h>
#include <stdlib.h>

#define COPY_LEVEL 3

struct copy {
	struct tfmt_copier copier; /* first: what the reader knows of this */
	struct tfmt_reader *r;
	struct tfmt_writer *w;
	tfmt_define_fn *define;
	void *context;
	bool repair;
	uint32_t sequence;     /* of the original's next frame */
	uint64_t next_ordinal; /* of the event after what has been copied */
	unsigned nr_places;    /* damage that the reader told of */
	unsigned nr_gaps;      /* places where the copy tells that frames are missing */
	uint8_t *payload;  /* TFMT_FRAME_RAW_MAX bytes */
	int error;
};

static void copy_note(struct copy *c, int err)
{
	if (!c->error && err < 0)
		c->error = err;
}

/* The next frames stand where the original's next one does. */
static void copy_accepted(struct tfmt_copier *copier, const struct tfmt_frame_core *core)
{
	struct copy *c = (struct copy *)copier;
	struct tfmt_checkpoint *at = &c->r->at;
	uint32_t missing = 0;

	copy_note(c, tfmt_writer_flush(c->w, NULL, 0));
	if (core) {
		missing = core->sequence - c->sequence;
		missing -= at->nr_dropped < missing ? at->nr_dropped : missing;
		c->sequence = core->sequence + 1;
		/* Events of a frame whose payload could not be understood. */
		if (c->repair && !missing && at->ordinal != c->next_ordinal && !at->nr_given_up && !at->nr_dropped)
			missing = 1;
		c->nr_gaps += missing != 0;
	} else {
		at->ordinal = c->r->next_ordinal;
		at->totals = c->r->ledger.totals;
		at->nr_given_up = at->nr_dropped = 0;
	}
	c->next_ordinal = at->ordinal;
	tfmt_writer_stand(c->w, at, c->repair ? 0 : missing);
	if (c->repair)
		tfmt_writer_give_up(c->w, missing);
}

/* The payload with the columns that are known: what another holds is not known either. Returns its length. */
static size_t known_columns(uint8_t *out, const uint8_t *payload, size_t len, unsigned nr_known)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	uint8_t *p = out;

	while (c.p < c.end) {
		const uint8_t *from = c.p;
		uint64_t id = tfmt_varint_get(&c), bytes = tfmt_varint_get(&c);

		if (!tfmt_bytes_get(&c, bytes) && bytes)
			break;
		if (!id || id >= nr_known)
			continue;
		memcpy(p, from, (size_t)(c.p - from));
		p += c.p - from;
	}
	return (size_t)(p - out);
}

static void copy_events(struct tfmt_copier *copier, const struct tfmt_frame_core *core,
			const uint8_t *payload)
{
	struct copy *c = (struct copy *)copier;
	bool events = core->type == TFMT_TYPE_EVENTS;
	unsigned nr_columns = events ? TFMT_NR_EVENT_COLUMNS : TFMT_NR_COLUMNS;
	size_t len = known_columns(c->payload, payload, core->raw_bytes, nr_columns);

	copy_note(c, tfmt_writer_events(c->w, (enum tfmt_frame_type)core->type, c->payload, len, core->nr_records));
	c->next_ordinal += events ? core->nr_records : 0;
}

static void copy_definition(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	struct copy *c = context;

	if (!c->error)
		copy_note(c, c->define(c->context, c->w, type, id, payload, len));
}

/* An event that no frame held. */
static void copy_joined(struct copy *c, const struct tfmt_event *ev)
{
	int full = tfmt_writer_event_read(c->w, ev, &c->r->ledger.totals);

	copy_note(c, full > 0 ? tfmt_writer_flush(c->w, NULL, 0) : full);
}

static void copy_end(struct copy *c)
{
	struct tfmt_reader *r = c->r;
	struct tfmt_status status = r->status;
	bool lacks_end = c->repair && !r->has_status;

	copy_note(c, tfmt_writer_flush(c->w, NULL, 0));
	/* Damage that left no gap is one frame that is missing at the end: the copy must not claim to be
	 * whole. */
	if (c->nr_places > c->nr_gaps || lacks_end) {
		r->at.ordinal = r->next_ordinal;
		r->at.totals = r->ledger.totals;
		r->at.nr_given_up = r->at.nr_dropped = 0;
		tfmt_writer_stand(c->w, &r->at, !c->repair);
		if (c->repair)
			tfmt_writer_give_up(c->w, 1);
	}
	if (r->summary.end == TFMT_PROCESS_KILLED)
		status.end = TFMT_END_KILLED;
	if ((r->has_status || lacks_end) && !c->error)
		copy_note(c, tfmt_writer_end(c->w, &status));
}

static void copy_all(struct copy *c)
{
	struct tfmt_event ev;
	int got;

	while (!c->error && (got = tfmt_reader_next(c->r, &ev)) != 0) {
		if (got > 0 && c->r->stage == TFMT_READER_JOINED)
			copy_joined(c, &ev);
		else if (got == TFMT_E_NOMEM)
			copy_note(c, got);
		else if (got < 0 && got != TFMT_E_GIVEN_UP)
			c->nr_places++;
	}
	if (!c->error)
		copy_end(c);
}

int tfmt_copy(struct tfmt_reader *r, int fd, const struct tfmt_header *header, bool repair, tfmt_define_fn *define,
	      void *context)
{
	struct copy c = { .copier = { copy_accepted, copy_events },
			  .r = r,
			  .repair = repair,
			  .define = define,
			  .context = context };
	int err = tfmt_writer_open(&c.w, fd, header, COPY_LEVEL);

	if (err)
		return err;
	c.payload = malloc(TFMT_FRAME_RAW_MAX);
	c.error = c.payload ? 0 : TFMT_E_NOMEM;
	r->copier = &c.copier;
	tfmt_reader_hear(r, copy_definition, &c);
	copy_all(&c);
	r->copier = NULL;
	tfmt_reader_hear(r, NULL, NULL);
	if (c.error == TFMT_E_IO)
		errno = tfmt_writer_errno(c.w);
	tfmt_writer_close(c.w);
	free(c.payload);
	return c.error;
}
