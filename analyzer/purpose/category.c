/* SPDX-License-Identifier: MIT */
/* Judging blocks by their lives, stacks and shapes. */
#include "analyzer/purpose/category.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/purpose/category_facts.h"
#include "analyzer/purpose/category_shapes.h"
#include "analyzer/purpose/purpose_thresholds.h"
#include "analyzer/stacks/element.h"
#include "analyzer/training/training_thresholds.h"

#define WORKSPACES_MAX 8 /* streams that a line of the program works on */

/* What judging a block needs to know of all others. */
struct judging {
	const struct replay_process *process;
	const struct books *books; /* the process's */
	const struct lives *lives;
	struct category_stacks stacks;
	struct category_shapes shapes;
	size_t nr_live_parameters; /* blocks that are parameters by their stacks */
	uint64_t nr_elements;      /* what all parameters hold, but for whole numbers */
};

/* ---- shapes ---------------------------------------------------------------------------------- */

static bool is_whole_number(const struct judging *j, const struct group *g)
{
	struct tfmt_shape shape;
	const char *name;

	if (!g->shape || !tfmt_reader_shape(books_reader(j->books), g->shape, &shape))
		return false;
	name = element_name(shape.element_type);
	return !strncmp(name, "int", 3) || !strncmp(name, "uint", 4) || !strcmp(name, "bool");
}

/* Does its line make what has the sizes of most parameters? That of a batch has a shape or two. */
static bool is_remade(struct judging *j, const struct life *life, const struct group *g)
{
	uint32_t nr_shapes = category_stack_of(&j->stacks, life->birth.stack).nr_shapes;

	return category_shapes_fit_sizes(&j->shapes, g) && nr_shapes >= REMADE_SHAPES_MIN &&
	       REMADE_PART * nr_shapes >= j->shapes.nr_parameter_sizes;
}

/*
 * One row of as many elements as all parameters have: they, or their gradients, one after the other. It may be longer, to
 * have a round length, or leave out buffers.
 */
static bool is_flat(const struct judging *j, const struct group *g)
{
	struct tfmt_shape shape;
	uint64_t nr = j->nr_elements;

	if (j->nr_live_parameters < 2 || !g->shape || !tfmt_reader_shape(books_reader(j->books), g->shape, &shape) ||
	    shape.nr_dims != 1)
		return false;
	return (shape.dims[0] > nr ? shape.dims[0] - nr : nr - shape.dims[0]) <= nr / FLAT_PADDING_PART;
}

/* Is it one of a set? Data may have the shape of some parameter, a copy of the model has those of most. */
static bool is_copy(struct judging *j, const struct life *life, const struct group *g)
{
	return is_remade(j, life, g) || (is_flat(j, g) && !life->birth.nr_begun) ||
	       (category_shapes_fit_sizes(&j->shapes, g) &&
		COPIES_PART * category_stack_of(&j->stacks, life->birth.stack).nr_copies > j->nr_live_parameters);
}

/* ---- lives ----------------------------------------------------------------------------------- */

/* An end that tells: not that of the recording, nor of an exception after a failed allocation. */
static bool end_tells(const struct life *life)
{
	return life->death.ordinal != TFMT_NO_ORDINAL && life->death.nr_ooms == life->birth.nr_ooms;
}

/* How most blocks of its group fared that fared no worse than `least`; NR_FATES: none of these has ended yet. */
static enum lives_fate usual_fate(const struct judging *j, const struct life *life, enum lives_fate least)
{
	const struct lives_fates *f = life->group < j->lives->nr_fates ? &j->lives->fates[life->group] : NULL;
	enum lives_fate most = least;

	for (int i = least; f && i < NR_FATES; i++)
		if (f->nr[i] > f->nr[most])
			most = (enum lives_fate)i;
	return f && f->nr[most] ? most : NR_FATES;
}

/* Others like it have come and gone from cycle to cycle: so will this one, though nothing tells when. */
static bool is_passing(const struct judging *j, const struct life *life)
{
	return usual_fate(j, life, FATE_SHORT) == FATE_KEPT && j->lives->fates[life->group].nr[FATE_KEPT] > 1;
}

/* A life that has not ended, as if it ended now, at the end of the recording. */
static struct life so_far(const struct judging *j, const struct life *life)
{
	struct life l = *life;

	if (l.death.ordinal == TFMT_NO_ORDINAL) {
		l.death = j->lives->now;
		l.death.ordinal = TFMT_NO_ORDINAL;
	}
	return l;
}

/* What became of a block, or becomes of its like. */
static enum lives_fate fate_of(const struct judging *j, const struct life *life)
{
	enum lives_fate fate = lives_fate(life), usual;

	if (end_tells(life))
		return fate;
	usual = usual_fate(j, life, fate);
	return usual == FATE_KEPT || (fate == FATE_SHORT && usual != NR_FATES) ? usual : fate;
}

/* Nothing tells what becomes of it. */
static bool is_open(const struct judging *j, const struct life *life)
{
	return !end_tells(life) && lives_fate(life) == FATE_SHORT && usual_fate(j, life, FATE_SHORT) == NR_FATES;
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
static bool is_workspace(const struct judging *j, const struct life *life, const struct group *g, enum lives_fate fate)
{
	if (j->process->imported || is_tensor(g) || g->live.blocks > WORKSPACES_MAX)
		return false;
	return fate == FATE_KEPT || life->death.ordinal == TFMT_NO_ORDINAL || life->birth.stack == life->death.stack;
}

/* Other tools record no shapes: what stays is a tensor or a workspace, and nothing tells which. */
static bool may_be_workspace(const struct judging *j, const struct life *life, enum lives_fate fate)
{
	return j->process->imported && (fate == FATE_KEPT || (fate == FATE_SHORT && !end_tells(life)));
}

static enum category born_in_optimizer(const struct judging *j, const struct life *life, const struct group *g, bool kept)
{
	if (kept)
		return is_tensor(g) || j->process->imported ? CATEGORY_OPTIMIZER_STATE : CATEGORY_WORKSPACE;
	return is_workspace(j, life, g, FATE_SHORT) ? CATEGORY_WORKSPACE : CATEGORY_TEMPORARY;
}

/* Recomputed for backward: what is not used up within the recomputation. */
static enum category recomputed(struct judging *j, const struct life *life)
{
	if (life->death.ordinal == TFMT_NO_ORDINAL || !end_tells(life))
		return CATEGORY_ACTIVATION;
	return category_stack_of(&j->stacks, life->death.stack).recomputes ? CATEGORY_TEMPORARY : CATEGORY_ACTIVATION;
}

/*
 * A hook's own result rather than a gradient that it gives back in place of another: freed as a later pass makes the next
 * one, or never, while the gradients of such parameters come from nodes.
 */
static bool is_of_hook(struct judging *j, const struct life *life, const struct group *g, bool fits)
{
	if (!category_stack_of(&j->stacks, life->birth.stack).in_hook || !j->shapes.nr_parameters || !is_tensor(g))
		return false;
	if (end_tells(life))
		return life->death.phase == PHASE_BACKWARD && life->death.nr_begun != life->birth.nr_begun;
	return !fits || category_shapes_fit_gradient(&j->shapes, g);
}

static enum category born_in_backward(struct judging *j, const struct life *life, const struct group *g,
				      enum lives_fate fate)
{
	bool fits = category_shapes_fit_parameter(&j->shapes, g);
	bool leaves_pass = fate == FATE_OUT_OF_PASS || fate == FATE_KEPT;

	/* Nodes are made by activation checkpointing, or in order to differentiate once more: gradients, too, have them then. */
	if (life->flags & TFMT_FLAG_FORWARD && category_stack_of(&j->stacks, life->birth.stack).recomputes)
		return recomputed(j, life);
	if (life->flags & TFMT_FLAG_FORWARD && !(life->in_graph_pass && j->shapes.nr_parameters) && !(fits && leaves_pass))
		return recomputed(j, life);
	/* Saved for the pass that goes through the graph of this one. */
	if (life->in_graph_pass && j->shapes.nr_parameters && !fits && fate != FATE_SHORT && is_tensor(g))
		return CATEGORY_ACTIVATION;
	/* Made in one pass and used up in another, for which it was saved. */
	if (j->shapes.nr_parameters && !fits && end_tells(life) && life->death.phase == PHASE_BACKWARD &&
	    life->death.nr_begun != life->birth.nr_begun)
		return CATEGORY_ACTIVATION;
	if (leaves_pass && is_of_hook(j, life, g, fits))
		return CATEGORY_ACTIVATION;
	if (fate != FATE_SHORT && fate != FATE_INTO_PASS && (life->death.nr_ended != life->birth.nr_ended ||
							       !end_tells(life))) {
		if (j->process->imported)
			return fate == FATE_KEPT ? CATEGORY_UNKNOWN : CATEGORY_GRADIENT;
		return is_tensor(g) ? CATEGORY_GRADIENT : fate == FATE_KEPT ? CATEGORY_WORKSPACE : CATEGORY_TEMPORARY;
	}
	/* An optimizer that steps within backward frees gradients there. */
	if (fits && life->death.phase == PHASE_OPTIMIZER && end_tells(life))
		return CATEGORY_GRADIENT;
	if (is_open(j, life) && (fits || category_shapes_fit_gradient(&j->shapes, g)))
		return CATEGORY_GRADIENT;
	if (may_be_workspace(j, life, fate))
		return CATEGORY_UNKNOWN;
	return is_workspace(j, life, g, fate) ? CATEGORY_WORKSPACE : CATEGORY_TEMPORARY;
}

/* Without any backward: has it outlasted its forward into a later one, as the keys and values of a KV cache do? */
static bool is_carried(const struct judging *j, const struct life *life)
{
	return !j->lives->steps.nr_backwards && life->death.nr_runs != life->birth.nr_runs;
}

/* What a forward makes with nodes belongs to its graph, but for what is made of parameters before the first pass. */
static bool may_be_copy(const struct life *life)
{
	return !(life->flags & TFMT_FLAG_FORWARD) ||
	       (!life->birth.nr_begun && lives_cycles(&life->birth, &life->death) > 1);
}

static enum category born_in_forward(struct judging *j, const struct life *life, const struct group *g,
				     enum lives_fate fate)
{
	if (is_workspace(j, life, g, fate))
		return CATEGORY_WORKSPACE;
	if (may_be_workspace(j, life, fate))
		return CATEGORY_UNKNOWN;
	if ((fate == FATE_KEPT || (!end_tells(life) && usual_fate(j, life, FATE_SHORT) == FATE_KEPT)) &&
	    may_be_copy(life) && is_copy(j, life, g))
		return CATEGORY_PARAMETER; /* an average of the weights that a forward keeps, or that was made with nodes */
	if (fate != FATE_SHORT || is_carried(j, life))
		return CATEGORY_ACTIVATION;
	if (is_open(j, life))
		return life->flags & TFMT_FLAG_FORWARD || life->death.ordinal == TFMT_NO_ORDINAL ? CATEGORY_ACTIVATION
												   : CATEGORY_TEMPORARY;
	return CATEGORY_TEMPORARY;
}

static int order_to_update(const struct judging *j, const struct life *life)
{
	return updatesites_order(&j->lives->steps.sites, j->lives->steps.reader, life->birth.stack);
}

/* After a forward that has left a graph, whose outputs it may take. */
static bool is_of_outputs(const struct judging *j, const struct life *life)
{
	return life->after_forward && !lives_brings_batch(j->lives, life->birth.stack);
}

/*
 * Made and used up after a forward that has left no graph, by a line that never stands before one, and not shaped as
 * data: what an evaluation computes of its outputs.
 */
static bool is_of_evaluation(const struct judging *j, const struct life *life, const struct group *g, enum lives_fate fate)
{
	return fate == FATE_SHORT && j->lives->steps.nr_backwards && life->after_call &&
	       !lives_brings_batch(j->lives, life->birth.stack) && !category_shapes_fit_batch(&j->shapes, g);
}

/*
 * Data that pile up, as in a replay buffer: they have the shape of a batch's rows, or were made outside of any graph,
 * before the optimizer's call. What comes after that are statistics, an average, a copy.
 */
static bool is_stored(const struct judging *j, const struct life *life, const struct group *g)
{
	return category_shapes_fit_batch(&j->shapes, g) ||
	       (g->shape && !is_of_outputs(j, life) && order_to_update(j, life) < 1);
}

/*
 * Of what the next forward finds. What a line after the optimizer's call leaves to the next step is a batch if no
 * other line brings any. What it makes and uses up there is one of an evaluation.
 */
static bool is_batch(const struct judging *j, const struct life *life, const struct group *g, enum lives_fate fate)
{
	return category_shapes_fit_batch(&j->shapes, g) ||
	       (!is_of_outputs(j, life) &&
		(fate != FATE_KEPT || !j->shapes.has_batches || order_to_update(j, life) < 1));
}

/* A gradient that the program has made of another: it lasts until the optimizer has used it. */
static bool is_made_gradient(const struct judging *j, const struct life *life, const struct group *g)
{
	return life->birth.nr_ended && life->death.phase == PHASE_OPTIMIZER && end_tells(life) &&
	       (category_shapes_fit_sizes(&j->shapes, g) || is_flat(j, g));
}

/*
 * Of an optimizer that is the program's own: it has the sizes of a parameter; or none of a batch, and was made after a
 * backward pass, with no forward since. An environment's step comes after one.
 */
static bool is_own_state(struct judging *j, const struct life *life, const struct group *g)
{
	return category_stack_of(&j->stacks, life->birth.stack).is_optimizer &&
	       (category_shapes_fit_sizes(&j->shapes, g) || is_flat(j, g) ||
		(g->shape && life->birth.nr_begun && !life->after_call && !category_shapes_fit_batch(&j->shapes, g)));
}

/*
 * Of no module, but there is a gradient for it. What a line makes after the first pass, as statistics, is none; nor is
 * what comes and goes after a forward, as data that a penalty is differentiated by.
 */
static bool is_bare_parameter(const struct judging *j, const struct life *life, const struct group *g)
{
	return !life->birth.nr_begun && (!life->birth.nr_forwards || !is_passing(j, life)) &&
	       !category_shapes_fit_parameter(&j->shapes, g) && category_shapes_fit_gradient(&j->shapes, g);
}

/*
 * Does it stay for more than two cycles? A batch that is fetched ahead does not. Of one that is live, or has ended early
 * with the program, those like it tell.
 */
static bool is_to_stay(const struct judging *j, const struct life *life, const struct group *g)
{
	const struct lives_fates *f = life->group < j->lives->nr_fates ? &j->lives->fates[life->group] : NULL;
	uint32_t cycles = lives_cycles(&life->birth, &life->death);

	if (cycles >= LONG_CYCLES || (f && STAYED_PART * f->nr_long > f->nr[FATE_KEPT]))
		return true;
	if (end_tells(life))
		return false;
	return (life->birth.phase == PHASE_INIT && life->death.ordinal == TFMT_NO_ORDINAL) || g->live.blocks >= STAYS_BLOCKS ||
	       (cycles == 2 && !is_passing(j, life));
}

/* Are there no updates but those of functions, which give new weights back that the next step replaces? */
static bool gives_weights(const struct judging *j, const struct life *life, const struct group *g)
{
	return !j->lives->steps.sites.nr_callers && !is_to_stay(j, life, g);
}

/*
 * Made by a line of the program with the sizes of parameters. There is a gradient for it; or PyTorch has no optimizer: then it
 * is the state of a function, if it was made after backward and stays, and else the weights that a function gives back. What
 * is left may be an average of the weights, sums of gradients or what was computed of them: nothing that is recorded tells.
 */
static enum category copied(struct judging *j, const struct life *life, const struct group *g)
{
	bool is_function = life->birth.nr_begun && !life->after_forward && !j->lives->steps.sites.nr_callers &&
			   lives_cycles(&life->birth, &life->death) >= LONG_CYCLES;

	if (is_function || is_own_state(j, life, g))
		return CATEGORY_OPTIMIZER_STATE;
	return is_bare_parameter(j, life, g) || gives_weights(j, life, g) ? CATEGORY_PARAMETER : CATEGORY_UNKNOWN;
}

/*
 * Kept, and by the program's own code: its own optimizer's, a parameter that has no module, its copy, or data. What is
 * left of tensors made while the model runs are outputs and statistics: computed of what forward and backward leave.
 */
static enum category born_to_stay(struct judging *j, const struct life *life, const struct group *g)
{
	if (is_own_state(j, life, g))
		return CATEGORY_OPTIMIZER_STATE;
	if (category_stack_of(&j->stacks, life->birth.stack).makes_module)
		return CATEGORY_PARAMETER;
	if (is_whole_number(j, g))
		return CATEGORY_INPUT;
	if (is_copy(j, life, g) || is_bare_parameter(j, life, g))
		return copied(j, life, g);
	if (!j->lives->now.nr_forwards)
		return CATEGORY_UNKNOWN; /* as without stacks: what looks like data may be what forward left */
	if ((g->shape && life->birth.phase == PHASE_INIT) || is_stored(j, life, g))
		return CATEGORY_INPUT;
	return g->shape ? CATEGORY_ACTIVATION : CATEGORY_UNKNOWN;
}

/* Neither forward, nor backward, nor an optimizer allocated it: the model, data, what the program computes itself. */
static enum category born_elsewhere(struct judging *j, const struct life *life, const struct group *g,
				    enum lives_fate fate)
{
	bool used = life->death.nr_forwards != life->birth.nr_forwards;

	if (is_workspace(j, life, g, fate))
		return CATEGORY_WORKSPACE;
	if (!j->process->phases.has_begun)
		return CATEGORY_UNKNOWN; /* no forward shows what it uses, nor what it makes */
	if (fate != FATE_KEPT && is_of_outputs(j, life))
		return fate == FATE_SHORT ? CATEGORY_TEMPORARY : CATEGORY_ACTIVATION;
	if (!used && is_made_gradient(j, life, g))
		return CATEGORY_GRADIENT;
	if (!used && usual_fate(j, life, FATE_SHORT) == FATE_KEPT && is_remade(j, life, g) &&
	    gives_weights(j, life, g) && !is_own_state(j, life, g))
		return CATEGORY_PARAMETER; /* of the last step: no forward comes that could use it */
	if (!used)
		return fate == FATE_SHORT && end_tells(life) ? CATEGORY_TEMPORARY : born_to_stay(j, life, g);
	if (fate == FATE_KEPT && is_remade(j, life, g))
		return copied(j, life, g);
	if (is_to_stay(j, life, g))
		return born_to_stay(j, life, g);
	if (is_of_evaluation(j, life, g, fate))
		return CATEGORY_TEMPORARY;
	return is_batch(j, life, g, fate) ? CATEGORY_INPUT : CATEGORY_ACTIVATION;
}

/* Does it outlive the step, or the making of the model, in which it was allocated? */
static bool is_kept(struct judging *j, const struct life *life, enum lives_fate fate)
{
	if (life->birth.phase == PHASE_INIT)
		return category_stack_of(&j->stacks, life->death.stack).moves_module ||
		       life->death.ordinal == TFMT_NO_ORDINAL || life->death.phase != PHASE_INIT ||
		       life->death.nr_forwards != life->birth.nr_forwards;
	return fate == FATE_KEPT || (life->death.ordinal == TFMT_NO_ORDINAL && life->death.nr_ooms == life->birth.nr_ooms);
}

/*
 * What came from the host is data, whatever it looks like, if it is no parameter, gradient or state of the optimizer: forward
 * and backward have not computed it.
 */
static enum category category_from_host(const struct life *life, enum category category)
{
	bool is_data = category == CATEGORY_ACTIVATION || category == CATEGORY_TEMPORARY || category == CATEGORY_UNKNOWN;

	return life->is_from_host && is_data ? CATEGORY_INPUT : category;
}

/* A program that neither calls backward nor makes a node for it answers requests: rules of training say nothing of it. */
static bool trains(const struct judging *j)
{
	return j->lives->steps.nr_backwards || j->process->phases.has_nodes;
}

static enum category category_of(struct judging *j, const struct life *block)
{
	const struct group *g = books_group(j->books, block->group);
	struct life life = so_far(j, block);
	struct category_stack stack = category_stack_of(&j->stacks, life.birth.stack);
	enum lives_fate fate = fate_of(j, &life);
	bool kept = is_kept(j, &life, fate);
	enum category told = (enum category)(kept ? stack.kept : stack.freed), category;

	if (told == CATEGORY_PARAMETER && stack.copies_state)
		return CATEGORY_OPTIMIZER_STATE;
	/* A parametrization's forward may be the first to multiply matrices: the library's workspace is no parameter. */
	if (told < NR_CATEGORIES && !(told == CATEGORY_PARAMETER && life.birth.phase == PHASE_FORWARD && !is_tensor(g)))
		return told;
	if (j->process->imported && g->python_stack <= TFMT_STACK_NO_PYTHON && !g->native_stack)
		return CATEGORY_UNKNOWN; /* neither where it was made, nor in what phase */
	switch (life.birth.phase) {
	case PHASE_OPTIMIZER:
		category = born_in_optimizer(j, &life, g, kept);
		break;
	case PHASE_BACKWARD:
		category = born_in_backward(j, &life, g, fate);
		break;
	case PHASE_FORWARD:
		category = born_in_forward(j, &life, g, fate);
		break;
	default:
		category = born_elsewhere(j, &life, g, fate);
	}
	return category;
}

/*
 * Of a program that answers requests what is no weight by a census, which has seen it, is none; nor is anything a batch, or
 * kept for a backward pass.
 */
static enum category category_without_training(const struct category_facts *facts, const struct life *life,
					       enum category category)
{
	bool is_of_training = category == CATEGORY_INPUT || category == CATEGORY_ACTIVATION ||
			      category == CATEGORY_GRADIENT || category == CATEGORY_OPTIMIZER_STATE;

	return is_of_training || (category == CATEGORY_PARAMETER && category_facts_saw(facts, life)) ? CATEGORY_UNKNOWN :
												       category;
}

/* ---- all of them ------------------------------------------------------------------------------ */

/* The module that holds it, else that in whose forward it was made. */
static uint32_t module_of(struct replay_process *process, const struct life *life)
{
	struct names_block block = category_facts_block(life);
	uint32_t holder;

	if (!process->modulepaths)
		return 0;
	holder = modulepaths_holder(process->modulepaths, &block, TFMT_NO_ORDINAL);
	return holder ? holder : life->module;
}

static void judge_init(struct judging *j, const struct replay_process *process)
{
	const struct books *books = process->books;

	*j = (struct judging){
		.process = process, .books = books, .lives = process->lives, .stacks.reader = books_reader(books)
	};
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor)
			category_stacks_add(&j->stacks, g->python_stack,
					    g->phase == PHASE_FORWARD || g->phase == PHASE_BACKWARD);
	}
	category_shapes_find(&j->shapes, books, process->lives, &j->stacks);
}

static void judge_release(struct judging *j)
{
	category_stacks_release(&j->stacks);
	category_shapes_release(&j->shapes);
}

static uint64_t elements_of(const struct judging *j, const struct group *g)
{
	struct tfmt_shape shape;
	uint64_t nr = 1;

	if (!g->shape || is_whole_number(j, g) || !tfmt_reader_shape(books_reader(j->books), g->shape, &shape))
		return 0;
	for (uint32_t i = 0; i < shape.nr_dims; i++)
		nr *= shape.dims[i];
	return nr;
}

/*
 * Of the blocks at the moment: those that are parameters by their stacks, and those made before the first pass that may be
 * copies of them. Later ones, a line may have made one by one.
 */
static void count_parameters(struct judging *j, const struct life *life, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct group *g = books_group(j->books, life[i].group);
		uint8_t phase = life[i].birth.phase;

		if (category_stack_of(&j->stacks, life[i].birth.stack).kept == CATEGORY_PARAMETER) {
			j->nr_live_parameters++;
			j->nr_elements += elements_of(j, g);
		} else if (!life[i].birth.nr_begun && category_shapes_fit_sizes(&j->shapes, g) &&
			 (phase <= PHASE_INIT || (phase == PHASE_FORWARD && may_be_copy(&life[i])))) {
			category_stack_count(&j->stacks, life[i].birth.stack);
		}
	}
}

/* What a tensor takes of its block: all of it where that is not known, or the block has another size than was recorded. */
static uint64_t used_bytes(const struct replay_process *process, const struct life *life)
{
	uint64_t bytes = process->is_edited ? 0 : books_group(process->books, life->group)->shape_bytes;

	return bytes && bytes < life->size ? bytes : life->size;
}

static enum lives_fate fate_so_far(const struct judging *j, const struct life *life)
{
	struct life l = so_far(j, life);

	return lives_fate(&l);
}

static void judge_all(struct categories *c, struct replay_process *process, const struct life *life, size_t nr)
{
	const struct steps *steps = &process->lives->steps;
	uint32_t nr_steps = steps_count(steps);
	struct category_facts facts;
	struct judging j;

	judge_init(&j, process);
	category_facts_init(&facts, process);
	c->block = heap_alloc(nr, sizeof(*c->block));
	count_parameters(&j, life, nr);
	for (size_t i = 0; i < nr; i++) {
		struct category_block *b = &c->block[c->nr_blocks++];

		b->life = life[i];
		b->module = module_of(process, &life[i]);
		b->category = category_facts_learn(&facts, &life[i], fate_so_far(&j, &life[i]));
		b->is_fact = b->category != NR_CATEGORIES;
		b->step = nr_steps ? steps_of(steps, life[i].birth.ordinal) + 1 : 0;
	}
	for (size_t i = 0; i < nr; i++) {
		struct category_block *b = &c->block[i];

		if (!b->is_fact)
			b->category = category_facts_by_likes(&facts, &life[i], fate_so_far(&j, &life[i]));
		if (b->category == NR_CATEGORIES) {
			bool is_seen = category_facts_saw(&facts, &life[i]);

			b->category = category_of(&j, &life[i]);
			if (!trains(&j))
				b->category = category_without_training(&facts, &life[i], b->category);
			if (trains(&j) || is_seen) /* else a weight may not have its module yet */
				b->category = category_from_host(&life[i], b->category);
			b->is_fact = b->category == CATEGORY_INPUT && life[i].is_from_host && is_seen;
		}
		c->sum[b->category].bytes += used_bytes(process, &life[i]);
		c->rounding_bytes += life[i].size - used_bytes(process, &life[i]);
		c->sum[b->category].blocks++;
	}
	category_facts_release(&facts);
	judge_release(&j);
}

void categories_judge(struct categories *c, struct replay_process *process, const struct life *life, size_t nr)
{
	*c = (struct categories)CATEGORIES_INIT;
	judge_all(c, process, life, nr);
}

void categories_find(struct categories *c, struct replay_process *process, uint32_t device, enum lives_moment moment,
		     uint64_t total)
{
	struct life *life = NULL;
	uint64_t known = 0;
	size_t nr = 0;

	*c = (struct categories)CATEGORIES_INIT;
	if (!process->lives)
		return;
	lives_list(process->lives, device, moment, &life, &nr);
	categories_judge(c, process, life, nr);
	free(life);
	for (int i = 0; i < NR_CATEGORIES; i++)
		known += c->sum[i].bytes;
	c->sum[CATEGORY_UNKNOWN].bytes += total - known;
}

void categories_release(struct categories *c)
{
	free(c->block);
	*c = (struct categories)CATEGORIES_INIT;
}

bool categories_tell_phases(const struct replay_process *process)
{
	const struct books *books = process->books;
	struct category_stacks stacks = { .reader = books_reader(books) };
	bool tell = process->phases.has_begun;

	for (uint32_t i = 0; i < books_nr_groups(books) && !tell; i++) {
		const struct group *g = books_group(books, i);

		tell = g->tensor && category_stack_of(&stacks, g->python_stack).kept == CATEGORY_PARAMETER;
	}
	category_stacks_release(&stacks);
	return tell;
}

enum lives_moment categories_moment(const struct replay_process *process, uint32_t device, enum group_mark mark)
{
	enum phase phase = process->lives ? lives_peak_phase(process->lives, device) : NR_PHASES;

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
