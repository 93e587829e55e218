/* SPDX-License-Identifier: MIT */
/* The table of causes, and those that show in the device's figures alone. */
#include "analyzer/oom/autopsy_causes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/oom/oom_thresholds.h"

/* The driver was not asked, or had enough: it was PyTorch's own limit. */
static bool is_user_limit(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct failure *x = a->failure;
	uint64_t least = x->reserved + x->asked;

	if (x->free_known && x->free < x->asked)
		f->aside = SAID(aside_user_limit, fact_name("cause", f->cause), fact_bytes("free", x->free),
				fact_bytes("asked", x->asked));
	if (x->refused || !x->free_known || x->free < x->asked || !a->capacity || x->asked > a->capacity)
		return false;
	f->bytes = x->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(limit_of_user, fact_bytes("bytes", x->asked), fact_bytes("free", x->free)));
	autopsy_evidence(f, SAID(limit_not_asked, fact_bytes("limit", least)));
	autopsy_evidence(f, SAID(limit_reserved, fact_bytes("reserved", x->reserved), fact_bytes("capacity", a->capacity)));
	/* What something keeps would fill a larger part, too. */
	if (autopsy_is_about_size(a))
		autopsy_advise(f, SAID(limit_advice, fact_share("fraction", (double)least, (double)a->capacity)));
	return true;
}

/* The line with most of what a process had allocated on a device at its peak; NULL: none. */
static const struct group *largest_at_peak(const struct replay_device *d)
{
	const struct books *books = d->process->books;
	const struct group *largest = NULL;
	uint64_t most = 0, bytes;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		bytes = g->tensor && g->device == d->ordinal ? group_figures_at(g, MARK_TENSOR_PEAK).bytes : 0;
		if (bytes > most) {
			most = bytes;
			largest = g;
		}
	}
	return largest;
}

/* Is it the same GPU, as another process has it? */
static bool is_shared(const struct replay_device *a, const struct replay_device *b)
{
	return a->process != b->process && !strcmp(a->process->header->host, b->process->header->host) &&
	       a->info.uuid && b->info.uuid && *a->info.uuid && !strcmp(a->info.uuid, b->info.uuid);
}

/* The others may be of this recording: workers, or ranks that meant another GPU. */
static void say_recorded_others(const struct autopsy *a, struct autopsy_finding *f)
{
	for (size_t i = 0; i < a->replay->nr_devices; i++) {
		const struct replay_device *d = &a->replay->device[i];
		const struct group *g = is_shared(a->device, d) ? largest_at_peak(d) : NULL;
		struct stack_source source;
		struct stack stack = { 0 };
		int site;

		if (!g)
			continue;
		source = replay_stack_source(a->replay, d->process);
		stack_expand(&stack, &source, g->python_stack, g->native_stack);
		site = stack_site(&stack);
		autopsy_evidence(f, SAID(others_recorded, fact_count("pid", d->process->header->pid),
					 fact_bytes("tensors", d->books->allocated_peak_bytes),
					 fact_site("site", site >= 0 ? &stack.frame[site] : &(struct stack_frame){ 0 })));
		stack_release(&stack);
	}
}

static bool is_other_process(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct failure *x = a->failure;

	if (x->others_known && a->lacking)
		f->aside = SAID(aside_other_process, fact_name("cause", f->cause), fact_bytes("others", x->other_processes),
				fact_bytes("lacking", a->lacking));
	if (!x->others_known || !a->lacking || x->other_processes < a->lacking ||
	    (x->other_processes < a->capacity / OTHERS_MIN_PART && x->other_processes < OTHERS_MIN_BYTES))
		return false;
	f->bytes = x->other_processes;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(others_hold, fact_bytes("bytes", x->other_processes),
			    fact_share("share", (double)x->other_processes, (double)a->capacity),
			    fact_bytes("lacking", a->lacking)));
	autopsy_evidence(f, SAID(others_by_nvml, NO_FACTS));
	say_recorded_others(a, f);
	autopsy_advise(f, SAID(others_advice, fact_bytes("more", f->bytes), fact_bytes("lacking", a->lacking)));
	return true;
}

static bool is_outside(struct books *books, const struct group *g, uint32_t device)
{
	return !g->tensor && g->device == device && group_is_device_memory(g) && books_group_owner(books, g) != OWNER_TORCH;
}

/* What one line of Python has taken outside PyTorch, on whatever ways through libraries. */
static uint64_t taken_there(const struct autopsy *a, const struct group *g)
{
	struct books *books = a->device->process->books;
	uint64_t bytes = group_figures_at(g, MARK_OOM).bytes;

	for (uint32_t i = 0; i < books_nr_groups(books) && g->python_stack >= TFMT_STACK_FIRST; i++) {
		const struct group *other = books_group(books, i);

		if (other != g && other->python_stack == g->python_stack && is_outside(books, other, a->device->ordinal))
			bytes += group_figures_at(other, MARK_OOM).bytes;
	}
	return bytes;
}

/* Libraries of this process, or the driver for it. */
static bool is_non_torch(const struct autopsy *a, struct autopsy_finding *f)
{
	struct books *books = a->device->process->books;
	uint64_t others = a->failure->others_known ? a->failure->other_processes : 0;
	uint64_t own = a->outside > others ? a->outside - others : 0, most = 0;
	const struct group *largest = NULL;

	if (!a->failure->is_driver && a->outside_known && a->lacking)
		f->aside = SAID(aside_non_torch, fact_name("cause", f->cause), fact_bytes("outside", own),
				fact_bytes("lacking", a->lacking));
	if (a->failure->is_driver || !a->outside_known || !a->lacking || own < CONTEXT_AND_LIBRARIES_MAX_BYTES ||
	    own - CONTEXT_AND_LIBRARIES_MAX_BYTES < a->lacking)
		return false;
	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);
		uint64_t bytes = is_outside(books, g, a->device->ordinal) ? taken_there(a, g) : 0;

		if (bytes <= most)
			continue;
		most = bytes;
		largest = g;
	}
	f->bytes = own;
	if (largest)
		autopsy_at_group(a, f, largest);
	autopsy_say(f, SAID(outside_torch, fact_bytes("bytes", own), fact_bytes("lacking", a->lacking)));
	if (a->libraries)
		autopsy_evidence(f, SAID(outside_by_calls, fact_bytes("recorded", a->libraries),
					 fact_name("owner", owner_names[a->largest_owner])));
	autopsy_evidence(f, SAID(outside_by_none, fact_bytes("rest", own > a->libraries ? own - a->libraries : 0)));
	return true;
}

/* A library's own request failed, or the program's, beside what PyTorch holds. */
static bool is_library_request(const struct autopsy *a, struct autopsy_finding *f)
{
	struct books *books = a->device->process->books;
	const struct failure *x = a->failure;
	const char *name;
	enum owner owner;

	if (!x->is_library)
		return false;
	name = x->modelled ? tfmt_reader_function(books_reader(books), x->modelled) : NULL;
	owner = name ? owner_named(name)
		     : books_owner(books, x->native_stack, x->python_stack).owner;
	f->bytes = x->asked;
	autopsy_at_request(a, f);
	if (owner == OWNER_UNKNOWN || !owner_titles[owner])
		autopsy_say(f, SAID(library_refused, fact_bytes("bytes", x->asked), fact_bytes("reserved", x->reserved)));
	else
		autopsy_say(f, SAID(owner_refused, fact_bytes("bytes", x->asked), fact_name("owner", owner_titles[owner]),
				    fact_bytes("reserved", x->reserved)));
	if (x->free_known)
		autopsy_evidence(f, SAID(library_free, fact_bytes("free", x->free)));
	if (a->cached && a->cached >= a->lacking)
		autopsy_advise(f, SAID(library_advice, fact_bytes("cached", a->cached)));
	return true;
}

#define SORTED_MOST 2 /* what PyTorch's sorting has made when it asks for room to work in: the sorted values, and where each was */

/*
 * What the operation that asked has made so far, with the request: einsum() makes several for one result, sorting the sorted values and
 * where each was. More than that were left by earlier calls of the same line.
 */
static uint64_t made_by_operation(const struct autopsy *a)
{
	bool is_sorting = autopsy_is_sorting(a->operation);
	uint64_t bytes = a->failure->asked;
	uint32_t nr = 0;

	if (!is_sorting && strcmp(a->operation, "einsum") != 0)
		return bytes;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		if (autopsy_group(a, i)->python_stack != a->failure->python_stack)
			continue;
		bytes += a->categories.block[i].life.size;
		nr++;
	}
	return is_sorting && nr > SORTED_MOST ? a->failure->asked : bytes;
}

/* What it makes on the way from one operand to the next matters where that is most of what there is. */
static void advise_einsum(const struct autopsy *a, struct autopsy_finding *f)
{
	if (!strcmp(a->operation, "einsum") && 2 * made_by_operation(a) > a->failure->allocated + a->failure->asked)
		autopsy_advise(f, SAID(einsum_advice, NO_FACTS));
}

static bool is_never_fitting(const struct autopsy *a, struct autopsy_finding *f)
{
	if (!a->capacity || a->failure->asked <= a->capacity)
		return false;
	f->bytes = a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(never_fits, fact_bytes("bytes", f->bytes), fact_bytes("capacity", a->capacity),
			    fact_if(*a->operation, fact_name("operation", a->operation))));
	autopsy_evidence(f, SAID(never_fits_empty, fact_bytes("lacking", a->failure->asked - a->capacity)));
	if (!a->failure->is_driver) {
		advise_einsum(a, f);
		autopsy_say_whole(a, f);
		autopsy_say_logits(a, f);
	}
	return true;
}

/* The category with most bytes, apart from one; NR_CATEGORIES: there is none. */
static int most_bytes(const struct autopsy *a, int apart)
{
	const struct category_sum *sum = a->categories.sum;
	int most = NR_CATEGORIES;

	for (int i = 0; i < NR_CATEGORIES; i++)
		if (i != apart && (int64_t)sum[i].bytes > 0 &&
		    (most == NR_CATEGORIES || sum[i].bytes > sum[most].bytes))
			most = i;
	return most;
}

/* Who sorts rows may need no more than the first of each. */
static void advise_sorting(const struct autopsy *a, struct autopsy_finding *f)
{
	uint64_t made = made_by_operation(a);

	if (autopsy_is_sorting(a->operation) && made > a->lacking && autopsy_matters(a, made))
		autopsy_advise_first(f, SAID(sorting_advice, fact_name("operation", a->operation), fact_site("site", &a->site), fact_bytes("bytes", made)));
}

static struct said sum_text(const struct autopsy *a)
{
	uint64_t made = made_by_operation(a), others = a->failure->allocated + a->failure->asked - made;
	const struct autopsy_place *p = autopsy_main_place(a);

	struct fact lacking = fact_bytes("lacking", a->lacking), asked = fact_bytes("asked", a->failure->asked);
	struct fact taken = fact_bytes("taken", a->failure->reserved), allocated = fact_bytes("allocated", a->failure->allocated);
	struct fact part = fact_if(p, fact_bytes("part", p ? p->bytes : 0)), tensors = fact_if(p, fact_count("tensors", p ? p->blocks : 0));
	struct fact place = fact_if(p, fact_site("place", p ? &p->frame : &a->site));

	if (!a->failure->is_driver && *a->operation && made > others && others)
		return SAID(sum_of_one, fact_name("operation", a->operation), fact_bytes("made", made), fact_bytes("others", others));
	if (a->failure->is_driver)
		return a->lacking ? SAID(sum_of_program, lacking, asked, taken) : SAID(sum_beside_program, asked, taken);
	return a->lacking ? SAID(sum_of_tensors, lacking, asked, allocated, part, tensors, place)
			  : SAID(sum_beside_tensors, asked, allocated, part, tensors, place);
}

/* Is no more said than what there is, and what was asked for? */
static bool is_sum(const struct autopsy_finding *f)
{
	return f->sentence.sentence == SAY_sum_of_tensors || f->sentence.sentence == SAY_sum_beside_tensors;
}

/* Nothing else: the sum of what the program needs. */
static bool is_too_big(const struct autopsy *a, struct autopsy_finding *f)
{
	int first = most_bytes(a, NR_CATEGORIES), second = most_bytes(a, first);

	f->bytes = a->lacking ? a->lacking : a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, sum_text(a));
	if (!a->failure->is_driver) { /* else nothing is known of tensors */
		autopsy_say_larger(a, f);
		advise_einsum(a, f);
		autopsy_say_whole(a, f);
		autopsy_say_alike(a, f);
		if (!autopsy_has_rounds(a))
			autopsy_say_pairs(a, f);
		autopsy_say_line(a, f);
		autopsy_say_models(a, f);
		if (!autopsy_is_sorting(a->operation))
			autopsy_say_largest(a, f);
		autopsy_say_logits(a, f);
		autopsy_say_split(a, f);
		autopsy_say_recomputed(a, f);
		autopsy_say_nested(a, f);
		autopsy_say_doubles(a, f);
		autopsy_say_open(a, f);
		if (is_sum(f))
			autopsy_say_looked_up(a, f);
		if (is_sum(f))
			autopsy_say_integers(a, f);
		if (is_sum(f))
			autopsy_say_rounds(a, f);
		autopsy_advise_half(a, f);
		advise_sorting(a, f);
	}
	if (!a->failure->refused && a->failure->free_known && a->failure->free < a->failure->asked)
		autopsy_evidence(f, SAID(limit_came_first, fact_bytes("free", a->failure->free)));
	if (a->device->process->imported && !a->capacity)
		autopsy_evidence(f, SAID(others_not_recorded, NO_FACTS));
	if (first >= CATEGORY_UNKNOWN)
		return true;
	autopsy_evidence(f, SAID(sum_mostly, fact_name("category", category_names[first]),
				 fact_bytes("part", a->categories.sum[first].bytes)));
	if (second < NR_CATEGORIES && a->categories.sum[second].bytes >= a->failure->allocated / SECOND_PART)
		autopsy_evidence(f, SAID(sum_then, fact_name("category", category_names[second]),
					 fact_bytes("part", a->categories.sum[second].bytes)));
	return true;
}

/*
 * Each with how certain its evidence makes it, where nothing else is known; a census may make it more so. Of two that explain
 * the same, the earlier in this table says more of how it came about.
 */
const struct autopsy_cause autopsy_causes[] = {
	{ VERDICT_CYCLE, "cycle", autopsy_is_cycle, AUTOPSY_HELD, CERTAINTY_PROVEN, false, false },
	{ VERDICT_EXCEPTION, "exception", autopsy_is_exception, AUTOPSY_HELD, CERTAINTY_PROVEN, false, false },
	{ VERDICT_KV_CACHE, "kv_cache", autopsy_is_kv_cache, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_TOO_BIG, "sample_gradients", autopsy_is_sample_gradients, AUTOPSY_HELD, CERTAINTY_PROVEN, false, false },
	{ VERDICT_LEAK, "growing_tensor", autopsy_is_growing_tensor, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_GRAPH_RETENTION, "traceback", autopsy_is_traceback, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_GRAPH_RETENTION, "evaluation", autopsy_is_evaluation, AUTOPSY_HELD, CERTAINTY_PROVEN, false, false },
	{ VERDICT_GRAPH_RETENTION, "past_evaluation", autopsy_is_past_evaluation, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_GRAPH_RETENTION, "no_backward", autopsy_is_graph_retention, AUTOPSY_HELD, CERTAINTY_PROVEN, false, false },
	{ VERDICT_GRAPH_RETENTION, "retain_graph", autopsy_is_retained_graph, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_GRAPH_RETENTION, "kept_graphs", autopsy_is_kept_graphs, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_TOO_BIG, "list", autopsy_is_list, AUTOPSY_HELD, CERTAINTY_PROVEN, false, false },
	{ VERDICT_LEAK, "kept_tensors", autopsy_is_leak, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_LEAK, "kept_outputs", autopsy_is_kept_outputs, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_LEAK, "kept_by_calls", autopsy_is_kept_by_calls, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_LEAK, "kept_tensors", autopsy_is_kept_in_growing, AUTOPSY_HELD, CERTAINTY_PROVEN, false, false },
	{ VERDICT_LEAK, "shape_cache", autopsy_is_shape_cache, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_LEAK, "kept_regularly", autopsy_is_regular_leak, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_LEAK, "traceback", autopsy_is_held_attempt, AUTOPSY_HELD, CERTAINTY_LIKELY, false, false },
	{ VERDICT_USER_LIMIT, "user_limit", is_user_limit, AUTOPSY_LIMIT, CERTAINTY_PROVEN, true, false },
	{ VERDICT_NON_TORCH, "library_request", is_library_request, AUTOPSY_WASTE, CERTAINTY_PROVEN, true, false },
	{ VERDICT_ATTENTION_MATRIX, "attention_matrix", autopsy_is_attention_matrix, AUTOPSY_WASTE, CERTAINTY_LIKELY, false, true },
	{ VERDICT_FFT_UPCAST, "fft_upcast", autopsy_is_fft_upcast, AUTOPSY_WASTE, CERTAINTY_PROVEN, false, true },
	{ VERDICT_LOGITS_FP32, "logits_fp32", autopsy_is_logits_fp32, AUTOPSY_WASTE, CERTAINTY_PROVEN, false, true },
	{ VERDICT_CONTIGUOUS_COPY, "contiguous_copy", autopsy_is_contiguous_copy, AUTOPSY_WASTE, CERTAINTY_PROVEN, false, true },
	{ VERDICT_CONTIGUOUS_COPY, "expanded_copy", autopsy_is_expanded_copy, AUTOPSY_WASTE, CERTAINTY_PROVEN, false, true },
	{ VERDICT_FRAGMENTATION, "fragmentation", autopsy_is_fragmentation, AUTOPSY_WASTE, CERTAINTY_PROVEN, true, false },
	{ VERDICT_OTHER_PROCESS, "other_process", is_other_process, AUTOPSY_WASTE, CERTAINTY_PROVEN, true, false },
	{ VERDICT_NON_TORCH, "non_torch", is_non_torch, AUTOPSY_WASTE, CERTAINTY_PROVEN, true, false },
	{ VERDICT_TOO_BIG, "optimizer_history", autopsy_is_optimizer_history, AUTOPSY_NEED, CERTAINTY_PROVEN, false, false },
	{ VERDICT_TOO_BIG, "optimizer_state", autopsy_is_optimizer_state, AUTOPSY_NEED, CERTAINTY_PROVEN, false, false },
	{ VERDICT_TOO_BIG, "optimizer_temporaries", autopsy_is_optimizer_temporaries, AUTOPSY_NEED, CERTAINTY_PROVEN, false, false },
	{ VERDICT_PADDING, "padding", autopsy_is_padding, AUTOPSY_WASTE, CERTAINTY_LIKELY, false, false },
	{ VERDICT_SPIKE, "larger_input", autopsy_is_larger_input, AUTOPSY_NEED, CERTAINTY_PROVEN, false, false },
	{ VERDICT_TOO_BIG, "input_shape", autopsy_is_input_shape, AUTOPSY_NEED, CERTAINTY_LIKELY, false, false },
	{ VERDICT_SPIKE, "larger_tensor", autopsy_is_spike, AUTOPSY_NEED, CERTAINTY_PROVEN, false, false },
	{ VERDICT_RANK_IMBALANCE, "rank_imbalance", autopsy_is_rank_imbalance, AUTOPSY_NEED, CERTAINTY_PROVEN, true, false },
	{ VERDICT_TOO_BIG, "ddp_buckets", autopsy_is_ddp_buckets, AUTOPSY_NEED, CERTAINTY_PROVEN, true, false },
	{ VERDICT_TOO_BIG, "never_fits", is_never_fitting, AUTOPSY_NEED, CERTAINTY_PROVEN, false, false },
	{ VERDICT_TOO_BIG, "sum", is_too_big, AUTOPSY_SUM, CERTAINTY_PROVEN, false, false },
	{ VERDICT_NONE, NULL, NULL, AUTOPSY_SUM, CERTAINTY_HINT, false, false },
};
