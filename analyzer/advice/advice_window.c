/* SPDX-License-Identifier: MIT */
/* The cycle that the peak lies in, and all that kinds of advice look at in it. */
#include "analyzer/advice/advice_window.h"

#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/failures/fatal.h"


const struct failure *advice_window_failure(const struct failures *failures, const struct replay_device *d)
{
	const struct failures_of_device *of = failures ? failures_of(failures, d) : NULL;

	return of ? fatal_or_last(of) : NULL;
}

/* The cycle that an event lies in: where it begins, and where the next one has begun. */
static void find_cycle(struct lives_window *w, const struct steps *steps, uint64_t ordinal)
{
	const struct steps_bounds *b = &steps->cycles;

	w->from = 0;
	w->to = TFMT_NO_ORDINAL - 1;
	for (uint32_t i = 0; i < b->nr_bounds; i++) {
		if (b->ordinal[i] <= ordinal)
			w->from = b->ordinal[i];
		else if (b->ordinal[i] < w->to)
			w->to = b->ordinal[i];
	}
}

/*
 * An event of the next cycle that needs nearly as much as that of the peak, if no update had come before that: what the
 * first one makes to stay, the optimizer's state, is there from its beginning.
 */
static uint64_t as_usual(const struct replay_device *d, const struct failures *failures, uint64_t ordinal)
{
	const struct stepinputs_device *of =
	    failures ? stepinputs_of(&failures->inputs, d->process->books, d->ordinal) : NULL;
	const struct steps *steps = &d->process->lives->steps;
	const struct steps_bounds *b = &steps->cycles;
	uint32_t peak = steps_begun(b, ordinal);

	if (steps_begun(&steps->updated, ordinal))
		return ordinal;
	for (uint32_t i = peak + 1; of && i <= b->nr_bounds && i < of->first_cycle + of->nr_cycles; i++)
		if (i >= of->first_cycle && (double)of->peak_bytes[i - of->first_cycle] >
						    NEARLY_PEAK * (double)d->books->allocated_peak_bytes)
			return b->ordinal[i - 1];
	return ordinal;
}

bool advice_window_find(struct lives_window *w, struct jobpart *j, const struct replay_device *d,
			const struct failures *failures)
{
	const struct lives *lives = d->process->lives;
	const struct failure *failure = advice_window_failure(failures, d);
	enum lives_moment moment = categories_moment(d->process, d->ordinal, MARK_TENSOR_PEAK);
	const struct lives_device *of = lives ? lives->device[d->ordinal] : NULL;
	const struct lives_at *init;

	*w = (struct lives_window){ .device = d->ordinal };
	if (!of || (!failure && (moment == LIVES_NONE || !of->moment[moment].reached)))
		return false;
	find_cycle(w, &lives->steps, failure ? failure->ordinal :
					       as_usual(d, failures, of->moment[moment].ordinal));
	if (failure) {
		w->to = failure->ordinal;
		j->asked = torch_rounded(failure->asked);
		j->asked_ns = failure->time_ns;
		j->asked_stack = failure->python_stack;
		j->asked_phase = failure->phase;
		if (failure->shape && !tfmt_reader_shape(d->process->reader, failure->shape, &j->asked_shape))
			j->asked_shape = (struct tfmt_shape){ 0 };
		j->peak = failure->allocated + j->asked;
		j->cached = failure->reserved > failure->allocated ? failure->reserved - failure->allocated : 0;
		if (failure->free_known && failure->refused > failure->free)
			j->lacking = failure->refused - failure->free;
		if (j->lacking > j->peak)
			j->lacking = j->peak;
	} else {
		j->peak = of->moment[moment].bytes;
	}
	init = &of->moment[LIVES_PEAK_OF_PHASE + PHASE_INIT];
	if (w->from && init->reached && init->ordinal < w->from)
		j->floor = init->bytes;
	j->from = w->from;
	j->to = w->to;
	return true;
}

bool advice_window_fill(struct jobpart *j, struct lives_window *w)
{
	if (!lives_window_close(j->device->process->lives, w))
		return false;
	jobpart_fill(j, w->life, w->nr);
	return true;
}
