/* SPDX-License-Identifier: MIT */
/* What the device held when memory ran out, put together for the causes to look at. */
#include "analyzer/oom/autopsy.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/oom/autopsy_attempts.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/autopsy_holder.h"
#include "analyzer/oom/autopsy_parts.h"
#include "analyzer/oom/autopsy_rank.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/recording/idtable.h"
#include "analyzer/stacks/sourceline.h"

#define MODULES_DEPTH 2

/* ---- places ---------------------------------------------------------------------------------- */

/* Of each Python stack of the process that holds blocks: its place + 1. */
struct places_of {
	uint32_t *stack;
	uint32_t nr_stacks;
	size_t room; /* of the autopsy's places */
	struct stack expanded;
};

static struct autopsy_place *add_place(struct autopsy *a, struct places_of *of,
				       const struct stack_frame *frame)
{
	for (size_t i = 0; i < a->nr_places; i++)
		if (sourceline_is_same_call(&a->place[i].frame, frame))
			return &a->place[i];
	a->place = heap_grow(a->place, &of->room, a->nr_places + 1, sizeof(*a->place));
	a->place[a->nr_places] = (struct autopsy_place){ .frame = *frame };
	return &a->place[a->nr_places++];
}

/* The frame that stands for a stack; false if none is known. */
static bool site_of(const struct autopsy *a, struct stack *stack, uint32_t python, uint32_t native,
		    struct stack_frame *out)
{
	struct stack_source source = replay_stack_source(a->replay, a->device->process);
	int site;

	*out = (struct stack_frame){ 0 };
	stack_expand(stack, &source, python, native);
	site = stack_site(stack);
	if (site >= 0)
		*out = stack->frame[site];
	return site >= 0;
}

/* The place of a group, by its number. */
static uint32_t place_of(struct autopsy *a, struct places_of *of, const struct group *g)
{
	struct stack_frame frame;
	const struct tfmt_reader *reader = a->device->process->reader;
	uint32_t stack = g->python_stack;

	of->stack = idtable_grown(of->stack, &of->nr_stacks, stack, sizeof(*of->stack), reader);
	if (stack >= of->nr_stacks) { /* of a number that no stack has */
		stack = TFMT_STACK_NOT_CAPTURED;
		of->stack = idtable_grown(of->stack, &of->nr_stacks, stack, sizeof(*of->stack), reader);
	}
	if (!of->stack[stack]) {
		site_of(a, &of->expanded, stack, 0, &frame);
		of->stack[stack] = (uint32_t)(add_place(a, of, &frame) - a->place) + 1;
	}
	return of->stack[stack] - 1;
}

static void add_block(struct autopsy *a, size_t i)
{
	const struct category_block *b = &a->categories.block[i];
	struct autopsy_place *place = &a->place[a->block[i].place];

	if (!place->blocks || b->life.size > a->categories.block[place->largest].life.size) {
		place->largest = (uint32_t)i;
		place->module = b->module;
	}
	place->bytes += b->life.size;
	place->blocks++;
	place->category[b->category] += b->life.size;
	if (a->step_ordinal && b->life.birth.ordinal < a->step_ordinal)
		place->kept_bytes += b->life.size;
}

static int by_bytes(const void *va, const void *vb)
{
	const struct autopsy_place *a = va, *b = vb;

	if (a->bytes != b->bytes)
		return a->bytes < b->bytes ? 1 : -1;
	return (a->largest > b->largest) - (a->largest < b->largest);
}

/* Largest first; blocks follow. Each place has a block of its own, which tells it afterwards. */
static void sort_places(struct autopsy *a)
{
	uint32_t *now = heap_alloc(a->nr_places, sizeof(*now));

	if (a->nr_places)
		qsort(a->place, a->nr_places, sizeof(*a->place), by_bytes);
	for (size_t i = 0; i < a->nr_places; i++)
		now[a->block[a->place[i].largest].place] = (uint32_t)i;
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		a->block[i].place = now[a->block[i].place];
	free(now);
}

/* What the blocks of each place are called, by the censuses. */
static void find_names(struct autopsy *a)
{
	const struct replay_process *p = a->device->process;
	struct named named;

	if (!p->names)
		return;
	a->names = heap_alloc(a->nr_places, sizeof(*a->names));
	a->names_kept = heap_alloc(a->nr_places, sizeof(*a->names_kept));
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct life *life = &a->categories.block[i].life;
		bool has_name = namedblocks_name(&named, p, life, LIVES_OOM);

		namegroups_add(&a->names[a->block[i].place], has_name ? &named : NULL, 0, life->size, 1);
		if (kepttensors_is_of_step(&a->moment, i))
			namegroups_add(&a->names_kept[a->block[i].place], has_name ? &named : NULL, 0, life->size, 1);
		a->is_exception_seen |= has_name && named.name.root == ROOT_EXCEPTION;
		a->block[i].is_native = has_name && named.name.root == ROOT_NATIVE;
		a->block[i].is_detached = a->block[i].has_graph && has_name && !a->block[i].is_native && !named.has_node;
		a->block[i].is_unseen = !has_name;
		a->is_seen_now |= has_name && life->birth.ordinal >= a->step_ordinal;
		if (has_name && named.has_node && named.name.root != ROOT_NATIVE &&
		    (named.use == USE_UNKNOWN || named.use == USE_BUFFER || named.use == USE_GRADIENT))
			namegroups_add(&a->holders, &named, 0, life->size, 1);
	}
	for (size_t i = 0; i < a->nr_places; i++)
		a->place[i].named = namegroups_most(&a->names[i]);
}

static void find_places(struct autopsy *a)
{
	struct places_of of = { 0 };
	size_t nr = a->categories.nr_blocks;

	a->block = heap_alloc(nr, sizeof(*a->block));
	for (size_t i = 0; i < nr; i++) {
		const struct group *g = autopsy_group(a, i);

		a->block[i].place = place_of(a, &of, g);
		a->block[i].is_shaped = g->shape && tfmt_reader_shape(a->device->process->reader, g->shape,
								      &a->block[i].shape);
		a->block[i].has_graph = a->categories.block[i].life.flags & TFMT_FLAG_FORWARD;
		add_block(a, i);
	}
	sort_places(a);
	free(of.stack);
	stack_release(&of.expanded);
}

/* On a device without tensors: what was taken from the driver. */
static void find_driver_places(struct autopsy *a)
{
	struct books *books = a->device->process->books;
	struct places_of of = { 0 };
	struct autopsy_place *place;
	struct stack_frame frame;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);
		struct group_figures figures = group_figures_at(g, MARK_OOM);

		if (g->tensor || g->device != a->device->ordinal || !group_is_device_memory(g) || !figures.bytes)
			continue;
		site_of(a, &of.expanded, g->python_stack, g->native_stack, &frame);
		place = add_place(a, &of, &frame);
		place->bytes += figures.bytes;
		place->blocks += figures.blocks;
		place->category[CATEGORY_UNKNOWN] += figures.bytes;
	}
	if (a->nr_places)
		qsort(a->place, a->nr_places, sizeof(*a->place), by_bytes);
	stack_release(&of.expanded);
}

/* ---- the device ------------------------------------------------------------------------------ */

/* Of the driver ledger, what others than PyTorch have taken. */
static void find_libraries(struct autopsy *a)
{
	struct books *books = a->device->process->books;
	uint64_t bytes[NR_OWNERS] = { 0 };
	uint64_t most = 0;

	if (a->failure->is_driver)
		return;
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);
		enum owner owner;

		if (g->tensor || g->device != a->device->ordinal || !group_is_device_memory(g))
			continue;
		owner = books_group_owner(books, g);
		if (owner == OWNER_TORCH)
			continue;
		bytes[owner] += group_figures_at(g, MARK_OOM).bytes;
		a->libraries += group_figures_at(g, MARK_OOM).bytes;
	}
	for (int i = 0; i < NR_OWNERS; i++) {
		if (bytes[i] > most) {
			most = bytes[i];
			a->largest_owner = (enum owner)i;
		}
	}
}

/* The largest request that a new segment would have served. */
static uint64_t largest_request(uint64_t free_bytes)
{
	uint64_t whole = free_bytes / TORCH_SEGMENT_ROUND * TORCH_SEGMENT_ROUND;

	return whole >= TORCH_LARGE_MIN ? whole : whole ? TORCH_SMALL_MAX : 0;
}

static void find_figures(struct autopsy *a)
{
	const struct failure *f = a->failure;
	uint64_t wanted = f->refused ? f->refused : f->asked;

	a->capacity = a->device->capacity_bytes;
	a->cached = f->reserved > f->allocated && !f->is_driver ? f->reserved - f->allocated : 0;
	if (f->free_known && f->refused && wanted > f->free)
		a->lacking = wanted - f->free;
	if (f->free_known && a->capacity && a->capacity >= f->reserved + f->free) {
		a->outside = a->capacity - f->reserved - f->free;
		a->outside_known = true;
	}
	a->largest_fit = f->is_driver || f->is_pooled ? f->free : largest_request(f->free);
	if (f->cached.largest > a->largest_fit)
		a->largest_fit = f->cached.largest;
	find_libraries(a);
}

static void find_step(struct autopsy *a)
{
	const struct steps *steps = &a->device->process->lives->steps;
	const struct steps_bounds *b = steps_bounds(steps);

	if (!steps_count(steps))
		return;
	a->step = steps_of(steps, a->failure->ordinal) + 1;
	if (a->step >= 2 && a->step - 2 < b->nr_bounds)
		a->step_ordinal = b->ordinal[a->step - 2];
}

/* What was made since something else was last allocated is of the call that failed. */
static void find_call(struct autopsy *a)
{
	if (a->failure->phase != PHASE_FORWARD)
		return;
	a->call_ordinal = a->failure->ordinal;
	for (size_t i = a->categories.nr_blocks; i-- > 0;) {
		const struct lives_when *birth = &a->categories.block[i].life.birth;

		if (birth->phase != PHASE_FORWARD || birth->nr_runs < a->calls)
			continue;
		a->calls = birth->nr_runs;
		a->call_ordinal = birth->ordinal;
	}
}

/* "at::_ops::bmm::call(...)": "bmm"; of "sub_Tensor" and "empty_memory_format" without the overload's name: "sub", "empty". */
static void read_operation(char *out, size_t size, const char *function)
{
	static const char prefix[] = "at::_ops::";
	const char *name = function ? strstr(function, prefix) : NULL, *end;

	if (!name)
		return;
	name += sizeof(prefix) - 1;
	end = strstr(name, "::");
	for (const char *c = name; end && c < end; c++)
		if ((c[0] == '_' && isupper((unsigned char)c[1])) || !strncmp(c, "_memory_format", strlen("_memory_format")))
			end = c;
	if (end)
		snprintf(out, size, "%.*s", (int)(end - name), name);
}

/* Who asked: the line, and of a call that the driver refused the operation, the outermost below Python. */
static void find_request(struct autopsy *a)
{
	struct stack stack = { 0 };

	a->has_site = site_of(a, &stack, a->failure->python_stack, a->failure->native_stack, &a->site);
	for (uint32_t i = 0; i < stack.nr_frames && !stack.frame[i].python && !stack.frame[i].node; i++)
		read_operation(a->operation, sizeof(a->operation), stack.frame[i].function);
	stack_release(&stack);
}

static void find_shape(struct autopsy *a)
{
	const struct lives *lives = a->device->process->lives;
	const struct stepinputs_device *inputs = stepinputs_of(&a->failures->inputs, a->device->process->books, a->device->ordinal);

	if (a->failure->free_known)
		a->usable = a->failure->allocated + a->failure->free;
	a->fitting = a->usable - a->usable / FITTING_SPARE_PART;
	a->has_shape = lives && inputs &&
		       shapefit_find(&a->shape, inputs, &lives->steps, a->failure->nr_cycles, a->failure->ordinal);
}

static void find_moment(struct autopsy *a)
{
	const struct failure *f = a->failure;

	a->moment = (struct moment){
		.device = a->device,
		.live = a->categories.block,
		.block = a->block,
		.nr_blocks = f->is_driver ? 0 : a->categories.nr_blocks,
		.nr_places = a->nr_places,
		.allocated = f->allocated,
		.step = a->step,
		.step_ordinal = a->step_ordinal,
		.nr_begun = f->nr_begun,
		.request = { f->asked, f->python_stack, f->phase, a->operation },
	};
}

static void find_patterns(struct autopsy *a)
{
	growingtensors_find(&a->patterns.growing, &a->moment);
	attention_find(&a->patterns.attention, &a->moment);
	opengraphs_find(&a->patterns.open, &a->moment);
	a->patterns.kept = kepttensors_find(&a->moment);
}

/* What a place holds, by its name; of a leak, what steps before have left there: the rest is this step's. */
static void name_by_place(const struct autopsy *a, struct autopsy_finding *f, size_t place)
{
	const struct namegroup *kept = NULL, *alike = NULL;
	uint64_t bytes, unseen;

	f->named_bytes = f->named_unseen = 0;
	if (f->verdict == VERDICT_LEAK && a->names_kept)
		kept = namegroups_most(&a->names_kept[place]);
	if (f->verdict == VERDICT_LEAK && a->names_kept && !kept)
		kept = groupkeeper_most(&a->names_kept[place], &f->named_bytes);
	f->named = kept ? kept : a->place[place].named;
	if (f->verdict == VERDICT_LEAK && a->names && !f->named)
		alike = groupkeeper_alike(&a->names[place], &bytes, &unseen);
	if (alike && alike->named.use != USE_PARAMETER) { /* of a model's own parts how many there are says more */
		f->named = alike;
		f->named_bytes = bytes;
		f->named_unseen = unseen;
	}
	if (!f->named_bytes && f->named)
		f->named_bytes = f->named->bytes;
	if (!f->named_unseen && f->named)
		f->named_unseen = f->named->unseen_bytes;
}

/* Of parameters: the module that gets ever more of them, as an nn.ModuleDict of adapters does. */
static void say_growing_module(const struct autopsy *a, struct autopsy_finding *f, const struct namegroup *g)
{
	struct names_course c;
	struct keeper k;

	if (!groupkeeper_growing_module(&k, g))
		return;
	names_course(&c, a->device->process->names, &k);
	autopsy_evidence_first(f, SAID(growing_had, fact_name("holder", groupkeeper_name(g, &k.name)), fact_count("first", c.first),
				       fact_count("last", c.last)));
	autopsy_advise_first(f, SAID(growing_module_advice, fact_name("holder", groupkeeper_name(g, &k.name)),
				     fact_flag("is_peft", f->site.file && strstr(f->site.file, "/peft/")), fact_bytes("bytes", f->bytes)));
}

/* Of what is kept under many names, as what each module has: how many, and one of them. */
static void say_many_names(const struct autopsy *a, struct autopsy_finding *f, size_t place)
{
	const struct namegroup *most = NULL;
	uint64_t bytes = 0, nr = 0;

	for (size_t i = 0; a->names && i < a->names[place].nr_groups; i++) {
		const struct namegroup *g = &a->names[place].group[i];

		if (!g->is_named || g->named.name.root == ROOT_NATIVE)
			continue;
		bytes += g->bytes;
		nr++;
		most = !most || g->bytes > most->bytes ? g : most;
	}
	if (nr < 2 || 2 * bytes <= a->place[place].bytes)
		return;
	autopsy_evidence_first(f, SAID(many_names, fact_count("names", nr), fact_name("name", namegroup_text(most))));
	say_growing_module(a, f, most);
	f->certainty = CERTAINTY_PROVEN; /* they are seen to be kept */
}

/* What is at the site of a finding, by its name; of graphs that are kept, what keeps them. */
static void name_finding(const struct autopsy *a, struct autopsy_finding *f, const struct namegroup *holder)
{
	if (f->has_holder)
		return;
	for (size_t k = 0; k < a->nr_places && f->has_site; k++)
		if (sourceline_is_same_call(&a->place[k].frame, &f->site)) {
			name_by_place(a, f, k);
			if (f->named && f->verdict == VERDICT_LEAK)
				say_growing_module(a, f, f->named);
			else if (f->verdict == VERDICT_LEAK)
				say_many_names(a, f, k);
		}
	if (f->verdict == VERDICT_GRAPH_RETENTION && strcmp(f->cause, "traceback") && holder) {
		f->named = holder;
		f->named_bytes = holder->bytes;
		f->named_unseen = holder->unseen_bytes;
	}
}

static void ask_causes(struct autopsy *a)
{
	size_t room = 0;

	a->graph_holder = autopsy_find_graph_holder(a);

	for (const struct autopsy_cause *c = autopsy_causes; c->name; c++) {
		struct autopsy_finding *f;

		a->finding = heap_grow(a->finding, &room, a->nr_findings + 1, sizeof(*a->finding));
		f = &a->finding[a->nr_findings];
		*f = (struct autopsy_finding){ .verdict = c->verdict,
					       .cause = c->name,
					       .kind = c->kind,
					       .certainty = c->certainty,
					       .is_beside = c->is_beside,
					       .of_batch = c->of_batch };
		if (c->applies(a, f)) {
			f->has_caller &= !sourceline_is_same_call(&f->caller, &f->site); /* it says no more */
			name_finding(a, f, a->graph_holder);
			autopsy_judge(a, f);
			autopsy_let_go(f);
			a->nr_findings++;
		} else if (f->aside.sentence != SAY_nothing) {
			autopsy_set_aside(a, f->aside);
		}
	}
}

/* A smaller card, a fallback, a notebook's last cell: it may have been meant so. */
static void say_end(struct autopsy *a)
{
	const struct replay_process *p = a->device->process;

	if (a->nr_findings && p->end == REPLAY_END_EXIT && !p->summary->exit_status)
		autopsy_evidence(&a->finding[0], SAID(went_on, NO_FACTS));
	else if (a->nr_findings && a->failure->handled)
		autopsy_evidence(&a->finding[0], SAID(went_on_to_error, fact_count("status", (uint64_t)p->summary->exit_status)));
}

void autopsy_make(struct autopsy *a, const struct replay *m, const struct replay_device *d,
		 const struct failures *f)
{
	const struct failures_of_device *of = failures_of(f, d);

	*a = (struct autopsy){ .replay = m, .device = d, .failures = f };
	if (!of)
		return;
	a->failure = failures_last(of);
	categories_find(&a->categories, d->process, d->ordinal, LIVES_OOM, a->failure->allocated);
	if (d->process->lives)
		find_step(a);
	if (a->failure->is_driver)
		find_driver_places(a);
	else
		find_places(a);
	find_moment(a);
	if (!a->step)
		find_call(a);
	if (!a->failure->is_driver)
		find_names(a);
	if (d->process->modulepaths)
		modules_find(&a->modules, &a->categories, d->process->modulepaths, MODULES_DEPTH);
	if (d->process->modulepaths && a->step)
		autopsy_find_parts(a);
	find_figures(a);
	find_request(a);
	find_shape(a);
	find_patterns(a);
	if (!a->failure->is_driver)
		autopsy_find_attempts(a);
	ask_causes(a);
	autopsy_rank(a);
	if (a->nr_findings && a->finding[0].verdict == VERDICT_TOO_BIG && a->finding[0].kind != AUTOPSY_HELD) {
		autopsy_say_idle(a, &a->finding[0]);
		autopsy_say_trained(a, &a->finding[0]);
	}
	say_end(a);
}

void autopsy_release(struct autopsy *a)
{
	for (size_t i = 0; a->names && i < a->nr_places; i++) {
		namegroups_release(&a->names[i]);
		namegroups_release(&a->names_kept[i]);
	}
	free(a->names);
	free(a->names_kept);
	namegroups_release(&a->holders);
	categories_release(&a->categories);
	modules_release(&a->modules);
	free(a->patterns.kept);
	free(a->block);
	free(a->place);
	free(a->finding);
	free(a->aside);
	*a = (struct autopsy)AUTOPSY_INIT;
}
