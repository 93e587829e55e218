/* SPDX-License-Identifier: MIT */
/* The index at the end of a trace: where its checkpoints and definitions lie, for tfmt_reader_seek(). */
#include "tracefmt/keep.h"
#include "tracefmt/seek.h"
#include "tracefmt/varint.h"
#include "tracefmt/writer.h"

#define ENTRY_MAX (4 * TFMT_VARINT_MAX)

/* The frame that is being filled, in w->raw; its entries follow one another in difference. */
struct list {
	struct tfmt_writer *w;
	uint8_t *p;
	uint32_t nr;
	struct tfmt_place last;
};

static void list_begin(struct list *l, enum tfmt_index_list what)
{
	l->p = tfmt_varint_put(l->w->raw, what);
	l->nr = 0;
	l->last = (struct tfmt_place){ 0 };
}

static int list_end(struct list *l)
{
	return l->nr ? tfmt_writer_frame(l->w, TFMT_TYPE_INDEX, l->w->raw, (size_t)(l->p - l->w->raw), l->nr) : 0;
}

static int list_add(struct list *l, enum tfmt_index_list what, const struct tfmt_place *place)
{
	int err = 0;

	if (l->p + ENTRY_MAX > l->w->raw + TFMT_FRAME_RAW_MAX) {
		err = list_end(l);
		list_begin(l, what);
	}
	l->p = tfmt_varint_put(l->p, place->offset - l->last.offset);
	if (what == TFMT_INDEX_CHECKPOINTS) {
		l->p = tfmt_varint_put(l->p, place->sequence - l->last.sequence);
		l->p = tfmt_varint_put(l->p, place->ordinal - l->last.ordinal);
		l->p = tfmt_varint_put(l->p, place->time_ns - l->last.time_ns);
	}
	l->last = *place;
	l->nr++;
	return err;
}

static int put_checkpoints(struct tfmt_writer *w)
{
	struct list l = { .w = w };
	int err = 0;

	list_begin(&l, TFMT_INDEX_CHECKPOINTS);
	for (uint32_t i = 0; i < w->keep->nr_marks && !err; i++) {
		const struct tfmt_mark *m = &w->keep->mark[i];

		err = list_add(&l, TFMT_INDEX_CHECKPOINTS,
			       &(struct tfmt_place){ m->offset, m->ordinal, m->time_ns, m->sequence });
	}
	return err ? err : list_end(&l);
}

/* Definitions after the last checkpoint are not listed: a reader meets them on its way from there. */
static int put_definitions(struct tfmt_writer *w)
{
	const struct tfmt_keep *k = w->keep;
	struct list l = { .w = w };
	int err = 0;

	list_begin(&l, TFMT_INDEX_DEFINITIONS);
	for (uint32_t i = 0; i < k->mark[k->nr_marks - 1].nr_definitions && !err; i++)
		err = list_add(&l, TFMT_INDEX_DEFINITIONS, &(struct tfmt_place){ .offset = k->definition[i] });
	return err ? err : list_end(&l);
}

void tfmt_keep_index(struct tfmt_writer *w)
{
	uint64_t begin = w->bytes;

	if (!w->keep->nr_marks)
		return;
	if (!put_checkpoints(w) && !put_definitions(w)) {
		w->written.index_bytes = (uint32_t)(w->bytes - begin);
		return;
	}
	w->error = 0; /* where there is no room for it, there may be for END, which matters more */
}
