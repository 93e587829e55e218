/* SPDX-License-Identifier: MIT */
/* Samples of the groups at boundaries of steps, thinned out as they become many. */
#include "analyzer/stepsamples.h"

#include <stdlib.h>
#include <string.h>

static bool is_due(const struct stepsample_series *series, uint32_t index)
{
	return !series->stride || index % series->stride == 0;
}

static int take(struct stepsample *sample, const struct lives *lives, const struct groups *groups, uint64_t ordinal)
{
	uint32_t nr = 0;

	*sample = (struct stepsample){ .ordinal = ordinal, .taken = lives->now.ordinal, .time_ns = lives->time_ns };
	for (uint32_t i = 0; i < groups->nr_groups; i++)
		nr += groups->group[i].live.blocks != 0;
	sample->part = malloc((nr ? nr : 1) * sizeof(*sample->part));
	if (!sample->part)
		return TFMT_E_NOMEM;
	for (uint32_t i = 0; i < groups->nr_groups; i++) {
		const struct group_figures *live = &groups->group[i].live;

		if (live->blocks)
			sample->part[sample->nr_parts++] =
				(struct stepsample_part){ i, (uint32_t)live->blocks, live->bytes };
	}
	return 0;
}

/* Drop every other sample. */
static void halve(struct stepsample_series *series)
{
	for (uint32_t i = 0; i < series->nr_samples; i++) {
		if (i % 2)
			free(series->sample[i].part);
		else
			series->sample[i / 2] = series->sample[i];
	}
	series->nr_samples = (series->nr_samples + 1) / 2;
	series->stride = 2 * (series->stride ? series->stride : 1);
}

/* Keep a copy as the sample of a boundary, unless the series has become too coarse for it. */
static int keep(struct stepsample_series *series, const struct stepsample *sample, uint32_t index, uint32_t nr_steps)
{
	struct stepsample *copy;
	size_t size = (sample->nr_parts ? sample->nr_parts : 1) * sizeof(*sample->part);

	if (series->nr_samples == STEPSAMPLES_MAX)
		halve(series);
	if (!is_due(series, index))
		return 0;
	copy = &series->sample[series->nr_samples];
	*copy = *sample;
	copy->nr_steps = nr_steps;
	copy->part = malloc(size);
	if (!copy->part)
		return TFMT_E_NOMEM;
	memcpy(copy->part, sample->part, sample->nr_parts * sizeof(*sample->part));
	series->nr_samples++;
	return 0;
}

static int cycle_began(struct stepsamples *t, const struct lives *lives, const struct groups *groups)
{
	const struct steps *s = &lives->steps;
	uint32_t index = s->cycles.nr_bounds - 1;
	int err;

	free(t->latest.part);
	t->latest.part = NULL;
	if (!is_due(&t->of[SAMPLES_CYCLES], index) && !is_due(&t->of[SAMPLES_UPDATED], t->nr_updated))
		return 0;
	err = take(&t->latest, lives, groups, s->cycles.ordinal[index]);
	if (!err && is_due(&t->of[SAMPLES_CYCLES], index))
		err = keep(&t->of[SAMPLES_CYCLES], &t->latest, index, index + 1);
	return err;
}

static int named_began(struct stepsamples *t, const struct lives *lives, const struct groups *groups)
{
	const struct steps *s = &lives->steps;
	struct stepsample_series *series = &t->of[SAMPLES_NAMED];
	uint32_t index = s->named.nr_bounds - 1;
	struct stepsample sample;
	int err;

	if (!is_due(series, index))
		return 0;
	err = take(&sample, lives, groups, s->named.ordinal[index]);
	if (!err)
		err = keep(series, &sample, index, index);
	free(sample.part);
	return err;
}

int stepsamples_next(struct stepsamples *t, const struct lives *lives, const struct groups *groups)
{
	const struct steps *s = &lives->steps;
	int err = 0;

	if (lives->signs & STEPS_CYCLE)
		err = cycle_began(t, lives, groups);
	if (lives->signs & STEPS_NAMED && !err)
		err = named_began(t, lives, groups);
	/* That a cycle is a step may show when it has long begun. */
	if (s->updated.nr_bounds == t->nr_updated || err)
		return err;
	t->nr_updated = s->updated.nr_bounds;
	if (t->latest.part && is_due(&t->of[SAMPLES_UPDATED], t->nr_updated - 1))
		err = keep(&t->of[SAMPLES_UPDATED], &t->latest, t->nr_updated - 1, t->nr_updated);
	return err;
}

const struct stepsample_series *stepsamples_series(const struct stepsamples *t, const struct steps *s)
{
	const struct steps_bounds *b = steps_bounds(s);

	if (b == &s->named)
		return &t->of[SAMPLES_NAMED];
	return &t->of[b == &s->cycles ? SAMPLES_CYCLES : SAMPLES_UPDATED];
}

void stepsamples_release(struct stepsamples *t)
{
	for (int i = 0; i < NR_SAMPLES_OF; i++)
		for (uint32_t k = 0; k < t->of[i].nr_samples; k++)
			free(t->of[i].sample[k].part);
	free(t->latest.part);
	*t = (struct stepsamples){ 0 };
}
