/* SPDX-License-Identifier: MIT */
/* One setting beside what was recorded. */
#include "analyzer/whatifpages/print_whatif.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/human.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/ui/print_wrapped.h"

/* A sentence, in lines that fit on a screen. */
static void say(struct emit *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct emit *e, const char *format, ...)
{
	char text[1024];
	va_list args;

	if (!emit_is_text(e))
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	print_wrapped(e, "", "  ", text);
}

/* ---- figures ------------------------------------------------------------------------------------ */

static uint64_t calls_of(const struct cachingmodel_figures *f)
{
	return f->takes + f->gives;
}

/* The part of what is reserved at its peak that no tensor has. */
static double unused_part(uint64_t reserved, uint64_t allocated)
{
	return reserved > allocated ? (double)(reserved - allocated) / (double)reserved : 0;
}

static const char *conf_text(const char *conf)
{
	return conf && *conf ? conf : "PyTorch's own";
}

/* Is the figure what the job would have, to the byte? */
static bool is_exact(const struct whatif_view *v)
{
	const struct whatif_device *d = v->d;

	/* What a program gives its allocator depends on what it finds. */
	return !v->is_changed && !(v->times_given && v->conf) && replay_is_exact(v->device->process) && whatif_is_exact(d) && d->tried[0].conf.backend == ALLOCCONF_NATIVE &&
	       !d->tried[0].is_over &&
	       (d->nr_tried < 2 || tried_figures(&d->tried[0]).peak_reserved == tried_figures(&d->tried[1]).peak_reserved);
}

/* ---- over time ---------------------------------------------------------------------------------- */

static const struct emit_column point_columns[] = {
	{ "time_ns", "time", EMIT_RIGHT, false },
	{ "recorded_reserved_bytes", "recorded", EMIT_RIGHT, false },
	{ "reserved_bytes", "what if", EMIT_RIGHT, false },
	{ "allocated_bytes", "allocated", EMIT_RIGHT, false },
	{ "unused_bytes", "unused", EMIT_RIGHT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

/* Each point has the maxima up to the next. */
static void print_points(struct emit *e, const struct whatif_view *v)
{
	const struct replay_device *d = v->device;
	const struct series_track *track = v->series ? series_find(v->series, d->process->books, d->ordinal) : NULL;
	struct series_values *values;

	if (!track && emit_is_text(e))
		return;
	if (emit_is_text(e))
		emit_blank(e);
	emit_table_begin(e, "points", point_columns);
	values = heap_alloc(v->nr_points + 1, sizeof(*values));
	if (track)
		series_resample(v->series, track, v->m->duration_ns, values, v->nr_points);
	for (uint32_t i = 0; track && i < v->nr_points; i++) {
		emit_row_begin(e);
		emit_ns(e, "time_ns", NULL, (uint64_t)((double)v->m->duration_ns * i / v->nr_points));
		emit_bytes(e, "recorded_reserved_bytes", NULL, values[i].value[WHATIF_RECORDED]);
		emit_bytes(e, "reserved_bytes", NULL, values[i].value[WHATIF_RESERVED]);
		emit_bytes(e, "allocated_bytes", NULL, values[i].value[WHATIF_ALLOCATED]);
		emit_bytes(e, "unused_bytes", NULL, values[i].value[WHATIF_UNUSED]);
		emit_row_end(e);
	}
	emit_table_end(e);
	if (emit_is_text(e))
		emit_blank(e);
	free(values);
}

/* ---- JSON --------------------------------------------------------------------------------------- */

static void print_event(struct emit *e, const struct tried *t)
{
	emit_bool(e, "oom", NULL, t->ooms > 0);
	if (t->ooms)
		emit_uint(e, "oom_event", NULL, t->oom_event);
	else
		emit_null(e, "oom_event", NULL);
	emit_uint(e, "ooms", NULL, t->ooms);
	emit_uint(e, "saved_ooms", NULL, t->saved);
	emit_bool(e, "cut_short", NULL, t->is_over);
}

/* What PyTorch itself had; null where it was not asked. */
static void json_torch(struct emit *e, const struct whatif_view *v)
{
	const struct torchengine_device *t = v->torch ? &v->torch->device[v->device->ordinal] : NULL;

	if (t && t->is_there) {
		emit_uint(e, "torch_peak_reserved_bytes", NULL, t->peak_reserved);
		emit_uint(e, "torch_peak_allocated_bytes", NULL, t->peak_allocated);
		emit_uint(e, "torch_ooms", NULL, t->failed);
	} else {
		emit_null(e, "torch_peak_reserved_bytes", NULL);
		emit_null(e, "torch_peak_allocated_bytes", NULL);
		emit_null(e, "torch_ooms", NULL);
	}
}

static void json_device(struct emit *e, const struct whatif_view *v)
{
	const struct whatif_device *d = v->d;
	const struct tried *t = &d->tried[0];
	struct cachingmodel_figures f = tried_figures(t), recorded = tried_figures(&d->recorded), least = f;

	if (d->nr_tried > 1)
		least = tried_figures(&d->tried[1]);
	emit_object_begin(e, NULL, NULL);
	print_device_names(e, v->device);
	emit_bool(e, "exact", NULL, is_exact(v));
	emit_uint(e, "settings_given", NULL, v->times_given);
	if (t->capacity)
		emit_uint(e, "tried_capacity_bytes", NULL, t->capacity);
	else
		emit_null(e, "tried_capacity_bytes", NULL);
	emit_bytes(e, "recorded_peak_reserved_bytes", NULL, v->device->books->reserved_peak_bytes);
	emit_bytes(e, "peak_reserved_bytes", NULL, f.peak_reserved);
	emit_bytes(e, "least_peak_reserved_bytes", NULL,
		   least.peak_reserved < f.peak_reserved ? least.peak_reserved : f.peak_reserved);
	emit_bytes(e, "recorded_peak_allocated_bytes", NULL, v->device->books->allocated_peak_bytes);
	emit_bytes(e, "peak_allocated_bytes", NULL, f.peak_allocated);
	json_torch(e, v);
	if (v->has_ideal)
		emit_bytes(e, "ideal_reserved_bytes", NULL, v->ideal_bytes);
	else
		emit_null(e, "ideal_reserved_bytes", NULL);
	print_event(e, t);
	emit_uint(e, "recorded_driver_calls", NULL, calls_of(&recorded));
	emit_uint(e, "driver_calls", NULL, calls_of(&f));
	emit_uint(e, "retries", NULL, f.retries);
	emit_double(e, "fragmentation_at_peak", NULL, unused_part(f.peak_reserved, f.allocated_at_peak));
	emit_bool(e, "model_exact", NULL, whatif_is_exact(d));
	emit_uint(e, "events_compared", NULL, d->compared);
	emit_uint(e, "events_differing", NULL, d->differing);
	emit_uint(e, "requests", NULL, d->requests);
	emit_uint(e, "requests_of_unknown_size", NULL, d->unknown);
	print_points(e, v);
	emit_object_end(e);
}

/* ---- text --------------------------------------------------------------------------------------- */

static const struct emit_column columns[] = {
	{ "figure", "", EMIT_LEFT, true },
	{ "recorded", "recorded", EMIT_RIGHT, true },
	{ "tried", "what if", EMIT_RIGHT, true },
	{ "change", "", EMIT_RIGHT, true },
	{ NULL, NULL, EMIT_LEFT, false },
};

static void bytes_row(struct emit *e, const char *figure, uint64_t recorded, uint64_t tried)
{
	emit_row_begin(e);
	emit_label(e, "figure", NULL, "%s", figure);
	emit_bytes(e, "recorded", NULL, recorded);
	emit_bytes(e, "tried", NULL, tried);
	emit_signed_bytes(e, "change", NULL, (int64_t)(tried - recorded));
	emit_row_end(e);
}

static void print_table(struct emit *e, const struct whatif_view *v)
{
	const struct device_books *b = v->device->books;
	struct cachingmodel_figures f = tried_figures(&v->d->tried[0]), recorded = tried_figures(&v->d->recorded);

	emit_table_begin(e, NULL, columns);
	bytes_row(e, "peak reserved", b->reserved_peak_bytes, f.peak_reserved);
	bytes_row(e, "peak allocated", b->allocated_peak_bytes, f.peak_allocated);
	emit_row_begin(e);
	emit_label(e, "figure", NULL, "unused at the reserved peak");
	emit_label(e, "recorded", NULL, "%.1f%%",
		   100 * unused_part(b->reserved_peak_bytes, b->allocated_at_reserved_peak_bytes));
	emit_label(e, "tried", NULL, "%.1f%%", 100 * unused_part(f.peak_reserved, f.allocated_at_peak));
	emit_row_end(e);
	emit_row_begin(e);
	emit_label(e, "figure", NULL, "driver calls for memory");
	emit_uint(e, "recorded", NULL, calls_of(&recorded));
	emit_uint(e, "tried", NULL, calls_of(&f));
	emit_row_end(e);
	emit_row_begin(e);
	emit_label(e, "figure", NULL, "times the cache was emptied for want of memory");
	emit_uint(e, "recorded", NULL, recorded.retries);
	emit_uint(e, "tried", NULL, f.retries);
	emit_row_end(e);
	emit_table_end(e);
}

static void say_out_of_memory(struct emit *e, const struct whatif_view *v)
{
	const struct tried *t = &v->d->tried[0];
	char asked[HUMAN_MAX], reserved[HUMAN_MAX], capacity[HUMAN_MAX];

	if (t->ooms)
		say(e, "Out of memory at event %llu: %s asked for, %s reserved of %s.",
			  (unsigned long long)t->oom_event, human_bytes(asked, t->oom_bytes),
			  human_bytes(reserved, t->oom_reserved), human_bytes(capacity, t->capacity));
	if (t->is_over)
		say(e, "The program was served there: what it does instead is not recorded, and the figures are up to "
			     "there.");
	if (t->saved)
		say(e, "%llu of %llu requests that failed would have been served; what the program does then is not "
			     "recorded.",
			  (unsigned long long)t->saved, (unsigned long long)v->device->books->tensor_ooms);
}

static void say_torch(struct emit *e, const struct whatif_view *v)
{
	const struct torchengine_device *t = v->torch ? &v->torch->device[v->device->ordinal] : NULL;
	char peak[HUMAN_MAX];

	if (!t || !t->is_there)
		return;
	say(e, "PyTorch's own allocator, given the requests: %s reserved at the peak%s%s.", human_bytes(peak, t->peak_reserved),
		  t->peak_reserved == tried_figures(&v->d->tried[0]).peak_reserved ? ", as the model, to the byte" : "",
		  t->is_over ? ", and a request failed that was served" : "");
}

static void say_ideal(struct emit *e, const struct whatif_view *v)
{
	uint64_t reserved = tried_figures(&v->d->tried[0]).peak_reserved;
	char ideal[HUMAN_MAX];

	if (v->has_ideal)
		say(e, "Laid out by somebody who knows how long each block lives: %s; %.1f%% of what is reserved is waste.",
		    human_bytes(ideal, v->ideal_bytes), 100 * unused_part(reserved, v->ideal_bytes));
}

static void say_how_sure(struct emit *e, const struct whatif_view *v)
{
	const struct whatif_device *d = v->d;
	char least[HUMAN_MAX];
	struct cachingmodel_figures f = tried_figures(&d->tried[0]), low = f;

	if (v->times_given)
		say(e, "The program gave its allocator other settings %llu times: they hold from there on, taken to come after what it "
		       "finds.", (unsigned long long)v->times_given);
	if (d->is_pooled)
		say(e, "Recorded with cudaMallocAsync: nobody reported what the model could be compared with.");
	else if (d->is_kept)
		say(e, "The recording's beginning was not kept: the cache is begun with what was live then.");
	else if (whatif_is_exact(d))
		say(e, "The model, given the recorded settings, reserves what PyTorch reported at all %llu events.",
			  (unsigned long long)d->compared);
	else
		say(e, "The model, given the recorded settings, differs from PyTorch at %llu of %llu events, from event "
			     "%llu on: take the figures as near.",
			  (unsigned long long)d->differing, (unsigned long long)d->compared,
			  (unsigned long long)d->differing_event);
	if (d->nr_tried > 1)
		low = tried_figures(&d->tried[1]);
	if (low.peak_reserved < f.peak_reserved)
		say(e, "What %llu of %llu requests asked for is not known: the peak is between %s and the figure.",
			  (unsigned long long)d->unknown, (unsigned long long)d->requests,
			  human_bytes(least, low.peak_reserved));
}

void print_whatif_device(struct emit *e, const struct whatif_view *v)
{
	char title[512];

	if (!emit_is_text(e)) {
		json_device(e, v);
		return;
	}
	emit_heading(e, "%s", print_device_title(title, sizeof(title), v->m, v->device));
	print_table(e, v);
	print_points(e, v);
	say_out_of_memory(e, v);
	say_torch(e, v);
	say_ideal(e, v);
	say_how_sure(e, v);
}

void print_whatif_setting(struct emit *e, const struct whatif_view *v)
{
	const char *recorded = v->device ? v->device->process->allocator_conf : NULL;
	const char *torch = v->device ? v->device->process->torch : NULL;

	emit_string(e, "conf", NULL, v->conf ? v->conf : recorded ? recorded : "");
	emit_string(e, "recorded_conf", NULL, recorded ? recorded : "");
	emit_string(e, "torch", NULL, torch);
	emit_bool(e, "no_caching", NULL, v->is_uncached);
	if (v->is_uncached)
		say(e, "What if PYTORCH_NO_CUDA_MEMORY_CACHING were 1");
	else
		say(e, "What if the allocator's settings were %s", conf_text(v->conf ? v->conf : recorded));
	say(e, "Recorded with PyTorch %s, settings: %s", torch ? torch : "(version unknown)", conf_text(recorded));
}

/* ---- other code --------------------------------------------------------------------------------- */

static const struct emit_column change_columns[] = {
	{ "change", "other code", EMIT_LEFT, false },
	{ "of", "", EMIT_LEFT, false },
	{ "blocks", "blocks", EMIT_RIGHT, false },
	{ "bytes", "allocated in all", EMIT_RIGHT, false },
	{ "batch_was", NULL, EMIT_RIGHT, false },
	{ "unchanged", NULL, EMIT_RIGHT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

static void say_unchanged(struct emit *e, const struct change *c)
{
	if (c->kind == CHANGE_BATCH)
		say(e, "A batch had %llu samples, %llu of the job's cycles are changed.", (unsigned long long)c->batch_was,
		    (unsigned long long)c->cycles);
	if (c->kind == CHANGE_CHECKPOINT)
		say(e, "Modules are computed a second time in backward, %llu calls in all.", (unsigned long long)c->cycles);
	if (c->unchanged)
		say(e, "%llu of the blocks are of no such type, or their type is not known: they stay as they were.",
		    (unsigned long long)c->unchanged);
}

void print_whatif_changes(struct emit *e, const struct changes *c)
{
	if (!c->nr && emit_is_text(e))
		return;
	emit_table_begin(e, "changes", change_columns);
	for (size_t i = 0; i < c->nr; i++) {
		emit_row_begin(e);
		emit_string(e, "change", NULL, change_names[c->change[i].kind]);
		emit_string(e, "of", NULL, c->change[i].text);
		emit_uint(e, "blocks", NULL, c->change[i].blocks);
		emit_bytes(e, "bytes", NULL, c->change[i].bytes);
		emit_uint(e, "batch_was", NULL, c->change[i].batch_was);
		emit_uint(e, "unchanged", NULL, c->change[i].unchanged);
		emit_row_end(e);
	}
	emit_table_end(e);
	for (size_t i = 0; i < c->nr; i++)
		say_unchanged(e, &c->change[i]);
	if (c->nr)
		emit_blank(e);
}

/* ---- a search ----------------------------------------------------------------------------------- */

static const struct emit_column search_columns[] = {
	{ "conf", "settings", EMIT_LEFT, false },
	{ "peak_reserved_bytes", "reserved", EMIT_RIGHT, false },
	{ "lower_bound", NULL, EMIT_LEFT, false },
	{ "driver_calls", "calls", EMIT_RIGHT, false },
	{ "retries", NULL, EMIT_RIGHT, false },
	{ "oom", "runs out", EMIT_RIGHT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

static void search_row(struct emit *e, const char *conf, const struct search_total *t)
{
	emit_row_begin(e);
	emit_string(e, "conf", NULL, emit_is_text(e) ? conf_text(conf) : conf);
	emit_bytes(e, "peak_reserved_bytes", NULL, t->peak_reserved);
	emit_bool(e, "lower_bound", NULL, t->is_bound);
	emit_uint(e, "driver_calls", NULL, t->driver_calls);
	emit_uint(e, "retries", NULL, t->retries);
	emit_bool(e, "oom", NULL, t->runs_out);
	emit_row_end(e);
}

/* What the recorded settings have, by the model. */
static struct search_total recorded_total(const struct whatif *w)
{
	struct search_total total = { 0 };

	for (size_t i = 0; i < w->nr_devices; i++) {
		struct cachingmodel_figures f = tried_figures(&w->device[i]->recorded);

		total.peak_reserved = f.peak_reserved > total.peak_reserved ? f.peak_reserved : total.peak_reserved;
		total.driver_calls += calls_of(&f);
	}
	return total;
}

static void say_best(struct emit *e, const struct whatif *w, const struct search_total *best, size_t nr)
{
	struct search_total recorded = recorded_total(w);
	const char *conf = w->setting[best->setting].text;
	char peak[HUMAN_MAX], before[HUMAN_MAX];

	if (best->runs_out) {
		emit_null(e, "best", NULL);
		say(e, "Under each of %zu settings the job runs out of memory.", nr);
		return;
	}
	emit_string(e, "best", NULL, conf);
	say(e, "Best of %zu settings: %s", nr, conf_text(conf));
	say(e, "%s reserved at the peak instead of %s, for %llu calls of the driver instead of %llu.",
		  human_bytes(peak, best->peak_reserved), human_bytes(before, recorded.peak_reserved),
		  (unsigned long long)best->driver_calls, (unsigned long long)recorded.driver_calls);
}

void print_whatif_search(struct emit *e, const struct whatif *w, const struct search_total *total, size_t nr, uint64_t top)
{
	say_best(e, w, &total[0], nr);
	emit_blank(e);
	emit_table_begin(e, "settings", search_columns);
	for (size_t i = 0; i < nr && (i < top || !emit_is_text(e)); i++)
		search_row(e, w->setting[total[i].setting].text, &total[i]);
	emit_table_end(e);
}

static const struct emit_column gpu_columns[] = {
	{ "gpu", "GPU", EMIT_LEFT, false },
	{ "capacity_bytes", "capacity", EMIT_RIGHT, false },
	{ "peak_reserved_bytes", "peak reserved", EMIT_RIGHT, false },
	{ "driver_calls", "calls", EMIT_RIGHT, false },
	{ "retries", "retries", EMIT_RIGHT, false },
	{ "oom", "runs out", EMIT_RIGHT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

void print_whatif_gpus(struct emit *e, const struct whatif *w, const char *const *name)
{
	size_t smallest = 0;

	while (smallest < w->nr_settings && search_total(w, smallest).runs_out)
		smallest++;
	if (smallest < w->nr_settings) {
		emit_string(e, "smallest", NULL, name[smallest]);
		say(e, "The smallest GPU that the job runs on: %s", name[smallest]);
	} else {
		emit_null(e, "smallest", NULL);
		say(e, "The job runs out of memory on each of %zu GPUs.", w->nr_settings);
	}
	emit_blank(e);
	emit_table_begin(e, "gpus", gpu_columns);
	for (size_t i = 0; i < w->nr_settings; i++) {
		struct search_total t = search_total(w, i);

		emit_row_begin(e);
		emit_string(e, "gpu", NULL, name[i]);
		emit_bytes(e, "capacity_bytes", NULL, w->setting[i].capacity);
		emit_bytes(e, "peak_reserved_bytes", NULL, t.peak_reserved);
		emit_uint(e, "driver_calls", NULL, t.driver_calls);
		emit_uint(e, "retries", NULL, t.retries);
		emit_bool(e, "oom", NULL, t.runs_out);
		emit_row_end(e);
	}
	emit_table_end(e);
}
