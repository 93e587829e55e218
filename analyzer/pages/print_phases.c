/* SPDX-License-Identifier: MIT */
/* The table of phases, as text and JSON. */
#include "analyzer/pages/print_phases.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"

#define CATEGORIES_SHOWN 2 /* on the first page */
#define HOLDS_WIDTH 48     /* of their list, so that its line has 80 columns */

static const enum phase order[] = { PHASE_INIT, PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASE_OTHER };
#define NR_ORDER (sizeof(order) / sizeof(*order))

/* The step of a moment, the first is 1; 0 when there are none. */
static uint32_t step_of(const struct replay_device *d, const struct lives_at *at)
{
	const struct steps *s = &d->process->lives->steps;

	return steps_count(s) ? steps_of(s, at->ordinal) + 1 : 0;
}

/* What a phase leaves behind in one step: allocated there, less freed there; of init and of a single step in all. */
static double net_of(const struct replay_device *d, enum phase phase)
{
	const struct lives *lives = d->process->lives;
	const struct lives_device *l = lives->device[d->ordinal];
	uint32_t nr_cycles = lives->steps.cycles.nr_bounds, nr_steps = steps_count(&lives->steps);

	if (phase == PHASE_INIT || !nr_cycles || !nr_steps)
		return (double)l->first_net[phase];
	/* A step may have several cycles; the first of all is left out. */
	return (double)l->later_net[phase] / nr_cycles * ((double)(nr_cycles + 1) / nr_steps);
}

/* What is held by activations at the peak of a phase. */
static uint64_t activations_of(const struct phasetable *t, enum phase phase)
{
	return t->row[phase].sum[CATEGORY_ACTIVATION].bytes;
}

/* Has backward only just begun at its peak: is (nearly) all still there that forward has kept for it? */
static bool is_turn(const struct phasetable *t)
{
	uint64_t forward = activations_of(t, PHASE_FORWARD);

	return forward && activations_of(t, PHASE_BACKWARD) >= forward / 10 * 9;
}

static bool has_phases(const struct replay_device *d, const struct phasetable *t)
{
	return t->peak != PHASE_INIT || categories_tell_phases(d->process);
}

unsigned print_peak_phase(struct emit *e, const struct replay_device *d, const struct phasetable *t)
{
	static const char *const where[NR_PHASES] = {
		[PHASE_INIT] = "before the first forward",
		[PHASE_FORWARD] = "in forward",
		[PHASE_BACKWARD] = "in backward",
		[PHASE_OPTIMIZER] = "in optimizer.step",
		[PHASE_OTHER] = "outside of forward, backward and optimizer.step",
	};
	uint32_t nr_steps = steps_count(&d->process->lives->steps), step;
	const char *place, *kept = d->process->is_kept ? " kept" : "";

	if (t->peak == NR_PHASES)
		return 0;
	if (!has_phases(d, t)) {
		emit_text(e, "No forward of a module was seen, so no steps or phases.");
		return 1;
	}
	step = step_of(d, t->row[t->peak].at);
	place = t->peak == PHASE_BACKWARD && is_turn(t) ? "in forward, as it turns to backward" : where[t->peak];
	if (nr_steps && t->peak != PHASE_INIT && step > nr_steps)
		emit_text(e, "Tensors peak %s, after step %" PRIu32 "%s.", place, nr_steps, kept);
	else if (nr_steps && t->peak != PHASE_INIT)
		emit_text(e, "Tensors peak %s, in step %" PRIu32 " of %" PRIu32 "%s.", place, step, nr_steps, kept);
	else
		emit_text(e, "Tensors peak %s.", place);
	return 1;
}

/* "activation 11.5 GiB, temporary 3.07 GiB": the largest, at most `shown`. Returns buf. */
static const char *holds_text(char *buf, size_t size, const struct category_sum *sum, int shown)
{
	bool done[NR_CATEGORIES] = { false };
	char bytes[HUMAN_MAX];
	size_t used = 0;

	*buf = 0;
	for (; shown && used < size; shown--) {
		int best = -1;

		for (int i = 0; i < NR_CATEGORIES; i++)
			if (!done[i] && sum[i].bytes && (best < 0 || sum[i].bytes > sum[best].bytes))
				best = i;
		if (best < 0)
			break;
		done[best] = true;
		used += (size_t)snprintf(buf + used, size - used, "%s%s %s", used ? ", " : "", category_names[best],
					 human_bytes(bytes, sum[best].bytes));
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

/* Is the row worth a line of the first page? Where nothing but forward is called, its results are freed elsewhere. */
static bool is_telling(const struct phasetable *t, enum phase phase, bool has_steps)
{
	return phase == t->peak || (phase != PHASE_INIT && (phase != PHASE_OTHER || !has_steps));
}

/* How much of what a phase holds has room on its line; all of it where that is no screen. */
static size_t held_on_line(const struct emit *e, const char *holds)
{
	size_t n = strlen(holds);

	if (!emit_is_text(e) || n <= HOLDS_WIDTH)
		return n;
	for (n = HOLDS_WIDTH; n > 1 && (holds[n - 1] != ' ' || holds[n - 2] != ','); n--)
		;
	return n > 1 ? n : strlen(holds);
}

static void print_held(struct emit *e, const char *holds, size_t n)
{
	emit_label(e, "holds", NULL, "%.*s", (int)(n && holds[n - 1] == ' ' ? n - 1 : n), holds);
}

unsigned print_phases(struct emit *e, const struct replay_device *d, const struct phasetable *t, bool whole)
{
	bool has_steps = steps_count(&d->process->lives->steps);
	const struct emit_column columns[] = {
		{ "phase", "phase", EMIT_LEFT, true },
		{ "peak", "peak", EMIT_RIGHT, true },
		{ "net", has_steps ? "per step" : "growth", EMIT_RIGHT, true },
		{ "holds", "live at its peak", EMIT_LEFT, true },
		{ NULL, NULL, EMIT_LEFT, false },
	};
	char text[256];
	unsigned lines = 0;
	size_t n;

	for (size_t i = 0; i < NR_ORDER && has_phases(d, t); i++) {
		const struct phasetable_row *row = &t->row[order[i]];

		if (!row->at || (!whole && !is_telling(t, order[i], has_steps)))
			continue;
		if (!lines) {
			emit_blank(e);
			emit_table_begin(e, NULL, columns);
		}
		emit_row_begin(e);
		emit_label(e, "phase", NULL, "%s", phase_names[order[i]]);
		emit_label(e, "peak", NULL, "%s", human_bytes(text, row->at->bytes));
		emit_label(e, "net", NULL, "%s", net_text(text, sizeof(text), net_of(d, order[i])));
		holds_text(text, sizeof(text), row->sum, whole ? NR_CATEGORIES : CATEGORIES_SHOWN);
		n = held_on_line(e, text);
		print_held(e, text, n);
		emit_row_end(e);
		lines += lines ? 1 : 2;
		for (const char *rest = text + n; *rest; rest += n, lines++) {
			n = held_on_line(e, rest);
			emit_row_begin(e);
			for (int k = 0; k < 3; k++)
				emit_label(e, columns[k].key, NULL, "%s", "");
			print_held(e, rest, n);
			emit_row_end(e);
		}
	}
	if (lines)
		emit_table_end(e);
	return lines;
}

static void json_step(struct emit *e, const char *key, uint32_t step)
{
	if (step)
		emit_uint(e, key, NULL, step);
	else
		emit_null(e, key, NULL);
}

void json_category_sums(struct emit *e, const char *key, const struct category_sum *sum)
{
	emit_object_begin(e, key, NULL);
	for (int i = 0; i < NR_CATEGORIES; i++)
		if (category_has_row(i, sum[i].bytes))
			emit_uint(e, category_names[i], NULL, sum[i].bytes);
	emit_object_end(e);
}

static void json_phase(struct emit *e, const struct replay_device *d, enum phase phase, const struct phasetable_row *row)
{
	emit_object_begin(e, NULL, NULL);
	emit_string(e, "phase", NULL, phase_names[phase]);
	emit_uint(e, "peak_bytes", NULL, row->at->bytes);
	emit_uint(e, "peak_time_ns", NULL, replay_time(d->process, row->at->time_ns));
	json_step(e, "peak_step", step_of(d, row->at));
	emit_double(e, "net_bytes_per_step", NULL, net_of(d, phase));
	json_category_sums(e, "categories", row->sum);
	emit_object_end(e);
}

void json_phases(struct emit *e, const struct replay_device *d, const struct phasetable *t)
{
	bool told = has_phases(d, t);

	emit_string(e, "peak_phase", NULL, t->peak == NR_PHASES || !told ? NULL : phase_names[t->peak]);
	emit_bool(e, "peak_at_turn", NULL, t->peak == PHASE_BACKWARD && is_turn(t));
	json_step(e, "peak_step", t->peak == NR_PHASES ? 0 : step_of(d, t->row[t->peak].at));
	emit_array_begin(e, "phases", NULL);
	for (size_t i = 0; i < NR_ORDER && told; i++)
		if (t->row[order[i]].at)
			json_phase(e, d, order[i], &t->row[order[i]]);
	emit_array_end(e);
}
