/* SPDX-License-Identifier: MIT */
/* Reading changes, and making edits of them, cycle by cycle. */
#include "analyzer/changes/changes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/changes/batchcut.h"
#include "analyzer/changes/layersteps.h"
#include "analyzer/stacks/element.h"

const char *const change_names[] = {
	[CHANGE_WITHOUT] = "without", [CHANGE_SCALE] = "scale", [CHANGE_DTYPE] = "dtype",
	[CHANGE_CHECKPOINT] = "checkpoint", [CHANGE_BATCH] = "batch",
};

/* ---- as asked for ------------------------------------------------------------------------------- */

/* Types by the names that people use, and the bits of an element. */
static const struct {
	const char *name;
	unsigned bits;
} types[] = {
	{ "float64", 64 }, { "fp64", 64 }, { "double", 64 }, { "float32", 32 }, { "fp32", 32 }, { "float", 32 },
	{ "float16", 16 }, { "fp16", 16 }, { "half", 16 }, { "bfloat16", 16 }, { "bf16", 16 }, { "float8", 8 },
	{ "fp8", 8 }, { "int8", 8 }, { "8bit", 8 }, { "int4", 4 }, { "4bit", 4 }, { "16bit", 16 }, { "32bit", 32 },
};

static bool read_type(struct change *c, const char *text, char *why, size_t size)
{
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(types[i].name, text)) {
			c->bits = types[i].bits;
			return true;
		}
	snprintf(why, size, "there is no type '%s': take float32, bfloat16, float16, 8bit, 4bit or another", text);
	return false;
}

static bool read_factor(struct change *c, const char *text, char *why, size_t size)
{
	char *end;

	c->factor = strtod(text, &end);
	if (end != text && !*end && c->factor >= 0 && c->factor <= 1e6)
		return true;
	snprintf(why, size, "'%s' is no factor: take a number such as 0.5", text);
	return false;
}

static bool read_batch(struct change *c, const char *text, char *why, size_t size)
{
	char *end;

	errno = 0;
	c->batch = strtoull(text, &end, 10);
	if (!errno && end != text && !*end && *text != '-' && c->batch && c->batch <= 1u << 30)
		return true;
	snprintf(why, size, "a batch is a whole number of samples");
	return false;
}

bool changes_add(struct changes *all, enum change_kind kind, const char *text, char *why, size_t size)
{
	struct change *c = &all->change[all->nr];
	const char *equals = strrchr(text, '=');
	size_t length = strlen(text);

	if (all->nr == CHANGES_MAX) {
		snprintf(why, size, "at most %d changes are made at once", CHANGES_MAX);
		return false;
	}
	*c = (struct change){ .kind = kind, .text = text, .factor = 1 };
	all->nr++;
	if (kind == CHANGE_BATCH)
		return read_batch(c, text, why, size);
	if (kind == CHANGE_SCALE || kind == CHANGE_DTYPE) {
		if (!equals) {
			snprintf(why, size, "it takes what to change, '=' and %s",
				 kind == CHANGE_SCALE ? "a factor, as activation=0.5" : "a type, as optimizer_state=8bit");
			return false;
		}
		length = (size_t)(equals - text);
		if (!(kind == CHANGE_SCALE ? read_factor : read_type)(c, equals + 1, why, size))
			return false;
	}
	return selector_read(&c->of, text, length, why, size);
}

/* ---- lives -------------------------------------------------------------------------------------- */

/* The lives of one device of one process. */
struct livelist {
	const struct lives *lives;
	uint32_t device;
	struct life *life;
	size_t nr, room;
	bool is_cut;
};

static struct livelist *list_of(struct changes *c, const struct lives *lives, uint32_t device)
{
	for (size_t i = 0; i < c->nr_lists; i++)
		if (c->list[i].lives == lives && c->list[i].device == device)
			return &c->list[i];
	c->list = heap_grow(c->list, &c->lists_room, c->nr_lists + 1, sizeof(*c->list));
	c->list[c->nr_lists] = (struct livelist){ .lives = lives, .device = device };
	return &c->list[c->nr_lists++];
}

static void begin_life(void *ctx, const struct lives *lives, const struct life *life, size_t place, uint64_t time_ns)
{
	(void)ctx, (void)lives, (void)life, (void)place, (void)time_ns;
}

static void end_life(void *ctx, const struct lives *lives, const struct life *life, size_t place, uint64_t time_ns)
{
	struct livelist *l = list_of(ctx, lives, life->device);

	(void)place, (void)time_ns;
	l->is_cut |= l->nr == LIVES_WINDOW_MAX;
	if (l->is_cut)
		return;
	l->life = heap_grow(l->life, &l->room, l->nr + 1, sizeof(*l->life));
	l->life[l->nr++] = *life;
}

static int by_birth(const void *va, const void *vb)
{
	const struct life *a = va, *b = vb;

	return a->birth.ordinal < b->birth.ordinal ? -1 : a->birth.ordinal > b->birth.ordinal;
}

/* Take in what is still live at the end, and order all. */
static void close_list(struct livelist *l)
{
	struct life *live;
	size_t nr;

	lives_list(l->lives, l->device, LIVES_END, &live, &nr);
	l->life = heap_grow(l->life, &l->room, l->nr + nr, sizeof(*l->life));
	if (nr)
		memcpy(l->life + l->nr, live, nr * sizeof(*live));
	l->nr += nr;
	free(live);
	if (l->nr)
		qsort(l->life, l->nr, sizeof(*l->life), by_birth);
}

/* ---- requests that failed ----------------------------------------------------------------------- */

struct refused {
	const struct replay_process *process;
	uint64_t ordinal, bytes;
	uint32_t stack, shape;
	enum phase phase;
	uint8_t device;
};

static void note_refused(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns)
{
	struct changes *c = ctx;

	(void)time_ns;
	if (ev->kind != TFMT_TENSOR_OOM || ev->before)
		return;
	c->refused = heap_grow(c->refused, &c->refused_room, c->nr_refused + 1, sizeof(*c->refused));
	c->refused[c->nr_refused++] = (struct refused){ process, ev->ordinal, ev->size, ev->python_stack, ev->shape,
							process->phase, ev->device };
}

/* With another batch, the requests of a cycle that failed are others, too. */
static void change_refused(const struct changes *all, const struct jobpart *j, const struct batchcut *cut, struct edits *e)
{
	for (size_t i = 0; i < all->nr_refused; i++) {
		const struct refused *r = &all->refused[i];
		struct jobpart at = *j;

		if (r->process != j->device->process || r->device != j->device->ordinal || r->ordinal < j->from ||
		    r->ordinal > j->to)
			continue;
		at.asked = torch_rounded(r->bytes);
		at.asked_stack = r->stack;
		at.asked_phase = r->phase;
		if (!r->shape || !tfmt_reader_shape(j->device->process->reader, r->shape, &at.asked_shape))
			at.asked_shape = (struct tfmt_shape){ 0 };
		edits_add(e, r->ordinal, (double)batchcut_asked(cut, &at) / (double)at.asked);
	}
}

/* ---- one cycle ---------------------------------------------------------------------------------- */

/* What is made of a cycle's blocks. */
struct cycle {
	struct changes *changes;
	const struct jobpart *j;
	struct edits *edits;
	double *factor; /* of each block */
};

static bool is_of_cycle(const struct jobpart *j, size_t i)
{
	uint64_t birth = j->blocks.block[i].life.birth.ordinal;

	return birth >= j->from && birth <= j->to;
}

static void note_change(struct change *c, const struct jobpart *j, size_t i)
{
	c->blocks++;
	c->bytes += j->blocks.block[i].life.size;
}

static void change_batch(struct cycle *y, struct change *c)
{
	struct batchcut cut;

	if (!batchcut_init(&cut, y->j) || cut.batch == c->batch)
		return;
	/* The last batch of an epoch is smaller than the others: it stays where it is no larger than what is asked for. */
	if (c->batch_was > c->batch && cut.batch < c->batch)
		return;
	c->batch_was = cut.batch > c->batch_was ? cut.batch : c->batch_was;
	c->cycles++;
	cut.part = c->batch;
	change_refused(y->changes, y->j, &cut, y->edits);
	for (size_t i = 0; i < y->j->blocks.nr_blocks; i++) {
		if (!is_of_cycle(y->j, i) || !batchcut_power(&cut, y->j, i))
			continue;
		y->factor[i] *= (double)cut.part / (double)cut.whole;
		note_change(c, y->j, i);
	}
}

/* By how much a block becomes smaller in elements of so many bits; 1 where its type is not known, or is none of numbers. */
static double type_factor(struct change *c, const struct tfmt_shape *s)
{
	const char *name = element_name(s->element_type);
	uint64_t elements = jobpart_elements(s);

	if (!s->bytes || !elements || (!strstr(name, "float") && strcmp(name, "uint8") && strcmp(name, "int8"))) {
		c->unchanged++;
		return 1;
	}
	return (double)c->bits / (8.0 * (double)s->bytes / (double)elements);
}

static void change_meant(struct cycle *y, struct change *c)
{
	for (size_t i = 0; i < y->j->blocks.nr_blocks; i++) {
		double factor = c->factor;

		if (!is_of_cycle(y->j, i) || !selector_means(&c->of, y->j, i))
			continue;
		if (c->kind == CHANGE_WITHOUT)
			factor = 0;
		else if (c->kind == CHANGE_DTYPE)
			factor = type_factor(c, &y->j->shape[i]);
		y->factor[i] *= factor;
		note_change(c, y->j, i);
	}
}

/* Modules that are meant and lie in none that is: each is a layer. */
static uint32_t find_layers(struct selector *s, const struct modulepaths *paths, int32_t *of)
{
	uint32_t nr = 0;

	of[0] = -1;
	for (uint32_t path = 1; path <= paths->nr_paths; path++) {
		uint32_t parent = paths->path[path - 1].parent;

		of[path] = -1;
		if (parent && parent < path && of[parent] >= 0)
			of[path] = of[parent];
		else if (selector_means_path(s, paths, path))
			of[path] = (int32_t)nr++;
	}
	return nr;
}

static void change_layers(struct cycle *y, struct change *c)
{
	const struct modulepaths *paths = y->j->device->process->modulepaths;
	int32_t *of = heap_alloc(paths->nr_paths + 1, sizeof(*of));
	struct layerspans l;

	layerspans_find(&l, y->j, of, find_layers(&c->of, paths, of));
	if (l.nr_layers)
		c->cycles += layersteps_add(y->edits, &l);
	for (size_t i = 0; i < y->j->blocks.nr_blocks; i++)
		if (layerspans_layer(&l, i) >= 0 && jobpart_is_born(y->j, i, PHASE_FORWARD))
			note_change(c, y->j, i);
	layerspans_release(&l);
}

static void change_cycle(struct changes *all, const struct jobpart *j, struct edits *e)
{
	struct cycle y = { all, j, e, heap_alloc(j->blocks.nr_blocks, sizeof(*y.factor)) };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		y.factor[i] = 1;
	for (size_t k = 0; k < all->nr; k++) {
		struct change *c = &all->change[k];

		if (c->kind == CHANGE_BATCH)
			change_batch(&y, c);
		else if (c->kind == CHANGE_CHECKPOINT)
			change_layers(&y, c);
		else
			change_meant(&y, c);
	}
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_of_cycle(j, i) && (y.factor[i] < 1 || y.factor[i] > 1))
			edits_add(e, j->blocks.block[i].life.birth.ordinal, y.factor[i]);
	free(y.factor);
}

/* ---- all cycles --------------------------------------------------------------------------------- */

/* The cycles of a device, one after another. */
struct walk {
	const struct livelist *list;
	size_t next; /* of the list: the first that was born after the cycle */
	struct life *life; /* those of the cycle, and those from before that are still there in it */
	size_t nr, room;
};

static void walk_to(struct walk *w, uint64_t from, uint64_t to)
{
	size_t kept = 0;

	for (size_t i = 0; i < w->nr; i++)
		if (w->life[i].death.ordinal >= from)
			w->life[kept++] = w->life[i];
	w->nr = kept;
	for (; w->next < w->list->nr && w->list->life[w->next].birth.ordinal <= to; w->next++) {
		w->life = heap_grow(w->life, &w->room, w->nr + 1, sizeof(*w->life));
		w->life[w->nr++] = w->list->life[w->next];
	}
}

static void change_device(struct changes *c, const struct replay_device *d, const struct livelist *list, struct edits *e)
{
	const struct steps_bounds *b = &d->process->lives->steps.cycles;
	struct walk w = { .list = list };

	for (uint32_t i = 0; i <= b->nr_bounds; i++) {
		struct jobpart j = { .replay = &c->replay, .device = d };

		j.from = i ? b->ordinal[i - 1] : 0;
		j.to = i < b->nr_bounds ? b->ordinal[i] - 1 : TFMT_NO_ORDINAL - 1;
		walk_to(&w, j.from, j.to);
		jobpart_fill(&j, w.life, w.nr);
		change_cycle(c, &j, e);
		jobpart_release(&j);
	}
	free(w.life);
}

static int say_nothing_changed(const struct changes *all, const char *path)
{
	for (size_t i = 0; i < all->nr; i++) {
		const struct change *c = &all->change[i];

		if (c->kind == CHANGE_BATCH && !c->blocks)
			return message_error("--batch '%s': no batch can be told in '%s', or it has that size", c->text, path);
		if (c->kind == CHANGE_CHECKPOINT && !c->cycles)
			return message_error("--checkpoint '%s': '%s' has no such module in forward; 'vramtrace peak "
					     "--by module --depth 3 %s' lists modules", c->text, path, path);
		if (!c->blocks)
			return message_error("--%s '%s': nothing in '%s' is called so; 'vramtrace peak --by module', '--by name' and "
					     "'--by category' list what there is", change_names[c->kind], c->text, path);
	}
	return 0;
}

static int make_edits(struct changes *c, const char *path)
{
	c->edits = heap_alloc(c->replay.nr_devices, sizeof(*c->edits));
	for (size_t i = 0; i < c->replay.nr_devices; i++) {
		const struct replay_device *d = &c->replay.device[i];
		struct edits *e = &c->edits[c->nr_edits];
		struct livelist *list;

		if (!d->has_tensors || !d->process->lives)
			continue;
		list = list_of(c, d->process->lives, d->ordinal);
		if (list->is_cut)
			return message_error("'%s' has more than %u blocks: changes of code are not computed for so many", path,
					     LIVES_WINDOW_MAX);
		close_list(list);
		*e = (struct edits){ .path = d->process->path, .device = d->ordinal };
		c->nr_edits++;
		change_device(c, d, list, e);
		edits_close(e);
	}
	return say_nothing_changed(c, path);
}

int changes_make(struct changes *c, const char *path)
{
	struct lives_follower follower = { c, begin_life, end_life };
	struct replay_options load = { .lives = true, .names = true, .modules = true, .follower = &follower,
				       .observe = note_refused, .ctx = c, .observe_no_frees = true, .quiet = true };
	int ret = replay_load(&c->replay, path, &load);

	return ret ? ret : make_edits(c, path);
}

void changes_release(struct changes *c)
{
	for (size_t i = 0; i < c->nr; i++)
		selector_release(&c->change[i].of);
	for (size_t i = 0; i < c->nr_edits; i++)
		edits_release(&c->edits[i]);
	free(c->edits);
	for (size_t i = 0; i < c->nr_lists; i++)
		free(c->list[i].life);
	free(c->list);
	free(c->refused);
	replay_release(&c->replay);
}
