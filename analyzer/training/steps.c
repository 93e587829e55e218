/* SPDX-License-Identifier: MIT */
/* Boundaries of cycles by the order of phases, of steps by what updates parameters, or by names. */
#include "analyzer/training/steps.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/sorted.h"
#include "analyzer/training/training_thresholds.h"

static void bound_add(struct steps_bounds *b, uint64_t ordinal)
{
	if (b->nr_bounds && b->ordinal[b->nr_bounds - 1] >= ordinal)
		return;
	b->ordinal = heap_grow(b->ordinal, &b->room, (size_t)b->nr_bounds + 1, sizeof(*b->ordinal));
	b->ordinal[b->nr_bounds++] = ordinal;
}

/* Parameters were updated before the cycle that begins, or has begun, at its latest boundary. Returns enum steps_sign. */
static int bound_confirm(struct steps *s)
{
	if (!s->cycles.nr_bounds || s->begin_known)
		return 0;
	s->begin_known = true;
	bound_add(&s->updated, s->cycles.ordinal[s->cycles.nr_bounds - 1]);
	return STEPS_UPDATED;
}

/* Does the optimizer whose call the step is evaluate its closure once more? At another line than the first time. */
static bool is_evaluation(const struct steps *s, struct updatesites_call closure)
{
	return closure.inner && s->closure.inner && closure.caller == s->closure.caller &&
	       closure.inner != s->closure.inner;
}

static void note_closure(struct steps *s, const struct tfmt_event *ev, struct updatesites_call closure)
{
	s->closure = closure;
	s->closure_known = closure.inner || ev->flags & TFMT_FLAG_FORWARD;
}

static int cycle_begin(struct steps *s, const struct tfmt_event *ev)
{
	struct updatesites_call closure = updatesites_call(s->reader, ev->python_stack);
	int signs = STEPS_CYCLE;

	bound_add(&s->cycles, s->pending_ordinal);
	s->has_backward = s->pending = false;
	s->begin_known = is_evaluation(s, closure);
	if (s->begin_known) { /* it begins none: an update so far is the step's */
		s->nr_evaluations++;
		return signs;
	}
	note_closure(s, ev, closure);
	if (s->has_update)
		signs |= bound_confirm(s);
	s->has_update = false;
	return signs;
}

static int maybe_begin(struct steps *s, const struct tfmt_event *ev)
{
	if (!s->has_backward || s->pending)
		return 0;
	s->pending = true;
	s->pending_ordinal = ev->ordinal;
	return STEPS_MAYBE;
}

#define TURN_SURE (UINT32_C(1) << 31) /* in a turn: an optimizer at work, or zero_grad; else gradients are clipped */

/* Whose turn it was before a bound of `updated`; after the last, if it is their number. */
static void note_turn(struct steps *s, uint32_t index, uint32_t sites)
{
	if (index < s->turns_room && (s->turn[index] & sites) == sites) /* known, as mostly */
		return;
	if (index >= s->turns_room) {
		size_t room = s->turns_room;

		s->turn = heap_grow(s->turn, &s->turns_room, (size_t)index + 1, sizeof(*s->turn));
		memset(s->turn + room, 0, (s->turns_room - room) * sizeof(*s->turn));
	}
	s->nr_sure += sites & TURN_SURE && !(s->turn[index] & TURN_SURE);
	s->turn[index] |= sites;
}

/*
 * An optimizer at work, or zero_grad. After backward it belongs to the cycle; before, it is the end of the cycle
 * before, wherever that was taken to end.
 */
static int updated(struct steps *s, const struct tfmt_event *ev, bool is_update)
{
	uint32_t sites = updatesites_bit(&s->sites, s->reader, ev->python_stack);
	uint32_t index = s->has_backward ? s->updated.nr_bounds : s->updated.nr_bounds - 1;
	int signs;

	s->updating |= is_update ? sites : 0;
	s->nr_working += is_update && (!s->nr_working || s->working != index);
	s->working = is_update ? index : s->working;
	if (is_update || sites)
		sites |= TURN_SURE;
	else if (s->nr_sure >= SURE_ENOUGH)
		return 0;
	if (!s->has_backward) {
		signs = bound_confirm(s);
		if (s->begin_known && s->updated.nr_bounds)
			note_turn(s, s->updated.nr_bounds - 1, sites);
		return signs;
	}
	note_turn(s, s->updated.nr_bounds, sites);
	s->has_update = true;
	if (is_update)
		s->pending = false;
	return 0;
}

/* "Train_Step 17" is named "train_step"; "" if it is no name of a step. */
static void step_name(char out[static 32], const char *text)
{
	static const char *const names[] = {
		"step", "iter", "iteration", "train_step", "training_step", "train step", "training step",
		"global_step", "global step", "train_iter", "profilerstep",
	};
	size_t len = 0;

	while (isalpha((unsigned char)text[len]) || ((text[len] == '_' || text[len] == ' ') &&
						     isalpha((unsigned char)text[len + 1])))
		len++;
	*out = 0;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (strlen(names[i]) == len && !strncasecmp(names[i], text, len))
			strcpy(out, names[i]);
	}
}

static int named(struct steps *s, const struct tfmt_event *ev)
{
	char name[32];

	if (ev->kind != TFMT_RANGE_PUSH && ev->kind != TFMT_RANGE_START)
		return 0;
	step_name(name, tfmt_reader_string(s->reader, (uint32_t)ev->address));
	if (!*name || (*s->name && strcmp(s->name, name)))
		return 0;
	strcpy(s->name, name);
	bound_add(&s->named, ev->ordinal);
	return STEPS_NAMED;
}

/* A pass begins: did a forward come before it that was not seen? Then not even the loss is one of this cycle's. */
static bool follows_unseen(const struct steps *s, const struct tfmt_event *ev)
{
	return s->has_backward && !ev->size && !s->nr_forward_blocks && (s->has_update || !s->nr_sure);
}

static int passed(struct steps *s, const struct tfmt_event *ev)
{
	bool begins = ev->kind == TFMT_PHASE_BEGIN;
	int signs = STEPS_PASSED;

	if (ev->address != TFMT_PHASE_BACKWARD || ev->aux || begins == s->in_backward)
		return 0;
	if (begins && follows_unseen(s, ev)) {
		signs |= maybe_begin(s, ev);
		signs |= cycle_begin(s, ev);
	}
	s->in_backward = begins;
	s->nr_backwards += begins;
	s->nr_ended += !begins;
	s->makes_graph = begins ? ev->size : s->makes_graph;
	s->has_plain |= !s->makes_graph;
	s->has_backward |= !s->makes_graph || !s->has_plain;
	s->pending = false;
	return signs;
}

int steps_change(struct steps *s, const struct tfmt_event *ev, enum phase phase, bool is_update, bool is_pooled)
{
	bool is_alloc = ev->kind == TFMT_TENSOR_ALLOC || (is_pooled && ev->kind == TFMT_DRIVER_ALLOC);
	int signs;

	if (ev->kind == TFMT_PHASE_BEGIN || ev->kind == TFMT_PHASE_END)
		return passed(s, ev);
	if (!is_alloc && !is_pooled && ev->kind != TFMT_TENSOR_FREE)
		return named(s, ev);
	switch (phase) {
	case PHASE_OPTIMIZER:
		/* An optimizer that works within backward is in no other place than after it. */
		return updated(s, ev, is_update);
	case PHASE_FORWARD:
		if (!s->closure_known && ev->flags & TFMT_FLAG_FORWARD)
			note_closure(s, ev, updatesites_call(s->reader, ev->python_stack));
		if (!is_alloc || !s->has_backward || s->in_backward)
			return 0;
		signs = maybe_begin(s, ev);
		return signs | cycle_begin(s, ev);
	case PHASE_OTHER:
		return is_alloc && !s->in_backward ? maybe_begin(s, ev) : 0;
	default:
		return 0;
	}
}

/* ---- rounds ---------------------------------------------------------------------------------- */

#define TURNS_LOOKED_AT 32 /* for one alike */

static uint32_t turn(const struct steps *s, uint32_t i)
{
	return i < s->turns_room ? s->turn[i] & ~TURN_SURE : 0;
}

/* After the latest turn before `i` with some of its sites, what came next; 0 = none, or one called twice. */
static uint32_t usual_next(const struct steps *s, uint32_t i)
{
	for (uint32_t k = i; k-- > 0 && i - k <= TURNS_LOOKED_AT;)
		if (turn(s, k) & turn(s, i))
			return turn(s, k + 1) & turn(s, k + 2) ? 0 : turn(s, k + 1);
	return 0;
}

static uint32_t cycles_before(const struct steps *s, uint32_t bound)
{
	return steps_begun(&s->cycles, s->updated.ordinal[bound]);
}

/* Take in the turns before bound `nr`, of which it is known how often each site's came in a row. */
static void follow_runs(struct steps *s, uint32_t nr)
{
	struct steps_runs *r = &s->runs;

	for (; r->nr_turns < nr; r->nr_turns++) {
		uint32_t sites = turn(s, r->nr_turns);

		r->again |= r->seen & sites;
		r->seen |= sites;
		if (r->nr_turns && r->nr_turns < s->updated.nr_bounds &&
		    cycles_before(s, r->nr_turns) > cycles_before(s, r->nr_turns - 1) + 1) {
			r->gather_again |= r->gathers & sites;
			r->gathers |= sites;
		}
		for (uint32_t k = 0; k <= UPDATESITES_MAX; k++) {
			r->length[k] = sites >> k & 1 ? r->length[k] + 1 : 0;
			r->twice |= (uint32_t)(r->length[k] > 1) << k;
			r->often |= (uint32_t)(r->length[k] > REPEATED_MAX) << k;
		}
	}
}

/*
 * Is it one of several turns that a loop within the round takes, as those of a critic for one of its generator? Its line
 * is further in than another one, which never has two turns in a row.
 */
static bool is_repeated(const struct steps *s, uint32_t sites)
{
	/* Else zero_grad tells, which drops nothing of what has never had a gradient: of the first round it is not there. */
	bool is_working = WORKING_PART * (uint64_t)s->nr_working >= s->nr_sure;
	uint32_t telling = is_working ? s->updating : ~UINT32_C(0);
	uint32_t gathers = is_working ? s->runs.gathers : s->runs.gather_again;
	uint32_t single = s->runs.again & ~s->runs.twice & telling; /* they come again, but never twice in a row */

	sites &= telling;
	if (sites & single)
		return false;
	for (uint32_t k = 0; k <= UPDATESITES_MAX; k++)
		if (sites & s->runs.twice & ~s->runs.often & ~gathers & UINT32_C(1) << k &&
		    s->sites.inside[k] & (is_working ? single : single & updatesites_apart(&s->sites, k)))
			return true;
	return false;
}

/*
 * Two turns of lines of which one is further in, or both are than a third, and is never called twice in a row: it comes
 * after an `if`. Do they share a round? Those that do stand in the order of their lines, and none that comes now and then is
 * ever called twice in a row. 1 yes, -1 no, 0 they are none such.
 */
static int share_round(const struct steps *s, uint32_t sites, uint32_t next)
{
	const struct updatesites *u = &s->sites;
	uint32_t often = s->runs.twice, single = s->runs.seen & ~often & s->updating;
	int share = 0;

	for (uint32_t a = 0; a <= UPDATESITES_MAX; a++)
		for (uint32_t b = 0; sites >> a & 1 && b <= UPDATESITES_MAX; b++) {
			bool a_may = u->inside[a] >> b & ~(often >> a) & 1, b_may = u->inside[b] >> a & ~(often >> b) & 1;
			bool both_may = u->inside[a] & u->inside[b] & s->runs.again;

			if (!(next >> b & 1) || !(a_may || b_may || both_may))
				continue;
			if (u->before[b] >> a & 1 && (single >> a & 1 || b_may) && (single >> b & 1 || a_may))
				return 1;
			share = -1;
		}
	return share;
}

bool steps_is_within_round(struct steps *s)
{
	uint32_t last = s->updated.nr_bounds - 1, next = usual_next(s, last);

	follow_runs(s, s->updated.nr_bounds);
	if (is_repeated(s, turn(s, last)))
		return true;
	return next && !(next & turn(s, last)) && !(next & turn(s, 0));
}

/*
 * Does the round that began with turn `first` go on with the one after bound `i`? If that one is new to it, and neither
 * has had two turns in a row. Of the last one, what came next before must tell.
 */
static bool goes_on(const struct steps *s, uint32_t first, uint32_t i)
{
	uint32_t next = turn(s, i + 1), sites = 0;

	if (i + 1 == s->updated.nr_bounds) {
		uint32_t usual = usual_next(s, i);

		if (!usual || (next && !(next & usual)))
			return false;
		next = usual;
	}
	for (uint32_t k = first; k <= i; k++)
		sites |= turn(s, k);
	return next && sites && !(next & sites) && !(first && turn(s, first - 1) & turn(s, first)) &&
	       (i + 2 > s->updated.nr_bounds || !(turn(s, i + 2) & next));
}

/* Where better signs were seen, bounds after clipping alone do not count: gradients may be clipped in each cycle. */
static void drop_unsure(struct steps *s)
{
	struct steps_bounds *b = &s->updated;
	uint32_t nr = 0;

	for (uint32_t i = 0; i < b->nr_bounds && i < s->turns_room; i++) {
		if (!(s->turn[i] & TURN_SURE))
			continue;
		b->ordinal[nr] = b->ordinal[i];
		s->turn[nr++] = s->turn[i];
	}
	if (nr < s->turns_room)
		s->turn[nr] = b->nr_bounds < s->turns_room ? s->turn[b->nr_bounds] : 0;
	b->nr_bounds = nr;
}

void steps_finish(struct steps *s)
{
	uint32_t first = 0;

	if (s->nr_sure >= SURE_ENOUGH)
		drop_unsure(s);
	s->rounds.nr_bounds = 0;
	s->runs = (struct steps_runs){ 0 };
	follow_runs(s, s->updated.nr_bounds + 1);
	for (uint32_t i = 0; i < s->updated.nr_bounds; i++) {
		int share = share_round(s, turn(s, i), turn(s, i + 1));

		if (share > 0 || is_repeated(s, turn(s, i)) || (!share && goes_on(s, first, i)))
			continue;
		first = i + 1;
		bound_add(&s->rounds, s->updated.ordinal[i]);
	}
	s->has_rounds = true;
}

static void *copy_of(const void *array, size_t room, size_t size)
{
	void *copy = room ? heap_alloc(room, size) : NULL;

	if (copy)
		memcpy(copy, array, room * size);
	return copy;
}

void steps_now(struct steps *now, const struct steps *s)
{
	*now = *s;
	now->updated.ordinal = copy_of(s->updated.ordinal, s->updated.room, sizeof(*s->updated.ordinal));
	now->turn = copy_of(s->turn, s->turns_room, sizeof(*s->turn));
	now->rounds = (struct steps_bounds){ 0 };
	steps_finish(now);
}

void steps_now_release(struct steps *now)
{
	free(now->updated.ordinal);
	free(now->turn);
	free(now->rounds.ordinal);
}

/* ---- all of them ----------------------------------------------------------------------------- */

const struct steps_bounds *steps_bounds(const struct steps *s)
{
	if (s->named.nr_bounds > 1)
		return &s->named;
	/* One update alone is the making of the optimizer's state: it leaves no trace later. */
	if (s->updated.nr_bounds < 2 && s->cycles.nr_bounds > s->updated.nr_bounds && !s->has_update)
		return &s->cycles;
	return s->has_rounds ? &s->rounds : &s->updated;
}

/*
 * Has what comes after the last boundary become a step: by an update, or as many cycles as the others have? Where
 * gradients are dropped at a step's beginning, the last one is not followed by a sign.
 */
static bool is_last_whole(const struct steps *s)
{
	uint32_t nr_before, nr_since;

	if (s->has_update || !s->updated.nr_bounds)
		return s->has_update || s->has_backward;
	nr_before = cycles_before(s, s->updated.nr_bounds - 1);
	nr_since = s->cycles.nr_bounds - nr_before + s->has_backward;
	return nr_since && nr_since >= nr_before / s->updated.nr_bounds;
}

uint32_t steps_count(const struct steps *s)
{
	const struct steps_bounds *b = steps_bounds(s);

	if (b == &s->named)
		return b->nr_bounds;
	return b->nr_bounds + (b == &s->cycles ? s->has_backward : is_last_whole(s));
}

uint32_t steps_begun(const struct steps_bounds *b, uint64_t ordinal)
{
	return (uint32_t)sorted_up_to(b->ordinal, b->nr_bounds, sizeof(*b->ordinal), 0, ordinal);
}

uint32_t steps_of(const struct steps *s, uint64_t ordinal)
{
	const struct steps_bounds *b = steps_bounds(s);
	uint32_t begun = steps_begun(b, ordinal);

	/* What comes before the first named step is not the first's. */
	return b == &s->named && begun ? begun - 1 : begun;
}

void steps_release(struct steps *s)
{
	free(s->cycles.ordinal);
	free(s->updated.ordinal);
	free(s->named.ordinal);
	free(s->rounds.ordinal);
	free(s->turn);
	updatesites_release(&s->sites);
	*s = (struct steps){ .reader = s->reader };
}
