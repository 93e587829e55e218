/* SPDX-License-Identifier: MIT */
/* Lives of tensor blocks, and those that were live at moments that matter. */
#include "analyzer/training/lives.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/idtable.h"
#include "analyzer/recording/sorted.h"
#include "analyzer/training/training_thresholds.h"

static struct lives_device *device_of(struct lives *l, uint8_t device)
{
	if (!l->device[device])
		l->device[device] = heap_alloc(1, sizeof(**l->device));
	return l->device[device];
}

static void append_bytes(uint64_t **array, uint32_t *nr, size_t *room, uint64_t bytes)
{
	*array = heap_grow(*array, room, (size_t)*nr + 1, sizeof(**array));
	(*array)[(*nr)++] = bytes;
}

/* Keep what is allocated where cycles and steps begin. A device that comes later had nothing before. */
static void sample(struct lives *l, int signs)
{
	for (int i = 0; i <= TFMT_NR_DEVICES; i++) {
		struct lives_device *d = l->device[i];

		if (!d)
			continue;
		if (signs & STEPS_MAYBE)
			d->pending_allocated = d->allocated;
		while (d->nr_cycle_bytes < l->steps.cycles.nr_bounds)
			append_bytes(&d->cycle_bytes, &d->nr_cycle_bytes, &d->cycles_room,
				     d->nr_cycle_bytes + 1 < l->steps.cycles.nr_bounds ? 0 : d->pending_allocated);
		while (d->nr_named_bytes < l->steps.named.nr_bounds)
			append_bytes(&d->named_bytes, &d->nr_named_bytes, &d->named_room,
				     d->nr_named_bytes + 1 < l->steps.named.nr_bounds ? 0 : d->allocated);
	}
}

static void mark_all(struct lives *l, enum lives_moment moment)
{
	for (int i = 0; i <= TFMT_NR_DEVICES; i++)
		if (l->device[i])
			lives_mark(l, (uint8_t)i, moment);
}

void lives_step_began(struct lives *l)
{
	mark_all(l, LIVES_STEP);
}

void lives_take_signs(struct lives *l, int signs)
{
	bool pass_begun = l->now.nr_begun != l->steps.nr_backwards;

	if (signs & STEPS_CYCLE || pass_begun)
		l->has_graph = l->has_forward = false;
	l->now.nr_begun = l->steps.nr_backwards;
	l->now.nr_ended = l->steps.nr_ended;
	if (signs & STEPS_CYCLE)
		l->steps.nr_forward_blocks = 0;
	l->now.nr_cycles = l->steps.cycles.nr_bounds;
	l->now.nr_evaluations = (uint16_t)l->steps.nr_evaluations;
	if (signs & STEPS_NAMED || pass_begun)
		mark_all(l, LIVES_STEP);
	if (signs & (STEPS_MAYBE | STEPS_CYCLE | STEPS_NAMED))
		sample(l, signs);
}

static int64_t *net_of(struct lives *l, struct lives_device *d)
{
	return &(l->now.nr_cycles ? d->later_net : d->first_net)[l->now.phase];
}

static size_t place(struct lives *l)
{
	size_t at = l->free;

	if (at) {
		l->free = l->life[at - 1].address;
		return at;
	}
	l->life = heap_grow(l->life, &l->room, l->nr_lives + 1, sizeof(*l->life));
	return ++l->nr_lives;
}

/*
 * Field by field, as some have just been stored: the processor waits when it loads them in larger parts. The stack is of that
 * kind, and comes from elsewhere.
 */
static inline void note_now(struct lives_when *when, const struct lives_when *now, uint32_t stack)
{
	when->ordinal = now->ordinal;
	when->nr_begun = now->nr_begun;
	when->nr_ended = now->nr_ended;
	when->nr_cycles = now->nr_cycles;
	when->nr_ooms = now->nr_ooms;
	when->nr_forwards = now->nr_forwards;
	when->stack = stack;
	when->phase = now->phase;
	when->nr_evaluations = now->nr_evaluations;
	when->nr_runs = now->nr_runs;
}

/* What stands before a line outside of forward. */
static void note_order(struct lives *l)
{
	uint8_t order = l->has_graph ? 2 : !l->has_forward;

	if (!order || l->now.stack < TFMT_STACK_FIRST)
		return;
	l->brings = idtable_grown(l->brings, &l->nr_brings, l->now.stack, sizeof(*l->brings), l->steps.reader);
	if (l->now.stack < l->nr_brings)
		l->brings[l->now.stack] |= order;
}

uint64_t lives_born(struct lives *l, const struct tfmt_event *ev, uint8_t device, uint32_t group, uint32_t module,
		    uint64_t allocated)
{
	uint64_t size = ev->size;
	struct lives_device *d = device_of(l, device);
	size_t handle = place(l);
	struct life *life;
	int64_t *net;

	/* Field by field: a whole one would be made elsewhere and copied, and the processor would wait for it. */
	life = &l->life[handle - 1];
	l->now.nr_runs += l->now.phase == PHASE_FORWARD && !l->in_run;
	l->in_run = l->now.phase == PHASE_FORWARD;
	note_now(&life->birth, &l->now, ev->python_stack);
	life->address = ev->address;
	life->size = size;
	life->group = group;
	life->module = module;
	life->flags = l->flags;
	life->device = device;
	life->is_from_host = false;
	life->original = TFMT_NO_ORDINAL;
	life->after_call = l->has_forward;
	life->after_forward = l->has_graph;
	life->in_graph_pass = l->steps.in_backward && l->steps.makes_graph;
	life->is_live = true;
	if (l->now.phase == PHASE_FORWARD) {
		l->now.nr_forwards++;
		l->steps.nr_forward_blocks++;
		l->has_forward = true;
		l->has_graph |= !!(l->flags & TFMT_FLAG_FORWARD);
	} else if (l->now.phase <= PHASE_INIT) {
		note_order(l);
	}
	d->allocated += size;
	l->allocated += size;
	net = net_of(l, d);
	*net = (int64_t)((uint64_t)*net + size); /* a damaged trace has sizes that do not add up */
	lives_total(l, device, allocated);
	if (l->follower)
		l->follower->begin(l->follower->ctx, l, life, handle, l->time_ns);
	return handle;
}

void lives_copied(struct lives *l, uint64_t handle, bool is_from_host, uint64_t original)
{
	const struct life *from = original ? &l->life[original - 1] : NULL;
	struct life *life = handle ? &l->life[handle - 1] : NULL;

	if (!life)
		return;
	life->is_from_host = is_from_host;
	life->original = from ? from->birth.ordinal : TFMT_NO_ORDINAL;
}

static inline enum lives_fate fate_between(const struct lives_when *b, const struct lives_when *d)
{
	if (lives_cycles(b, d))
		return FATE_KEPT;
	if (d->nr_begun != b->nr_begun)
		return FATE_INTO_PASS;
	return d->nr_ended != b->nr_ended ? FATE_OUT_OF_PASS : FATE_SHORT;
}

enum lives_fate lives_fate(const struct life *life)
{
	return fate_between(&life->birth, &life->death);
}

static __attribute__((noinline)) void fates_grow(struct lives *l, uint32_t group)
{
	size_t room = l->nr_fates;

	l->fates = heap_grow(l->fates, &room, (size_t)group + 1, sizeof(*l->fates));
	memset(l->fates + l->nr_fates, 0, (room - l->nr_fates) * sizeof(*l->fates));
	l->nr_fates = (uint32_t)room;
}

static inline void count_age(struct lives_fates *f, uint32_t age)
{
	if (age / 2 > f->longest)
		f->nr_aged = 0;
	f->nr_aged += age >= f->longest / 2;
	if (age > f->longest)
		f->longest = age;
}

/* Count it among its group's; what an exception has swept away tells nothing. */
static inline void count_fate(struct lives *l, const struct life *life, enum lives_fate fate)
{
	struct lives_fates *f;

	if (l->now.nr_ooms != life->birth.nr_ooms)
		return;
	if (life->group >= l->nr_fates)
		fates_grow(l, life->group);
	f = &l->fates[life->group];
	f->nr[fate]++;
	count_age(f, l->now.nr_forwards - life->birth.nr_forwards);
	f->nr_after_pass += l->now.nr_begun == l->now.nr_ended && l->now.nr_begun != life->birth.nr_begun;
	if (fate == FATE_KEPT)
		f->nr_long += lives_cycles(&life->birth, &l->now) >= LONG_CYCLES;
}

static void keep_ended(struct lives_at *m, const struct life *life)
{
	m->ended = heap_grow(m->ended, &m->room, m->nr_ended + 1, sizeof(*m->ended));
	m->ended[m->nr_ended++] = *life;
}

static void window_keep(struct lives_window *w, const struct life *life)
{
	if (w->is_cut || life->device != w->device || life->birth.ordinal > w->to || life->death.ordinal < w->from)
		return;
	w->is_cut = w->nr == LIVES_WINDOW_MAX;
	if (w->is_cut)
		return;
	w->life = heap_grow(w->life, &w->room, w->nr + 1, sizeof(*w->life));
	w->life[w->nr++] = *life;
}

static inline bool was_live_at(const struct life *life, const struct lives_at *m)
{
	return m->reached && life->birth.ordinal <= m->ordinal;
}

/* Keep it for the moments at which it was live, and for the window. Few blocks are; the end of others nobody asks for. */
static __attribute__((noinline)) void keep(struct lives *l, struct lives_device *d, struct life *life)
{
	struct lives_at *step = &d->moment[LIVES_STEP];

	note_now(&life->death, &l->now, l->now.stack);
	if (was_live_at(life, step))
		keep_ended(step, life);
	for (int i = 0; i < LIVES_STEP && life->birth.ordinal < d->after_moments; i++)
		if (was_live_at(life, &d->moment[i]))
			keep_ended(&d->moment[i], life);
	if (l->window)
		window_keep(l->window, life);
	if (l->follower)
		l->follower->end(l->follower->ctx, l, life, (size_t)(life - l->life) + 1, l->time_ns);
}

void lives_gone(struct lives *l, uint64_t handle)
{
	struct life *life = handle ? &l->life[handle - 1] : NULL;
	enum lives_fate fate;
	struct lives_device *d;
	int64_t *net;

	if (!life)
		return;
	d = l->device[life->device];
	if (l->now.phase == PHASE_OPTIMIZER && life->birth.phase == PHASE_BACKWARD && !l->is_past)
		updatesites_drop(&l->steps.sites, l->steps.reader, l->now.stack, life->birth.stack);
	fate = fate_between(&life->birth, &l->now);
	if (life->birth.ordinal < d->after_moments || was_live_at(life, &d->moment[LIVES_STEP]) || l->window ||
	    l->follower)
		keep(l, d, life);
	count_fate(l, life, fate);
	d->allocated -= life->size;
	l->allocated -= life->size;
	net = net_of(l, d);
	*net = (int64_t)((uint64_t)*net - life->size);
	l->steps.nr_forward_blocks -= life->birth.phase == PHASE_FORWARD && life->birth.nr_cycles == l->now.nr_cycles;
	life->is_live = false;
	life->address = l->free;
	l->free = handle;
}

void lives_mark(struct lives *l, uint8_t device, enum lives_moment moment)
{
	struct lives_device *d = device_of(l, device);
	struct lives_at *m = &d->moment[moment];

	m->reached = true;
	m->ordinal = l->now.ordinal - (moment == LIVES_TIME && l->now.ordinal);
	m->time_ns = l->time_ns;
	m->bytes = d->allocated;
	m->nr_ended = 0;
	if (moment != LIVES_STEP && m->ordinal >= d->after_moments)
		d->after_moments = m->ordinal + 1;
}

void lives_end(struct lives *l)
{
	l->now.ordinal += !l->is_over;
	l->is_over = true;
}

void lives_past(struct lives *l, uint8_t device, uint64_t peak_bytes)
{
	struct lives_device *d = peak_bytes ? device_of(l, device) : l->device[device];

	if (!d)
		return;
	d->past_peak_bytes = peak_bytes;
	memset(d->first_net, 0, sizeof(d->first_net)); /* what is counted is what comes now */
	memset(d->later_net, 0, sizeof(d->later_net));
	for (unsigned i = 0; i < NR_LIVES_MOMENTS; i++) {
		free(d->moment[i].ended);
		d->moment[i] = (struct lives_at){ .bytes = 0 };
	}
	d->after_moments = 0;
}

void lives_peak(struct lives *l, uint8_t device, uint64_t allocated)
{
	enum lives_moment moment = (enum lives_moment)(LIVES_PEAK_OF_PHASE + l->now.phase);

	lives_mark(l, device, moment);
	l->device[device]->moment[moment].bytes = allocated;
}

enum phase lives_peak_phase(const struct lives *l, uint32_t device)
{
	const struct lives_device *d = l->device[device];
	const struct lives_at *best = NULL;
	enum phase phase = NR_PHASES;

	for (int i = 0; d && i < NR_PHASES; i++) {
		const struct lives_at *m = &d->moment[LIVES_PEAK_OF_PHASE + i];

		if (!m->reached || (best && (m->bytes < best->bytes ||
					     (m->bytes == best->bytes && m->ordinal > best->ordinal))))
			continue;
		best = m;
		phase = (enum phase)i;
	}
	return best && best->bytes > d->past_peak_bytes ? phase : NR_PHASES;
}

static int by_birth(const void *va, const void *vb)
{
	const struct life *a = va, *b = vb;

	return (a->birth.ordinal > b->birth.ordinal) - (a->birth.ordinal < b->birth.ordinal);
}

/* What is live at the end of accounting. */
static struct life unended(const struct life *life)
{
	struct life copy = *life;

	copy.death = (struct lives_when){ .ordinal = TFMT_NO_ORDINAL };
	return copy;
}

void lives_list(const struct lives *l, uint32_t device, enum lives_moment moment, struct life **out, size_t *nr)
{
	const struct lives_device *d = l->device[device];
	const struct lives_at *m = d && moment < NR_LIVES_MOMENTS ? &d->moment[moment] : NULL;
	uint64_t last = m ? m->ordinal : UINT64_MAX;
	size_t room = l->nr_lives + (m ? m->nr_ended : 0);

	*nr = 0;
	*out = heap_alloc(room, sizeof(**out));
	if (!d || moment == LIVES_NONE || (m && !m->reached))
		return;
	for (size_t i = 0; i < l->nr_lives; i++)
		if (l->life[i].is_live && l->life[i].device == device && l->life[i].birth.ordinal <= last)
			(*out)[(*nr)++] = unended(&l->life[i]);
	for (size_t i = 0; m && i < m->nr_ended; i++)
		(*out)[(*nr)++] = m->ended[i];
	if (*nr)
		qsort(*out, *nr, sizeof(**out), by_birth);
}

bool lives_window_close(const struct lives *l, struct lives_window *w)
{
	for (size_t i = 0; i < l->nr_lives; i++) {
		struct life life = unended(&l->life[i]);

		if (life.is_live)
			window_keep(w, &life);
	}
	if (w->nr)
		qsort(w->life, w->nr, sizeof(*w->life), by_birth);
	return !w->is_cut;
}

void lives_window_release(struct lives_window *w)
{
	free(w->life);
	w->life = NULL;
	w->nr = w->room = 0;
}

/* What was allocated when step `i` + 1 began. */
static uint64_t bytes_at(const struct lives *l, const struct lives_device *d, uint32_t i)
{
	const struct steps_bounds *b = steps_bounds(&l->steps), *cycles = &l->steps.cycles;
	size_t cycle;

	if (b == &l->steps.named)
		return i < d->nr_named_bytes ? d->named_bytes[i] : 0;
	cycle = sorted_below(cycles->ordinal, cycles->nr_bounds, sizeof(*cycles->ordinal), 0, b->ordinal[i]);
	return cycle < d->nr_cycle_bytes ? d->cycle_bytes[cycle] : 0;
}

bool lives_step_bytes(const struct lives *l, uint32_t device, uint32_t step, uint64_t *bytes)
{
	const struct lives_device *d = l->device[device];

	if (!d || !step || step > steps_bounds(&l->steps)->nr_bounds)
		return false;
	*bytes = bytes_at(l, d, step - 1);
	return true;
}

void lives_release(struct lives *l)
{
	for (int i = 0; i <= TFMT_NR_DEVICES; i++) {
		for (int k = 0; l->device[i] && k < NR_LIVES_MOMENTS; k++)
			free(l->device[i]->moment[k].ended);
		if (l->device[i]) {
			free(l->device[i]->cycle_bytes);
			free(l->device[i]->named_bytes);
		}
		free(l->device[i]);
	}
	free(l->life);
	free(l->fates);
	free(l->brings);
	steps_release(&l->steps);
	*l = (struct lives){ 0 };
}
