/* SPDX-License-Identifier: MIT */
/* Intervals as lines. */
#include "analyzer/livepages/livecsv.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LATE_NS 2000000000ull /* that a recorder may be late with what happened */

void livecsv_head(FILE *out)
{
	fputs("unix_ns,time_ns,host,pid,rank,device,allocated_bytes,reserved_bytes,used_bytes,capacity_bytes,phase,step,"
	      "steps_per_second,end\n", out);
}

/* Quoted as RFC 4180 has it, if it must be. */
static void print_text(FILE *out, const char *text)
{
	if (!strpbrk(text, ",\"\r\n")) {
		fputs(text, out);
		return;
	}
	fputc('"', out);
	for (; *text; text++)
		fprintf(out, *text == '"' ? "\"\"" : "%c", *text);
	fputc('"', out);
}

/* What is not known is an empty field. */
static void print_line(FILE *out, const struct liverow *r, uint64_t number, const struct livemost *most, bool is_last)
{
	const struct livetrace *t = r->trace;
	uint64_t time_ns = number * t->interval_ns;

	fprintf(out, "%" PRIu64 ",%" PRIu64 ",", t->start_real_ns - t->start_ns + time_ns, time_ns);
	print_text(out, r->process->header->host);
	fprintf(out, ",%" PRIu32 ",", r->process->header->pid);
	if (r->process->rank >= 0)
		fprintf(out, "%" PRId64, r->process->rank);
	fprintf(out, ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", r->device->ordinal, most->allocated,
		most->reserved, most->used);
	if (r->device->capacity_bytes)
		fprintf(out, "%" PRIu64, r->device->capacity_bytes);
	fprintf(out, ",%s,%" PRIu32 ",", is_last ? phase_names[r->process->phase] : "", r->pace.nr_steps);
	if (!isnan(r->pace.per_second))
		fprintf(out, "%.3f", r->pace.per_second);
	fprintf(out, ",%s\n", is_last && r->process->is_over ? replay_end_names[r->process->end] : "running");
}

static void print_row(FILE *out, const struct liverow *r)
{
	const struct livetrace *t = r->trace;
	uint64_t end_ns = t->start_ns + t->now_ns, end;
	struct livedevice *d = r->live;

	if (!r->process->is_over)
		end_ns = end_ns > LATE_NS ? end_ns - LATE_NS : 0;
	end = end_ns / t->interval_ns + (r->process->is_over ? 1 : 0);
	for (uint64_t i = d->first_interval; i < end; i++) {
		uint64_t at = i - d->first_interval;

		print_line(out, r, i, at < d->nr_intervals ? &d->interval[at] : &d->now, i + 1 == end);
	}
	livedevice_forget(d, end);
}

void livecsv_print(FILE *out, const struct live *l)
{
	for (size_t i = 0; i < l->nr_rows; i++)
		if (l->row[i].device && l->row[i].live && l->row[i].live->interval)
			print_row(out, &l->row[i]);
	fflush(out);
}
