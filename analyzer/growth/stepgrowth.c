/* SPDX-License-Identifier: MIT */
/* Growth from step to step: series by stack, which of them grow, and what they are together. */
#include "analyzer/growth/stepgrowth.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/growth/growth_thresholds.h"
#include "analyzer/growth/stepcauses.h"

const char *const stepgrowth_class_names[NR_STEPGROWTH_CLASSES] = {
	"tensors", "graph_tensors", "graph", "shapes", "sequence", "hook", "context", "driver", "host",
};

#define MONTH_NS (30 * 86400e9)

const char *const stepgrowth_by_names[NR_STEPGROWTH_BY] = { "step", "call", "events" };

struct replay_device stepgrowth_host(struct replay_process *p)
{
	return (struct replay_device){
		.process = p, .ordinal = GROUP_HOST, .books = books_device(p->books, GROUP_HOST)
	};
}

bool stepgrowth_is_host(const struct replay_device *d)
{
	return d->ordinal == GROUP_HOST;
}

/* ---- series ---------------------------------------------------------------------------------- */

bool stepgrowth_is_counted(struct books *books, const struct group *g, uint32_t device)
{
	if (device == GROUP_HOST)
		return !g->unrecorded && !g->before &&
		       (group_is_page_locked(g) || (!g->tensor && g->space == TFMT_SPACE_MANAGED));
	if (g->device != device || g->unrecorded)
		return false;
	if (g->tensor)
		return true;
	if (!group_is_device_memory(g))
		return false;
	return g->modelled || !books_owner(books, g->native_stack, g->python_stack).torch_allocator;
}

struct keyed {
	const struct group *group;
	uint32_t index;
};

/* Groups of one stack, whatever their shape; what has none, as a library's workspace, is something else. */
static int compare_stacks(const void *va, const void *vb)
{
	const struct group *a = ((const struct keyed *)va)->group, *b = ((const struct keyed *)vb)->group;

	if (a->tensor != b->tensor)
		return a->tensor - b->tensor;
	if (!a->shape != !b->shape)
		return a->shape ? 1 : -1;
	if (a->python_stack != b->python_stack)
		return a->python_stack < b->python_stack ? -1 : 1;
	if (a->native_stack != b->native_stack)
		return a->native_stack < b->native_stack ? -1 : 1;
	if (a->thread != b->thread)
		return a->thread < b->thread ? -1 : 1;
	return (a->function > b->function) - (a->function < b->function);
}

/* The number of each counted group's stack in of_group (UINT32_MAX: not counted), a group of each stack in *first. */
static void number_stacks(struct stepcauses *c, uint32_t device)
{
	uint32_t nr_groups = books_nr_groups(c->books), nr = 0;
	struct keyed *keyed = heap_alloc(nr_groups, sizeof(*keyed));

	c->of_group = heap_alloc(nr_groups, sizeof(*c->of_group));
	c->first_group = heap_alloc(nr_groups, sizeof(*c->first_group));
	for (uint32_t i = 0; i < nr_groups; i++) {
		const struct group *g = books_group(c->books, i);

		c->of_group[i] = UINT32_MAX;
		if (stepgrowth_is_counted(c->books, g, device))
			keyed[nr++] = (struct keyed){ g, i };
	}
	if (nr)
		qsort(keyed, nr, sizeof(*keyed), compare_stacks);
	for (uint32_t i = 0; i < nr; i++) {
		if (!i || compare_stacks(&keyed[i - 1], &keyed[i]))
			c->first_group[c->nr_stacks++] = keyed[i].index;
		c->of_group[keyed[i].index] = c->nr_stacks - 1;
	}
	free(keyed);
}

/* Where a sample is, by what growth is by. */
static double place_of(const struct stepgrowth *g, const struct stepsample *s)
{
	if (g->by == STEPGROWTH_BY_STEP)
		return s->nr_steps;
	return g->by == STEPGROWTH_BY_CALL ? s->nr_calls : (double)s->ordinal / STEPGROWTH_EVENTS;
}

/* What each stack held at each reading, and the readings' totals. */
static void fill_series(struct stepgrowth *g, struct stepcauses *c)
{
	size_t cells = (size_t)c->nr_stacks * g->nr_readings;

	c->nr_readings = g->nr_readings;
	c->bytes = heap_alloc(cells, sizeof(*c->bytes));
	c->blocks = heap_alloc(cells, sizeof(*c->blocks));
	c->asked = heap_alloc(cells, sizeof(*c->asked));
	for (size_t i = 0; i < g->nr_readings; i++) {
		const struct stepsample *s = &c->series->sample[i];

		g->reading[i] = (struct growth_reading){ place_of(g, s), 0 };
		for (uint32_t k = 0; k < s->nr_parts; k++) {
			uint32_t stack = c->of_group[s->part[k].group];

			if (stack == UINT32_MAX)
				continue;
			c->bytes[stack * g->nr_readings + i] += (double)s->part[k].bytes;
			c->blocks[stack * g->nr_readings + i] += s->part[k].blocks;
			c->asked[stack * g->nr_readings + i] +=
				s->part[k].blocks * (double)books_group(c->books, s->part[k].group)->shape_bytes;
			g->reading[i].bytes += (double)s->part[k].bytes;
		}
	}
}

/* The last boundary is no step's when no backward came after it: an evaluation after the loop, mostly. */
static size_t nr_readings(const struct stepsample_series *series, const struct lives *lives)
{
	bool is_named = steps_bounds(&lives->steps) == &lives->steps.named;
	size_t nr = series->nr_samples;

	return nr && steps_count(&lives->steps) && !is_named && !lives->steps.has_backward ? nr - 1 : nr;
}

/* ---- what grows ------------------------------------------------------------------------------ */

/* Does it go on to the end, step after step, to more than ever before? Else it may be let go again, as it was. */
static bool goes_on(const struct growth *g, const struct growth_reading *r, size_t nr)
{
	const struct growth_reading *used = r + g->nr_warm_up, *last = &r[nr - 1], *third;
	size_t rises = 0;

	if (g->shape < GROWTH_STEADY || g->nr_used < READINGS_MIN)
		return false;
	for (size_t i = 0; i < g->nr_warm_up; i++)
		if (r[i].bytes >= last->bytes)
			return false;
	for (size_t i = 1; i < g->nr_used; i++)
		rises += used[i].bytes > used[i - 1].bytes;
	third = used + (g->nr_used - 1) * 2 / 3;
	return rises >= RISES_MIN && last->step > third->step &&
	       (last->bytes - third->bytes) / (last->step - third->step) >= GOES_ON_MIN * g->slope;
}

/* Without steps nearly every stack has changed a little between any two readings: those that matter are another share of all. */
static bool is_noise(const struct stepgrowth *g, const double *bytes)
{
	size_t third = g->nr_readings / 3;
	double change = 0, most = 0;

	for (size_t i = 0; i < third; i++)
		change += (bytes[g->nr_readings - 1 - i] - bytes[i]) / (double)third;
	for (size_t i = 0; i < g->nr_readings; i++)
		most = fmax(most, g->reading[i].bytes);
	return fabs(change) < NOISE_MAX * most;
}

/*
 * Large blocks are up to 1 MiB larger than what was asked for, as it comes: what was asked for may go on where their
 * bytes scatter or seem to halt.
 */
static bool asked_grows(struct growth *out, const struct stepgrowth *g, const double *bytes, const double *asked)
{
	struct growth_reading r[STEPSAMPLES_MAX];
	size_t last = g->nr_readings - 1;
	struct growth growth;
	bool grows;

	if (!(asked[last] > asked[0]) || bytes[last] - bytes[0] < (asked[last] - asked[0]) / ASKED_SHOWN_PART)
		return false;
	for (size_t i = 0; i < g->nr_readings; i++)
		r[i] = (struct growth_reading){ g->reading[i].step, asked[i] };
	growth_find(&growth, r, g->nr_readings, NAN);
	grows = goes_on(&growth, r, g->nr_readings);
	if (grows)
		*out = growth;
	return grows;
}

/* Does a stack grow, and how? Of those that stay the same nothing is computed. */
static bool stack_grows(struct growth *out, const struct stepgrowth *g, const struct stepcauses *c, uint32_t stack)
{
	const double *bytes = &c->bytes[stack * g->nr_readings];
	struct growth_reading r[STEPSAMPLES_MAX];
	bool changes = false;

	*out = (struct growth){ 0 };
	for (size_t i = 0; i < g->nr_readings; i++) {
		r[i] = (struct growth_reading){ g->reading[i].step, bytes[i] };
		changes |= bytes[i] != bytes[0];
	}
	if (!changes || (g->by != STEPGROWTH_BY_STEP && is_noise(g, bytes)))
		return false;
	growth_find(out, r, g->nr_readings, NAN);
	return goes_on(out, r, g->nr_readings) || asked_grows(out, g, bytes, &c->asked[stack * g->nr_readings]);
}

/* Which stacks grow; none if as much shrinks: then memory has only changed hands. */
static void find_growing(struct stepgrowth *g, struct stepcauses *c)
{
	double up = 0, down = 0;

	c->growing = heap_alloc(c->nr_stacks, sizeof(*c->growing));
	for (uint32_t i = 0; i < c->nr_stacks; i++) {
		struct growth growth;

		if (stack_grows(&growth, g, c, i)) {
			c->growing[c->nr_growing++] = i;
			up += growth.slope;
		} else if (growth.slope_high < 0) {
			down -= growth.slope;
		}
	}
	if (down > MOVES_MIN * up)
		c->nr_growing = 0;
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* How much more than at its step's beginning tensors took at their peak; `slope` since the last reading before. */
static double step_overhead(const struct replay_device *d, const struct stepcauses *c, double slope)
{
	const struct lives *lives = d->process->lives;
	enum phase phase = lives_peak_phase(lives, d->ordinal);
	const struct lives_at *peak;
	double level = 0;
	size_t i = c->nr_readings;

	if (phase == NR_PHASES || !c->nr_readings)
		return 0;
	peak = &lives->device[d->ordinal]->moment[LIVES_PEAK_OF_PHASE + phase];
	while (i > 1 && c->series->sample[i - 1].ordinal > peak->ordinal)
		i--;
	for (uint32_t k = 0; k < c->nr_stacks; k++)
		if (books_group(c->books, c->first_group[k])->tensor)
			level += c->bytes[k * c->nr_readings + i - 1];
	if (slope > 0 && !c->is_stepless)
		level += slope * ((double)steps_of(&lives->steps, peak->ordinal) - c->series->sample[i - 1].nr_steps);
	return fmax(0, (double)peak->bytes - level);
}

double stepgrowth_held_by_others(const struct replay_device *d)
{
	struct residual_parts p;

	books_residual_at_peak(d->process->books, d->ordinal, &p);
	return (double)p.context + (double)p.code + (double)p.local_memory + (double)p.other_processes +
	       (p.unknown > 0 ? (double)p.unknown : 0);
}

static void find_limit(struct stepgrowth *g, const struct stepcauses *c, const struct replay_device *d,
		       const struct stepgrowth_limits *limits)
{
	double capacity = (double)(limits->capacity_bytes ? limits->capacity_bytes : d->capacity_bytes);

	g->overhead_bytes = step_overhead(d, c, g->total.slope) + stepgrowth_held_by_others(d);
	g->limit_bytes = capacity > 0 ? capacity - g->overhead_bytes : NAN;
}

/*
 * What gets longer is made anew beside what it was, and the next one takes ever more: a step's overhead grows with the
 * largest of them.
 */
static void leave_room_for_copies(struct stepgrowth *g)
{
	double room = g->nr_readings ? g->limit_bytes - g->reading[g->nr_readings - 1].bytes : 0, copy = 0;

	for (size_t i = 0; i < g->nr_causes; i++) {
		const struct stepgrowth_cause *c = &g->cause[i];

		if (c->class == STEPGROWTH_SEQUENCE && c->nr_live && !stepgrowth_is_apart(c))
			copy = fmax(copy, c->growth.slope / (double)c->nr_live);
	}
	if (!(room > 0 && copy > 0 && g->total.slope > 0))
		return;
	room *= copy / (g->total.slope + copy);
	g->overhead_bytes += room;
	g->limit_bytes -= room;
	growth_find(&g->total, g->reading, g->nr_readings, g->limit_bytes);
}

static int compare_doubles(const void *va, const void *vb)
{
	double a = *(const double *)va, b = *(const double *)vb;

	return (a > b) - (a < b);
}

/* The median time of a step, a call, 1,000 events. */
static double step_time(const struct stepgrowth *g, const struct stepcauses *c)
{
	const struct stepsample *s = c->series->sample;
	const struct growth_reading *r = g->reading;
	double ns[STEPSAMPLES_MAX];
	size_t nr = 0;

	for (size_t i = 1; i < c->nr_readings; i++)
		if (r[i].step > r[i - 1].step && s[i].time_ns >= s[i - 1].time_ns)
			ns[nr++] = (double)(s[i].time_ns - s[i - 1].time_ns) / (r[i].step - r[i - 1].step);
	if (!nr)
		return NAN;
	qsort(ns, nr, sizeof(*ns), compare_doubles);
	return ns[nr / 2];
}

static bool is_warned(const struct stepgrowth *g, const struct stepgrowth_limits *l)
{
	double growth = g->total.slope * l->warn_steps;

	if (g->total.shape < GROWTH_STEADY || !(l->warn_steps > 0) || g->by != STEPGROWTH_BY_STEP)
		return false;
	return growth > (l->warn_bytes > 0 ? l->warn_bytes : l->warn_share * g->level_bytes);
}

/* Without steps: is there so little else that happens that the program may only be filling its memory? */
static bool is_filled(const struct stepgrowth *g, const struct stepcauses *c)
{
	const struct stepsample *first = &c->series->sample[g->total.nr_warm_up];
	const struct stepsample *last = &c->series->sample[g->nr_readings - 1];
	double blocks = 0;

	for (uint32_t i = 0; i < c->nr_stacks; i++)
		blocks += c->blocks[i * g->nr_readings + g->nr_readings - 1] -
			  c->blocks[i * g->nr_readings + g->total.nr_warm_up];
	return (double)(last->taken - first->taken) < EVENTS_OF_WORK * blocks;
}

static uint64_t peak_bytes(const struct replay_device *d)
{
	const struct host_books *host = books_host(d->process->books);

	if (stepgrowth_is_host(d))
		return host->pinned_peak_bytes + host->managed_peak_bytes;
	return d->has_tensors ? d->books->allocated_peak_bytes : d->books->driver_peak_bytes;
}

/* How far ahead growth matters, in the readings' unit. */
static double horizon(const struct stepgrowth *g, const struct stepgrowth_limits *l)
{
	return g->by == STEPGROWTH_BY_STEP ? l->horizon_steps : MONTH_NS / g->step_ns;
}

bool stepgrowth_is_apart(const struct stepgrowth_cause *c)
{
	return c->follows_batch || c->is_let_go || c->fills_up || c->is_offset;
}

/* Whom did a census see? What is kept in containers that are full one day is no finding if there is room until then. */
static void find_keepers(struct stepgrowth *g, const struct stepcauses *causes, const struct replay_device *d)
{
	double left = g->limit_bytes - (g->nr_readings ? g->reading[g->nr_readings - 1].bytes : 0), to_fill = 0;

	for (size_t i = 0; i < g->nr_causes; i++) {
		struct stepgrowth_cause *c = &g->cause[i];
		bool of_driver = g->is_host || c->class == STEPGROWTH_DRIVER;

		if (!of_driver)
			stepkeeper_find(&c->keeper, d, c->group, causes->series->sample[c->growth.nr_warm_up].ordinal);
		if (c->keeper.is_of_model && c->class == STEPGROWTH_SHAPES)
			c->class = STEPGROWTH_TENSORS;
		to_fill += c->keeper.left_bytes;
		c->certainty = of_driver || c->keeper.is_known ? CERTAINTY_PROVEN :
			       g->by == STEPGROWTH_BY_EVENTS ? CERTAINTY_HINT : CERTAINTY_LIKELY;
	}
	for (size_t i = 0; i < g->nr_causes; i++)
		g->cause[i].fills_up = g->cause[i].keeper.is_state ||
				       (g->cause[i].keeper.bound && !(to_fill >= left)); /* NAN: no capacity is known */
}

/*
 * Where memory as a whole does not grow, others free what a place takes, as a cache with a bound does: that grows ever more slowly,
 * or has as many entries as before, which happen to be larger. Censuses show who keeps what is not let go of; where none did, that
 * is not to be told from it.
 */
static void find_offset(struct stepgrowth *g, const struct replay_device *d)
{
	for (size_t i = 0; g->total.shape == GROWTH_NONE && i < g->nr_causes; i++) {
		struct stepgrowth_cause *c = &g->cause[i];
		bool is_unseen = d->process->names && c->certainty != CERTAINTY_PROVEN;

		c->is_offset = (is_unseen || c->keeper.stays_as_long || c->growth.shape == GROWTH_DECELERATING) &&
			       !stepgrowth_is_apart(c);
	}
}

/* Did the program come to its end, so that memory would run out in a longer run only? */
static bool has_ended(const struct replay_process *p)
{
	return p->summary && p->summary->end == TFMT_PROCESS_EXIT && !p->summary->exit_status;
}

/* Did it grow in few of the steps since it began to, as by members of an ensemble? */
static bool grows_rarely(const struct stepgrowth_cause *c)
{
	return 2 * c->nr_rises < c->nr_since;
}

/* Is it known when each rise came, in a program that is over? Readings that are not of each step may have several rises in one. */
static bool are_rises_known(const struct stepgrowth *g)
{
	return g->has_ended && g->by == STEPGROWTH_BY_STEP && g->nr_readings + 1 >= g->nr_steps;
}

static bool is_rare(const struct stepgrowth *g)
{
	for (size_t i = 0; i < g->nr_findings; i++)
		if (!grows_rarely(&g->cause[i]))
			return false;
	return are_rises_known(g) && g->nr_findings;
}

/* Would it fill what is left within the horizon? A few rises in a program that is over tell of no pace. */
static bool fills(const struct stepgrowth *g, const struct stepgrowth_cause *c, const struct stepgrowth_limits *l)
{
	double left = g->limit_bytes - (g->nr_readings ? g->reading[g->nr_readings - 1].bytes : 0);

	return !isnan(left) && g->by == STEPGROWTH_BY_STEP && c->growth.slope * l->horizon_steps >= left &&
	       !(are_rises_known(g) && grows_rarely(c));
}

/* Which of the causes are more than a note? */
static void mark_findings(struct stepgrowth *g, const struct replay_device *d, const struct stepgrowth_limits *l)
{
	double peak = (double)peak_bytes(d);

	for (size_t i = 0; i < g->nr_causes; i++) {
		struct stepgrowth_cause *c = &g->cause[i];

		c->is_finding = c->grown_bytes > FINDING_MIN * peak || fills(g, c, l);
		c->is_finding &= !g->is_filled && !stepgrowth_is_apart(c);
		g->nr_findings += c->is_finding;
	}
}

/*
 * Readings also hold what a step is at, which varies with its batch and hides that what stays is a sum of random parts: that
 * bends by chance. Each place's own bytes show whether they do.
 */
static void believe_what_bends(struct stepgrowth *g)
{
	for (size_t i = 0; i < g->nr_causes; i++)
		if (!stepgrowth_is_apart(&g->cause[i]) && g->cause[i].growth.believes_quadratic)
			return;
	if (g->nr_causes && g->total.believes_quadratic)
		growth_believe_linear(&g->total, g->reading[g->nr_readings - 1].step, g->limit_bytes);
}

/* How much the class says of who keeps it, and with it others' memory, which grows as fast. */
static int keeping(const struct stepgrowth_cause *c)
{
	if (c->class == STEPGROWTH_HOOK || c->class == STEPGROWTH_CONTEXT)
		return 2;
	return c->class == STEPGROWTH_GRAPH_TENSORS;
}

static int compare_causes(const void *va, const void *vb)
{
	const struct stepgrowth_cause *a = va, *b = vb;

	if (a->is_finding != b->is_finding)
		return b->is_finding - a->is_finding;
	if (a->growth.slope != b->growth.slope)
		return a->growth.slope > b->growth.slope ? -1 : 1;
	if (keeping(a) != keeping(b))
		return keeping(b) - keeping(a);
	return (a->group > b->group) - (a->group < b->group);
}

void stepgrowth_find(struct stepgrowth *g, const struct replay *m, const struct replay_device *d,
		     const struct stepgrowth_limits *limits)
{
	const struct lives *lives = d->process->lives;
	struct stepcauses c = {
		.replay = m, .of = d, .process = d->process, .books = d->process->books, .device = d->ordinal
	};

	*g = (struct stepgrowth){ .nr_steps = steps_count(&lives->steps), .limit_bytes = NAN, .step_ns = NAN };
	g->is_host = stepgrowth_is_host(d);
	c.is_stepless = !g->nr_steps;
	if (c.is_stepless)
		g->by = d->process->stepsamples->is_by_calls ? STEPGROWTH_BY_CALL : STEPGROWTH_BY_EVENTS;
	c.series = stepsamples_series(d->process->stepsamples, &lives->steps);
	g->nr_readings = nr_readings(c.series, lives);
	number_stacks(&c, d->ordinal);
	fill_series(g, &c);
	growth_find(&g->total, g->reading, g->nr_readings, NAN);
	find_limit(g, &c, d, limits);
	g->step_ns = step_time(g, &c);
	growth_find(&g->total, g->reading, g->nr_readings, g->limit_bytes);
	if (g->total.nr_used)
		g->level_bytes = g->reading[g->total.nr_warm_up].bytes;
	find_growing(g, &c);
	stepcauses_find(g, &c);
	find_keepers(g, &c, d);
	find_offset(g, d);
	leave_room_for_copies(g);
	believe_what_bends(g);
	g->is_filled = c.is_stepless && g->nr_causes && is_filled(g, &c);
	g->has_ended = has_ended(d->process);
	mark_findings(g, d, limits);
	g->is_warned = is_warned(g, limits);
	if (g->nr_causes)
		qsort(g->cause, g->nr_causes, sizeof(*g->cause), compare_causes);
	g->is_rare = is_rare(g) && !stepgrowth_is_beyond(g, limits);
	stepcauses_release(&c);
}

void stepgrowth_release(struct stepgrowth *g)
{
	free(g->cause);
	g->cause = NULL;
}

bool stepgrowth_is_beyond(const struct stepgrowth *g, const struct stepgrowth_limits *limits)
{
	return limits->capacity_bytes && g->nr_readings && g->reading[g->nr_readings - 1].bytes >= g->limit_bytes;
}

/* Is it told when a reading reaches the limit? */
static bool is_told(const struct stepgrowth *g, const struct stepgrowth_limits *limits, double limit_step)
{
	return g->nr_findings && growth_believed(&g->total)->is_known && isfinite(limit_step) &&
	       !stepgrowth_is_beyond(g, limits) &&
	       limit_step <= g->reading[g->nr_readings - 1].step + horizon(g, limits);
}

/* So many steps are over when a reading reaches the limit: it is the next that does not fit. */
static double step_beyond(const struct stepgrowth *g, double limit_step)
{
	return g->by == STEPGROWTH_BY_EVENTS ? limit_step : floor(limit_step) + 1;
}

double stepgrowth_oom_step(const struct stepgrowth *g, const struct stepgrowth_limits *limits)
{
	double at = growth_believed(&g->total)->limit_step;

	return is_told(g, limits, at) ? step_beyond(g, at) : NAN;
}

bool stepgrowth_oom_range(const struct stepgrowth *g, const struct stepgrowth_limits *limits, double *low,
			  double *high)
{
	*low = step_beyond(g, g->total.limit_step_low);
	*high = step_beyond(g, g->total.limit_step_high);
	return is_told(g, limits, g->total.limit_step_low);
}
