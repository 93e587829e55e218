/* SPDX-License-Identifier: MIT */
/* The table of causes, and those that show in the device's figures alone. */
#include "analyzer/oom/autopsy_causes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"

#define OTHERS_MIN_BYTES (1ull << 30)  /* or a twentieth of the device: less explains little */
#define SECOND_MIN 100                 /* the part of what is allocated from which on the second category is told */
#define CONTEXT_MAX_BYTES (1ull << 30) /* what a context takes at most, with what libraries load */

/* The driver was not asked, or had enough: it was PyTorch's own limit. */
static bool is_user_limit(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct failure *x = a->failure;
	char asked[HUMAN_MAX], reserved[HUMAN_MAX], left[HUMAN_MAX], most[HUMAN_MAX], share[HUMAN_MAX];
	uint64_t least = x->reserved + x->asked;

	if (x->refused || !x->free_known || x->free < x->asked || !a->capacity || x->asked > a->capacity)
		return false;
	f->bytes = x->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, "%s more would have passed the limit set for this process; the GPU had %s free.",
		    human_bytes(asked, x->asked), human_bytes(left, x->free));
	autopsy_evidence(f, "PyTorch did not ask the driver: set_per_process_memory_fraction(), or the allocator's settings, "
			    "allow less than %s", human_bytes(most, least));
	autopsy_evidence(f, "%s of %s were reserved", human_bytes(reserved, x->reserved),
			 human_bytes(most, a->capacity));
	/* What something keeps would fill a larger part, too. */
	if (autopsy_is_about_size(a))
		autopsy_advise(f, "a fraction of at least %s lets this request pass",
			       human_percent(share, (double)least, (double)a->capacity));
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
	char size[HUMAN_MAX], line[AUTOPSY_TEXT_MAX];

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
		*line = 0;
		if (site >= 0 && stack.frame[site].file)
			snprintf(line, sizeof(line), ", mostly at %s:%" PRIu32,
				 strrchr(stack.frame[site].file, '/') ? strrchr(stack.frame[site].file, '/') + 1
								     : stack.frame[site].file,
				 stack.frame[site].line);
		autopsy_evidence(f, "process %" PRIu32 " of this recording has had %s of tensors on it%s",
				 d->process->header->pid, human_bytes(size, d->books->allocated_peak_bytes), line);
		stack_release(&stack);
	}
}

static bool is_other_process(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct failure *x = a->failure;
	char others[HUMAN_MAX], share[HUMAN_MAX], lacking[HUMAN_MAX];

	if (!x->others_known || !a->lacking || x->other_processes < a->lacking ||
	    (x->other_processes < a->capacity / 20 && x->other_processes < OTHERS_MIN_BYTES))
		return false;
	f->bytes = x->other_processes;
	autopsy_at_request(a, f);
	autopsy_say(f, "Other processes held %s (%s) of the GPU; this one was %s short.",
		    human_bytes(others, x->other_processes),
		    human_percent(share, (double)x->other_processes, (double)a->capacity),
		    human_bytes(lacking, a->lacking));
	autopsy_evidence(f, "by NVML's list of the processes on this GPU, asked when memory ran out");
	say_recorded_others(a, f);
	autopsy_advise(f, "without them it would have had %s more; it needed %s",
		       human_bytes(others, f->bytes), human_bytes(lacking, a->lacking));
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
	char size[HUMAN_MAX], lacking[HUMAN_MAX], part[HUMAN_MAX];
	const struct group *largest = NULL;

	if (a->failure->is_driver || !a->outside_known || !a->lacking || own < CONTEXT_MAX_BYTES ||
	    own - CONTEXT_MAX_BYTES < a->lacking)
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
	autopsy_say(f, "%s were in use outside PyTorch's allocator by this process; it was %s short.",
		    human_bytes(size, own), human_bytes(lacking, a->lacking));
	if (a->libraries)
		autopsy_evidence(f, "%s of it taken by calls that were recorded, mostly of %s",
				 human_bytes(part, a->libraries), owner_names[a->largest_owner]);
	autopsy_evidence(f, "%s by none: contexts, their code, and what was not recorded",
			 human_bytes(part, own > a->libraries ? own - a->libraries : 0));
	return true;
}

/* A library's own request failed, or the program's, beside what PyTorch holds. */
static bool is_library_request(const struct autopsy *a, struct autopsy_finding *f)
{
	struct books *books = a->device->process->books;
	const struct failure *x = a->failure;
	char asked[HUMAN_MAX], size[HUMAN_MAX], left[HUMAN_MAX];
	const char *name;
	enum owner owner;

	if (!x->is_library)
		return false;
	name = x->modelled ? tfmt_reader_function(books_reader(books), x->modelled) : NULL;
	owner = name ? owner_named(name)
		     : books_owner(books, x->native_stack, x->python_stack).owner;
	f->bytes = x->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, "The driver had no %s for %s, beside the %s that PyTorch had reserved.",
		    human_bytes(asked, x->asked),
		    owner == OWNER_UNKNOWN || !owner_titles[owner] ? "a library" : owner_titles[owner],
		    human_bytes(size, x->reserved));
	if (x->free_known)
		autopsy_evidence(f, "%s were free; nothing was allocated for a tensor after it",
				 human_bytes(left, x->free));
	if (a->cached && a->cached >= a->lacking)
		autopsy_advise(f, "torch.cuda.empty_cache() before it gives back up to %s that PyTorch has cached",
			       human_bytes(size, a->cached));
	return true;
}

static bool is_never_fitting(const struct autopsy *a, struct autopsy_finding *f)
{
	char asked[HUMAN_MAX], capacity[HUMAN_MAX], over[HUMAN_MAX];

	if (!a->capacity || a->failure->asked <= a->capacity)
		return false;
	f->bytes = a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, "%s were asked for at once, more than the GPU has (%s).", human_bytes(asked, f->bytes),
		    human_bytes(capacity, a->capacity));
	autopsy_evidence(f, "even on an empty GPU it lacks at least %s",
			 human_bytes(over, a->failure->asked - a->capacity));
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

/* Nothing else: the sum of what the program needs. */
static bool is_too_big(const struct autopsy *a, struct autopsy_finding *f)
{
	char lacking[HUMAN_MAX], part[HUMAN_MAX], asked[HUMAN_MAX];
	int first = most_bytes(a, NR_CATEGORIES), second = most_bytes(a, first);
	const char *what = a->failure->is_driver ? "what the program had taken" : "tensors";

	f->bytes = a->lacking ? a->lacking : a->failure->asked;
	autopsy_at_request(a, f);
	human_bytes(asked, a->failure->asked);
	human_bytes(part, a->failure->is_driver ? a->failure->reserved : a->failure->allocated);
	if (a->lacking)
		autopsy_say(f, "It is %s more than fits: %s asked for beside %s of %s.", human_bytes(lacking, a->lacking),
			    asked, part, what);
	else
		autopsy_say(f, "%s more do not fit beside %s of %s.", asked, part, what);
	if (!a->failure->refused && a->failure->free_known && a->failure->free < a->failure->asked)
		autopsy_evidence(f, "a limit set for this process stopped it before the driver did, which had %s free",
				 human_bytes(part, a->failure->free));
	if (first >= CATEGORY_UNKNOWN)
		return true;
	autopsy_evidence(f, "most of it is %s: %s", category_names[first],
			 human_bytes(part, a->categories.sum[first].bytes));
	if (second < NR_CATEGORIES && a->categories.sum[second].bytes >= a->failure->allocated / SECOND_MIN)
		autopsy_evidence(f, "then %s: %s", category_names[second],
				 human_bytes(part, a->categories.sum[second].bytes));
	return true;
}

/*
 * Asked from top to bottom. What the program keeps, which fills any limit, comes before the limit that it sets, this
 * before what one tensor needs, this before what others hold, and "too big" is what is left.
 */
const struct autopsy_cause autopsy_causes[] = {
	{ VERDICT_CYCLE, "cycle", autopsy_is_cycle, false },
	{ VERDICT_EXCEPTION, "exception", autopsy_is_exception, false },
	{ VERDICT_KV_CACHE, "kv_cache", autopsy_is_kv_cache, false },
	{ VERDICT_LEAK, "growing_tensor", autopsy_is_growing_tensor, false },
	{ VERDICT_GRAPH_RETENTION, "traceback", autopsy_is_traceback, false },
	{ VERDICT_GRAPH_RETENTION, "evaluation", autopsy_is_evaluation, false },
	{ VERDICT_GRAPH_RETENTION, "past_evaluation", autopsy_is_past_evaluation, false },
	{ VERDICT_GRAPH_RETENTION, "no_backward", autopsy_is_graph_retention, false },
	{ VERDICT_GRAPH_RETENTION, "retain_graph", autopsy_is_retained_graph, false },
	{ VERDICT_GRAPH_RETENTION, "kept_graphs", autopsy_is_kept_graphs, false },
	{ VERDICT_TOO_BIG, "list", autopsy_is_list, false },
	{ VERDICT_LEAK, "kept_tensors", autopsy_is_leak, false },
	{ VERDICT_LEAK, "kept_outputs", autopsy_is_kept_outputs, false },
	{ VERDICT_LEAK, "kept_by_calls", autopsy_is_kept_by_calls, false },
	{ VERDICT_LEAK, "shape_cache", autopsy_is_shape_cache, false },
	{ VERDICT_LEAK, "kept_regularly", autopsy_is_regular_leak, false },
	{ VERDICT_LEAK, "traceback", autopsy_is_held_attempt, false },
	{ VERDICT_USER_LIMIT, "user_limit", is_user_limit, true },
	{ VERDICT_NON_TORCH, "library_request", is_library_request, true },
	{ VERDICT_ATTENTION_MATRIX, "attention_matrix", autopsy_is_attention_matrix, false },
	{ VERDICT_FFT_UPCAST, "fft_upcast", autopsy_is_fft_upcast, false },
	{ VERDICT_LOGITS_FP32, "logits_fp32", autopsy_is_logits_fp32, false },
	{ VERDICT_CONTIGUOUS_COPY, "contiguous_copy", autopsy_is_contiguous_copy, false },
	{ VERDICT_CONTIGUOUS_COPY, "expanded_copy", autopsy_is_expanded_copy, false },
	{ VERDICT_FRAGMENTATION, "fragmentation", autopsy_is_fragmentation, true },
	{ VERDICT_OTHER_PROCESS, "other_process", is_other_process, true },
	{ VERDICT_NON_TORCH, "non_torch", is_non_torch, true },
	{ VERDICT_TOO_BIG, "optimizer_history", autopsy_is_optimizer_history, false },
	{ VERDICT_TOO_BIG, "optimizer_state", autopsy_is_optimizer_state, false },
	{ VERDICT_TOO_BIG, "optimizer_temporaries", autopsy_is_optimizer_temporaries, false },
	{ VERDICT_PADDING, "padding", autopsy_is_padding, false },
	{ VERDICT_SPIKE, "larger_input", autopsy_is_larger_input, false },
	{ VERDICT_TOO_BIG, "input_shape", autopsy_is_input_shape, false },
	{ VERDICT_SPIKE, "larger_tensor", autopsy_is_spike, false },
	{ VERDICT_RANK_IMBALANCE, "rank_imbalance", autopsy_is_rank_imbalance, true },
	{ VERDICT_TOO_BIG, "ddp_buckets", autopsy_is_ddp_buckets, true },
	{ VERDICT_TOO_BIG, "never_fits", is_never_fitting, false },
	{ VERDICT_TOO_BIG, "sum", is_too_big, false },
	{ VERDICT_NONE, NULL, NULL, false },
};
