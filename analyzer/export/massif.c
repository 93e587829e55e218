/* SPDX-License-Identifier: MIT */
/*
 * massif: Valgrind's massif.out, of one GPU. The time is cut into intervals, of each the moment is kept when the most was
 * held; some of them begin with a tree of what was held by stack, and there is one of the peak and of the end. When there
 * are too many intervals, neighbours become one.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/export/formats.h"
#include "analyzer/export/heaptree.h"
#include "analyzer/export/weights.h"

#define NR_INTERVALS 128
#define NR_TREES 8
#define FIRST_INTERVAL_NS 1000000
#define NS_PER_MS 1000000

enum { OF_TENSORS, OF_DRIVER, NR_TOTALS }; /* which of them counts shows at the end */

struct top {
	bool is_there;
	uint64_t time_ns, bytes;
};

/* What a group held. */
struct share {
	uint32_t group;
	int64_t bytes;
};

struct sample {
	bool is_there;
	uint64_t time_ns;
	struct share *share;
	size_t nr_shares, room;
};

/* One device of one process. */
struct track {
	const struct replay_process *process;
	uint8_t device;
	uint64_t interval_ns;
	struct top top[NR_TOTALS][NR_INTERVALS];
	struct sample sample[NR_TREES];
};

struct massif {
	struct track *track;
	size_t nr_tracks, room;
	size_t latest;
};

/* One that is written; `rows` is NULL where there is no tree. */
struct moment {
	uint64_t time_ns, bytes;
	const struct weights *rows;
	bool is_peak;
	size_t place; /* those of one time stay in the order they were added */
};

struct moments {
	struct moment moment[NR_INTERVALS + NR_TREES + 2];
	size_t nr;
};

/* ---- while it is read ---------------------------------------------------------------------------- */

void massif_begin(struct export *x)
{
	x->state = heap_alloc(1, sizeof(struct massif));
}

static struct track *track_of(struct massif *m, const struct replay_process *p, uint8_t device)
{
	struct track *t;

	for (size_t k = 0; k < m->nr_tracks; k++) {
		size_t i = (m->latest + k) % m->nr_tracks;

		if (m->track[i].process == p && m->track[i].device == device) {
			m->latest = i;
			return &m->track[i];
		}
	}
	m->track = heap_grow(m->track, &m->room, m->nr_tracks + 1, sizeof(*m->track));
	t = &m->track[m->nr_tracks++];
	*t = (struct track){ .process = p, .device = device, .interval_ns = FIRST_INTERVAL_NS };
	return t;
}

/* Two intervals become one. */
static void join_tops(struct top *top)
{
	for (size_t i = 0; i < NR_INTERVALS / 2; i++) {
		const struct top *a = &top[2 * i], *b = &top[2 * i + 1];

		top[i] = b->is_there && (!a->is_there || b->bytes > a->bytes) ? *b : *a;
	}
	memset(top + NR_INTERVALS / 2, 0, NR_INTERVALS / 2 * sizeof(*top));
}

static void join_samples(struct sample *s)
{
	for (size_t i = 0; i < NR_TREES / 2; i++) {
		struct sample kept = s[2 * i], gone = s[2 * i + 1];

		if (!kept.is_there) {
			kept = gone;
			gone = s[2 * i];
		}
		free(gone.share);
		s[i] = kept;
	}
	memset(s + NR_TREES / 2, 0, NR_TREES / 2 * sizeof(*s));
}

static size_t interval_of(struct track *t, uint64_t time_ns)
{
	while (time_ns / t->interval_ns >= NR_INTERVALS) {
		for (int i = 0; i < NR_TOTALS; i++)
			join_tops(t->top[i]);
		join_samples(t->sample);
		t->interval_ns *= 2;
	}
	return time_ns / t->interval_ns;
}

static void note_top(struct top *top, uint64_t time_ns, uint64_t bytes)
{
	if (!top->is_there || bytes > top->bytes)
		*top = (struct top){ true, time_ns, bytes };
}

static void take_sample(struct sample *s, const struct track *t, uint64_t time_ns)
{
	const struct books *books = t->process->books;

	*s = (struct sample){ .is_there = true, .time_ns = time_ns };
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (g->device != t->device || !g->live.bytes || !(g->tensor || group_is_device_memory(g)))
			continue;
		s->share = heap_grow(s->share, &s->room, s->nr_shares + 1, sizeof(*s->share));
		s->share[s->nr_shares++] = (struct share){ i, (int64_t)g->live.bytes };
	}
}

void massif_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct export *x = ctx;
	const struct device_books *b;
	struct track *t;
	size_t at;

	if (ev->device >= TFMT_NR_DEVICES || !export_wants_event(x, process, ev))
		return;
	b = books_device(process->books, ev->device);
	t = track_of(x->state, process, ev->device);
	at = interval_of(t, time_ns);
	note_top(&t->top[OF_TENSORS][at], time_ns, b->allocated_bytes);
	note_top(&t->top[OF_DRIVER][at], time_ns, b->driver_bytes);
	if (!t->sample[at / (NR_INTERVALS / NR_TREES)].is_there)
		take_sample(&t->sample[at / (NR_INTERVALS / NR_TREES)], t, time_ns);
}

/* ---- what is written ------------------------------------------------------------------------------ */

/* Rows below 0 are what a damaged trace lacks: no tree has them. */
static uint64_t rows_bytes(const struct weights *w)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < w->nr_rows; i++)
		bytes += w->row[i].bytes > 0 ? (uint64_t)w->row[i].bytes : 0;
	return bytes;
}

static void add_moment(struct moments *m, uint64_t time_ns, uint64_t bytes, const struct weights *rows, bool is_peak)
{
	m->moment[m->nr] = (struct moment){ time_ns, rows ? rows_bytes(rows) : bytes, rows, is_peak, m->nr };
	m->nr++;
}

static void sample_rows(struct weights *w, const struct sample *s, const struct replay_device *d)
{
	*w = (struct weights){ .row = heap_alloc(s->nr_shares, sizeof(*w->row)) };
	for (size_t i = 0; i < s->nr_shares; i++) {
		const struct group *g = books_group(d->process->books, s->share[i].group);

		if (g->tensor == d->has_tensors)
			w->row[w->nr_rows++] = (struct weight){ .group = g, .bytes = s->share[i].bytes };
	}
}

static int by_time(const void *a, const void *b)
{
	const struct moment *l = a, *r = b;

	if (l->time_ns != r->time_ns)
		return l->time_ns < r->time_ns ? -1 : 1;
	return l->place < r->place ? -1 : 1;
}

/* Where a tree is, no other moment of the same time is needed. */
static void add_tops(struct moments *m, const struct top *top)
{
	size_t nr_trees = m->nr;

	for (size_t i = 0; i < NR_INTERVALS; i++) {
		bool has_tree = !top[i].is_there;

		for (size_t k = 0; k < nr_trees; k++)
			has_tree |= m->moment[k].time_ns == top[i].time_ns;
		if (!has_tree)
			add_moment(m, top[i].time_ns, top[i].bytes, NULL, false);
	}
}

/* ---- writing ------------------------------------------------------------------------------------- */

static void write_tree(struct export *x, const struct replay_device *d, struct frames *f, struct heaptree *t,
		       const struct weights *rows)
{
	heaptree_clear(t);
	for (size_t i = 0; i < rows->nr_rows; i++) {
		if (rows->row[i].bytes <= 0)
			continue;
		weight_frames(f, x, d, &rows->row[i]);
		heaptree_add(t, f, (uint64_t)rows->row[i].bytes);
	}
	heaptree_write(t, x->out, d->has_tensors ? "(GPU memory of tensors)" : "(GPU memory taken from the driver)");
}

static void write_moment(FILE *out, size_t number, const struct moment *m)
{
	fprintf(out,
		"#-----------\nsnapshot=%zu\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
		"\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
		number, m->time_ns / NS_PER_MS, m->bytes,
		!m->rows   ? "empty" :
		m->is_peak ? "peak" :
			     "detailed");
}

static void write_head(struct export *x, const struct replay_device *d)
{
	char title[512];

	fputs("desc: ", x->out);
	for (const char *at = export_device_title(title, sizeof(title), d); *at; at++)
		putc(*at == '#' || (unsigned char)*at < 0x20 ? ' ' : *at, x->out);
	fputs("\ncmd: ", x->out);
	for (const char *at = d->process->program; *at; at++)
		putc(*at == '#' || (unsigned char)*at < 0x20 ? ' ' : *at, x->out);
	fputs("\ntime_unit: ms\n", x->out);
}

static void write_moments(struct export *x, const struct replay_device *d, struct moments *m)
{
	const struct moment nothing = { 0 };
	struct heaptree tree = { 0 };
	struct frames frames = { 0 };

	qsort(m->moment, m->nr, sizeof(*m->moment), by_time);
	write_head(x, d);
	write_moment(x->out, 0, &nothing);
	for (size_t i = 0; i < m->nr; i++) {
		write_moment(x->out, i + 1, &m->moment[i]);
		if (m->moment[i].rows)
			write_tree(x, d, &frames, &tree, m->moment[i].rows);
	}
	heaptree_release(&tree);
	frames_release(&frames);
}

static void write_device(struct export *x, const struct track *t, const struct replay_device *d)
{
	enum group_mark mark = export_mark(d, EXPORT_PEAK);
	const struct books_moment *peak = &d->books->moment[mark];
	struct weights sampled[NR_TREES] = { { 0 } }, at_peak, at_end;
	struct moments m = { .nr = 0 };

	weights_find(&at_peak, x, d, EXPORT_PEAK);
	weights_find(&at_end, x, d, EXPORT_END);
	for (size_t i = 0; t && i < NR_TREES; i++) {
		if (!t->sample[i].is_there)
			continue;
		sample_rows(&sampled[i], &t->sample[i], d);
		if (sampled[i].nr_rows)
			add_moment(&m, t->sample[i].time_ns, 0, &sampled[i], false);
	}
	if (peak->reached)
		add_moment(&m, replay_time(d->process, peak->time_ns), 0, &at_peak, true);
	if (t)
		add_tops(&m, t->top[d->has_tensors ? OF_TENSORS : OF_DRIVER]);
	add_moment(&m, d->process->last_ns, 0, &at_end, false);
	write_moments(x, d, &m);
	for (size_t i = 0; i < NR_TREES; i++)
		weights_release(&sampled[i]);
	weights_release(&at_peak);
	weights_release(&at_end);
}

int massif_write(struct export *x)
{
	const struct massif *m = x->state;
	const struct replay_device *d = NULL;
	const struct track *t = NULL;

	if (export_nr_devices(x) != 1)
		return message_error(export_nr_devices(x) ?
					     "'%s' has several GPUs, and a file of massif is of one: choose it with "
					     "'--rank', '--pid' or '--device'" :
					     "'%s' has no GPU memory",
				     x->replay->recording.path);
	for (size_t i = 0; !d && i < x->replay->nr_devices; i++)
		if (export_wants_device(x, &x->replay->device[i]))
			d = &x->replay->device[i];
	for (size_t i = 0; i < m->nr_tracks; i++)
		if (m->track[i].process == d->process && m->track[i].device == d->ordinal)
			t = &m->track[i];
	write_device(x, t, d);
	return CMD_FINE;
}

int massif_finish(struct export *x)
{
	struct massif *m = x->state;

	for (size_t i = 0; i < m->nr_tracks; i++)
		for (size_t k = 0; k < NR_TREES; k++)
			free(m->track[i].sample[k].share);
	free(m->track);
	free(m);
	return CMD_FINE;
}
