/* SPDX-License-Identifier: MIT */
/* A stack of ranges for each thread, a list for the process, and a tree of all paths that were met. */
#include "analyzer/ledger/ranges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	uint32_t nr_open, room;
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
	free(r->domain);
	free(r->node);
	free(r->slot);
	*r = (struct ranges){ 0 };
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
	grown = realloc(r->thread, room * sizeof(*grown));
	if (!grown)
		return NULL;
	memset(grown + r->nr_threads, 0, (room - r->nr_threads) * sizeof(*grown));
	r->thread = grown;
	r->nr_threads = room;
	return &r->thread[id];
}

static int note_domain(struct ranges *r, uint32_t domain)
{
	uint32_t *grown;

	for (uint32_t i = 0; i < r->nr_domains; i++)
		if (r->domain[i] == domain)
			return 0;
	if (!domain)
		return 0;
	grown = realloc(r->domain, (r->nr_domains + 1) * sizeof(*grown));
	if (!grown)
		return TFMT_E_NOMEM;
	r->domain = grown;
	r->domain[r->nr_domains++] = domain;
	return 0;
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

static int push(struct range_thread *t, struct range range)
{
	struct range *grown;

	if (t->nr_open == t->room) {
		grown = realloc(t->open, (2 * (size_t)t->room + 8) * sizeof(*grown));
		if (!grown)
			return TFMT_E_NOMEM;
		t->open = grown;
		t->room = 2 * t->room + 8;
	}
	t->open[t->nr_open++] = range;
	return 0;
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

static int start(struct ranges *r, const struct tfmt_event *ev)
{
	struct range_started *grown;

	if (r->nr_started == r->started_room) {
		grown = realloc(r->started, (2 * (size_t)r->started_room + 8) * sizeof(*grown));
		if (!grown)
			return TFMT_E_NOMEM;
		r->started = grown;
		r->started_room = 2 * r->started_room + 8;
	}
	r->nr_left_out += r->nr_started >= STARTED_MAX;
	r->started[r->nr_started++] = (struct range_started){ ev->aux, range_in(ev) };
	return 0;
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

int ranges_change(struct ranges *r, const struct tfmt_event *ev)
{
	bool is_backward = ev->address == TFMT_PHASE_BACKWARD;
	struct range_thread *t;
	int err = 0;

	t = thread_of(r, ev->thread);
	if (!t)
		return ev->thread < THREADS_MAX ? TFMT_E_NOMEM : 0;
	switch (ev->kind) {
	case TFMT_RANGE_PUSH:
		err = push(t, range_in(ev));
		break;
	case TFMT_RANGE_POP:
		pop(t, (uint32_t)ev->size);
		break;
	case TFMT_RANGE_START:
		err = start(r, ev);
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
	r->nr_ranges += ev->kind == TFMT_RANGE_PUSH || ev->kind == TFMT_RANGE_START;
	r->nr_marks += ev->kind == TFMT_MARK;
	if (!err && (ev->kind == TFMT_RANGE_PUSH || ev->kind == TFMT_RANGE_START || ev->kind == TFMT_MARK))
		err = note_domain(r, (uint32_t)ev->size);
	if (ev->kind != TFMT_MARK)
		r->change++;
	return err;
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

static bool slots_grow(struct ranges *r)
{
	uint32_t room = r->slots_room ? 2 * r->slots_room : 256;
	uint32_t *slot = calloc(room, sizeof(*slot));

	if (!slot)
		return false;
	free(r->slot);
	r->slot = slot;
	r->slots_room = room;
	for (uint32_t i = 0; i < r->nr_nodes; i++)
		*slot_of(r, r->node[i].parent, r->node[i].range) = i + 1;
	return true;
}

/* The path one range further in; the parent itself when memory runs out. */
static uint32_t child(struct ranges *r, uint32_t parent, struct range range)
{
	uint32_t *slot;

	if (3 * ((uint64_t)r->nr_nodes + 1) > 2 * (uint64_t)r->slots_room && !slots_grow(r))
		return parent;
	slot = slot_of(r, parent, range);
	if (*slot)
		return *slot;
	if (r->nr_nodes == r->nodes_room) {
		uint32_t room = r->nodes_room ? 2 * r->nodes_room : 256;
		struct range_node *grown = realloc(r->node, room * sizeof(*grown));

		if (!grown)
			return parent;
		r->node = grown;
		r->nodes_room = room;
	}
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
	struct range_thread *t = r->nr_ranges ? thread_of(r, ev->thread) : NULL;
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
	struct range *list = depth ? calloc(depth, sizeof(*list)) : NULL;

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
