/* SPDX-License-Identifier: MIT */
/* Bytes by stack: of a moment from the holders, of all allocations counted by group as they come. */
#include "analyzer/export/weights.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/command.h"
#include "analyzer/export/formats.h"
#include "analyzer/holders/holders.h"

/* What a group has allocated in all. */
struct count {
	uint64_t bytes, blocks;
};

/* Those of each process, by index of the group. */
struct weight_counts {
	struct count **of_process;
	uint32_t *nr; /* likewise */
	size_t nr_processes;
};

void weights_begin(struct export *x)
{
	struct weight_counts *c = heap_alloc(1, sizeof(*c));

	c->nr_processes = x->replay->nr_processes;
	c->of_process = heap_alloc(c->nr_processes, sizeof(*c->of_process));
	c->nr = heap_alloc(c->nr_processes, sizeof(*c->nr));
	x->counts = c;
}

void weights_end(struct export *x)
{
	struct weight_counts *c = x->counts;

	for (size_t i = 0; i < c->nr_processes; i++)
		free(c->of_process[i]);
	free(c->of_process);
	free(c->nr);
	free(c);
	x->counts = NULL;
}

int weights_finish(struct export *x)
{
	weights_end(x);
	return CMD_FINE;
}

/* The block that this event has made; NULL: it has made none. */
static const struct block *block_of(const struct books *books, const struct tfmt_event *ev)
{
	static const enum block_space spaces[] = { BLOCK_DRIVER, BLOCK_HANDLE, BLOCK_ARRAY };

	if (ev->kind == TFMT_TENSOR_ALLOC)
		return books_block(books, BLOCK_TENSOR, ev->address);
	for (size_t i = 0; ev->kind == TFMT_DRIVER_ALLOC && i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		const struct block *b = books_block(books, spaces[i], ev->address);

		if (b && b->ordinal == ev->ordinal)
			return b;
	}
	return NULL;
}

static struct count *count_of(struct weight_counts *c, size_t process, const struct books *books, uint32_t group)
{
	if (group >= c->nr[process]) {
		uint32_t nr = books_nr_groups(books) * 2;
		struct count *grown = heap_alloc(nr, sizeof(*grown));

		for (uint32_t i = 0; i < c->nr[process]; i++)
			grown[i] = c->of_process[process][i];
		free(c->of_process[process]);
		c->of_process[process] = grown;
		c->nr[process] = nr;
	}
	return &c->of_process[process][group];
}

void weights_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct export *x = ctx;
	const struct block *b;
	struct count *count;

	(void)time_ns;
	if (ev->kind != TFMT_TENSOR_ALLOC && ev->kind != TFMT_DRIVER_ALLOC)
		return;
	b = block_of(process->books, ev);
	if (!b)
		return;
	count = count_of(x->counts, (size_t)(process - x->replay->process), process->books, b->group);
	count->bytes += b->size;
	count->blocks++;
}

static void add(struct weights *w, size_t *room, const struct group *g, int64_t bytes, int64_t blocks)
{
	w->row = heap_grow(w->row, room, w->nr_rows + 1, sizeof(*w->row));
	w->row[w->nr_rows++] = (struct weight){ g, bytes, blocks };
}

static void find_all(struct weights *w, const struct export *x, const struct replay_device *d)
{
	const struct weight_counts *c = x->counts;
	size_t process = (size_t)(d->process - x->replay->process), room = 0;

	for (uint32_t i = 0; i < c->nr[process] && i < books_nr_groups(d->process->books); i++) {
		const struct group *g = books_group(d->process->books, i);
		const struct count *count = &c->of_process[process][i];
		bool counts = g->tensor ? d->has_tensors : !d->has_tensors && group_is_device_memory(g);

		if (count->blocks && counts && g->device == d->ordinal)
			add(w, &room, g, (int64_t)count->bytes, (int64_t)count->blocks);
	}
}

void weights_find(struct weights *w, const struct export *x, const struct replay_device *d, enum export_at at)
{
	struct holders_query q = { d->process, d->ordinal, d->has_tensors ? HOLDERS_TENSORS : HOLDERS_DRIVER,
				   HOLDERS_BY_STACK, export_mark(d, at) };
	struct holders h = HOLDERS_INIT;
	size_t room = 0;

	*w = (struct weights){ 0 };
	if (at == EXPORT_ALL) {
		find_all(w, x, d);
		return;
	}
	holders_find(&h, x->replay, &q);
	for (uint32_t i = 0; i < h.nr_holders; i++)
		add(w, &room, h.holder[i].largest, (int64_t)h.holder[i].figures.bytes,
		    (int64_t)h.holder[i].figures.blocks);
	holders_release(&h);
}

void weights_release(struct weights *w)
{
	free(w->row);
	*w = (struct weights){ 0 };
}

/* Why a row has no frames. */
static const char *no_frames_text(char *buf, size_t size, const struct replay_process *p, const struct group *g)
{
	struct tfmt_thread thread;

	if (g->unrecorded)
		snprintf(buf, size, "[events that the damaged trace lacks]");
	else if (g->before)
		snprintf(buf, size, "[before the part that was kept]");
	else if (g->python_stack == TFMT_STACK_NO_PYTHON && tfmt_reader_thread(p->reader, g->thread, &thread))
		snprintf(buf, size, "[thread %s, which runs no Python]", thread.name);
	else
		snprintf(buf, size, "[stack not captured]");
	return buf;
}

static void add_frames(struct frames *f, const struct export *x, const struct replay_device *d, const struct weight *w)
{
	struct stack_source source = replay_stack_source(x->replay, d->process);
	const struct group *g = w->group;
	const char *call = tfmt_reader_function(source.reader, g->function);
	uint32_t nr_before = f->nr_frames;
	char text[512];

	frames_expand(f, &source, g->python_stack, g->native_stack);
	if (f->nr_frames == nr_before && !g->modelled)
		frames_add(f, no_frames_text(text, sizeof(text), d->process, g), NULL, 0);
	if (*call) {
		snprintf(text, sizeof(text), g->modelled ? "[modelled: %s]" : "%s", call);
		frames_add(f, text, NULL, 0);
	}
}

void weight_frames(struct frames *f, const struct export *x, const struct replay_device *d, const struct weight *w)
{
	frames_clear(f);
	add_frames(f, x, d, w);
}

void weight_frames_of_device(struct frames *f, const struct export *x, const struct replay_device *d,
			     const struct weight *w)
{
	char title[512];

	frames_clear(f);
	if (export_nr_devices(x) > 1)
		frames_add(f, export_device_title(title, sizeof(title), d), NULL, 0);
	add_frames(f, x, d, w);
}
