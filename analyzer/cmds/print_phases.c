/* SPDX-License-Identifier: MIT */
/* The table of phases, as text and JSON. */
#include "analyzer/cmds/print_phases.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/analysis/category.h"
#include "analyzer/ui/human.h"

#define CATEGORIES_SHOWN 2 /* on the first page */

static const enum phase order[] = { PHASE_INIT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASE_OTHER };
#define NR_ORDER (sizeof(order) / sizeof(*order))

static const struct lives_at *peak_of(const struct model_device *d, enum phase phase)
{
	const struct lives_device *lives = d->process->books.lives->device[d->ordinal];
	const struct lives_at *at = lives ? &lives->moment[LIVES_PEAK_OF_PHASE + phase] : NULL;

	return at && at->reached ? at : NULL;
}

/* The step of a moment, the first is 1; 0 when there are none. */
static uint32_t step_of(const struct model_device *d, const struct lives_at *at)
{
	const struct steps *s = &d->process->books.lives->steps;

	return steps_count(s) ? steps_of(s, at->ordinal) + 1 : 0;
}

/* What a phase leaves behind in one step: allocated there, less freed there; of init and of a single step in all. */
static double net_of(const struct model_device *d, enum phase phase)
{
	const struct lives *lives = d->process->books.lives;
	const struct lives_device *l = lives->device[d->ordinal];
	uint32_t nr_cycles = lives->steps.cycles.nr_bounds, nr_steps = steps_count(&lives->steps);

	if (phase == PHASE_INIT || !nr_cycles || !nr_steps)
		return (double)l->first_net[phase];
	/* A step may have several cycles; the first of all is left out. */
	return (double)l->later_net[phase] / nr_cycles * ((double)(nr_cycles + 1) / nr_steps);
}

/* What is held by activations at the peak of a phase. */
static uint64_t activations_of(const struct model_device *d, enum phase phase)
{
	const struct lives_at *at = peak_of(d, phase);
	uint64_t bytes = 0;
	struct categories c;

	if (at && !categories_find(&c, d->process, d->ordinal, (enum lives_moment)(LIVES_PEAK_OF_PHASE + phase), at->bytes))
		bytes = c.sum[CATEGORY_ACTIVATION].bytes;
	if (at)
		categories_release(&c);
	return bytes;
}

/* Has backward only just begun at its peak: is (nearly) all still there that forward has kept for it? */
static bool is_turn(const struct model_device *d)
{
	uint64_t forward = activations_of(d, PHASE_FORWARD);

	return forward && activations_of(d, PHASE_BACKWARD) >= forward / 10 * 9;
}

unsigned print_peak_phase(struct emit *e, const struct model_device *d)
{
	static const char *const where[NR_PHASES] = {
		[PHASE_INIT] = "before the first forward",
		[PHASE_FORWARD] = "in forward",
		[PHASE_BACKWARD] = "in backward",
		[PHASE_OPTIMIZER] = "in optimizer.step",
		[PHASE_OTHER] = "outside of forward, backward and optimizer.step",
	};
	const struct lives *lives = d->process->books.lives;
	enum phase phase = lives_peak_phase(lives, d->ordinal);
	uint32_t nr_steps = steps_count(&lives->steps), step;
	const char *place;

	if (phase == NR_PHASES)
		return 0;
	step = step_of(d, peak_of(d, phase));
	place = phase == PHASE_BACKWARD && is_turn(d) ? "at the turn from forward to backward" : where[phase];
	if (nr_steps && phase != PHASE_INIT && step > nr_steps)
		emit_text(e, "Tensors peak %s, behind step %" PRIu32 ".", place, nr_steps);
	else if (nr_steps && phase != PHASE_INIT)
		emit_text(e, "Tensors peak %s, in step %" PRIu32 " of %" PRIu32 ".", place, step, nr_steps);
	else
		emit_text(e, "Tensors peak %s.", place);
	return 1;
}

/* "activation 11.5 GiB, temporary 3.07 GiB": the largest, at most `shown`. Returns buf. */
static const char *holds_text(char *buf, size_t size, const struct categories *c, int shown)
{
	bool done[NR_CATEGORIES] = { false };
	char bytes[HUMAN_MAX];
	size_t used = 0;

	*buf = 0;
	for (; shown && used < size; shown--) {
		int best = -1;

		for (int i = 0; i < NR_CATEGORIES; i++)
			if (!done[i] && c->sum[i].bytes && (best < 0 || c->sum[i].bytes > c->sum[best].bytes))
				best = i;
		if (best < 0)
			break;
		done[best] = true;
		used += (size_t)snprintf(buf + used, size - used, "%s%s %s", used ? ", " : "", category_names[best],
					 human_bytes(bytes, c->sum[best].bytes));
	}
	return buf;
}

static const char *net_text(char *buf, size_t size, double net)
{
	char bytes[HUMAN_MAX];

	snprintf(buf, size, "%s%s", net < 0 ? "-" : net > 0 ? "+" : "",
		 human_bytes(bytes, (uint64_t)(net < 0 ? -net : net)));
	return buf;
}

/* Is the row worth a line of the first page? */
static bool is_telling(const struct model_device *d, enum phase phase)
{
	return phase == lives_peak_phase(d->process->books.lives, d->ordinal) ||
	       (phase != PHASE_INIT && phase != PHASE_OTHER);
}

int print_phases(struct emit *e, const struct model_device *d, bool whole)
{
	static const struct emit_column columns[] = {
		{ "phase", "phase", EMIT_LEFT, true },      { "peak", "peak", EMIT_RIGHT, true },
		{ "net", "per step", EMIT_RIGHT, true },    { "holds", "live at its peak", EMIT_LEFT, true },
		{ NULL, NULL, EMIT_LEFT, false },
	};
	char text[256];
	int lines = 0, err = 0;

	for (size_t i = 0; i < NR_ORDER && !err; i++) {
		const struct lives_at *at = peak_of(d, order[i]);
		struct categories c;

		if (!at || (!whole && !is_telling(d, order[i])))
			continue;
		err = categories_find(&c, d->process, d->ordinal, (enum lives_moment)(LIVES_PEAK_OF_PHASE + order[i]),
				      at->bytes);
		if (!lines)
			emit_table_begin(e, NULL, columns);
		emit_row_begin(e);
		emit_label(e, "phase", NULL, "%s", phase_names[order[i]]);
		emit_label(e, "peak", NULL, "%s", human_bytes(text, at->bytes));
		emit_label(e, "net", NULL, "%s", net_text(text, sizeof(text), net_of(d, order[i])));
		emit_label(e, "holds", NULL, "%s",
			   holds_text(text, sizeof(text), &c, whole ? NR_CATEGORIES : CATEGORIES_SHOWN));
		emit_row_end(e);
		lines += lines ? 1 : 2;
		categories_release(&c);
	}
	if (lines)
		emit_table_end(e);
	return err ? err : lines;
}

static void json_step(struct emit *e, const char *key, uint32_t step)
{
	if (step)
		emit_uint(e, key, NULL, step);
	else
		emit_null(e, key, NULL);
}

/* Returns 0 or TFMT_E_NOMEM. */
static int json_phase(struct emit *e, const struct model_device *d, enum phase phase, const struct lives_at *at)
{
	struct categories c;
	int err = categories_find(&c, d->process, d->ordinal, (enum lives_moment)(LIVES_PEAK_OF_PHASE + phase), at->bytes);

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "phase", NULL, phase_names[phase]);
	emit_uint(e, "peak_bytes", NULL, at->bytes);
	emit_uint(e, "peak_time_ns", NULL, model_time(d->process, at->time_ns));
	json_step(e, "peak_step", step_of(d, at));
	emit_double(e, "net_bytes_per_step", NULL, net_of(d, phase));
	emit_object_begin(e, "categories", NULL);
	for (int i = 0; i < NR_CATEGORIES; i++)
		emit_uint(e, category_names[i], NULL, c.sum[i].bytes);
	emit_object_end(e);
	emit_object_end(e);
	categories_release(&c);
	return err;
}

int json_phases(struct emit *e, const struct model_device *d)
{
	enum phase peak = lives_peak_phase(d->process->books.lives, d->ordinal);
	int err = 0;

	if (!emit_is_json(e)) /* judging each phase's blocks is not for nothing */
		return 0;
	emit_string(e, "peak_phase", NULL, peak == NR_PHASES ? NULL : phase_names[peak]);
	json_step(e, "peak_step", peak == NR_PHASES ? 0 : step_of(d, peak_of(d, peak)));
	emit_array_begin(e, "phases", NULL);
	for (size_t i = 0; i < NR_ORDER && !err; i++)
		if (peak_of(d, order[i]))
			err = json_phase(e, d, order[i], peak_of(d, order[i]));
	emit_array_end(e);
	return err;
}
