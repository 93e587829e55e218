/* SPDX-License-Identifier: MIT */
/* A try's recording, in short. */
#include "analyzer/maxfit/fitresult.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gate/footprint.h"
#include "analyzer/failures/failures.h"
#include "analyzer/failures/fatal.h"
#include "analyzer/errortexts/oomtext.h"
#include "analyzer/purpose/rules.h"

const char *const fit_outcome_names[] = {
	[FIT_UNKNOWN] = "unknown", [FIT_FITS] = "fits",     [FIT_OOM] = "oom",
	[FIT_TIGHT] = "tight",     [FIT_FAILED] = "failed", [FIT_IDLE] = "idle",
};

bool fitresult_fits(const struct fit_result *r)
{
	return r->outcome == FIT_FITS;
}

bool fitresult_is_verdict(const struct fit_result *r)
{
	return r->outcome == FIT_FITS || r->outcome == FIT_OOM || r->outcome == FIT_TIGHT;
}

/* Both see every event. */
struct watching {
	struct failures failures;
	struct oomwatch ooms;
};

static void observe(void *context, const struct replay_process *p, const struct tfmt_event *ev,
		    uint64_t time_ns)
{
	struct watching *w = context;

	failures_observe(&w->failures, p, ev, time_ns);
	oomwatch_observe(&w->ooms, p, ev, time_ns);
}

/* How full, as a part of the whole; of an unlimited one, in bytes. */
static double fullness(const struct footprint_device *d)
{
	double used = (double)d->figure[FIGURE_DEVICE_USED];

	return d->capacity_bytes ? used / (double)d->capacity_bytes : used;
}

static const struct footprint_device *fullest(const struct footprint *f)
{
	const struct footprint_device *best = NULL;

	for (uint32_t i = 0; i < f->nr_devices; i++)
		if (f->device[i].figure[FIGURE_PEAK] && (!best || fullness(&f->device[i]) > fullness(best)))
			best = &f->device[i];
	return best;
}

static void take_figures(struct fit_result *r, const struct footprint_device *d)
{
	snprintf(r->gpu, sizeof(r->gpu), "%s", d->name ? d->name : "");
	r->capacity_bytes = d->capacity_bytes;
	r->allocated_peak_bytes = d->figure[FIGURE_PEAK];
	r->reserved_peak_bytes = d->figure[FIGURE_RESERVED];
	r->used_bytes = d->figure[FIGURE_DEVICE_USED];
	for (uint32_t i = 0; i < d->nr_parts[BY_CATEGORY]; i++)
		for (int k = 0; k < NR_CATEGORIES; k++)
			if (!strcmp(d->part[BY_CATEGORY][i].name, category_names[k]))
				r->category_bytes[k] = d->part[BY_CATEGORY][i].bytes;
}

/* The framework's allocator failed, and the program did not go on; or the driver refused somebody else. */
static bool ran_out(const struct replay *m, const struct watching *w)
{
	if (fatal_device(&w->failures, m))
		return true;
	for (size_t i = 0; i < m->nr_devices; i++)
		if (fatal_to_program(&w->ooms, &m->device[i]))
			return true;
	return false;
}

/* What failed says it was memory, of a GPU: where no call that is recorded was refused (a library's own
 * error). */
static bool says_out_of_memory(const char *output)
{
	struct oom_text t = { 0 };
	FILE *in = fopen(output, "re");
	bool found = false;

	if (in && !oomtext_read(&t, in))
		for (size_t i = 0; i < t.nr_messages; i++)
			found |= t.message[i].wording <= OOM_LIBRARY;
	if (in) {
		oomtext_release(&t);
		fclose(in);
	}
	return found;
}

static void explain(struct fit_result *r, const struct replay *m, const struct watching *w)
{
	const struct replay_device *d = fatal_device(&w->failures, m);
	struct autopsy a = AUTOPSY_INIT;
	const struct stack_frame *site = NULL;

	if (d) {
		autopsy_make(&a, m, d, &w->failures);
		r->has_autopsy = true;
		r->asked_bytes = a.failure->asked;
		r->phase = categories_tell_phases(d->process) ? phase_names[a.failure->phase] : NULL;
		if (a.capacity)
			r->capacity_bytes = a.capacity;
		site = a.has_site ? &a.site : NULL;
	}
	if (a.nr_findings) {
		r->verdict = verdict_name(a.finding[0].verdict);
		r->said = a.finding[0].sentence;
		site = a.finding[0].has_site ? &a.finding[0].site : site;
	}
	if (site) {
		snprintf(r->file, sizeof(r->file), "%s", site->file ? site->file : "");
		snprintf(r->function, sizeof(r->function), "%s", site->function ? site->function : "");
		r->line = site->line;
	}
	autopsy_release(&a);
}

static bool is_tight(const struct fit_result *r, double headroom)
{
	return headroom > 0 && r->capacity_bytes &&
	       (double)r->used_bytes > (1 - headroom) * (double)r->capacity_bytes;
}

static uint32_t most_steps(const struct replay *m)
{
	uint32_t most = 0;

	for (size_t i = 0; i < m->nr_processes; i++) {
		uint32_t nr = steps_count(&m->process[i].lives->steps);

		most = nr > most ? nr : most;
	}
	return most;
}

static void find_outcome(struct fit_result *r, struct footprint *f, const struct replay *m,
			const struct watching *w, const char *output, double headroom)
{
	const struct footprint_device *d = fullest(f);
	bool has_failed = r->exit_status || r->signal;

	r->is_simulated = m->simulated;
	for (size_t i = 0; i < m->nr_processes; i++)
		r->zero_answers += replay_zero_answers(&m->process[i]);
	r->nr_steps = most_steps(m);
	if (d)
		take_figures(r, d);
	for (uint32_t i = 0; i < f->nr_devices; i++)
		r->nr_ooms += f->device[i].ooms;
	if (ran_out(m, w) || (has_failed && !r->nr_ooms && says_out_of_memory(output))) {
		r->outcome = FIT_OOM;
		explain(r, m, w);
		return;
	}
	if (has_failed)
		r->outcome = FIT_FAILED;
	else if (!d)
		r->outcome = FIT_IDLE;
	else
		r->outcome = is_tight(r, headroom) ? FIT_TIGHT : FIT_FITS;
}

int fitresult_read(struct fit_result *r, const char *recording, const char *output, double headroom)
{
	struct watching w = { FAILURES_INIT, OOMWATCH_INIT };
	struct replay_options load = {
		.observe = observe, .ctx = &w, .lives = true, .modules = true, .quiet = true
	};
	struct footprint f = FOOTPRINT_INIT;
	struct replay m = REPLAY_INIT;
	struct sourcepath names;
	int ret;

	if (access(recording, F_OK)) {
		r->outcome = r->exit_status || r->signal ? FIT_FAILED : FIT_IDLE;
		if (r->outcome == FIT_FAILED && says_out_of_memory(output))
			r->outcome = FIT_OOM;
		return CMD_FINE;
	}
	ret = rules_load();
	if (!ret)
		ret = replay_load(&m, recording, &load);
	sourcepath_find_root(&names);
	if (!ret) {
		footprint_make(&f, &m, &w.ooms, &names);
		find_outcome(r, &f, &m, &w, output, headroom);
	}
	footprint_release(&f);
	failures_release(&w.failures);
	oomwatch_release(&w.ooms);
	replay_release(&m);
	return ret;
}
