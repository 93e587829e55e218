/* SPDX-License-Identifier: MIT */
/* Checkpoints: all that is in effect at one point of the stream, as the events that brought it about. */
#include "tracefmt/keep.h"
#include "tracefmt/pages.h"
#include "tracefmt/varint.h"
#include "tracefmt/writer.h"

#include <string.h>

/* A free that is younger may have failed, and its FREE_FAILED be still to come. */
#define FAILING_NS 1000000000ull

/* One event of a checkpoint, where it comes from. */
struct entry {
	uint64_t ordinal;
	const struct tfmt_event *event; /* NULL: the one that made the block in `slot` */
	uint32_t slot;
};

/* What a checkpoint is made of. */
struct parts {
	struct entry *entry; /* of live blocks and of other events in effect */
	size_t nr_entries;
	struct tfmt_event *extra; /* frees that may have failed, and what made the blocks that they ended */
	size_t nr_extra;
	struct tfmt_event *late; /* frees of blocks that are live all the same */
	size_t nr_late;
	int32_t *more; /* by slot: references that the block has beside those of the entries */
	uint32_t showing[TFMT_NR_UNDO]; /* by undo: live mappings of the handle that was freed */
	uint32_t excess[TFMT_NR_UNDO];  /* by late free: references that its block gets from them */
};

int tfmt_writer_keep(struct tfmt_writer *w)
{
	struct tfmt_keep *k = tfmt_pages_new(sizeof(*k));

	if (!k)
		return TFMT_E_NOMEM;
	k->definition_room = 4096 / sizeof(*k->definition);
	k->definition = tfmt_pages_new(k->definition_room * sizeof(*k->definition));
	if (!k->definition || tfmt_ledger_keep_history(&w->ledger, w->encoder.time_shift)) {
		tfmt_pages_free(k->definition, k->definition_room * sizeof(*k->definition));
		tfmt_pages_free(k, sizeof(*k));
		return TFMT_E_NOMEM;
	}
	k->begin = w->bytes;
	w->keep = k;
	return 0;
}

void tfmt_keep_release(struct tfmt_writer *w)
{
	struct tfmt_keep *k = w->keep;

	if (!k)
		return;
	tfmt_writer_drop_abort(w);
	tfmt_pages_free(k->definition, k->definition_room * sizeof(*k->definition));
	tfmt_pages_free(k, sizeof(*k));
	w->keep = NULL;
}

int tfmt_keep_definitions(struct tfmt_writer *w, uint64_t offset)
{
	struct tfmt_keep *k = w->keep;
	size_t bytes = k->definition_room * sizeof(*k->definition);

	if (k->nr_definitions == k->definition_room) {
		void *grown = tfmt_pages_grow(k->definition, bytes, 2 * bytes);

		if (!grown)
			return TFMT_E_NOMEM;
		k->definition = grown;
		k->definition_room *= 2;
	}
	k->definition[k->nr_definitions++] = offset;
	k->definition_bytes += w->bytes - offset;
	tfmt_infokeys_written(&k->info);
	return 0;
}

/* ---- what is in effect ----------------------------------------------------------------------- */

/* Heap sort: no memory, and no worst case, while the program's rings fill. */
static void sift(struct entry *e, size_t from, size_t nr)
{
	struct entry x = e[from];

	for (size_t child; (child = 2 * from + 1) < nr; from = child) {
		if (child + 1 < nr && e[child].ordinal < e[child + 1].ordinal)
			child++;
		if (e[child].ordinal <= x.ordinal)
			break;
		e[from] = e[child];
	}
	e[from] = x;
}

static void sort(struct entry *e, size_t nr)
{
	for (size_t i = nr / 2; i--;)
		sift(e, i, nr);
	for (size_t i = nr; i-- > 1;) {
		struct entry last = e[i];

		e[i] = e[0];
		e[0] = last;
		sift(e, 0, i);
	}
}

static int put_payload(struct tfmt_writer *w, const uint8_t *raw, size_t len, uint32_t nr)
{
	int err = tfmt_writer_frame(w, TFMT_TYPE_CHECKPOINT, raw, len, nr);

	if (!w->keep->first_end)
		w->keep->first_end = w->bytes;
	return err;
}

/* The events that the encoder holds. */
static int put_frame(struct tfmt_writer *w)
{
	uint32_t nr = w->encoder.nr_events;

	if (!nr)
		return 0;
	w->keep->nr_events += nr;
	w->written.time = w->encoder.first_time;
	return put_payload(w, w->raw, tfmt_encoder_finish(&w->encoder, w->raw), nr);
}

static int put_event(struct tfmt_writer *w, const struct tfmt_event *ev)
{
	tfmt_encoder_add(&w->encoder, ev, 1);
	return tfmt_encoder_is_full(&w->encoder) ? put_frame(w) : 0;
}

static bool may_have_failed(const struct tfmt_ledger *l, const struct tfmt_undo *u)
{
	uint32_t slot;

	if (!u->nr || u->event.time_ns + FAILING_NS < l->history->time_ns)
		return false;
	for (uint32_t i = 0; i < u->nr; i++) {
		const struct tfmt_ended *e = &u->ended[i];

		/* An unmapping that took a handle along: too rare for what it would need. */
		if (e->handle.live && !tfmt_ledger_is_live(l, &e->handle, &slot))
			return false;
		/* Another free has ended it since. */
		if (e->block.references > 1 && !tfmt_ledger_is_live(l, &e->block, &slot))
			return false;
	}
	return true;
}

/* The latest free of a thread, and what made the blocks that it ended. */
static void collect_undo(const struct tfmt_ledger *l, const struct tfmt_undo *u, struct parts *p)
{
	uint32_t showing = p->showing[u - l->undo];
	struct tfmt_event *freed;
	bool is_last = true;
	uint32_t slot;

	for (uint32_t i = 0; i < u->nr; i++) {
		const struct tfmt_ended *e = &u->ended[i];

		is_last = !tfmt_ledger_is_live(l, &e->block, &slot);
		if (is_last)
			p->extra[p->nr_extra++] = tfmt_block_event(&e->block, &e->origin);
		else
			p->more[slot]++; /* the free takes one of its references: it has to wait for that */
	}
	p->excess[p->nr_late] = showing;
	freed = is_last && !showing ? &p->extra[p->nr_extra++] : &p->late[p->nr_late++];
	*freed = u->event;
	freed->ordinal = u->ordinal;
	freed->alloc_ordinal = freed->kind == TFMT_DRIVER_FREE ? u->ended[0].block.ordinal : TFMT_NO_ORDINAL;
}

/* A mapping whose handle is not live: was that freed right now, perhaps in vain? */
static void note_showing(const struct tfmt_ledger *l, const struct tfmt_block *mapping, struct parts *p)
{
	if (mapping->handle_ordinal == TFMT_NO_ORDINAL)
		return;
	for (uint32_t i = 0; i < TFMT_NR_UNDO; i++) {
		const struct tfmt_undo *u = &l->undo[i];

		if (u->nr && u->ended[0].block.ordinal == mapping->handle_ordinal)
			p->showing[i]++;
	}
}

static void add_event(struct parts *p, const struct tfmt_event *ev)
{
	p->entry[p->nr_entries++] = (struct entry){ ev->ordinal, ev, 0 };
}

static void collect(const struct tfmt_ledger *l, struct parts *p)
{
	const struct tfmt_history *h = l->history;
	uint32_t handle;

	for (uint32_t i = 0; i < l->nr_slots; i++) {
		const struct tfmt_block *b = &l->block[i];

		if (!b->live)
			continue;
		p->entry[p->nr_entries++] = (struct entry){ b->ordinal, NULL, i };
		if (b->group == TFMT_GROUP_MAPPING && tfmt_ledger_handle(l, b, &handle))
			p->more[handle]--;
		else if (b->group == TFMT_GROUP_MAPPING)
			note_showing(l, b, p);
		else if (b->group != TFMT_GROUP_TENSOR)
			p->more[i] += (int32_t)b->references - 1;
	}
	for (uint32_t i = 0; i < h->nr_open; i++)
		add_event(p, &h->open[i]);
	for (uint32_t i = 0; i < TFMT_NR_UNDO; i++) {
		if (may_have_failed(l, &l->undo[i]))
			collect_undo(l, &l->undo[i], p);
	}
	for (size_t i = 0; i < p->nr_extra; i++)
		add_event(p, &p->extra[i]);
	sort(p->entry, p->nr_entries);
}

/* Events that give a block the references that those which made, mapped and freed it do not. */
static int put_references(struct tfmt_writer *w, uint32_t slot, int32_t more)
{
	const struct tfmt_block *b = &w->ledger.block[slot];
	struct tfmt_event ev = tfmt_block_event(b, &w->ledger.origin[slot]);
	int err = 0;

	if (more < 0) {
		ev.kind = TFMT_DRIVER_FREE;
		ev.alloc_ordinal = b->ordinal;
		ev.aux = 0;
	} else if (b->group == TFMT_GROUP_HANDLE) {
		ev.kind = TFMT_HANDLE_RETAIN;
		ev.size = ev.aux = 0;
		ev.shape = 0;
	}
	ev.ordinal = w->next_ordinal;
	for (; more && !err; more += more < 0 ? 1 : -1)
		err = put_event(w, &ev);
	return err;
}

static int put_parts(struct tfmt_writer *w, const struct parts *p)
{
	const struct tfmt_ledger *l = &w->ledger;
	int err = 0;

	for (size_t i = 0; i < p->nr_entries && !err; i++) {
		const struct entry *e = &p->entry[i];
		struct tfmt_event ev = e->event ? *e->event : tfmt_block_event(&l->block[e->slot], &l->origin[e->slot]);

		err = put_event(w, &ev);
	}
	for (uint32_t i = 0; i < l->nr_slots && !err; i++) {
		if (p->more[i])
			err = put_references(w, i, p->more[i]);
	}
	for (size_t i = 0; i < p->nr_late && !err; i++) {
		struct tfmt_event ev = p->late[i];

		ev.ordinal = w->next_ordinal;
		for (uint32_t k = 0; k < p->excess[i] && !err; k++)
			err = put_event(w, &ev);
		if (!err)
			err = put_event(w, &p->late[i]);
	}
	return err;
}

static int put_figures(struct tfmt_writer *w)
{
	struct tfmt_history *h = w->ledger.history;
	struct tfmt_figures *f = &h->figures;
	uint8_t *content = w->raw + 1 + TFMT_VARINT_MAX, *p = content, *start;
	uint64_t len;

	f->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_TIME] = h->latest_ns;
	f->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_BEGUN] = h->has_begun;
	f->of[TFMT_FIGURES_PROCESS][TFMT_FIGURE_CHECKPOINT_EVENTS] = w->keep->nr_events + 1;
	for (unsigned row = 0; row <= TFMT_FIGURES_PROCESS; row++) {
		for (unsigned i = 0; i < TFMT_NR_FIGURES; i++) {
			if (!f->of[row][i])
				continue;
			*p++ = (uint8_t)i;
			*p++ = (uint8_t)row;
			p = tfmt_varint_put(p, f->of[row][i]);
		}
	}
	/* Now that its length is known: right in front of the content. */
	len = (uint64_t)(p - content);
	start = content - 1 - tfmt_varint_bytes(len);
	*start = TFMT_COLUMN_FIGURES;
	tfmt_varint_put(start + 1, len);
	return put_payload(w, start, (size_t)(p - start), 0);
}

/* All frames of a checkpoint, with room for their making. */
static int put_checkpoint(struct tfmt_writer *w)
{
	const struct tfmt_ledger *l = &w->ledger;
	size_t nr_extra = 0, nr, bytes;
	uint64_t time = w->written.time;
	struct parts p = { 0 };
	int err;

	for (unsigned i = 0; i < TFMT_NR_UNDO; i++)
		nr_extra += l->undo[i].nr ? l->undo[i].nr + 1 : 0;
	nr = l->nr_slots + l->history->nr_open + nr_extra;
	bytes = (nr + 1) * sizeof(*p.entry) + (nr_extra + TFMT_NR_UNDO) * sizeof(*p.extra) +
		l->nr_slots * sizeof(*p.more);
	p.entry = tfmt_pages_new(bytes);
	if (!p.entry)
		return TFMT_E_NOMEM;
	p.extra = (struct tfmt_event *)(p.entry + nr + 1);
	p.late = p.extra + nr_extra;
	p.more = (int32_t *)(p.late + TFMT_NR_UNDO);
	collect(l, &p);
	w->encoder.puts_ordinals = true;
	err = put_parts(w, &p);
	if (!err)
		err = put_frame(w);
	w->encoder.puts_ordinals = false;
	w->written.time = time;
	tfmt_pages_free(p.entry, bytes);
	return err ? err : put_figures(w);
}

/* ---- in the file ----------------------------------------------------------------------------- */

int tfmt_writer_checkpoint(struct tfmt_writer *w, uint64_t step)
{
	struct tfmt_keep *k = w->keep;
	struct tfmt_mark m = { .step = step, .ordinal = w->next_ordinal };
	int err;

	if (w->error)
		return TFMT_E_IO;
	if (w->ledger.history->teardown || !w->next_ordinal)
		return 0;
	if (k->nr_marks && k->mark[k->nr_marks - 1].ordinal == m.ordinal) /* no event since: it would say the same */
		return 0;
	err = tfmt_writer_put_passes(w);
	if (err)
		return err;
	m.offset = w->bytes;
	m.sequence = w->sequence;
	m.nr_definitions = k->nr_definitions;
	m.definition_bytes = k->definition_bytes;
	m.time_ns = w->ledger.history->latest_ns;
	k->first_end = k->nr_events = 0;
	err = put_checkpoint(w);
	if (err)
		return err;
	m.next = k->first_end;
	m.bytes = w->bytes - m.offset;
	if (k->nr_marks == TFMT_NR_MARKS) {
		memmove(&k->mark[0], &k->mark[1], (TFMT_NR_MARKS - 1) * sizeof(k->mark[0]));
		k->nr_marks--;
	}
	k->mark[k->nr_marks++] = m;
	return 0;
}

uint64_t tfmt_writer_since_checkpoint(const struct tfmt_writer *w, uint64_t *step, uint64_t *checkpoint_bytes)
{
	const struct tfmt_keep *k = w->keep;
	const struct tfmt_mark *m = k->nr_marks ? &k->mark[k->nr_marks - 1] : NULL;

	*step = m ? m->step : 0;
	*checkpoint_bytes = m ? m->bytes : 0;
	return w->bytes - (m ? m->offset + m->bytes : k->begin);
}

void tfmt_writer_limit_steps(struct tfmt_writer *w, uint64_t step)
{
	struct tfmt_keep *k = w->keep;

	for (uint32_t i = 0; i < k->nr_marks; i++)
		k->mark[i].step = k->mark[i].step < step ? k->mark[i].step : step;
}
