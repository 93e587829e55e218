/* SPDX-License-Identifier: MIT */
/* Judging blocks by their lives, stacks and shapes. */
#include "analyzer/analysis/category.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/analysis/category_modules.h"
#include "analyzer/analysis/shapekey.h"
#include "analyzer/category_stack.h"
#include "analyzer/element.h"

#define WORKSPACES_MAX 8 /* streams that a line of the program works on */

/* What judging a block needs to know of all others. */
struct judge {
	const struct books *books;
	const struct lives *lives;
	struct category_stacks stacks;
	uint64_t *parameter, *gradient; /* keys of shapes, ascending */
	uint64_t *parameter_sizes;      /* the parameters' without their types, ascending */
	size_t nr_parameters, nr_gradients;
	size_t nr_live_parameters; /* blocks that are parameters by their stacks */
	size_t nr_parameter_sizes; /* that differ */
};

/* ---- shapes ---------------------------------------------------------------------------------- */

static uint64_t shape_key(const struct judge *j, const struct group *g)
{
	return shapekey_of(j->books, g);
}

static bool is_whole_number(const struct judge *j, const struct group *g)
{
	struct tfmt_shape shape;
	const char *name;

	if (!g->shape || !tfmt_reader_shape(j->books->reader, g->shape, &shape))
		return false;
	name = element_name(shape.element_type);
	return !strncmp(name, "int", 3) || !strncmp(name, "uint", 4) || !strcmp(name, "bool");
}

/* Has it the sizes of a parameter, of whatever type? A copy in float32 of weights in bfloat16 has. */
static bool has_parameter_sizes(const struct judge *j, const struct group *g)
{
	return shapekey_in(j->parameter_sizes, j->nr_parameters, shapekey_sizes(j->books, g));
}

/* Is it one of a set? Data may have the shape of some parameter, a copy of the model has those of most. */
static bool is_copy(struct judge *j, const struct life *life, const struct group *g)
{
	return has_parameter_sizes(j, g) &&
	       2 * category_stack_of(&j->stacks, life->birth.stack).nr_copies > j->nr_live_parameters;
}

/* Does its line make anew what has the sizes of most parameters? That of a batch has a shape or two. */
static bool is_remade(struct judge *j, const struct life *life, const struct group *g)
{
	uint32_t nr_shapes = category_stack_of(&j->stacks, life->birth.stack).nr_shapes;

	return has_parameter_sizes(j, g) && nr_shapes > 2 && 2 * nr_shapes > j->nr_parameter_sizes;
}

/* ---- lives ----------------------------------------------------------------------------------- */

/* An end that tells: not that of the recording, nor of an exception after a failed allocation. */
static bool end_tells(const struct life *life)
{
	return life->death.ordinal != TFMT_NO_ORDINAL && life->death.nr_ooms == life->birth.nr_ooms;
}

/* How most blocks of its group fared; NR_FATES: none has ended yet. */
static enum lives_fate usual_fate(const struct judge *j, const struct life *life)
{
	const struct lives_fates *f = life->group < j->lives->nr_fates ? &j->lives->fates[life->group] : NULL;
	enum lives_fate most = FATE_SHORT;

	for (int i = 0; f && i < NR_FATES; i++)
		if (f->nr[i] > f->nr[most])
			most = (enum lives_fate)i;
	return f && f->nr[most] ? most : NR_FATES;
}

/* Others like it have come and gone from cycle to cycle: so will this one, though nothing tells when. */
static bool is_passing(const struct judge *j, const struct life *life)
{
	return usual_fate(j, life) == FATE_KEPT && j->lives->fates[life->group].nr[FATE_KEPT] > 1;
}

/* A life that has not ended, as if it ended now, at the end of the recording. */
static struct life so_far(const struct judge *j, const struct life *life)
{
	struct life l = *life;

	if (l.death.ordinal == TFMT_NO_ORDINAL) {
		l.death = j->lives->now;
		l.death.ordinal = TFMT_NO_ORDINAL;
	}
	return l;
}

/* What became of a block, or becomes of its like. */
static enum lives_fate fate_of(const struct judge *j, const struct life *life)
{
	enum lives_fate fate = lives_fate(life), usual;

	if (end_tells(life) || fate != FATE_SHORT)
		return fate;
	usual = usual_fate(j, life);
	return usual == NR_FATES ? fate : usual;
}

/* Nothing tells what becomes of it. */
static bool is_open(const struct judge *j, const struct life *life)
{
	return !end_tells(life) && lives_fate(life) == FATE_SHORT && usual_fate(j, life) == NR_FATES;
}

/* ---- by phase of birth ------------------------------------------------------------------------ */

/* Is it surely a tensor? What PyTorch's allocator hands out without a shape is memory for a library. */
static bool is_tensor(const struct group *g)
{
	return g->shape || group_is_pooled_tensor(g);
}

/*
 * Memory without a shape is mostly a library's workspace: held for good, or while one operation runs. Of one stack there
 * is one for each of its streams, not one for each call.
 */
static bool is_workspace(const struct life *life, const struct group *g, enum lives_fate fate)
{
	if (is_tensor(g) || g->live.blocks > WORKSPACES_MAX)
		return false;
	return fate == FATE_KEPT || life->death.ordinal == TFMT_NO_ORDINAL || life->birth.stack == life->death.stack;
}

static enum category born_in_optimizer(const struct life *life, const struct group *g, bool kept)
{
	if (kept)
		return is_tensor(g) ? CATEGORY_OPTIMIZER_STATE : CATEGORY_WORKSPACE;
	return is_workspace(life, g, FATE_SHORT) ? CATEGORY_WORKSPACE : CATEGORY_TEMPORARY;
}

/* Recomputed for backward: what is not used up within the recomputation. */
static enum category recomputed(struct judge *j, const struct life *life)
{
	if (life->death.ordinal == TFMT_NO_ORDINAL || !end_tells(life))
		return CATEGORY_ACTIVATION;
	return category_stack_of(&j->stacks, life->death.stack).recomputes ? CATEGORY_TEMPORARY : CATEGORY_ACTIVATION;
}

static enum category born_in_backward(struct judge *j, const struct life *life, const struct group *g,
				      enum lives_fate fate)
{
	uint64_t key = shape_key(j, g);
	bool fits = shapekey_in(j->parameter, j->nr_parameters, key);

	/* Nodes are made by activation checkpointing, or in order to differentiate once more: gradients, too, have them then. */
	if (life->flags & TFMT_FLAG_FORWARD && (category_stack_of(&j->stacks, life->birth.stack).recomputes ||
						!(life->in_graph_pass || (fits && (fate == FATE_OUT_OF_PASS || fate == FATE_KEPT)))))
		return recomputed(j, life);
	/* Saved for the pass that goes through the graph of this one. */
	if (life->in_graph_pass && j->nr_parameters && !fits && fate != FATE_SHORT && is_tensor(g))
		return CATEGORY_ACTIVATION;
	/* Made in one pass and used up in another, for which it was saved. */
	if (j->nr_parameters && !fits && end_tells(life) && life->death.phase == PHASE_BACKWARD &&
	    life->death.nr_begun != life->birth.nr_begun)
		return CATEGORY_ACTIVATION;
	if (fate != FATE_SHORT && fate != FATE_INTO_PASS && (life->death.nr_ended != life->birth.nr_ended ||
							       !end_tells(life)))
		return is_tensor(g) ? CATEGORY_GRADIENT : fate == FATE_KEPT ? CATEGORY_WORKSPACE : CATEGORY_TEMPORARY;
	/* An optimizer that steps within backward frees gradients there. */
	if (fits && life->death.phase == PHASE_OPTIMIZER && end_tells(life))
		return CATEGORY_GRADIENT;
	if (is_open(j, life) && (fits || shapekey_in(j->gradient, j->nr_gradients, key)))
		return CATEGORY_GRADIENT;
	return is_workspace(life, g, fate) ? CATEGORY_WORKSPACE : CATEGORY_TEMPORARY;
}

/* Without any backward: has it outlasted its forward into a later one, as the keys and values of a KV cache do? */
static bool is_carried(const struct judge *j, const struct life *life)
{
	return !j->lives->steps.nr_backwards && life->death.nr_runs != life->birth.nr_runs;
}

static enum category born_in_forward(struct judge *j, const struct life *life, const struct group *g,
				     enum lives_fate fate)
{
	if (is_workspace(life, g, fate))
		return CATEGORY_WORKSPACE;
	if ((fate == FATE_KEPT || (!end_tells(life) && usual_fate(j, life) == FATE_KEPT)) &&
	    !(life->flags & TFMT_FLAG_FORWARD) && (is_copy(j, life, g) || is_remade(j, life, g)))
		return CATEGORY_PARAMETER; /* an average of the weights that a forward keeps */
	if (fate != FATE_SHORT || is_carried(j, life))
		return CATEGORY_ACTIVATION;
	if (is_open(j, life))
		return life->flags & TFMT_FLAG_FORWARD || life->death.ordinal == TFMT_NO_ORDINAL ? CATEGORY_ACTIVATION
												   : CATEGORY_TEMPORARY;
	return CATEGORY_TEMPORARY;
}

/* From step to step, by a line that brings what forward starts with: data that pile up, as in a replay buffer. */
static bool is_stored(const struct judge *j, const struct life *life)
{
	return life->death.nr_cycles != life->birth.nr_cycles && lives_brings_batch(j->lives, life->birth.stack);
}

/* A gradient that the program has made of another: it lasts until the optimizer has used it. */
static bool is_made_gradient(const struct judge *j, const struct life *life, const struct group *g)
{
	return life->birth.nr_ended && life->death.phase == PHASE_OPTIMIZER && end_tells(life) && has_parameter_sizes(j, g);
}

/* Of an optimizer that is the program's own. */
static bool is_own_state(struct judge *j, const struct life *life, const struct group *g)
{
	return category_stack_of(&j->stacks, life->birth.stack).is_optimizer && has_parameter_sizes(j, g);
}

/* Kept, and by the program's own code: its own optimizer's, a parameter that has no module, its copy, or data. */
static enum category born_to_stay(struct judge *j, const struct life *life, const struct group *g)
{
	uint64_t key = shape_key(j, g);

	if (is_own_state(j, life, g))
		return CATEGORY_OPTIMIZER_STATE;
	if (category_stack_of(&j->stacks, life->birth.stack).makes_module)
		return CATEGORY_PARAMETER;
	if (is_whole_number(j, g))
		return CATEGORY_INPUT;
	if (is_copy(j, life, g) ||
	    (!shapekey_in(j->parameter, j->nr_parameters, key) && shapekey_in(j->gradient, j->nr_gradients, key)))
		return CATEGORY_PARAMETER;
	return key && (life->birth.phase == PHASE_INIT || is_stored(j, life)) ? CATEGORY_INPUT : CATEGORY_UNKNOWN;
}

/* Neither forward, nor backward, nor an optimizer allocated it: the model, data, what the program computes itself. */
static enum category born_elsewhere(struct judge *j, const struct life *life, const struct group *g,
				    enum lives_fate fate)
{
	bool used = life->death.nr_forwards != life->birth.nr_forwards;
	uint32_t cycles = life->death.nr_cycles - life->birth.nr_cycles;

	if (is_workspace(life, g, fate))
		return CATEGORY_WORKSPACE;
	if (life->behind_forward && fate != FATE_KEPT && !lives_brings_batch(j->lives, life->birth.stack))
		return fate == FATE_SHORT ? CATEGORY_TEMPORARY : CATEGORY_ACTIVATION;
	if (!used && is_made_gradient(j, life, g))
		return CATEGORY_GRADIENT;
	if (!used && usual_fate(j, life) == FATE_KEPT && is_remade(j, life, g) && !is_own_state(j, life, g))
		return CATEGORY_PARAMETER; /* of the last step: no forward comes that could use it */
	if (!used)
		return fate == FATE_SHORT && end_tells(life) ? CATEGORY_TEMPORARY : born_to_stay(j, life, g);
	if (cycles && is_remade(j, life, g))
		return is_own_state(j, life, g) ? CATEGORY_OPTIMIZER_STATE : CATEGORY_PARAMETER;
	if (end_tells(life) || cycles <= 1 || is_passing(j, life))
		return cycles > 2 ? born_to_stay(j, life, g) :
		       life->death.ordinal == TFMT_NO_ORDINAL && life->birth.phase == PHASE_INIT ?
				    born_to_stay(j, life, g) : CATEGORY_INPUT;
	return born_to_stay(j, life, g);
}

/* Does it outlive the step, or the making of the model, in which it was allocated? */
static bool is_kept(struct judge *j, const struct life *life, enum lives_fate fate)
{
	if (life->birth.phase == PHASE_INIT)
		return category_stack_of(&j->stacks, life->death.stack).moves_module ||
		       life->death.ordinal == TFMT_NO_ORDINAL || life->death.phase != PHASE_INIT ||
		       life->death.nr_forwards != life->birth.nr_forwards;
	return fate == FATE_KEPT || (life->death.ordinal == TFMT_NO_ORDINAL && life->death.nr_ooms == life->birth.nr_ooms);
}

static enum category category_of(struct judge *j, const struct life *block)
{
	const struct group *g = &j->books->groups.group[block->group];
	struct life life = so_far(j, block);
	struct category_stack stack = category_stack_of(&j->stacks, life.birth.stack);
	enum lives_fate fate = fate_of(j, &life);
	bool kept = is_kept(j, &life, fate);
	enum category told = (enum category)(kept ? stack.kept : stack.freed);

	if (told < NR_CATEGORIES)
		return told;
	switch (life.birth.phase) {
	case PHASE_OPTIMIZER:
		return born_in_optimizer(&life, g, kept);
	case PHASE_BACKWARD:
		return born_in_backward(j, &life, g, fate);
	case PHASE_FORWARD:
		return born_in_forward(j, &life, g, fate);
	default:
		return born_elsewhere(j, &life, g, fate);
	}
}

/* ---- all of them ------------------------------------------------------------------------------ */

/* The shapes of groups that are parameters by their stacks, and of those that outlived the pass they were made in. */
static int find_shapes(struct judge *j)
{
	const struct groups *groups = &j->books->groups;
	size_t room = (groups->nr_groups ? groups->nr_groups : 1) * sizeof(uint64_t);

	j->parameter = malloc(room);
	j->parameter_sizes = malloc(room);
	j->gradient = malloc(room);
	if (!j->parameter || !j->parameter_sizes || !j->gradient)
		return TFMT_E_NOMEM;
	for (uint32_t i = 0; i < groups->nr_groups; i++) {
		const struct group *g = &groups->group[i];
		const struct lives_fates *f = i < j->lives->nr_fates ? &j->lives->fates[i] : NULL;
		uint64_t key = g->tensor ? shape_key(j, g) : 0;

		if (key && category_stack_of(&j->stacks, g->python_stack).kept == CATEGORY_PARAMETER) {
			j->parameter_sizes[j->nr_parameters] = shapekey_sizes(j->books, g);
			j->parameter[j->nr_parameters++] = key;
		} else if (key && f && g->phase == PHASE_BACKWARD && (f->nr[FATE_OUT_OF_PASS] || f->nr[FATE_KEPT])) {
			j->gradient[j->nr_gradients++] = key;
		}
	}
	qsort(j->parameter, j->nr_parameters, sizeof(*j->parameter), shapekey_order);
	qsort(j->parameter_sizes, j->nr_parameters, sizeof(*j->parameter_sizes), shapekey_order);
	qsort(j->gradient, j->nr_gradients, sizeof(*j->gradient), shapekey_order);
	return 0;
}

/* Gradients that are live at the end have not been counted with the fates: judge them first. */
static int find_live_gradients(struct judge *j)
{
	uint64_t *grown = realloc(j->gradient, (j->nr_gradients + j->lives->nr_lives + 1) * sizeof(*grown));

	if (!grown)
		return TFMT_E_NOMEM;
	j->gradient = grown;
	for (size_t i = 0; i < j->lives->nr_lives; i++) {
		const struct life *life = &j->lives->life[i];
		uint64_t key;

		if (!life->is_live || life->birth.phase != PHASE_BACKWARD || life->flags & TFMT_FLAG_FORWARD ||
		    life->birth.nr_ended == j->lives->now.nr_ended)
			continue;
		key = shape_key(j, &j->books->groups.group[life->group]);
		if (key)
			j->gradient[j->nr_gradients++] = key;
	}
	qsort(j->gradient, j->nr_gradients, sizeof(*j->gradient), shapekey_order);
	return 0;
}

/* How many sizes parameters have, and how many of them each line has ever made beside. */
static void count_shapes(struct judge *j)
{
	const struct groups *groups = &j->books->groups;

	for (size_t i = 0; i < j->nr_parameters; i++)
		j->nr_parameter_sizes += !i || j->parameter_sizes[i] != j->parameter_sizes[i - 1];
	for (uint32_t i = 0; i < groups->nr_groups; i++) {
		const struct group *g = &groups->group[i];

		if (g->tensor && (g->phase == PHASE_OTHER || g->phase == PHASE_FORWARD) && has_parameter_sizes(j, g))
			category_stack_count_shape(&j->stacks, g->python_stack);
	}
}

static int judge_init(struct judge *j, const struct books *books)
{
	int err;

	*j = (struct judge){ .books = books, .lives = books->lives, .stacks.reader = books->reader };
	for (uint32_t i = 0; i < books->groups.nr_groups; i++) {
		const struct group *g = &books->groups.group[i];

		if (g->tensor)
			category_stacks_add(&j->stacks, g->python_stack,
					    g->phase == PHASE_FORWARD || g->phase == PHASE_BACKWARD);
	}
	err = find_shapes(j);
	if (!err)
		count_shapes(j);
	return err ? err : find_live_gradients(j);
}

static void judge_release(struct judge *j)
{
	category_stacks_release(&j->stacks);
	free(j->parameter);
	free(j->parameter_sizes);
	free(j->gradient);
}

/* Of the blocks at the moment: those that are parameters by their stacks, and those that may be copies of them. */
static void count_parameters(struct judge *j, const struct life *life, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct group *g = &j->books->groups.group[life[i].group];
		uint8_t phase = life[i].birth.phase;

		if (category_stack_of(&j->stacks, life[i].birth.stack).kept == CATEGORY_PARAMETER)
			j->nr_live_parameters++;
		else if ((phase <= PHASE_INIT || (phase == PHASE_FORWARD && !(life[i].flags & TFMT_FLAG_FORWARD))) &&
			 has_parameter_sizes(j, g))
			category_stack_count(&j->stacks, life[i].birth.stack);
	}
}

/* What a tensor takes of its block: all of it where that is not known. */
static uint64_t used_bytes(const struct books *books, const struct life *life)
{
	uint64_t bytes = books->groups.group[life->group].shape_bytes;

	return bytes && bytes < life->size ? bytes : life->size;
}

static int judge_all(struct categories *c, const struct books *books, const struct life *life, size_t nr)
{
	uint32_t nr_steps = steps_count(&books->lives->steps);
	struct judge j;
	int err = judge_init(&j, books);

	c->block = calloc(nr ? nr : 1, sizeof(*c->block));
	if (!c->block)
		err = TFMT_E_NOMEM;
	if (!err)
		count_parameters(&j, life, nr);
	for (size_t i = 0; i < nr && !err; i++) {
		struct category_block *b = &c->block[c->nr_blocks++];

		b->life = life[i];
		b->module = life[i].module;
		b->category = category_of(&j, &life[i]);
		b->step = nr_steps ? steps_of(&books->lives->steps, life[i].birth.ordinal) + 1 : 0;
		c->sum[b->category].bytes += used_bytes(books, &life[i]);
		c->rounding_bytes += life[i].size - used_bytes(books, &life[i]);
		c->sum[b->category].blocks++;
	}
	judge_release(&j);
	return err;
}

int categories_judge(struct categories *c, struct model_process *process, const struct life *life, size_t nr)
{
	int err;

	*c = (struct categories)CATEGORIES_INIT;
	err = judge_all(c, &process->books, life, nr);
	return !err && process->books.modulepaths ? category_find_modules(c, &process->books) : err;
}

int categories_find(struct categories *c, struct model_process *process, uint32_t device, enum lives_moment moment,
		    uint64_t total)
{
	const struct books *books = &process->books;
	struct life *life = NULL;
	uint64_t known = 0;
	size_t nr = 0;
	int err;

	*c = (struct categories)CATEGORIES_INIT;
	if (!books->lives)
		return 0;
	err = lives_list(books->lives, device, moment, &life, &nr);
	if (!err)
		err = categories_judge(c, process, life, nr);
	free(life);
	for (int i = 0; i < NR_CATEGORIES; i++)
		known += c->sum[i].bytes;
	c->sum[CATEGORY_UNKNOWN].bytes += total - known;
	return err;
}

void categories_release(struct categories *c)
{
	free(c->block);
	*c = (struct categories)CATEGORIES_INIT;
}

enum lives_moment categories_moment(const struct model_process *process, uint32_t device, enum group_mark mark)
{
	enum phase phase = process->books.lives ? lives_peak_phase(process->books.lives, device) : NR_PHASES;

	switch (mark) {
	case MARK_TENSOR_PEAK:
		return phase == NR_PHASES ? LIVES_NONE : (enum lives_moment)(LIVES_PEAK_OF_PHASE + phase);
	case MARK_OOM:
		return LIVES_OOM;
	case MARK_TIME:
		return LIVES_TIME;
	case MARK_END:
		return LIVES_END;
	default:
		return LIVES_NONE;
	}
}
