/* SPDX-License-Identifier: MIT */
/* A stack of ranges for each thread, a list for the process, and a tree of all paths that were met. */
#include "analyzer/ledger/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define THREADS_MAX (1u << 20) /* ids beyond are damage */
#define STARTED_MAX 64 /* of a path: each change of them makes new paths, and some programs never end theirs */

struct range_node {
	uint32_t parent; /* path, 0 = none */
	uint32_t depth;
	struct range range;
};

struct range_started {
	uint64_t id;
	struct range range;
};

struct range_thread {
	struct range *open; /* innermost last */
	uint32_t nr_open;
	size_t room;
	uint32_t backward; /* calls of backward that it is in */
	uint32_t path, path_change; /* its path as of that change */
	bool path_known, path_backward;
	bool is_autograd, name_known;
};

void ranges_init(struct ranges *r, const struct tfmt_reader *reader)
{
	*r = (struct ranges){ .reader = reader };
}

void ranges_release(struct ranges *r)
{
	for (uint32_t i = 0; i < r->nr_threads; i++)
		free(r->thread[i].open);
	free(r->thread);
	free(r->started);
	free(r->figures.domain);
	free(r->node);
	free(r->slot);
	*r = (struct ranges){ 0 };
}

struct ranges *ranges_open(const struct tfmt_reader *reader)
{
	struct ranges *r = heap_alloc(1, sizeof(*r));

	ranges_init(r, reader);
	return r;
}

void ranges_close(struct ranges *r)
{
	if (r)
		ranges_release(r);
	free(r);
}

const struct ranges_figures *ranges_figures(const struct ranges *r)
{
	return &r->figures;
}

/* ---- following ------------------------------------------------------------------------------- */

static struct range_thread *thread_of(struct ranges *r, uint32_t id)
{
	uint32_t room = r->nr_threads ? r->nr_threads : 16;
	struct range_thread *grown;

	if (id < r->nr_threads)
		return &r->thread[id];
	if (id >= THREADS_MAX)
		return NULL;
	while (room <= id)
		room *= 2;
	grown = heap_need(realloc(r->thread, room * sizeof(*grown)));
	memset(grown + r->nr_threads, 0, (room - r->nr_threads) * sizeof(*grown));
	r->thread = grown;
	r->nr_threads = room;
	return &r->thread[id];
}

static void note_domain(struct ranges *r, uint32_t domain)
{
	struct ranges_figures *f = &r->figures;

	for (uint32_t i = 0; i < f->nr_domains; i++)
		if (f->domain[i] == domain)
			return;
	if (!domain)
		return;
	f->domain = heap_grow(f->domain, &r->domains_room, f->nr_domains + 1u, sizeof(*f->domain));
	f->domain[f->nr_domains++] = domain;
}

static struct range range_in(const struct tfmt_event *ev)
{
	return (struct range){ (uint32_t)ev->address, (uint32_t)ev->size };
}

/*
 * With emit_nvtx, PyTorch draws a range of its own around a dispatch mode, such as the one by which a simulated
 * device computes values; the operation stands on both sides of it. It is no place in the program.
 */
static bool is_dispatch_mode(const struct ranges *r, struct range range)
{
	return !range.domain && !strcmp(tfmt_reader_string(r->reader, range.name), "PythonDispatchMode");
}

static void push(struct range_thread *t, struct range range)
{
	t->open = heap_grow(t->open, &t->room, t->nr_open + 1u, sizeof(*t->open));
	t->open[t->nr_open++] = range;
}

/* The innermost of its domain; it need not be the innermost of all. */
static void pop(struct range_thread *t, uint32_t domain)
{
	uint32_t i = t->nr_open;

	while (i && t->open[i - 1].domain != domain)
		i--;
	if (!i)
		return;
	memmove(&t->open[i - 1], &t->open[i], (t->nr_open - i) * sizeof(*t->open));
	t->nr_open--;
}

static void start(struct ranges *r, const struct tfmt_event *ev)
{
	r->started = heap_grow(r->started, &r->started_room, r->nr_started + 1u, sizeof(*r->started));
	r->figures.nr_left_out += r->nr_started >= STARTED_MAX;
	r->started[r->nr_started++] = (struct range_started){ ev->aux, range_in(ev) };
}

static void end(struct ranges *r, uint64_t id)
{
	uint32_t i = r->nr_started;

	while (i && r->started[i - 1].id != id)
		i--;
	if (!i)
		return;
	memmove(&r->started[i - 1], &r->started[i], (r->nr_started - i) * sizeof(*r->started));
	r->nr_started--;
}

/* As an event says, not counted: one that was lost would leave the thread in backward for ever. */
static void set_backward(struct ranges *r, struct range_thread *t, uint32_t calls)
{
	if (!t->backward != !calls)
		r->caller_known = false;
	t->backward = calls;
}

void ranges_damaged(struct ranges *r)
{
	for (uint32_t i = 0; i < r->nr_threads; i++) {
		set_backward(r, &r->thread[i], 0);
		r->thread[i].nr_open = 0;
	}
	r->nr_started = 0;
	r->change++;
}

void ranges_change(struct ranges *r, const struct tfmt_event *ev)
{
	bool is_backward = ev->address == TFMT_PHASE_BACKWARD;
	struct range_thread *t;

	t = thread_of(r, ev->thread);
	if (!t)
		return;
	switch (ev->kind) {
	case TFMT_RANGE_PUSH:
		push(t, range_in(ev));
		break;
	case TFMT_RANGE_POP:
		pop(t, (uint32_t)ev->size);
		break;
	case TFMT_RANGE_START:
		start(r, ev);
		break;
	case TFMT_RANGE_END:
		end(r, ev->aux);
		break;
	case TFMT_PHASE_BEGIN:
	case TFMT_PHASE_END:
		if (is_backward)
			set_backward(r, t, (uint32_t)ev->aux + (ev->kind == TFMT_PHASE_BEGIN));
		break;
	case TFMT_LOST: /* which ranges are open is not known any more: none, until the next is entered */
		t->nr_open = 0;
		set_backward(r, t, 0);
		break;
	}
	r->figures.nr_ranges += ev->kind == TFMT_RANGE_PUSH || ev->kind == TFMT_RANGE_START;
	r->figures.nr_marks += ev->kind == TFMT_MARK;
	if (ev->kind == TFMT_RANGE_PUSH || ev->kind == TFMT_RANGE_START || ev->kind == TFMT_MARK)
		note_domain(r, (uint32_t)ev->size);
	if (ev->kind != TFMT_MARK)
		r->change++;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static bool same_range(struct range a, struct range b)
{
	return a.name == b.name && a.domain == b.domain;
}

static uint32_t *slot_of(const struct ranges *r, uint32_t parent, struct range range)
{
	uint64_t hash = (parent * 0x9e3779b97f4a7c15ull ^ range.name) * 0xff51afd7ed558ccdull;
	uint32_t i;

	hash = (hash ^ hash >> 29 ^ range.domain) * 0xc4ceb9fe1a85ec53ull;
	i = (uint32_t)(hash >> 32) & (r->slots_room - 1);
	for (; r->slot[i]; i = (i + 1) & (r->slots_room - 1)) {
		const struct range_node *n = &r->node[r->slot[i] - 1];

		if (n->parent == parent && same_range(n->range, range))
			break;
	}
	return &r->slot[i];
}

static void slots_grow(struct ranges *r)
{
	uint32_t room = r->slots_room ? 2 * r->slots_room : 256;

	free(r->slot);
	r->slot = heap_alloc(room, sizeof(*r->slot));
	r->slots_room = room;
	for (uint32_t i = 0; i < r->nr_nodes; i++)
		*slot_of(r, r->node[i].parent, r->node[i].range) = i + 1;
}

/* The path one range further in. */
static uint32_t child(struct ranges *r, uint32_t parent, struct range range)
{
	uint32_t *slot;

	if (3 * ((uint64_t)r->nr_nodes + 1) > 2 * (uint64_t)r->slots_room)
		slots_grow(r);
	slot = slot_of(r, parent, range);
	if (*slot)
		return *slot;
	r->node = heap_grow(r->node, &r->nodes_room, r->nr_nodes + 1u, sizeof(*r->node));
	r->node[r->nr_nodes++] = (struct range_node){ parent, ranges_depth(r, parent) + 1, range };
	*slot = r->nr_nodes;
	return *slot;
}

static bool is_autograd(struct ranges *r, struct range_thread *t, uint32_t id)
{
	struct tfmt_thread thread;

	if (!t->name_known) {
		t->is_autograd = tfmt_reader_thread(r->reader, id, &thread) &&
				 !strncmp(thread.name, "pt_autograd", strlen("pt_autograd"));
		t->name_known = true;
	}
	return t->is_autograd;
}

/* The one thread that waits for backward to end; NULL if there is none, or more than one. */
static const struct range_thread *backward_caller(struct ranges *r)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; !r->caller_known && i < r->nr_threads; i++) {
		if (!r->thread[i].backward || is_autograd(r, &r->thread[i], i))
			continue;
		r->caller = i + 1;
		nr++;
	}
	if (!r->caller_known && nr != 1)
		r->caller = 0;
	r->caller_known = true;
	return r->caller ? &r->thread[r->caller - 1] : NULL;
}

static uint32_t path_along(struct ranges *r, uint32_t path, const struct range_thread *t)
{
	bool after_mode = false;

	for (uint32_t i = 0; t && i < t->nr_open; i++) {
		bool again = after_mode && path && same_range(r->node[path - 1].range, t->open[i]);

		after_mode = is_dispatch_mode(r, t->open[i]);
		if (!after_mode && !again)
			path = child(r, path, t->open[i]);
	}
	return path;
}

uint32_t ranges_path(struct ranges *r, const struct tfmt_event *ev)
{
	struct range_thread *t = r->figures.nr_ranges ? thread_of(r, ev->thread) : NULL;
	const struct range_thread *caller;
	bool in_backward;

	if (!t)
		return 0;
	in_backward = ev->flags & TFMT_FLAG_BACKWARD || is_autograd(r, t, ev->thread);
	if (t->path_known && t->path_change == r->change && t->path_backward == in_backward)
		return t->path;
	t->path = 0;
	for (uint32_t i = 0; i < r->nr_started && i < STARTED_MAX; i++)
		t->path = child(r, t->path, r->started[i].range);
	caller = in_backward ? backward_caller(r) : NULL;
	t->path = path_along(r, t->path, caller == t ? NULL : caller);
	t->path = path_along(r, t->path, t);
	t->path_change = r->change;
	t->path_backward = in_backward;
	t->path_known = true;
	return t->path;
}

uint32_t ranges_depth(const struct ranges *r, uint32_t path)
{
	return path ? r->node[path - 1].depth : 0;
}

struct range ranges_of_path(const struct ranges *r, uint32_t path, uint32_t k)
{
	while (ranges_depth(r, path) > k + 1)
		path = r->node[path - 1].parent;
	return r->node[path - 1].range;
}

struct range *ranges_list(const struct ranges *r, uint32_t path)
{
	uint32_t depth = ranges_depth(r, path);
	struct range *list = depth ? heap_alloc(depth, sizeof(*list)) : NULL;

	for (; list && path; path = r->node[path - 1].parent)
		list[--depth] = r->node[path - 1].range;
	return list;
}

const char *range_label(char *buf, size_t size, const struct tfmt_reader *reader, struct range range)
{
	const char *name = tfmt_reader_string(reader, range.name);
	const char *domain = tfmt_reader_string(reader, range.domain);

	snprintf(buf, size, "%s%s%s", range.domain ? domain : "", range.domain ? ": " : "",
		 *name ? name : "(unnamed)");
	return buf;
}
