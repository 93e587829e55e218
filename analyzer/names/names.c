/* SPDX-License-Identifier: MIT */
/* Censuses of a process, and the blocks that they name. */
#include "analyzer/names/names.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/names/hookname.h"
#include "analyzer/recording/basename.h"
#include "analyzer/recording/censusfiles.h"
#include "analyzer/recording/textset.h"

#define TENSORS_ASKED 256 /* of one block: of more, the rest counts as other names */

/* ---- opening ------------------------------------------------------------------------------------ */

static int by_place(const void *va, const void *vb)
{
	const struct names_tensor *a = va, *b = vb;

	if (a->device != b->device)
		return a->device < b->device ? -1 : 1;
	if (a->address != b->address)
		return a->address < b->address ? -1 : 1;
	return (a->object > b->object) - (a->object < b->object);
}

static int by_time(const void *va, const void *vb)
{
	const struct names_census *a = va, *b = vb;

	return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

static int by_address(const void *va, const void *vb)
{
	const struct names_module *a = va, *b = vb;

	return (a->address > b->address) - (a->address < b->address);
}

static void take_modules(struct names_census *c)
{
	uint32_t nr = tfmt_census_nr_objects(c->census);

	c->module = heap_alloc(nr, sizeof(*c->module));
	for (uint32_t id = 1; id <= nr; id++) {
		const struct tfmt_object_facts *o = tfmt_census_object(c->census, id);

		if (o && o->kind == TFMT_KIND_MODULE)
			c->module[c->nr_modules++] = (struct names_module){ o->address, id };
	}
	if (c->nr_modules)
		qsort(c->module, c->nr_modules, sizeof(*c->module), by_address);
}

/* Takes the census over. */
static void take(struct names *n, struct tfmt_census *census)
{
	struct names_census *c = &n->census[n->nr_censuses++];
	uint32_t nr = tfmt_census_nr_tensors(census);

	*c = (struct names_census){ .all = n,
				    .census = census,
				    .time_ns = tfmt_census_facts(census)->time_ns,
				    .after = TFMT_NO_ORDINAL,
				    .tensor = heap_alloc(nr, sizeof(*c->tensor)) };
	for (uint32_t i = 0; i < nr; i++) {
		const struct tfmt_tensor *t = tfmt_census_tensor(census, i);

		if (t->address)
			c->tensor[c->nr_tensors++] = (struct names_tensor){ t->address, t->object, t->holders, t->nodes, t->own_bytes,
									       t->device, t->flags, t->bytes <= sizeof(uint64_t) };
	}
	if (c->nr_tensors)
		qsort(c->tensor, c->nr_tensors, sizeof(*c->tensor), by_place);
	take_modules(c);
}

static bool is_of(const struct tfmt_census *c, const struct tfmt_header *process)
{
	const struct tfmt_header *h = tfmt_census_header(c);

	return h->pid == process->pid && h->image_start_ns == process->image_start_ns;
}

/* What is wrong with a file; NULL: nothing, and the census is taken. */
static const char *read_one(struct names *n, const char *path, const struct tfmt_header *process)
{
	struct tfmt_census *census;
	int err = tfmt_census_open(&census, path);

	if (err == TFMT_E_NOMEM)
		heap_need(NULL);
	if (err == TFMT_E_EMPTY) /* the program ended before it was begun */
		return NULL;
	if (err)
		return err == TFMT_E_IO ? strerror(errno) : tfmt_strerror(err);
	if (!is_of(census, process)) {
		tfmt_census_close(census);
		return "it is of another process";
	}
	take(n, census);
	return NULL;
}

/* One warning for all, of the first; a recording may be read several times. */
static void warn(const char *path, const char *why, size_t nr)
{
	static _Atomic bool has_warned;
	char others[64] = "";

	if (nr && atomic_exchange(&has_warned, true))
		return;
	if (nr > 1)
		snprintf(others, sizeof(others), " (nor %zu more such files)", nr - 1);
	if (nr)
		message_warn("cannot read '%s': %s%s; the names in it are missing", path, why, others);
}

struct names *names_open(const char *trace, const struct tfmt_header *header)
{
	struct names *n = heap_alloc(1, sizeof(*n));
	const char *why, *first_why = NULL, *first = NULL;
	struct censusfiles files;
	size_t nr_bad = 0;

	censusfiles_find(&files, trace);
	n->census = heap_alloc(files.nr_files, sizeof(*n->census));
	for (size_t i = 0; i < files.nr_files; i++) {
		why = read_one(n, files.file[i].path, header);
		if (why && !nr_bad++) {
			first = files.file[i].path;
			first_why = why;
		}
	}
	warn(first, first_why, nr_bad);
	censusfiles_release(&files);
	if (!n->nr_censuses) {
		names_close(n);
		return NULL;
	}
	qsort(n->census, n->nr_censuses, sizeof(*n->census), by_time);
	n->next_ns = n->census[0].time_ns;
	return n;
}

void names_close(struct names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->nr_censuses; i++) {
		tfmt_census_close(n->census[i].census);
		free(n->census[i].tensor);
		free(n->census[i].module);
	}
	free(n->census);
	free(n);
}

/* ---- moments ------------------------------------------------------------------------------------ */

/* Censuses before this event are between it and the one before. */
static void pass_event(struct names *n, const struct tfmt_event *ev)
{
	while (n->nr_passed < n->nr_censuses && n->census[n->nr_passed].time_ns < ev->time_ns) {
		/* Of what is gone from a recording nobody can say what was live then. */
		bool is_past = n->has_past && !n->past_is_over;

		n->census[n->nr_passed++].after = is_past ? 0 : ev->ordinal;
	}
	n->next_ns = n->nr_passed < n->nr_censuses ? n->census[n->nr_passed].time_ns : UINT64_MAX;
}

void names_pass_moment(struct names *n, const struct tfmt_event *ev, int nr)
{
	for (const struct tfmt_event *end = ev + nr; ev < end; ev++) {
		if (ev->before) {
			n->has_past = true;
			continue;
		}
		if (ev->time_ns > n->next_ns)
			pass_event(n, ev);
		n->past_is_over = true;
	}
}

void names_cut(struct names *n)
{
	while (n->nr_passed < n->nr_censuses)
		n->census[n->nr_passed++].after = 0;
	n->next_ns = UINT64_MAX;
}

/* ---- blocks ------------------------------------------------------------------------------------- */

static bool was_live(const struct names_census *c, const struct names_block *b)
{
	return b->birth < c->after && b->death >= c->after;
}

/* The first of the tensors in the block, and how many there are. */
static uint32_t tensors_in(const struct names_census *c, const struct names_block *b, uint32_t *nr)
{
	struct names_tensor from = { .address = b->address, .device = b->device };
	uint32_t low = 0, high = c->nr_tensors;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (by_place(&c->tensor[middle], &from) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (*nr = 0; low + *nr < c->nr_tensors; ++*nr) {
		const struct names_tensor *t = &c->tensor[low + *nr];

		if (t->device != b->device || t->address - b->address >= b->size)
			break;
	}
	return low;
}

/* How many events lie between a moment and a census. */
static uint64_t distance(const struct names_census *c, uint64_t moment)
{
	return c->after > moment ? c->after - moment - 1 : moment + 1 - c->after;
}

/* The ith of the censuses that may name a block: the nearest first, of two as near the earlier. NULL: there are no more. */
static const struct names_census *ith(const struct names *n, uint64_t moment, size_t i)
{
	size_t before = n->nr_censuses, next;

	while (moment != TFMT_NO_ORDINAL && before && n->census[before - 1].after > moment + 1)
		before--;
	next = before; /* those from here on are after the moment, those below before it */
	if (i >= n->nr_censuses)
		return NULL;
	for (;; i--) {
		bool is_earlier = before && (next == n->nr_censuses || distance(&n->census[before - 1], moment) <=
									       distance(&n->census[next], moment));
		const struct names_census *c = is_earlier ? &n->census[--before] : &n->census[next++];

		if (!i)
			return c;
	}
}

/* What the program calls it comes before what only C++ holds, and that before what nothing does. */
static unsigned rank_of(const struct objectname *n)
{
	return n->root == ROOT_CYCLE ? 2 : n->root == ROOT_NATIVE;
}

static bool is_better(const struct objectname *a, enum objectname_use use, const struct named *than)
{
	const struct objectname *b = &than->name;

	if (use != than->use)
		return use < than->use;
	if (rank_of(a) != rank_of(b))
		return rank_of(a) < rank_of(b);
	return strlen(a->text) < strlen(b->text);
}

/* What a block's tensors have of their own, if no two overlap; what only C++ holds is there for the others, as a view's base is. */
struct own {
	uint64_t bytes;
	bool is_unknown;
	bool has_native; /* some are held by C++ alone */
};

static void add_own(struct own *own, const struct names_tensor *t, const struct objectname *name)
{
	if (rank_of(name))
		return;
	own->is_unknown |= !t->own_bytes;
	own->bytes += t->own_bytes;
}

/* Do hooks keep all of these tensors, but for those that only C++ holds? */
static bool are_all_hooked(const struct names_census *c, uint32_t first, uint32_t nr)
{
	struct objectname name;
	struct hookname hook;

	for (uint32_t i = first; i < first + nr; i++) {
		objectname_find(&name, c->census, c->tensor[i].object);
		if (name.root != ROOT_NATIVE && !hookname_find(&hook, c->census, c->tensor[i].object))
			return false;
	}
	return true;
}

/* The entries of one container are called by that: rows of a tensor that are put into a dict one by one have no other names. */
static void add_text(struct textset *texts, const struct tfmt_census *c, uint32_t object, enum objectname_use use, const char *name)
{
	const struct tfmt_object_facts *o = use == USE_UNKNOWN ? tfmt_census_object(c, object) : NULL;
	bool is_entry = o && o->parent && (o->edge == TFMT_EDGE_KEY || o->edge == TFMT_EDGE_INDEX || o->edge == TFMT_EDGE_NUMBER);
	char entry[32];

	if (is_entry) {
		snprintf(entry, sizeof(entry), "[%" PRIu32 "]", o->parent);
		name = entry;
	}
	textset_add(texts, 0, name, strlen(name));
}

/* The best of the tensors in a block of this size, with its name. */
static void choose(struct named *out, const struct names_census *c, uint64_t size, uint32_t first, uint32_t nr)
{
	struct textset texts = { 0 };
	struct own own = { .is_unknown = nr > TENSORS_ASKED };

	*out = (struct named){ .census = c, .use = USE_UNKNOWN };
	for (uint32_t i = first; i < first + nr && i < first + TENSORS_ASKED; i++) {
		enum objectname_use use = objectname_use(c->census, c->tensor[i].object);
		struct objectname name;

		objectname_find(&name, c->census, c->tensor[i].object);
		if (name.root == ROOT_NATIVE)
			own.has_native = true;
		else
			add_text(&texts, c->census, c->tensor[i].object, use, name.text);
		add_own(&own, &c->tensor[i], &name);
		if (out->object && !is_better(&name, use, out))
			continue;
		out->object = c->tensor[i].object;
		out->use = use;
		out->has_node = c->tensor[i].flags & TFMT_TENSOR_HAS_NODE;
		out->is_in_graph = c->tensor[i].flags & TFMT_TENSOR_IN_GRAPH;
		out->is_number = c->tensor[i].is_number;
		out->holders = c->tensor[i].holders;
		out->nodes = c->tensor[i].nodes;
		out->name = name;
	}
	out->own_bytes = own.is_unknown ? 0 : own.bytes;
	out->nr_others = nr > TENSORS_ASKED ? nr - TENSORS_ASKED : 0;
	if (texts.nr_members) {
		/* Of a view its base, and of what has a graph what that saves: they go with it. */
		bool is_own = out->has_node || (out->own_bytes && out->own_bytes < size);

		out->nr_others += (uint32_t)texts.nr_members - 1 + (own.has_native && !is_own);
	}
	out->is_all_hooked = out->nr_others && nr <= TENSORS_ASKED && are_all_hooked(c, first, nr);
	textset_release(&texts);
}

bool names_find(struct named *out, const struct names *n, const struct names_block *block, uint64_t moment)
{
	const struct names_census *c;
	uint32_t first, nr;

	for (size_t i = 0; (c = ith(n, moment, i)) != NULL; i++) {
		if (!was_live(c, block))
			continue;
		first = tensors_in(c, block, &nr);
		if (!nr)
			continue;
		choose(out, c, block->size, first, nr);
		return true;
	}
	return false;
}

/* The object of a census that is called as another one was at another time; NULL: there is none. */
static const struct tfmt_object_facts *find_alike(const struct tfmt_census *c, const struct keeper *k)
{
	for (uint32_t id = 1; id <= tfmt_census_nr_objects(c); id++) {
		const struct tfmt_object_facts *o = tfmt_census_object(c, id);
		struct objectname name;

		if (!o || o->kind != k->kind || !o->length || o->edge != k->edge || strcmp(o->name, k->step))
			continue;
		objectname_find(&name, c, id);
		if (name.root == k->name.root && !strcmp(name.text, k->name.text))
			return o;
	}
	return NULL;
}

uint32_t names_lengths(const struct names *n, const struct keeper *k, uint64_t *length, uint32_t max)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < n->nr_censuses && max; i++) {
		const struct tfmt_object_facts *o = find_alike(n->census[i].census, k);

		if (!o)
			continue;
		if (nr == max)
			memmove(length, length + 1, --nr * sizeof(*length));
		length[nr++] = o->length - 1;
	}
	return nr;
}

static uint32_t course_since(struct names_course *c, const struct names *n, const struct keeper *k, uint64_t ordinal)
{
	uint32_t nr = 0;

	*c = (struct names_course){ 0 };
	for (size_t i = 0; i < n->nr_censuses; i++) {
		const struct tfmt_object_facts *o = n->census[i].after < ordinal ? NULL : find_alike(n->census[i].census, k);

		if (!o)
			continue;
		c->before = c->last;
		c->last = o->length - 1;
		c->first = nr++ ? c->first : c->last;
	}
	return nr;
}

uint32_t names_course(struct names_course *c, const struct names *n, const struct keeper *k)
{
	return course_since(c, n, k, 0);
}

enum names_growth names_growth_of(const struct names *n, const struct keeper *k, uint64_t ordinal)
{
	struct names_course c;

	if (course_since(&c, n, k, ordinal) < 2)
		return NAMES_UNKNOWN;
	return c.last > c.first ? NAMES_GREW : NAMES_STAYED;
}

bool names_saw(const struct names *n, const struct names_block *block)
{
	uint32_t nr;

	for (size_t i = 0; i < n->nr_censuses; i++)
		if (was_live(&n->census[i], block) && (tensors_in(&n->census[i], block, &nr), nr))
			return true;
	return false;
}

enum objectname_use names_use(const struct names *n, const struct names_block *block)
{
	enum objectname_use best = USE_UNKNOWN;
	uint32_t first, nr;

	for (size_t i = 0; i < n->nr_censuses && best == USE_UNKNOWN; i++) {
		const struct names_census *c = &n->census[n->nr_censuses - 1 - i];

		if (!was_live(c, block))
			continue;
		first = tensors_in(c, block, &nr);
		for (uint32_t k = first; k < first + nr && k < first + TENSORS_ASKED; k++) {
			enum objectname_use use = objectname_use(c->census, c->tensor[k].object);

			best = use < best ? use : best;
		}
	}
	return best;
}
