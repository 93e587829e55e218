/* SPDX-License-Identifier: MIT */
/*
 * What causes ask about an autopsy, and how they say what they have found. Nothing here needs a cause, or the table of
 * them.
 */
#ifndef VT_AUTOPSY_FACTS_H
#define VT_AUTOPSY_FACTS_H

#include "analyzer/names/modelkeeper.h"
#include "analyzer/oom/autopsy.h"

#define AUTOPSY_PARTS 8 /* in which advice has something computed, one part after the other; a figure for what it says */

/* ---- the blocks ------------------------------------------------------------------------------ */

/* Whose blocks one of a->categories is among: its stacks, its shape. */
const struct group *autopsy_group(const struct autopsy *a, size_t block);

/* How blocks like this one have fared so far; NULL: none has been freed. */
const struct lives_fates *autopsy_fates(const struct autopsy *a, size_t block);

/* How many of a place's stacks' tensors were freed so far. */
uint64_t autopsy_nr_freed(const struct autopsy *a, size_t place);

/* Is it enough to matter: a part of what is allocated that can be told from noise, and what was lacking? */
bool autopsy_matters(const struct autopsy *a, uint64_t bytes);

/*
 * Is the job as it should be, but too large? Not where something is kept that should have gone, or one tensor is out of
 * line: less of all is no cure.
 */
bool autopsy_is_about_size(const struct autopsy *a);

/* ---- the lines of the program (autopsy_lines.c) ---------------------------------------------- */

/*
 * The lines that findings are said to be at, and their callers. autopsy_call_line(): the
 * program's line that called the model, outside of all modules; false: the stack has none. autopsy_call_line_of_pass(): the same,
 * in a backward pass of the forward's stack that it goes back through.
 */
bool autopsy_call_line(const struct autopsy *a, uint32_t python_stack, struct stack_frame *out);
bool autopsy_call_line_of_pass(const struct autopsy *a, uint32_t python_stack, struct stack_frame *out);

/*
 * The call that ended with an earlier failure, as far as stacks tell: the program's frames of that, outermost first, down
 * to the line after which its function went on by another line (is_parted), else all of them. Zero it.
 */
struct ended_call {
	struct stack stack;
	bool is_parted;
};

/* stack_release() of its stack is needed. */
void autopsy_ended_call(const struct autopsy *a, const struct failure *ended, struct ended_call *call);
/* Does a stack lead through that line of the call? If it is not parted: is its own line one that the call stood on? */
bool autopsy_is_on_call(const struct autopsy *a, uint32_t python_stack, const struct ended_call *call);
/* Does a stack begin in the function in which the call's begins? Those of other threads do not, but for those of one pool. */
bool autopsy_begins_as_call(const struct autopsy *a, uint32_t python_stack, const struct ended_call *call);

/*
 * The finding is about the place of this block, which one call has made; about this place; about calls of the model, that made this
 * block; about the making of a model that this block is of; about this group; about the request.
 */
void autopsy_at_block(const struct autopsy *a, struct autopsy_finding *f, size_t block);
void autopsy_at_place(const struct autopsy *a, struct autopsy_finding *f, size_t place);
void autopsy_at_call(const struct autopsy *a, struct autopsy_finding *f, size_t block);
void autopsy_at_making(const struct autopsy *a, struct autopsy_finding *f, size_t block);
void autopsy_at_group(const struct autopsy *a, struct autopsy_finding *f, const struct group *g);
void autopsy_at_request(const struct autopsy *a, struct autopsy_finding *f);

/* Was it made within vmap() of grad(), which make gradients of each sample? */
bool autopsy_is_of_sample_gradients(const struct autopsy *a, uint32_t python_stack);

/* Was it made by nn.MultiheadAttention? That makes matrices of attention only where it is asked for them. */
bool autopsy_is_of_attention_weights(const struct autopsy *a, uint32_t python_stack);

/* Was it made by nn.Embedding, or nn.EmbeddingBag? */
bool autopsy_is_looked_up(const struct autopsy *a, uint32_t python_stack);

/* Was it made by an async function that asyncio's loop has run? */
bool autopsy_is_of_coroutine(const struct autopsy *a, uint32_t python_stack);

/* Is the line of the program's on this stack? */
bool autopsy_leads_through(const struct autopsy *a, uint32_t python_stack, const struct stack_frame *line);

/* The line of the program's that called the function of this one, which the stack leads through. false: none did. */
bool autopsy_outer_line(const struct autopsy *a, uint32_t python_stack, const struct stack_frame *from, struct stack_frame *line);

/* The innermost line of the program's that all of these stacks lead through, by the same calls. false: there is none. */
bool autopsy_common_line(const struct autopsy *a, const uint32_t *python_stacks, size_t nr, struct stack_frame *line);

/* The line at which the function that has this variable is, on a stack. false: it is not on it. */
bool autopsy_line_of(const struct autopsy *a, uint32_t python_stack, const struct objectname *variable, struct stack_frame *line);

/* The line of the function that has this variable from which both stacks go on, by the same call. false: they do not. */
bool autopsy_same_call_of(const struct autopsy *a, const uint32_t python_stacks[2], const struct objectname *variable, struct stack_frame *line);

/* Was it made while this function of PyTorch's ran? The program's line that called it. */
bool autopsy_call_of(const struct autopsy *a, uint32_t python_stack, const char *file, const char *function, struct stack_frame *line);

/* Was it made within one of torch.func's that takes a chunk_size? Which, and the program's line that called it. */
bool autopsy_has_chunks(const struct autopsy *a, uint32_t python_stack, const char **function, struct stack_frame *line);

/*
 * At the request where that was made within vmap() or grad(), else at a block that was, if there is one (SIZE_MAX: none); called at the program's line
 * that called the outermost of them.
 */
void autopsy_at_transform(const struct autopsy *a, struct autopsy_finding *f, size_t block);

/*
 * Rows of zeros by Python stack of the process's tensors, to be freed; *nr_stacks of them: stacks of a damaged file may be beyond.
 * NULL and 0: it had no tensors.
 */
void *autopsy_by_stack(const struct autopsy *a, size_t row_bytes, uint32_t *nr_stacks);

/* The place that has made most of what is allocated; NULL: several have, or it is of the model. */
const struct autopsy_place *autopsy_main_place(const struct autopsy *a);

/* Does nothing but autograd hold a block? No object of Python's holds its tensor, or no variable of the program led to one. */
bool autopsy_is_held_by_graph(const struct autopsy *a, size_t block);

/* Is it of a graph, or saved by one for backward though no gradient is computed for it, as a grid that is sampled at? */
bool autopsy_is_of_graph(const struct autopsy *a, size_t block);

/*
 * Of an operation, as ATen names it: does it only make room, or numbers of its own, or bring a tensor from elsewhere, so that nothing
 * is computed that has parts? Does it put tensors together? Does it sort?
 */
bool autopsy_is_creation(const char *operation);
bool autopsy_is_joining(const char *operation);
bool autopsy_is_sorting(const char *operation);

/* What each of many calls of an async function holds that wait at once, where that is what most at a place is called: a server's requests. */
bool autopsy_is_in_flight(const struct autopsy *a, size_t place);

/* Have backward passes of several earlier steps made a graph themselves (create_graph=True), of which something is there still? */
bool autopsy_have_passes_made_graphs(const struct autopsy *a);

/* ---- what a finding says (autopsy_finding.c) ------------------------------------------------- */

/* A cause that is no finding, or not in the end: what decided. */
void autopsy_set_aside(struct autopsy *a, struct said said);

/* A finding has one sentence; evidence and advice beyond AUTOPSY_LINES_MAX are left out. Give them SAID(). */
void autopsy_say(struct autopsy_finding *f, struct said said);
void autopsy_evidence(struct autopsy_finding *f, struct said said);
void autopsy_advise(struct autopsy_finding *f, struct said said);
void autopsy_evidence_first(struct autopsy_finding *f, struct said said);
void autopsy_advise_first(struct autopsy_finding *f, struct said said);
void autopsy_drop_evidence(struct autopsy_finding *f, enum sentence sentence);

/* Where one line lets go of what the finding is about, by who keeps it, that is the first advice. */
void autopsy_let_go(struct autopsy_finding *f);

/* ---- who holds what is older than it need be: a model or an optimizer that a newer one has come after (autopsy_finding.c) --- */

/* Of a parameter's block, or of an optimizer's state; false: nothing is known to hold it. */
bool autopsy_find_holder(struct modelkeeper *k, const struct autopsy *a, size_t block);

/*
 * Say, as evidence, who holds a block and, if `other` is another, one that is held in the same way; and what they are called, for
 * advice. The finding is proven then. false: nothing is known to hold it.
 */
bool autopsy_say_holder(char text[static OBJECTNAME_MAX], const struct autopsy *a, struct autopsy_finding *f, size_t block,
			size_t other);

#endif
