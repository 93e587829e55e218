/* SPDX-License-Identifier: MIT */
/* Printing holders/outside.h. */
#include "analyzer/pages/print_outside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/pages/print_recording.h"

#define PAGE_WIDTH 80
#define LABEL_WIDTH 30 /* of a label with its size: the list after them has the rest */
#define LIST_LINES 3
#define NAMED_MAX 2    /* libraries; more are one figure */

/* ---- a list of parts, wrapped ------------------------------------------------------------------ */

struct list {
	char line[LIST_LINES][PAGE_WIDTH + 1];
	size_t width;
	unsigned nr; /* lines begun */
	bool is_cut;
};

/* Append a word, on a new line where it would not fit; "..." where there is none. */
static void list_put(struct list *l, const char *separator, const char *word)
{
	char *line = l->line[l->nr ? l->nr - 1 : 0];
	size_t used = strlen(line);
	bool fits = used + strlen(separator) + strlen(word) + 1 <= l->width; /* and a comma */

	if (l->is_cut)
		return;
	if (used && line[used - 1] == ':') /* the first after a title */
		separator = " ";
	if (l->nr && fits) {
		snprintf(line + used, sizeof(l->line[0]) - used, "%s%s", separator, word);
	} else if (l->nr == LIST_LINES) {
		l->is_cut = true;
		snprintf(line + (used + 5 > l->width ? l->width - 5 : used), 6, ", ...");
	} else {
		if (l->nr && *separator == ',')
			snprintf(line + used, sizeof(l->line[0]) - used, ",");
		snprintf(l->line[l->nr++], sizeof(l->line[0]), "%s", word);
	}
}

static void list_part(struct list *l, const char *name, int64_t bytes)
{
	char size[HUMAN_MAX], word[64];

	if (!bytes)
		return;
	snprintf(word, sizeof(word), "%.32s %s", name, human_signed_bytes(size, bytes));
	list_put(l, ", ", word);
}

static const char *title_of(int owner)
{
	return owner == OWNER_UNKNOWN ? "unknown callers" : owner_titles[owner];
}

static bool is_library(const struct outside *o, int owner)
{
	return o->owner[owner] && owner != OWNER_TORCH && !owner_is_driver((enum owner)owner);
}

/* Libraries, the program and unknown callers: by name, or in one if there are many. Returns their bytes. */
static int64_t list_libraries(struct list *l, const struct outside *o)
{
	int64_t sum = 0;
	char count[32];
	int nr = 0;

	for (int i = 0; i < NR_OWNERS; i++) {
		sum += is_library(o, i) ? (int64_t)o->owner[i] : 0;
		nr += is_library(o, i);
	}
	snprintf(count, sizeof(count), "%d libraries", nr);
	if (nr > NAMED_MAX)
		list_part(l, count, sum);
	for (int i = 0; i < NR_OWNERS && nr <= NAMED_MAX; i++)
		if (is_library(o, i))
			list_part(l, title_of(i), (int64_t)o->owner[i]);
	return sum;
}

/*
 * All that is not PyTorch's (`libraries`), or not in the ledger at all. Returns its bytes: below 0 if the ledger holds
 * more than the driver counts.
 */
static int64_t list_parts(struct list *l, const struct outside *o, bool libraries)
{
	const struct residual_parts *p = &o->parts;
	int64_t sum = libraries ? list_libraries(l, o) : 0;

	list_part(l, "context", (int64_t)p->context);
	list_part(l, "code", (int64_t)p->code);
	if (o->is_modelled)
		list_put(l, " ", "(modelled)");
	list_part(l, "local memory", (int64_t)p->local_memory);
	list_part(l, "pools", (int64_t)p->pool_cached);
	list_part(l, "other processes", (int64_t)p->other_processes);
	list_part(l, "unknown", p->unknown);
	if (!o->is_sampled && !o->is_modelled)
		list_put(l, ", ", "context and code were not measured");
	return sum + p->unknown +
	       (int64_t)(p->context + p->code + p->local_memory + p->pool_cached + p->other_processes);
}

/* ---- the first page ---------------------------------------------------------------------------- */

unsigned print_outside(struct emit *e, const struct replay_device *d, const struct outside *o)
{
	struct list l = { .width = PAGE_WIDTH - LABEL_WIDTH };
	int64_t bytes = list_parts(&l, o, d->has_tensors);
	char size[HUMAN_MAX], used[HUMAN_MAX];

	if (d->process->imported && !o->is_sampled) {
		emit_label(e, NULL, "outside PyTorch", "%8s   not recorded: it was made of a %s", "-", d->process->imported);
		return 1;
	}
	if (!l.nr)
		return 0;
	emit_label(e, NULL, d->has_tensors ? "outside PyTorch" : "beside that", "%8s   %s",
		   human_signed_bytes(size, bytes), l.line[0]);
	for (unsigned i = 1; i < l.nr; i++)
		emit_label(e, NULL, "", "%8s   %s", "", l.line[i]);
	if (!o->has_process)
		return l.nr;
	emit_label(e, NULL, "nvidia-smi", "%8s   would show for this process, %s for the GPU",
		   human_bytes(size, o->process_bytes), human_bytes(used, o->parts.used));
	return l.nr + 1;
}

unsigned print_outside_of(struct emit *e, const struct replay_device *d, const struct outside *o)
{
	struct list l = { .width = PAGE_WIDTH };
	char size[HUMAN_MAX], used[HUMAN_MAX];

	snprintf(l.line[0], sizeof(l.line[0]), "outside PyTorch on GPU %" PRIu32 ":", d->ordinal);
	l.nr = 1;
	list_parts(&l, o, true);
	for (unsigned i = 0; i < l.nr; i++)
		emit_text(e, "%s", l.line[i]);
	if (!o->has_process)
		return l.nr;
	emit_text(e, "nvidia-smi would show %s for its process, %s for the GPU", human_bytes(size, o->process_bytes),
		  human_bytes(used, o->parts.used));
	return l.nr + 1;
}

/* ---- all of it --------------------------------------------------------------------------------- */

static void row(struct emit *e, const char *label, int64_t bytes, const char *remark)
{
	char size[HUMAN_MAX];

	if (bytes)
		emit_label(e, NULL, label, "%8s%s%s", human_signed_bytes(size, bytes), *remark ? "   " : "", remark);
}

static const char *modelled_share(char *buf, size_t size, uint64_t bytes, uint64_t modelled)
{
	char part[HUMAN_MAX];

	if (modelled && modelled == bytes)
		snprintf(buf, size, "modelled");
	else if (modelled)
		snprintf(buf, size, "%s of it modelled", human_bytes(part, modelled));
	else
		*buf = 0;
	return buf;
}

static void rows_of_libraries(struct emit *e, const struct replay_device *d, const struct outside *o)
{
	uint64_t torch = o->owner[OWNER_TORCH], live = d->books->allocated_at_driver_peak_bytes;
	char remark[96], allocated[HUMAN_MAX], cached[HUMAN_MAX], name[64];

	snprintf(remark, sizeof(remark), "%s allocated, %s cached", human_bytes(allocated, live),
		 human_bytes(cached, torch > live ? torch - live : 0));
	row(e, owner_titles[OWNER_TORCH], (int64_t)torch, live ? remark : "");
	for (int i = 0; i < NR_OWNERS; i++)
		if (is_library(o, i))
			row(e, title_of(i), (int64_t)o->owner[i],
			    modelled_share(remark, sizeof(remark), o->owner[i], o->modelled[i]));
	for (size_t i = 0; i < o->nccl.nr_rows; i++) {
		const struct communicator *c = &o->nccl.row[i];

		if (!c->number)
			snprintf(name, sizeof(name), "  no one communicator's");
		else if (c->nr_ranks)
			snprintf(name, sizeof(name), "  communicator %" PRIu32 ", %" PRIu32 " ranks", c->number,
				 c->nr_ranks);
		else
			snprintf(name, sizeof(name), "  communicator %" PRIu32, c->number);
		if (o->nccl.nr_rows > 1 || c->number)
			row(e, name, (int64_t)c->bytes, "of NCCL's");
	}
}

void print_outside_whole(struct emit *e, const struct replay *m, const struct replay_device *d, const struct outside *o)
{
	const struct residual_parts *p = &o->parts;
	char title[256], text[320], size[HUMAN_MAX], capacity[HUMAN_MAX], remark[96];

	emit_blank(e);
	snprintf(text, sizeof(text), "in use at the driver's peak: %.250s",
		 print_device_title(title, sizeof(title), m, d));
	emit_object_begin(e, NULL, text);
	rows_of_libraries(e, d, o);
	row(e, "context", (int64_t)p->context, o->modelled[OWNER_CONTEXT] ? "modelled" : "");
	row(e, "code", (int64_t)p->code, o->modelled[OWNER_CODE] ? "modelled" : "");
	row(e, "local memory", (int64_t)p->local_memory, "");
	row(e, "pools", (int64_t)p->pool_cached, "reserved, lent to nobody");
	row(e, "other processes", (int64_t)p->other_processes, "");
	row(e, "unknown", p->unknown, p->unknown < 0 ? "more was counted than the driver says" : "");
	if (o->is_sampled) {
		snprintf(remark, sizeof(remark), "of %s; the rest is free", human_bytes(capacity, p->total));
		row(e, "in all", (int64_t)p->used, remark);
	}
	if (o->has_process)
		emit_label(e, NULL, "nvidia-smi", "%8s   for this process, %s", human_bytes(size, o->process_bytes),
			   o->is_measured ? "as NVML said" : "added up");
	emit_object_end(e);
}

/* ---- JSON -------------------------------------------------------------------------------------- */

static void number_or_null(struct emit *e, const char *key, bool known, uint64_t value)
{
	if (known)
		emit_uint(e, key, NULL, value);
	else
		emit_null(e, key, NULL);
}

/* What a simulated device says that libraries and driver of a real one would have taken. */
static void json_modelled(struct emit *e, const struct outside *o)
{
	emit_object_begin(e, "modelled", NULL);
	for (int i = 0; i < NR_OWNERS; i++)
		if (o->modelled[i])
			emit_uint(e, owner_names[i], NULL, o->modelled[i]);
	emit_object_end(e);
}

void json_outside(struct emit *e, const struct replay_device *d, const struct outside *o)
{
	const struct residual_parts *p = &o->parts;
	const struct residual_figures *r = books_residual(d->process->books, d->ordinal);

	json_modelled(e, o);
	emit_object_begin(e, "residual", NULL);
	emit_uint(e, "samples", NULL, r->nr_samples);
	number_or_null(e, "peak_bytes", r->nr_samples, r->peak);
	emit_object_begin(e, "at_driver_peak", NULL);
	number_or_null(e, "context", p->knows_driver, p->context);
	number_or_null(e, "code", p->knows_driver, p->code);
	number_or_null(e, "local_memory", p->knows_driver && o->is_sampled, p->local_memory);
	number_or_null(e, "pool_cached", o->is_sampled, p->pool_cached);
	number_or_null(e, "other_processes", p->knows_processes, p->other_processes);
	if (o->is_sampled)
		emit_int(e, "unknown", NULL, p->unknown);
	else
		emit_null(e, "unknown", NULL);
	emit_object_end(e);
	number_or_null(e, "device_at_driver_peak_bytes", o->is_sampled, p->used);
	number_or_null(e, "process_at_driver_peak_bytes", o->has_process, o->process_bytes);
	if (o->has_process)
		emit_bool(e, "process_measured", NULL, o->is_measured);
	else
		emit_null(e, "process_measured", NULL);
	emit_object_end(e);
}

void json_communicators(struct emit *e, const struct outside *o)
{
	emit_array_begin(e, "nccl_communicators", NULL);
	for (size_t i = 0; i < o->nccl.nr_rows; i++) {
		const struct communicator *c = &o->nccl.row[i];

		emit_object_begin(e, NULL, NULL);
		number_or_null(e, "id", c->number, c->number);
		number_or_null(e, "ranks", c->nr_ranks, c->nr_ranks);
		print_optional(e, "rank", c->rank);
		emit_uint(e, "bytes_at_peak", NULL, c->bytes);
		emit_object_end(e);
	}
	emit_array_end(e);
}
