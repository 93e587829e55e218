/* SPDX-License-Identifier: MIT */
/*
 * Counts and reports the calls of functions that simgpu does not implement (RECORDING.md rule 21).
 *
 * SIMGPU_TRACE_CALLS=PREFIX writes, when the process ends, PREFIX.PID: a line for each function that was
 * called and has a generated body, with its number of calls and whether it is unsupported or a no-op by
 * design.
 */
#include "simgpu/answers.h"
#include "simgpu/stub.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void sim_stub_called(struct sim_stub *stub)
{
	if (__atomic_fetch_add(&stub->calls, 1, __ATOMIC_RELAXED) || !stub->unsupported ||
	    !stub->would_invent)
		return;
	fprintf(stderr,
		"simgpu: '%s' is not simulated: the call fails with its library's \"not supported\"\n",
		stub->name);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_stub refusals[SIM_REFUSALS];
static size_t nr_refusals;

void sim_refuse(const char *name, bool would_invent)
{
	struct sim_stub *stub = refusals;

	pthread_mutex_lock(&mutex);
	while (stub < refusals + nr_refusals && strcmp(stub->name, name))
		stub++;
	if (stub == refusals + nr_refusals && nr_refusals < SIM_REFUSALS)
		refusals[nr_refusals++] = (struct sim_stub){ name, 0, would_invent, true };
	pthread_mutex_unlock(&mutex);
	if (stub < refusals + SIM_REFUSALS)
		sim_stub_called(stub);
}

/* Add STUB to what REPORT lists, if it was called in vain. */
static void list(struct simgpu_report *report, const struct sim_stub *stub)
{
	uint64_t calls = __atomic_load_n(&stub->calls, __ATOMIC_RELAXED);

	if (!calls || !stub->unsupported)
		return;
	sim_stub_report[report->nr_names++] = (struct simgpu_unsupported){ stub->name, calls };
	report->calls += calls;
}

const struct simgpu_report *simgpu_report(void)
{
	static struct simgpu_report report = {
		.struct_bytes = sizeof(report),
		.names = sim_stub_report,
	};

	pthread_mutex_lock(&mutex);
	report.is_unlimited = sim_is_unlimited();
	report.zero_answers = sim_zero_answers();
	report.nr_names = 0;
	report.calls = 0;
	for (size_t i = 0; i < sim_nr_stubs; i++)
		list(&report, &sim_stubs[i]);
	for (size_t i = 0; i < nr_refusals; i++)
		list(&report, &refusals[i]);
	pthread_mutex_unlock(&mutex);
	return &report;
}

__attribute__((destructor)) static void trace_calls(void)
{
	const char *prefix = getenv("SIMGPU_TRACE_CALLS");
	FILE *out = NULL;
	char path[4096];

	if (!prefix || !*prefix)
		return;
	snprintf(path, sizeof(path), "%s.%d", prefix, (int)getpid());
	for (size_t i = 0; i < sim_nr_stubs; i++) {
		if (!sim_stubs[i].calls)
			continue;
		if (!out && !(out = fopen(path, "w"))) {
			fprintf(stderr, "simgpu: cannot write '%s': %m\n", path);
			return;
		}
		fprintf(out, "%s %lu %s\n", sim_stubs[i].name, sim_stubs[i].calls,
			sim_stubs[i].unsupported ? "unsupported" : "no-op");
	}
	if (out && fclose(out))
		fprintf(stderr, "simgpu: cannot write '%s': %m\n", path);
}
