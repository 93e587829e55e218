/* SPDX-License-Identifier: MIT */
/* Modules on stacks, and their interned paths. */
#include "analyzer/modules/modulepaths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/names/modulename.h"
#include "analyzer/recording/idtable.h"

/* What a stack's modules are, once somebody has asked. */
struct modulepaths_stack {
	uint32_t path;
	uint32_t outermost; /* instance that is called */
	uint32_t mover;     /* outermost instance that is moved, while none is called */
	bool is_known;
	bool calls_several; /* it is a line that calls modules that no other calls: more than this one */
	uint32_t calls;     /* instance */
	uint64_t latest;    /* ordinal of the latest event in it */
};

/* ---- interning ------------------------------------------------------------------------------------ */

static bool same_path(const struct modulepath *a, const struct modulepath *b)
{
	return a->parent == b->parent && a->index == b->index && a->by_class == b->by_class && a->name == b->name;
}

static uint32_t *path_slot(const struct modulepaths *m, const struct modulepath *p)
{
	uint64_t hash = (p->parent * 0x9e3779b97f4a7c15ull ^ p->index) * 0xc2b2ae3d27d4eb4full ^ (uintptr_t)p->name;
	uint32_t i = (uint32_t)((hash * 0x9e3779b97f4a7c15ull) >> 32) & (m->slots_room - 1);

	while (m->slot[i] && !same_path(&m->path[m->slot[i] - 1], p))
		i = (i + 1) & (m->slots_room - 1);
	return &m->slot[i];
}

static void paths_grow(struct modulepaths *m)
{
	uint32_t room = m->slots_room ? 2 * m->slots_room : 256;

	m->path = heap_need(realloc(m->path, room / 2 * sizeof(*m->path)));
	m->paths_room = room / 2;
	free(m->slot);
	m->slot = heap_alloc(room, sizeof(*m->slot));
	m->slots_room = room;
	for (uint32_t i = 0; i < m->nr_paths; i++)
		*path_slot(m, &m->path[i]) = i + 1;
}

static uint32_t intern(struct modulepaths *m, const struct modulepath *p)
{
	uint32_t *slot;

	if (m->nr_paths == m->paths_room)
		paths_grow(m);
	slot = path_slot(m, p);
	if (!*slot) {
		m->path[m->nr_paths++] = *p;
		*slot = m->nr_paths;
	}
	return *slot;
}

static const char *keep(struct modulepaths *m, const char *text, size_t len)
{
	return textset_add(&m->texts, 0, text, len)->text;
}

/* "layers.3" is one of several, as is "3" of an nn.Sequential. */
static uint32_t named_child(struct modulepaths *m, uint32_t parent, const char *step)
{
	size_t len = strlen(step), digits = 0;
	struct modulepath p = { .parent = parent };

	while (digits < len && digits < 9 && step[len - 1 - digits] >= '0' && step[len - 1 - digits] <= '9')
		digits++;
	p.indexed = digits && (digits == len || step[len - 1 - digits] == '.');
	if (p.indexed) {
		p.index = (uint32_t)strtoul(step + len - digits, NULL, 10);
		len -= digits + (digits < len);
	}
	p.name = keep(m, step, len);
	return intern(m, &p);
}

static uint32_t named_path(struct modulepaths *m, const struct modulename *name)
{
	uint32_t path = 0;

	for (uint32_t i = 0; i < name->nr_steps; i++)
		path = named_child(m, path, name->step[i]);
	return path;
}

/* One more of this class; of several, all have a number. */
static uint32_t child_by_class(struct modulepaths *m, uint32_t parent, const char *class_name, uint32_t call)
{
	struct modulepath p = { .parent = parent, .name = keep(m, class_name, strlen(class_name)), .by_class = true, .call = call };
	uint32_t first = intern(m, &p);

	p.index = m->path[first - 1].nr_alike++;
	p.indexed = p.index > 0;
	m->path[first - 1].indexed |= p.indexed;
	return intern(m, &p);
}

/* ---- stacks ---------------------------------------------------------------------------------------- */

static uint64_t address_of(const struct modulepaths *m, uint32_t instance)
{
	struct tfmt_instance in;

	return tfmt_reader_instance(m->reader, instance, &in) ? in.address : 0;
}

/* The path of a module that the line `call` calls within what is on the stack already. */
static uint32_t path_of_instance(struct modulepaths *m, uint32_t instance, const struct modulepaths_stack *within,
				 uint32_t call, uint64_t time_ns)
{
	struct tfmt_instance in;
	struct modulename name;

	m->of_instance = idtable_grown(m->of_instance, &m->nr_instances, instance, sizeof(*m->of_instance), m->reader);
	if (instance >= m->nr_instances || !tfmt_reader_instance(m->reader, instance, &in))
		return within->path;
	if (m->of_instance[instance])
		return m->of_instance[instance];
	if (m->names && modulename_find(&name, m->names, &in, time_ns, address_of(m, within->outermost)))
		m->of_instance[instance] = named_path(m, &name);
	else
		m->of_instance[instance] = child_by_class(m, within->path, in.class_name, call);
	return m->of_instance[instance];
}

/*
 * While a module is being moved a census may come upon it by the function that moves it: believed is one to which the outermost
 * of them is the outermost.
 */
static uint32_t path_of_moved(struct modulepaths *m, uint32_t instance, uint32_t mover)
{
	struct tfmt_instance in;
	struct modulename name;

	if (!m->names || !tfmt_reader_instance(m->reader, instance, &in) ||
	    !modulename_find(&name, m->names, &in, UINT64_MAX, address_of(m, mover)))
		return 0;
	return named_path(m, &name);
}

/* The module that the innermost frame of a stack calls, 0 = none; *moved: the one that it moves. */
static uint32_t called_by(const struct modulepaths *m, uint32_t stack, const struct tfmt_call *call, uint32_t *moved)
{
	static const char name[] = "_apply";
	struct tfmt_frame frame;
	struct tfmt_code code;
	size_t len;

	*moved = 0;
	if (!call->instance || !tfmt_reader_frame(m->reader, stack, &frame) ||
	    !tfmt_reader_code(m->reader, (uint32_t)frame.a, &code))
		return call->instance;
	len = strlen(code.name);
	if (len < sizeof(name) - 1 || strcmp(code.name + len - (sizeof(name) - 1), name) != 0)
		return call->instance;
	*moved = call->instance;
	return 0;
}

static struct modulepaths_stack *stack_of(struct modulepaths *m, uint32_t stack)
{
	m->of_stack = idtable_grown(m->of_stack, &m->nr_stacks, stack, sizeof(*m->of_stack), m->reader);
	return stack < m->nr_stacks ? &m->of_stack[stack] : NULL;
}

/* A frame calls a module, from this line of the program's. */
static void enter_call(struct modulepaths *m, struct modulepaths_stack *s, uint32_t instance, uint32_t call, uint64_t time_ns)
{
	struct modulepaths_stack *line = s->outermost ? NULL : stack_of(m, call);

	if (line) {
		line->calls_several |= line->calls && line->calls != instance;
		line->calls = instance;
	}
	if (!s->outermost) {
		s->outermost = instance;
		s->path = 0;
	}
	s->path = path_of_instance(m, instance, s, call, time_ns);
}

static void enter_move(struct modulepaths *m, struct modulepaths_stack *s, uint32_t instance)
{
	if (s->outermost)
		return;
	s->mover = s->mover ? s->mover : instance;
	s->path = path_of_moved(m, instance, s->mover);
}

/* The root's modules come first: those of a stack are its parent's, and the one that its innermost frame calls or moves. */
static struct modulepaths_stack find_stack(struct modulepaths *m, uint32_t stack, uint64_t time_ns)
{
	struct modulepaths_stack found = { .is_known = true }, *known;
	uint32_t chain[TFMT_STACK_DEPTH_MAX], nr = 0, called, moved;
	struct tfmt_frame frame;
	struct tfmt_call call;

	for (uint32_t id = stack; nr < TFMT_STACK_DEPTH_MAX; id = call.parent) {
		known = id >= TFMT_STACK_FIRST && tfmt_reader_call(m->reader, id, &call) ? stack_of(m, id) : NULL;
		if (known && known->is_known)
			found = *known;
		if (!known || known->is_known)
			break;
		chain[nr++] = id;
	}
	while (nr--) {
		tfmt_reader_call(m->reader, chain[nr], &call); /* which has been seen to be there */
		called = called_by(m, chain[nr], &call, &moved);
		if (called && tfmt_reader_frame(m->reader, chain[nr], &frame))
			enter_call(m, &found, called, frame.parent, time_ns);
		else if (moved)
			enter_move(m, &found, moved);
		known = stack_of(m, chain[nr]);
		known->path = found.path;
		known->outermost = found.outermost;
		known->mover = found.mover;
		known->is_known = true;
	}
	return found;
}

uint32_t modulepaths_next(struct modulepaths *m, const struct tfmt_event *ev)
{
	uint32_t stack = ev->called_stack ? ev->called_stack : ev->python_stack;
	struct modulepaths_stack *known = stack >= TFMT_STACK_FIRST ? stack_of(m, stack) : NULL;

	if (!known)
		return 0;
	known->latest = ev->ordinal;
	return known->is_known ? known->path : find_stack(m, stack, ev->time_ns).path;
}

void modulepaths_look(struct modulepaths *m)
{
	uint32_t end = TFMT_STACK_FIRST + tfmt_reader_nr_definitions(m->reader);

	for (uint32_t id = TFMT_STACK_FIRST; id < end; id++) {
		const struct modulepaths_stack *known = stack_of(m, id);

		if (known && !known->is_known)
			find_stack(m, id, 0);
	}
}

uint32_t modulepaths_holder(struct modulepaths *m, const struct names_block *block, uint64_t moment)
{
	struct modulename name;

	return m->names && modulename_of_block(&name, m->names, block, moment) ? named_path(m, &name) : 0;
}

uint32_t modulepaths_call(const struct modulepaths *m, uint32_t stack, uint32_t depth)
{
	struct tfmt_frame frame;
	struct tfmt_call call;
	uint32_t called, moved;

	for (uint32_t id = stack; tfmt_reader_call(m->reader, id, &call); id = call.parent) {
		called = called_by(m, id, &call, &moved);
		if (called && called < m->nr_instances && m->of_instance[called] &&
		    modulepaths_depth(m, m->of_instance[called]) == depth && tfmt_reader_frame(m->reader, id, &frame))
			return frame.parent;
	}
	return 0;
}

uint32_t modulepaths_outermost_call(const struct modulepaths *m, uint32_t stack)
{
	struct tfmt_frame frame = { 0 };
	struct tfmt_call call;
	uint32_t found = 0, moved;

	for (uint32_t id = stack; tfmt_reader_call(m->reader, id, &call); id = call.parent)
		if (called_by(m, id, &call, &moved) && tfmt_reader_frame(m->reader, id, &frame))
			found = frame.parent;
	return found;
}

bool modulepaths_calls_several(const struct modulepaths *m, uint32_t call)
{
	return call < m->nr_stacks && m->of_stack[call].calls_several;
}

void modulepaths_innermost_calls(const struct modulepaths *m, uint32_t stack, uint32_t call[static MODULEPATHS_INNERMOST])
{
	struct tfmt_frame frame;
	struct tfmt_call of;
	uint32_t nr = 0, moved;

	memset(call, 0, MODULEPATHS_INNERMOST * sizeof(*call));
	for (uint32_t id = stack; nr < MODULEPATHS_INNERMOST && tfmt_reader_call(m->reader, id, &of); id = of.parent)
		if (called_by(m, id, &of, &moved) && tfmt_reader_frame(m->reader, id, &frame))
			call[nr++] = frame.parent;
}

bool modulepaths_is_in_call(const struct modulepaths *m, uint32_t stack, uint32_t call)
{
	struct tfmt_frame frame;
	struct tfmt_call of;
	uint32_t moved;

	for (uint32_t id = stack; tfmt_reader_call(m->reader, id, &of); id = of.parent)
		if (called_by(m, id, &of, &moved) && tfmt_reader_frame(m->reader, id, &frame) && frame.parent == call)
			return true;
	return false;
}

static bool calls_module(const struct modulepaths *m, uint32_t stack, uint64_t module)
{
	struct tfmt_call call;
	uint32_t called, moved;

	for (uint32_t id = stack; tfmt_reader_call(m->reader, id, &call); id = call.parent) {
		called = called_by(m, id, &call, &moved);
		if (called && address_of(m, called) == module)
			return true;
	}
	return false;
}

uint64_t modulepaths_latest_call(const struct modulepaths *m, uint64_t module)
{
	uint64_t latest = 0;

	for (uint32_t id = TFMT_STACK_FIRST; id < m->nr_stacks; id++)
		if (m->of_stack[id].latest > latest && calls_module(m, id, module))
			latest = m->of_stack[id].latest;
	return latest;
}

void modulepaths_release(struct modulepaths *m)
{
	textset_release(&m->texts);
	free(m->of_stack);
	free(m->of_instance);
	free(m->slot);
	free(m->path);
	*m = (struct modulepaths){ .reader = m->reader, .names = m->names };
}

/* ---- what a path is --------------------------------------------------------------------------------- */

uint32_t modulepaths_depth(const struct modulepaths *m, uint32_t path)
{
	uint32_t depth = 0;

	for (; path; path = m->path[path - 1].parent)
		depth++;
	return depth;
}

uint32_t modulepaths_ancestor(const struct modulepaths *m, uint32_t path, uint32_t depth)
{
	uint32_t own = modulepaths_depth(m, path);

	for (; own > depth; own--)
		path = m->path[path - 1].parent;
	return path;
}

const char *modulepaths_text(const struct modulepaths *m, uint32_t path, uint32_t from, char *buf, size_t size)
{
	uint32_t depth = modulepaths_depth(m, path);
	size_t used = 0;

	*buf = 0;
	for (uint32_t i = from + 1; i <= depth && used < size; i++) {
		const struct modulepath *p = &m->path[modulepaths_ancestor(m, path, i) - 1];
		const char *dot = used ? "." : "";

		if (*p->name)
			used += (size_t)snprintf(buf + used, size - used, p->by_class ? "%s<%s>" : "%s%s", dot, p->name);
		if (p->indexed && used < size)
			used += (size_t)snprintf(buf + used, size - used, "%s%u", used ? "." : "", p->index);
	}
	return buf;
}
