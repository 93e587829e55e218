/* SPDX-License-Identifier: MIT */
/* Who was killed, and whether the host's memory was why. */
#include "analyzer/oom/killing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/failures/fatal.h"
#include "analyzer/oom/oom_thresholds.h"

static uint64_t host_bytes(const struct killing *one)
{
	const struct host_books *host = books_host(one->process->books);

	return host->pinned_bytes + host->managed_bytes;
}

static int by_host_bytes(const void *va, const void *vb)
{
	const struct killing *a = va, *b = vb;

	if (host_bytes(a) != host_bytes(b))
		return host_bytes(a) > host_bytes(b) ? -1 : 1;
	return (a->process > b->process) - (a->process < b->process);
}

static bool is_same_host(const struct killing *a, const struct killing *b)
{
	return !strcmp(a->process->header->host, b->process->header->host);
}

/*
 * The kernel kills who has most. Of several that were killed, some by a launcher that ended the rest, those are its own
 * that held clearly more than the next; which of them was killed first does not show.
 */
static void find_killer(struct killings *k, struct killing *one)
{
	const struct hostmemory *h = &one->process->host;
	uint64_t nr = 0, clear = h->limit_bytes ? h->limit_bytes / KILLED_CLEAR_PART : KILLED_CLEAR_BYTES;
	const struct killing *last = NULL, *next = NULL;

	for (size_t i = 0; i < k->nr_killings; i++) {
		if (!is_same_host(&k->killing[i], one))
			continue;
		nr++;
		if (nr == h->nr_kills)
			last = &k->killing[i];
		else if (nr == h->nr_kills + 1)
			next = &k->killing[i];
	}
	one->is_told = h->is_known && (!last || !next || host_bytes(last) >= host_bytes(next) + clear);
	one->is_by_host = one->is_told && h->nr_kills && (!last || host_bytes(one) >= host_bytes(last));
	one->nr_candidates = h->is_known && !one->is_told ? nr : 0;
}

void killings_find(struct killings *k, const struct replay *m)
{
	*k = (struct killings)KILLINGS_INIT;
	k->killing = heap_alloc(m->nr_processes, sizeof(*k->killing));
	for (size_t i = 0; i < m->nr_processes; i++) {
		const struct replay_process *p = &m->process[i];

		if (p->end == REPLAY_END_KILLED)
			k->killing[k->nr_killings++].process = p;
		else if (p->end == REPLAY_END_EXIT && p->summary->exit_status && p->host.nr_kills &&
			 !p->host.is_machine)
			k->of_unrecorded = p;
	}
	qsort(k->killing, k->nr_killings, sizeof(*k->killing), by_host_bytes);
	for (size_t i = 0; i < k->nr_killings; i++) {
		find_killer(k, &k->killing[i]);
		if (!k->by_host && (k->killing[i].is_by_host || k->killing[i].nr_candidates))
			k->by_host = &k->killing[i];
	}
	if (k->nr_killings)
		k->of_unrecorded = NULL;
}

void killings_release(struct killings *k)
{
	free(k->killing);
	*k = (struct killings)KILLINGS_INIT;
}

/* Is it why the program ended, though on that device (NULL: none) memory ran out, too? */
static bool explains(const struct killings *k, const struct replay_device *failed)
{
	if (k->by_host)
		return !failed || failed->process == k->by_host->process;
	return k->of_unrecorded && !failed;
}

bool killing_free(const struct replay_device *d, int64_t *bytes)
{
	const struct residual_figures *r = books_residual(d->process->books, d->ordinal);

	*bytes = (int64_t)(r->last.total - r->last.used) + (int64_t)(r->last.ledger - r->ledger);
	return r->has_last;
}

/* The line that took most of the host's memory through CUDA. */
static void find_site(struct autopsy_finding *f, const struct replay *m, struct replay_process *p)
{
	struct stack_source source = replay_stack_source(m, p);
	const struct group *largest = NULL;
	struct stack stack = { 0 };
	int site;

	for (uint32_t i = 0; i < books_nr_groups(p->books); i++) {
		const struct group *g = books_group(p->books, i);

		if ((group_is_page_locked(g) || (!g->tensor && g->space == TFMT_SPACE_MANAGED)) &&
		    (!largest || g->live.bytes > largest->live.bytes))
			largest = g;
	}
	if (largest && largest->live.bytes) {
		stack_expand(&stack, &source, largest->python_stack, largest->native_stack);
		site = stack_site(&stack);
		f->has_site = site >= 0;
		if (f->has_site)
			f->site = stack.frame[site];
	}
	stack_release(&stack);
}

static void say_counter(struct autopsy_finding *f, const struct hostmemory *h)
{
	struct fact kills = fact_count("kills", h->nr_kills);
	struct fact limit = fact_if(h->limit_bytes, fact_bytes("limit", h->limit_bytes));

	autopsy_evidence(f, h->is_machine ? SAID(killed_of_machine, kills, limit) : SAID(killed_of_group, kills, limit));
}

static void say_memory(struct autopsy_finding *f, const struct replay_process *p)
{
	const struct host_books *host = books_host(p->books);

	autopsy_evidence(f, SAID(killed_with, fact_bytes("pinned", host->pinned_bytes), fact_bytes("managed", host->managed_bytes),
				 fact_bytes("shared", p->host.shared_bytes)));
}

static void say_devices(struct autopsy_finding *f, const struct replay *m, const struct replay_process *p)
{
	uint64_t taken = 0;
	int64_t left;

	for (size_t i = 0; i < m->nr_devices; i++) {
		const struct replay_device *d = &m->device[i];

		if (d->process != p)
			continue;
		taken += d->books->driver_bytes;
		if (f->nr_evidence < AUTOPSY_LINES_MAX - 1 && killing_free(d, &left))
			autopsy_evidence(f, SAID(killed_gpu_free, fact_count("device", d->ordinal), fact_signed_bytes("free", left)));
	}
	if (m->simulated && taken)
		autopsy_evidence(f, SAID(killed_simulated, fact_bytes("taken", taken)));
}

static void find_host(struct autopsy *a, const struct killings *k, const struct replay *m)
{
	const struct replay_process *p = k->by_host ? k->by_host->process : k->of_unrecorded;
	const struct host_books *host = books_host(p->books);
	struct autopsy_finding *f = heap_alloc(1, sizeof(*f));

	*a = (struct autopsy){ .replay = m, .finding = f, .nr_findings = 1 };
	f->certainty = k->by_host ? CERTAINTY_PROVEN : CERTAINTY_LIKELY;
	f->verdict = VERDICT_HOST_OOM;
	f->cause = k->by_host ? "killed" : "other_killed";
	f->bytes = host->pinned_bytes + host->managed_bytes;
	find_site(f, m, (struct replay_process *)p);
	if (k->by_host && k->by_host->nr_candidates)
		autopsy_say(f, SAID(host_killed_one_of, fact_count("pid", p->header->pid),
				    fact_count("candidates", k->by_host->nr_candidates)));
	else if (k->by_host)
		autopsy_say(f, SAID(host_killed, fact_count("pid", p->header->pid)));
	else
		autopsy_say(f, SAID(host_killed_beside, fact_count("pid", p->header->pid)));
	say_counter(f, &p->host);
	say_memory(f, p);
	say_devices(f, m, p);
	if (f->bytes >= 1 << 20)
		autopsy_advise(f, SAID(host_advice, fact_bytes("more", f->bytes)));
}

void killings_autopsy(struct autopsy *a, const struct killings *k, const struct replay *m,
		     const struct failures *failures)
{
	const struct replay_device *d = fatal_device_or_last(failures, m);

	*a = (struct autopsy)AUTOPSY_INIT;
	if (explains(k, d))
		find_host(a, k, m);
	else if (d)
		autopsy_make(a, m, d, failures);
}
