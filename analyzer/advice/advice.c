/* SPDX-License-Identifier: MIT */
/* Looking for advice: the table of kinds, and what of them is worth saying. */
#include "analyzer/advice/advice.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/advice/advice_window.h"
#include "analyzer/base/message.h"

static const struct advice_row {
	const char *kind;
	bool (*find)(const struct jobpart *j, struct advice *a);
	bool keeps_result;
	enum advice_order order;
	bool of_training; /* it is about what is kept for a backward pass */
	bool passes;	  /* what it saves when memory runs out may be gone by itself before the step's peak */
	bool transfers;	  /* each step waits for the host */
} rows[] = {
	{ "checkpointing", advice_checkpointing, true, ADVICE_OF_PROGRAM, true, false, false },
	{ "chunked_loss", advice_chunked_loss, true, ADVICE_OF_PROGRAM, false, false, false },
	{ "small_optimizer_state", advice_small_state, false, ADVICE_OF_PROGRAM, false, false, false },
	{ "bf16_optimizer_state", advice_bf16_state, false, ADVICE_OF_PROGRAM, false, false, false },
	{ "set_to_none", advice_set_to_none, true, ADVICE_OF_PROGRAM, false, true, false },
	{ "accumulation", advice_accumulation, true, ADVICE_OF_PROGRAM, true, false, false },
	{ "free_before", advice_free_before, true, ADVICE_OF_PROGRAM, false, true, false },
	{ "duplicated_storage", advice_duplicates, true, ADVICE_OF_WASTE, false, false, false },
	{ "activation_offload", advice_activation_offload, true, ADVICE_OF_PROGRAM, true, false, true },
	{ "expandable_segments", advice_expandable, true, ADVICE_OF_PROGRAM, false, true, false },
	{ "optimizer_offload", advice_offload, true, ADVICE_OF_PROGRAM, false, false, true },
	{ "sharded_optimizer", advice_sharding, true, ADVICE_OF_RANKS, false, false, false },
	{ "sharded_parameters", advice_sharded_parameters, true, ADVICE_OF_RANKS, true, false, false },
	{ "smaller_batch", advice_smaller_batch, false, ADVICE_OF_INPUT, false, false, false },
	{ "shorter_sequence", advice_shorter, false, ADVICE_OF_INPUT, false, false, false },
};
#define NR_ROWS (sizeof(rows) / sizeof(rows[0]))
static_assert(NR_ROWS <= ADVICE_MAX, "there is room for one of each kind");

bool advices_are_needed(const struct replay_device *d, const struct failures *failures)
{
	if (!d->has_tensors)
		return false;
	return advice_window_failure(failures, d) ||
	       (d->capacity_bytes && frag_is_scarce(d->books->reserved_peak_bytes, d->capacity_bytes));
}

/* What is reckoned with the rest of forward is known; and what saves less than was lacking, whatever comes after the request. */
static enum advice_fit fit_of(const struct advices *all, const struct advice *a)
{
	if (!all->fits_bytes || a->of_reserved)
		return ADVICE_FIT_UNKNOWN;
	if (a->of_forward)
		return a->fits ? ADVICE_FITS : ADVICE_LACKS;
	return a->after_bytes > all->fits_bytes + all->cached_bytes ? ADVICE_LACKS : ADVICE_FIT_UNKNOWN;
}

/* Not even enough for what was asked for; what is reckoned with the rest of forward has more to be enough for. */
static bool is_short(const struct advice *a)
{
	return a->fit == ADVICE_LACKS && !a->of_forward;
}

static int by_use(const void *va, const void *vb)
{
	const struct advice *a = va, *b = vb;

	if (a->order != b->order)
		return a->order < b->order ? -1 : 1;
	if (is_short(a) != is_short(b))
		return is_short(a) ? 1 : -1;
	if (a->transfers != b->transfers)
		return a->transfers ? 1 : -1;
	if (a->saved_bytes != b->saved_bytes)
		return a->saved_bytes < b->saved_bytes ? 1 : -1;
	return 0;
}

static void ask_kinds(struct advices *all, const struct jobpart *j)
{
	struct advice found[NR_ROWS];
	bool is_inference = jobpart_is_inference(j), has_ranks = j->device->process->world_size > 1;
	unsigned nr = 0;

	for (size_t i = 0; i < NR_ROWS; i++) {
		struct advice *a = &found[nr];

		*a = (struct advice){ .kind = rows[i].kind,
				      .keeps_result = rows[i].keeps_result,
				      .order = has_ranks && rows[i].order == ADVICE_OF_RANKS ? ADVICE_OF_PROGRAM :
											      rows[i].order,
				      .peak_bytes = j->peak };
		if ((rows[i].of_training && is_inference) || !rows[i].find(j, a) || a->after_bytes >= a->peak_bytes)
			continue;
		a->saved_bytes = a->peak_bytes - a->after_bytes;
		a->transfers = rows[i].transfers;
		a->fit = fit_of(all, a);
		if (a->order == ADVICE_OF_WASTE && (!all->at_failure || is_short(a)))
			a->order = ADVICE_OF_PROGRAM;
		a->at_least = j->asked && !a->of_forward && !rows[i].passes;
		nr += (double)a->saved_bytes >= ADVICE_LEAST * (double)a->peak_bytes;
	}
	qsort(found, nr, sizeof(*found), by_use);
	all->nr = nr;
	memcpy(all->advice, found, nr * sizeof(*found));
}

/* The same device of a model of its process alone; NULL: it is not there any more. */
static const struct replay_device *same_device(const struct replay *m, const struct replay_device *d)
{
	for (size_t i = 0; i < m->nr_devices; i++)
		if (m->device[i].ordinal == d->ordinal)
			return &m->device[i];
	return NULL;
}

static bool can_be_read_again(const char *path)
{
	struct stat st;

	return !stat(path, &st) && !S_ISFIFO(st.st_mode);
}

/* The step has more blocks than are kept: nothing was looked for. */
static void give_up(struct advices *all, const struct replay_device *d)
{
	message_warn("no advice about GPU %" PRIu32 " in '%s': the step of its peak has more than %u blocks", d->ordinal,
		     d->process->path, LIVES_WINDOW_MAX);
	all->device = NULL;
	all->at_failure = false;
	all->fits_bytes = all->cached_bytes = 0;
}

int advices_find(struct advices *all, const struct replay_device *d, const struct failures *failures, struct frag *frag)
{
	struct lives_window window;
	struct jobpart j = { .replay = &all->replay };
	struct replay_options load = {
		.observe = frag ? NULL : frag_observe,
		.ctx = &all->frag,
		.observe_past = true,
		.quiet = true,
		.lives = true,
		.modules = true,
		.window = &window,
	};
	int err;

	*all = (struct advices)ADVICES_INIT;
	if (!can_be_read_again(d->process->path) || !advice_window_find(&window, &j, d, failures))
		return 0;
	all->device = d;
	all->at_failure = j.asked;
	all->fits_bytes = j.lacking ? j.peak - j.lacking : 0;
	all->cached_bytes = j.cached;
	frag_init(&all->frag);
	/*
	 * A second reading: which step holds the peak is known after the first, and only of that step is each block kept.
	 * To keep those of all steps would take memory by the length of the recording.
	 */
	err = replay_load(&all->replay, d->process->path, &load);
	j.device = err ? NULL : same_device(&all->replay, d);
	if (j.device) {
		frag_finish(frag ? frag : &all->frag);
		j.frag = frag ? frag_of(frag, d) : frag_of(&all->frag, j.device);
		if (advice_window_fill(&j, &window))
			ask_kinds(all, &j);
		else
			give_up(all, d);
		jobpart_release(&j);
	}
	lives_window_release(&window);
	return err;
}

void advices_put_off(struct advices *all, uint64_t per_step, uint32_t step)
{
	for (unsigned i = 0; i < all->nr && per_step; i++) {
		uint64_t steps = all->advice[i].saved_bytes / per_step;

		all->advice[i].puts_off_until = steps < UINT32_MAX - step ? step + (uint32_t)steps : UINT32_MAX;
	}
}

void advices_release(struct advices *all)
{
	frag_release(&all->frag);
	replay_release(&all->replay);
	*all = (struct advices)ADVICES_INIT;
}
