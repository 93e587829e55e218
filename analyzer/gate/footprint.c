/* SPDX-License-Identifier: MIT */
/* A recording's figures and stacks by name. */
#include "analyzer/gate/footprint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/growth/stepgrowth.h"
#include "analyzer/holders/holders.h"
#include "analyzer/holders/outside.h"
#include "analyzer/modules/modulesums.h"
#include "analyzer/failures/fatal.h"
#include "analyzer/purpose/category.h"
#include "analyzer/recording/basename.h"
#include "analyzer/stacks/element.h"

const struct footprint_figure_name footprint_figures[NR_FIGURES] = {
	[FIGURE_PEAK] = { "peak", "peak", true },
	[FIGURE_RESERVED] = { "reserved", "reserved", false },
	[FIGURE_DEVICE_USED] = { "device_used", "device used", false },
	[FIGURE_OUTSIDE] = { "outside", "outside PyTorch", true },
	[FIGURE_LIVE_AT_END] = { "live_at_end", "live at the end", true },
};

const char *const footprint_breakdowns[NR_BREAKDOWNS] = { "phase", "library", "category", "module" };

const char *footprint_text(struct footprint *f, const char *text)
{
	text = text ? text : "";
	return textset_add(&f->texts, 0, text, strlen(text))->text;
}

static void release_stack(struct footprint_stack *s)
{
	free(s->caller);
	free(s->named);
}

static void free_stacks(struct footprint_stack *stack, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		release_stack(&stack[i]);
	free(stack);
}

void footprint_release(struct footprint *f)
{
	for (uint32_t i = 0; i < f->nr_devices; i++) {
		struct footprint_device *d = &f->device[i];

		free_stacks(d->stack, d->nr_stacks);
		free_stacks(d->growing, d->nr_growing);
		for (int by = 0; by < NR_BREAKDOWNS; by++)
			free(d->part[by]);
	}
	free(f->device);
	textset_release(&f->texts);
	*f = (struct footprint)FOOTPRINT_INIT;
}

const char *footprint_device_name(char *buf, size_t size, const struct footprint_device *d)
{
	if (d->rank >= 0 && d->process)
		snprintf(buf, size, "rank %" PRId64 ", process %" PRIu32 ", GPU %" PRIu32, d->rank, d->process + 1,
			 d->ordinal);
	else if (d->rank >= 0)
		snprintf(buf, size, "rank %" PRId64 ", GPU %" PRIu32, d->rank, d->ordinal);
	else if (d->process)
		snprintf(buf, size, "process %" PRIu32 ", GPU %" PRIu32, d->process + 1, d->ordinal);
	else
		snprintf(buf, size, "GPU %" PRIu32, d->ordinal);
	return buf;
}

/* ---- order ----------------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

int footprint_compare_stacks(const struct footprint_stack *a, const struct footprint_stack *b)
{
	int order = strcmp(a->file, b->file);

	order = order ? order : compare_numbers(a->line, b->line);
	order = order ? order : strcmp(a->function, b->function);
	order = order ? order : strcmp(a->node, b->node);
	order = order ? order : strcmp(a->call, b->call);
	order = order ? order : strcmp(a->through, b->through);
	order = order ? order : (int)a->from_forward - (int)b->from_forward;
	for (uint32_t i = 0; !order && i < a->nr_callers && i < b->nr_callers; i++)
		order = strcmp(a->caller[i], b->caller[i]);
	return order ? order : compare_numbers(a->nr_callers, b->nr_callers);
}

static int by_name(const void *a, const void *b)
{
	const struct footprint_stack *x = a, *y = b;
	int order = footprint_compare_stacks(x, y);

	order = order ? order : compare_numbers(y->shape_bytes, x->shape_bytes);
	order = order ? order : strcmp(x->shape, y->shape);
	return order ? order : strcmp(x->phase, y->phase);
}

int footprint_compare_devices(const struct footprint_device *a, const struct footprint_device *b)
{
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->process != b->process)
		return a->process < b->process ? -1 : 1;
	return compare_numbers(a->ordinal, b->ordinal);
}

static int by_device(const void *a, const void *b)
{
	return footprint_compare_devices(a, b);
}

static int by_part_name(const void *a, const void *b)
{
	return strcmp(((const struct footprint_part *)a)->name, ((const struct footprint_part *)b)->name);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* What is made, and with what. */
struct making {
	struct footprint *f;
	const struct replay *m;
	const struct sourcepath *names;
	struct stack stack;
};

static bool is_callers(const struct stack_frame *f, const struct stack_frame *site)
{
	return !f->cut && !f->node && !f->simulation && !f->framework && f->python == site->python && f->function;
}

/* The site, and who called it. */
static void name_frames(struct making *k, struct footprint_stack *s)
{
	int site = stack_site(&k->stack);
	const struct stack_frame *frame = site < 0 ? NULL : &k->stack.frame[site];
	const struct stack_frame *node = stack_node(&k->stack);

	s->node = footprint_text(k->f, node ? node->function : NULL);
	if (!frame)
		return;
	s->from_forward = frame->from_forward;
	s->function = footprint_text(k->f, frame->function);
	if (frame->file)
		s->file = footprint_text(k->f, sourcepath_name(k->names, frame->file, &s->in_tree));
	else if (frame->module)
		s->file = footprint_text(k->f, basename_of(frame->module));
	s->line = frame->line;
	for (int i = 0; i < site && !*s->through; i++)
		if (k->stack.frame[i].python && !k->stack.frame[i].simulation)
			s->through = footprint_text(k->f, k->stack.frame[i].function);
	s->caller = heap_alloc(k->stack.nr_frames, sizeof(*s->caller));
	for (uint32_t i = (uint32_t)site + 1; i < k->stack.nr_frames; i++)
		if (is_callers(&k->stack.frame[i], frame))
			s->caller[s->nr_callers++] = footprint_text(k->f, k->stack.frame[i].function);
}

/* What stands for the site of blocks that have none. */
static const char *no_site(struct making *k, struct replay_process *p, const struct group *g)
{
	struct tfmt_thread thread;
	char text[128];

	if (g->modelled)
		return "(modelled)";
	if (g->python_stack != TFMT_STACK_NO_PYTHON || !tfmt_reader_thread(p->reader, g->thread, &thread))
		return "(unknown)";
	snprintf(text, sizeof(text), "(thread %s)", thread.name);
	return footprint_text(k->f, text);
}

/* The pattern, however many blocks there are: another version may have more of them. */
static void name_blocks(struct making *k, const struct namegroup *g, struct footprint_stack *s)
{
	const struct objectname *n = &g->named.name;

	s->name = footprint_text(k->f, n->pattern);
	s->name_in = footprint_text(k->f, n->of_module ? NULL : n->function);
	s->named = heap_alloc(1, sizeof(*s->named));
	*s->named = *g;
}

static void name_stack(struct making *k, struct replay_process *p, const struct holder *h, struct footprint_stack *s)
{
	struct stack_source source = replay_stack_source(k->m, p);
	const struct group *g = h->largest;
	struct tfmt_shape shape;
	char text[SHAPE_TEXT_MAX];

	*s = (struct footprint_stack){ .file = "", .function = "", .node = "", .through = "", .call = "",
				       .shape = "", .phase = phase_names[g->phase], .name = "", .name_in = "",
				       .bytes = h->figures.bytes, .blocks = h->figures.blocks };
	stack_expand(&k->stack, &source, g->python_stack, g->native_stack);
	name_frames(k, s);
	if (!*s->function && !*s->node)
		s->function = no_site(k, p, g);
	if (!g->tensor)
		s->call = footprint_text(k->f, tfmt_reader_function(p->reader, g->function));
	s->shape_bytes = h->nr_shapes ? h->shape[0].figures.bytes : 0;
	if (h->nr_shapes && tfmt_reader_shape(p->reader, h->shape[0].shape, &shape))
		s->shape = footprint_text(k->f, shape_text(text, &shape));
	if (h->named)
		name_blocks(k, h->named, s);
}

/* Never more than a baseline can say, whatever it said. */
static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b > (uint64_t)INT64_MAX ? (uint64_t)INT64_MAX : a + b;
}

/* The first of those named alike has most of a shape. */
void footprint_sort_stacks(struct footprint_device *d)
{
	uint32_t nr = 0;

	if (d->nr_stacks)
		qsort(d->stack, d->nr_stacks, sizeof(*d->stack), by_name);
	for (uint32_t i = 0; i < d->nr_stacks; i++) {
		struct footprint_stack *last = nr ? &d->stack[nr - 1] : NULL;

		if (last && !footprint_compare_stacks(last, &d->stack[i])) {
			last->bytes = sum(last->bytes, d->stack[i].bytes);
			last->blocks = sum(last->blocks, d->stack[i].blocks);
			release_stack(&d->stack[i]);
		} else {
			d->stack[nr++] = d->stack[i];
		}
	}
	d->nr_stacks = nr;
}

static enum group_mark peak_of(const struct replay_device *d)
{
	return d->has_tensors ? MARK_TENSOR_PEAK : MARK_DRIVER_PEAK;
}

static void find_stacks(struct making *k, struct footprint_device *to, const struct replay_device *d)
{
	struct holders_query q = { d->process, d->ordinal, d->has_tensors ? HOLDERS_TENSORS : HOLDERS_DRIVER,
				   HOLDERS_BY_STACK, peak_of(d) };
	struct holders h = HOLDERS_INIT;

	if (d->books->moment[q.mark].reached)
		holders_find(&h, k->m, &q);
	to->stack = heap_alloc(h.nr_holders, sizeof(*to->stack));
	for (uint32_t i = 0; i < h.nr_holders; i++)
		if (!h.holder[i].largest->unrecorded)
			name_stack(k, d->process, &h.holder[i], &to->stack[to->nr_stacks++]);
	footprint_sort_stacks(to);
	holders_release(&h);
}

/* ---- breakdowns ------------------------------------------------------------------------------ */

/* Add to the part of that name, in an array with room for one more. */
static void add_part(struct footprint_device *to, enum footprint_by by, const char *name, uint64_t bytes)
{
	uint32_t i = 0;

	if (!bytes)
		return;
	while (i < to->nr_parts[by] && strcmp(to->part[by][i].name, name))
		i++;
	if (i == to->nr_parts[by])
		to->part[by][to->nr_parts[by]++] = (struct footprint_part){ .name = name };
	to->part[by][i].bytes += bytes;
}

static void find_modules(struct making *k, struct footprint_device *to, const struct categories *c,
			const struct modulepaths *paths)
{
	struct modules modules = MODULES_INIT;
	char text[512];

	modules_find(&modules, c, paths, FOOTPRINT_DEPTH);
	to->part[BY_MODULE] = heap_alloc(modules.nr_sums, sizeof(struct footprint_part));
	for (size_t i = 0; i < modules.nr_sums; i++) {
		const struct module_sum *sum = &modules.sum[i];

		snprintf(text, sizeof(text), "(in no module)");
		if (sum->path)
			modulepaths_text(paths, sum->path, modules.nr_common, text, sizeof(text));
		add_part(to, BY_MODULE, footprint_text(k->f, *text ? text : "(the model)"), sum->bytes);
	}
	modules_release(&modules);
}

static void name_growing(struct making *k, struct footprint_device *to, const struct replay_device *d,
			 const struct stepgrowth *growth)
{
	to->growing = heap_alloc(growth->nr_causes, sizeof(*to->growing));
	for (size_t i = 0; i < growth->nr_causes; i++) {
		const struct stepgrowth_cause *cause = &growth->cause[i];
		const struct group *group = books_group(d->process->books, cause->group);
		bool is_of_one_shape = cause->class != STEPGROWTH_SHAPES && cause->class != STEPGROWTH_SEQUENCE;
		struct group_figures left = { .bytes = (uint64_t)(cause->growth.slope + 0.5) };
		struct holder_shape shape = { group->shape, left };
		struct holder h = { .figures = left, .largest = group, .shape = &shape,
				    .nr_shapes = is_of_one_shape && group->shape };

		if (cause->growth.slope > 0)
			name_stack(k, d->process, &h, &to->growing[to->nr_growing++]);
	}
}

static void find_growth(struct making *k, struct footprint_device *to, const struct replay_device *d)
{
	const struct stepgrowth_limits limits = STEPGROWTH_LIMITS_USUAL;
	struct stepgrowth growth;

	stepgrowth_find(&growth, k->m, d, &limits);
	to->has_growth = growth.total.shape != GROWTH_UNKNOWN && growth.by == STEPGROWTH_BY_STEP;
	to->growth = to->has_growth && growth.total.shape > GROWTH_NONE ? growth.total.slope : 0;
	to->leaks = growth.nr_findings && growth.by == STEPGROWTH_BY_STEP;
	if (to->growth > 0)
		name_growing(k, to, d, &growth);
	stepgrowth_release(&growth);
}

/* What is known by the lives of blocks. */
static void find_purposes(struct making *k, struct footprint_device *to, const struct replay_device *d)
{
	const struct replay_process *p = d->process;
	struct categories c = CATEGORIES_INIT;
	enum lives_moment peak;

	if (!d->has_tensors || !p->lives)
		return;
	find_growth(k, to, d);
	peak = categories_moment(d->process, d->ordinal, MARK_TENSOR_PEAK);
	to->peak_is_past = peak == LIVES_NONE && d->books->allocated_peak_bytes;
	categories_find(&c, d->process, d->ordinal, peak, d->books->allocated_peak_bytes);
	to->part[BY_CATEGORY] = heap_alloc(NR_CATEGORIES, sizeof(struct footprint_part));
	for (int i = 0; i < NR_CATEGORIES; i++)
		if (category_has_row(i, c.sum[i].bytes))
			add_part(to, BY_CATEGORY, category_names[i], c.sum[i].bytes);
	if (p->modulepaths)
		find_modules(k, to, &c, p->modulepaths);
	categories_release(&c);
}

static void sort_parts(struct footprint_device *to)
{
	for (int by = 0; by < NR_BREAKDOWNS; by++)
		if (to->nr_parts[by])
			qsort(to->part[by], to->nr_parts[by], sizeof(struct footprint_part), by_part_name);
}

static void find_parts(struct making *k, struct footprint_device *to, const struct outside *o)
{
	to->part[BY_PHASE] = heap_alloc(NR_PHASES, sizeof(struct footprint_part));
	to->part[BY_LIBRARY] = heap_alloc(NR_OWNERS, sizeof(struct footprint_part));
	for (uint32_t i = 0; i < to->nr_stacks; i++)
		add_part(to, BY_PHASE, to->stack[i].phase, to->stack[i].bytes);
	for (int i = 0; i < NR_OWNERS; i++)
		if (owner_names[i])
			add_part(to, BY_LIBRARY, footprint_text(k->f, owner_names[i]),
				 o->owner[i] + (i == OWNER_CONTEXT ? o->parts.context : 0) +
					 (i == OWNER_CODE ? o->parts.code : 0));
}

/* ---- devices --------------------------------------------------------------------------------- */

/* How many processes of the same rank, or likewise without one, began before this one. */
static uint32_t process_number(const struct replay *m, const struct replay_process *process)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < m->nr_processes; i++)
		nr += m->process[i].rank == process->rank && m->process[i].start_ns < process->start_ns;
	return nr;
}

static void find_figures(struct footprint_device *to, const struct replay_device *d, const struct outside *o)
{
	const struct device_books *b = d->books;
	uint64_t own = o->owner[OWNER_TORCH] + o->owner[OWNER_PROGRAM] + o->owner[OWNER_UNKNOWN];

	to->figure[FIGURE_PEAK] = d->has_tensors ? b->allocated_peak_bytes : b->driver_peak_bytes;
	to->figure[FIGURE_RESERVED] = b->reserved_peak_bytes;
	to->figure[FIGURE_LIVE_AT_END] = d->has_tensors ? b->allocated_bytes : b->driver_bytes;
	to->figure[FIGURE_DEVICE_USED] =
		o->has_process ? o->process_bytes : b->driver_peak_bytes + o->parts.context + o->parts.code;
	to->figure[FIGURE_OUTSIDE] = to->figure[FIGURE_DEVICE_USED] > own ? to->figure[FIGURE_DEVICE_USED] - own : 0;
	to->unused_at_peak = b->reserved_peak_bytes ? 1 - (double)b->allocated_at_reserved_peak_bytes /
								  (double)b->reserved_peak_bytes
						    : -1;
}

static void make_device(struct making *k, struct footprint_device *to, const struct replay_device *d,
		       const struct oomwatch *ooms)
{
	struct outside o;

	outside_find(&o, d);
	*to = (struct footprint_device){ .rank = d->process->rank,
					 .process = process_number(k->m, d->process),
					 .ordinal = d->ordinal,
					 .name = footprint_text(k->f, d->info.name),
					 .capacity_bytes = d->capacity_bytes,
					 .has_tensors = d->has_tensors,
					 .exact = replay_is_exact(d->process),
					 .ooms = d->has_tensors ? d->books->tensor_ooms : d->books->driver_refusals,
					 .unhandled_oom = fatal_to_program(ooms, d) };
	find_figures(to, d, &o);
	find_stacks(k, to, d);
	find_parts(k, to, &o);
	find_purposes(k, to, d);
	sort_parts(to);
	outside_release(&o);
}

void footprint_make(struct footprint *f, const struct replay *m, const struct oomwatch *ooms,
		   const struct sourcepath *names)
{
	const struct replay_process *p = m->nr_devices ? m->device[0].process : &m->process[0];
	struct making k = { .f = f, .m = m, .names = names };

	*f = (struct footprint)FOOTPRINT_INIT;
	f->path = footprint_text(f, m->recording.path);
	f->program = footprint_text(f, basename_of(p->program));
	f->torch = footprint_text(f, p->torch);
	f->simulated = footprint_text(f, p->simulated ? p->simulated : m->simulated ? "unknown" : "");
	f->settings = footprint_text(f, p->allocator_conf);
	f->world_size = p->world_size;
	f->device = heap_alloc(m->nr_devices, sizeof(*f->device));
	for (size_t i = 0; i < m->nr_devices; i++)
		make_device(&k, &f->device[f->nr_devices++], &m->device[i], ooms);
	if (f->nr_devices)
		qsort(f->device, f->nr_devices, sizeof(*f->device), by_device);
	stack_release(&k.stack);
}
