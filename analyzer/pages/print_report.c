/* SPDX-License-Identifier: MIT */
/* The JSON document of `report`. */
#include "analyzer/pages/print_report.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/holders/readplaces.h"
#include "analyzer/pages/devicepage.h"
#include "analyzer/pages/print_advice.h"
#include "analyzer/pages/print_autopsy.h"
#include "analyzer/pages/print_outside.h"
#include "analyzer/pages/print_phases.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_stepgrowth.h"
#include "analyzer/purpose/namedblocks.h"

/* Calls that the simulated device refused: { "function": calls }. */
static void json_unsupported(struct emit *e, const struct replay_process *p)
{
	const char *name;
	uint64_t calls;

	emit_object_begin(e, "unsupported", NULL);
	for (size_t i = 0; replay_unsupported(p, i, &name, &calls); i++)
		emit_uint(e, name, NULL, calls);
	emit_object_end(e);
}

/* Where what the program did depended on values that no kernel computed. */
static void json_places(struct emit *e, const struct replay *m, struct replay_process *p)
{
	struct readplaces places = READPLACES_INIT;

	readplaces_find(&places, m, p);
	emit_array_begin(e, "data_dependent", NULL);
	for (size_t i = 0; i < places.nr_places; i++) {
		const struct readplace *place = &places.place[i];

		emit_object_begin(e, NULL, NULL);
		print_site_of(e, place->known ? &place->site : NULL);
		emit_uint(e, "reads", NULL, place->reads);
		emit_uint(e, "bytes", NULL, place->bytes);
		emit_uint(e, "first_time_ns", NULL, place->first_ns);
		emit_object_end(e);
	}
	emit_array_end(e);
	readplaces_release(&places);
}

/* Memory of the host that the driver knows. Of what other tools recorded only what they had. */
static void json_host(struct emit *e, const struct replay_process *p)
{
	bool has_pinned = !p->imported || tfmt_reader_info_value(p->reader, "imported_host");

	emit_object_begin(e, "pinned", NULL);
	print_optional(e, "peak_bytes", has_pinned ? (int64_t)books_host(p->books)->pinned_peak_bytes : -1);
	emit_object_end(e);
	emit_object_begin(e, "managed", NULL);
	print_optional(e, "peak_bytes", p->imported ? -1 : (int64_t)books_host(p->books)->managed_peak_bytes);
	emit_object_end(e);
}

static void json_process(struct emit *e, const struct replay *m, struct replay_process *p)
{
	bool exited = p->summary->end == TFMT_PROCESS_EXIT;

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "host", NULL, p->header->host);
	emit_uint(e, "pid", NULL, p->header->pid);
	print_optional(e, "rank", p->rank);
	print_optional(e, "local_rank", p->local_rank);
	emit_string(e, "end", NULL, replay_end_names[p->end]);
	if (exited)
		emit_int(e, "exit_status", NULL, p->summary->exit_status);
	else
		emit_null(e, "exit_status", NULL);
	emit_bool(e, "complete", NULL, replay_is_exact(p));
	emit_uint(e, "lost_events", NULL, p->lost_events);
	emit_uint(e, "start_unix_ns", NULL, p->header->start_real_ns);
	print_optional(e, "kept_from_ns", p->is_kept ? (int64_t)p->kept_ns : -1);
	emit_string(e, "torch_version", NULL, p->torch);
	emit_string(e, "allocator_conf", NULL, p->allocator_conf);
	json_host(e, p);
	json_unsupported(e, p);
	emit_string(e, "cupti", NULL, tfmt_reader_info_value(p->reader, "cupti"));
	print_unhooked_calls(e, books_unhooked(p->books));
	json_places(e, m, p);
	emit_object_end(e);
}

static void json_tensor(struct emit *e, const struct replay_device *d)
{
	const struct device_books *b = d->books;

	emit_object_begin(e, "tensor", NULL);
	emit_uint(e, "allocs", NULL, b->tensor_allocs);
	emit_uint(e, "frees", NULL, b->tensor_frees);
	emit_uint(e, "ooms", NULL, b->tensor_ooms);
	if (books_told_retries(b, d->process->allocator_conf))
		emit_uint(e, "alloc_retries", NULL, b->told.retries);
	else
		emit_null(e, "alloc_retries", NULL);
	emit_uint(e, "peak_bytes", NULL, b->allocated_peak_bytes);
	if (books_told_all(b))
		emit_uint(e, "requested_peak_bytes", NULL, b->told.requested_peak_bytes);
	else if (b->has_unshaped)
		emit_null(e, "requested_peak_bytes", NULL);
	else
		emit_uint(e, "requested_peak_bytes", NULL, b->requested_peak_bytes);
	if (b->moment[MARK_TENSOR_PEAK].reached)
		emit_uint(e, "peak_time_ns", NULL,
			  replay_time(d->process, b->moment[MARK_TENSOR_PEAK].time_ns));
	else
		emit_null(e, "peak_time_ns", NULL);
	emit_uint(e, "live_at_end_bytes", NULL, b->allocated_bytes);
	emit_bool(e, "end_exact", NULL, replay_end_is_exact(d, REPLAY_ALLOCATED));
	emit_object_end(e);
}

static void json_driver(struct emit *e, const struct replay_device *d, const struct outside *o)
{
	const struct device_books *b = d->books;

	emit_object_begin(e, "reserved", NULL);
	emit_uint(e, "peak_bytes", NULL, b->reserved_peak_bytes);
	emit_uint(e, "end_bytes", NULL, b->reserved_bytes);
	emit_bool(e, "end_exact", NULL, replay_end_is_exact(d, REPLAY_RESERVED));
	emit_object_end(e);
	emit_object_begin(e, "driver", NULL);
	emit_uint(e, "allocs", NULL, b->driver_allocs);
	emit_uint(e, "frees", NULL, b->driver_frees);
	emit_uint(e, "peak_bytes", NULL, b->driver_peak_bytes);
	emit_uint(e, "live_at_end_bytes", NULL, b->driver_bytes);
	emit_bool(e, "end_exact", NULL, replay_end_is_exact(d, REPLAY_DRIVER));
	emit_object_begin(e, "by_owner_at_peak", NULL);
	for (int i = 0; i < NR_OWNERS; i++)
		if (o->owner[i] || i == OWNER_TORCH)
			emit_int(e, owner_names[i], NULL, (int64_t)o->owner[i]);
	emit_object_end(e);
	json_communicators(e, o);
	emit_object_end(e);
}

/* Those at the peak of the phase that the device's own lies in; what nobody knows of a past peak is unknown. */
static void json_categories(struct emit *e, const struct replay_device *d, const struct phasetable *t)
{
	struct category_sum sum[NR_CATEGORIES] = { 0 };
	uint64_t known = 0;

	if (t->peak != NR_PHASES)
		memcpy(sum, t->row[t->peak].sum, sizeof(sum));
	for (int i = 0; i < NR_CATEGORIES; i++)
		known += sum[i].bytes;
	sum[CATEGORY_UNKNOWN].bytes += d->books->allocated_peak_bytes - known;
	json_category_sums(e, "categories_at_peak", sum);
}

/* How much of the peak has a name; where no census was taken there is no such member. */
static void json_names(struct emit *e, const struct replay_device *d)
{
	const struct names *names = d->process->names;
	const char *stall = tfmt_reader_info_value(d->process->reader, "names.stall_ns");
	struct namedblocks_share share;

	if (!names)
		return;
	share = namedblocks_share(d);
	emit_object_begin(e, "names", NULL);
	emit_uint(e, "censuses", NULL, names->nr_censuses);
	emit_uint(e, "stall_ns", NULL, stall ? strtoull(stall, NULL, 10) : 0);
	emit_uint(e, "named_bytes_at_peak", NULL, share.named_bytes);
	emit_uint(e, "inferred_bytes_at_peak", NULL, share.inferred_bytes);
	emit_object_end(e);
}

static void json_device(struct emit *e, const struct devicepage *p)
{
	const struct replay_device *d = p->device;
	const struct device_books *b = d->books;

	emit_object_begin(e, NULL, NULL);
	print_device_identity(e, d);
	json_tensor(e, d);
	json_driver(e, d, &p->outside);
	json_outside(e, d, &p->outside);
	json_categories(e, d, &p->phases);
	json_names(e, d);
	if (b->reserved_peak_bytes)
		emit_double(e, "unused_at_peak", NULL,
			    1 - (double)b->allocated_at_reserved_peak_bytes / (double)b->reserved_peak_bytes);
	else
		emit_null(e, "unused_at_peak", NULL);
	json_steps(e, d, &p->growth, &p->limits);
	json_phases(e, d, &p->phases);
	emit_object_end(e);
}

static void json_range(struct emit *e, const char *key, struct repeat_range range)
{
	emit_object_begin(e, key, NULL);
	emit_uint(e, "min", NULL, range.min);
	emit_uint(e, "max", NULL, range.max);
	emit_object_end(e);
}

/* Of a recording that is one run alone: null. */
static void json_repeat(struct emit *e, const struct replay *m, const struct repeat *r)
{
	if (m->recording.nr_runs < 2) {
		emit_null(e, "repeat", NULL);
		return;
	}
	emit_object_begin(e, "repeat", NULL);
	emit_uint(e, "runs", NULL, r->nr_runs);
	emit_uint(e, "runs_wanted", NULL, m->recording.runs_wanted);
	emit_uint(e, "largest_run", NULL, r->largest);
	emit_bool(e, "exact", NULL, r->exact);
	emit_array_begin(e, "devices", NULL);
	for (size_t i = 0; i < r->nr_devices; i++) {
		const struct repeat_device *d = &r->device[i];

		emit_object_begin(e, NULL, NULL);
		print_optional(e, "rank", d->rank);
		emit_uint(e, "device", NULL, d->ordinal);
		emit_uint(e, "runs", NULL, d->nr_runs);
		json_range(e, "tensor_peak_bytes", d->allocated);
		json_range(e, "reserved_peak_bytes", d->reserved);
		json_range(e, "driver_peak_bytes", d->driver);
		emit_bool(e, "lower_bound", NULL, d->zero_answers > 0);
		emit_uint(e, "zero_answers", NULL, d->zero_answers);
		emit_object_end(e);
	}
	emit_array_end(e);
	emit_object_end(e);
}

/* What grows of a process's host memory. */
static void json_host_findings(struct emit *e, const struct replay *m, struct replay_process *p)
{
	const struct stepgrowth_limits limits = STEPGROWTH_LIMITS_USUAL;
	const struct replay_device host = stepgrowth_host(p);
	struct stepgrowth growth;

	stepgrowth_find(&growth, m, &host, &limits);
	json_stepgrowth_findings(e, m, &host, &growth);
	stepgrowth_release(&growth);
}

/* Why memory has run out, and what grows on the other devices and the host. */
static void json_findings(struct emit *e, const struct replay *m, const struct devicepage *page, const struct autopsy *a)
{
	emit_array_begin(e, "findings", NULL);
	print_autopsy_finding_objects(e, a);
	for (size_t i = 0; i < m->nr_devices; i++)
		if (page[i].device != a->device || !a->nr_findings)
			json_stepgrowth_findings(e, m, page[i].device, &page[i].growth);
	for (size_t i = 0; i < m->nr_processes; i++)
		json_host_findings(e, m, &m->process[i]);
	emit_array_end(e);
}

static void json_devices(struct emit *e, const struct replay *m, const struct autopsy *a)
{
	struct devicepage *page = heap_alloc(m->nr_devices, sizeof(*page));

	for (size_t i = 0; i < m->nr_devices; i++)
		devicepage_find(&page[i], m, &m->device[i]);
	emit_array_begin(e, "devices", NULL);
	for (size_t i = 0; i < m->nr_devices; i++)
		json_device(e, &page[i]);
	emit_array_end(e);
	json_findings(e, m, page, a);
	for (size_t i = 0; i < m->nr_devices; i++)
		devicepage_release(&page[i]);
	free(page);
}

void report_json(struct emit *e, const struct replay *m, const struct repeat *r, const struct autopsy *a,
		const struct advices *advices)
{
	print_recording(e, m);
	json_repeat(e, m, r);
	emit_array_begin(e, "process_list", NULL);
	for (size_t i = 0; i < m->nr_processes; i++)
		json_process(e, m, &m->process[i]);
	emit_array_end(e);
	json_devices(e, m, a);
	json_advice(e, advices, ADVICE_USUAL);
}
