/* SPDX-License-Identifier: MIT */
/* Reading baselines: every key must be known, every value of its type. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gate/baselinefile.h"
#include "analyzer/recording/toml.h"

#define NUMBER_MAX ((uint64_t)INT64_MAX)

struct reading {
	struct footprint *f;
	const char *path;
	bool is_wrong;
};

/* The first trouble is told, no other. */
static void __attribute__((format(printf, 3, 4)))
wrong(struct reading *r, const struct toml_node *at, const char *format, ...)
{
	char reason[1024];
	va_list args;

	if (r->is_wrong)
		return;
	r->is_wrong = true;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	if (at)
		message_error("cannot use baseline '%s': line %u: %s", r->path, at->line, reason);
	else
		message_error("cannot use baseline '%s': %s", r->path, reason);
}

static bool expect(struct reading *r, const struct toml_node *node, enum toml_type type)
{
	if (node->type != type)
		wrong(r, node, "'%s' is %s, expected %s", node->key ? node->key : "element",
		      toml_type_name(node->type), toml_type_name(type));
	return node->type == type;
}

/* ---- tables: a row per key ------------------------------------------------------------------- */

enum field_type { FIELD_TEXT, FIELD_U32, FIELD_U64, FIELD_S64, FIELD_BOOL };

struct field {
	const char *key;
	enum field_type type;
	size_t offset;
};
#define FIELD(key, type, of, field) { key, type, offsetof(struct of, field) }

static const struct field top_fields[] = {
	FIELD("program", FIELD_TEXT, footprint, program),
	FIELD("torch", FIELD_TEXT, footprint, torch),
	FIELD("simulated", FIELD_TEXT, footprint, simulated),
	FIELD("settings", FIELD_TEXT, footprint, settings),
	FIELD("world_size", FIELD_S64, footprint, world_size),
	FIELD("min_bytes", FIELD_U64, footprint, min_bytes),
	{ 0 },
};

static const struct field device_fields[] = {
	FIELD("rank", FIELD_S64, footprint_device, rank),
	FIELD("process", FIELD_U32, footprint_device, process),
	FIELD("ordinal", FIELD_U32, footprint_device, ordinal),
	FIELD("name", FIELD_TEXT, footprint_device, name),
	FIELD("capacity_bytes", FIELD_U64, footprint_device, capacity_bytes),
	{ 0 },
};

static const struct field stack_fields[] = {
	FIELD("file", FIELD_TEXT, footprint_stack, file),
	FIELD("line", FIELD_U32, footprint_stack, line),
	FIELD("function", FIELD_TEXT, footprint_stack, function),
	FIELD("node", FIELD_TEXT, footprint_stack, node),
	FIELD("from_forward", FIELD_BOOL, footprint_stack, from_forward),
	FIELD("through", FIELD_TEXT, footprint_stack, through),
	FIELD("call", FIELD_TEXT, footprint_stack, call),
	FIELD("shape", FIELD_TEXT, footprint_stack, shape),
	FIELD("phase", FIELD_TEXT, footprint_stack, phase),
	FIELD("name", FIELD_TEXT, footprint_stack, name),
	FIELD("name_in", FIELD_TEXT, footprint_stack, name_in),
	FIELD("blocks", FIELD_U64, footprint_stack, blocks),
	FIELD("bytes", FIELD_U64, footprint_stack, bytes),
	{ 0 },
};

static uint64_t number_of(struct reading *r, const struct toml_node *node, uint64_t max)
{
	if (!expect(r, node, TOML_INTEGER))
		return 0;
	if (node->integer < 0 || (uint64_t)node->integer > max)
		wrong(r, node, "'%s' is %" PRId64 ", expected 0 to %" PRIu64, node->key, node->integer, max);
	return (uint64_t)node->integer;
}

/* True: the key is one of the fields, and its value is in *target unless it was wrong. */
static bool take_field(struct reading *r, const struct field *field, const struct toml_node *node, void *target)
{
	char *to;

	while (field->key && strcmp(field->key, node->key))
		field++;
	if (!field->key)
		return false;
	to = (char *)target + field->offset;
	if (field->type == FIELD_U32)
		*(uint32_t *)to = (uint32_t)number_of(r, node, UINT32_MAX);
	else if (field->type == FIELD_U64)
		*(uint64_t *)to = number_of(r, node, NUMBER_MAX);
	else if (field->type == FIELD_S64)
		*(int64_t *)to = (int64_t)number_of(r, node, NUMBER_MAX);
	else if (field->type == FIELD_BOOL && expect(r, node, TOML_BOOLEAN))
		*(bool *)to = node->boolean;
	else if (field->type == FIELD_TEXT && expect(r, node, TOML_STRING))
		*(const char **)to = footprint_text(r->f, node->string);
	return true;
}

static size_t count(const struct toml_node *of)
{
	size_t nr = 0;

	for (const struct toml_node *node = of->first; node; node = node->next)
		nr++;
	return nr;
}

/* Zeroed room for every member of a table or array, and one more. */
static void *room_for(const struct toml_node *of, size_t size)
{
	return heap_alloc(count(of) + 1, size);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static void take_callers(struct reading *r, const struct toml_node *list, struct footprint_stack *s)
{
	if (!expect(r, list, TOML_ARRAY))
		return;
	s->caller = room_for(list, sizeof(*s->caller));
	for (const struct toml_node *node = list->first; node; node = node->next)
		if (expect(r, node, TOML_STRING))
			s->caller[s->nr_callers++] = footprint_text(r->f, node->string);
}

static void take_stack(struct reading *r, const struct toml_node *table, struct footprint_stack *s)
{
	*s = (struct footprint_stack){ .file = "", .function = "", .node = "", .through = "", .call = "",
				       .shape = "", .phase = "", .name = "", .name_in = "" };
	if (!expect(r, table, TOML_TABLE))
		return;
	for (const struct toml_node *node = table->first; node; node = node->next) {
		if (!strcmp(node->key, "callers"))
			take_callers(r, node, s);
		else if (!take_field(r, stack_fields, node, s))
			wrong(r, node, "unknown key '%s' in [[device.stack]]", node->key);
	}
	s->shape_bytes = s->bytes;
}

static void take_stacks(struct reading *r, const struct toml_node *list, struct footprint_device *d)
{
	if (!expect(r, list, TOML_ARRAY))
		return;
	d->stack = room_for(list, sizeof(*d->stack));
	for (const struct toml_node *node = list->first; node; node = node->next)
		take_stack(r, node, &d->stack[d->nr_stacks++]);
	if (!r->is_wrong)
		footprint_sort_stacks(d);
}

/* ---- devices --------------------------------------------------------------------------------- */

static void take_figures(struct reading *r, const struct toml_node *table, struct footprint_device *d)
{
	if (!expect(r, table, TOML_TABLE))
		return;
	for (const struct toml_node *node = table->first; node; node = node->next) {
		int i = 0;

		while (i < NR_FIGURES && strcmp(footprint_figures[i].key, node->key))
			i++;
		if (i < NR_FIGURES)
			d->figure[i] = number_of(r, node, NUMBER_MAX);
		else
			wrong(r, node, "unknown key '%s' in [device.bytes]", node->key);
	}
}

static int by_part_name(const void *a, const void *b)
{
	return strcmp(((const struct footprint_part *)a)->name, ((const struct footprint_part *)b)->name);
}

static void take_parts(struct reading *r, const struct toml_node *table, struct footprint_device *d,
		       enum footprint_by by)
{
	if (!expect(r, table, TOML_TABLE))
		return;
	d->part[by] = room_for(table, sizeof(*d->part[by]));
	for (const struct toml_node *node = table->first; node; node = node->next)
		d->part[by][d->nr_parts[by]++] = (struct footprint_part){ footprint_text(r->f, node->key),
									  number_of(r, node, NUMBER_MAX) };
	if (d->nr_parts[by])
		qsort(d->part[by], d->nr_parts[by], sizeof(*d->part[by]), by_part_name);
}

static void take_device(struct reading *r, const struct toml_node *table, struct footprint_device *d)
{
	*d = (struct footprint_device){ .rank = -1, .name = "", .exact = true, .unused_at_peak = -1 };
	if (!expect(r, table, TOML_TABLE))
		return;
	for (const struct toml_node *node = table->first; node; node = node->next) {
		int by = 0;

		while (by < NR_BREAKDOWNS && strcmp(footprint_breakdowns[by], node->key))
			by++;
		if (by < NR_BREAKDOWNS)
			take_parts(r, node, d, (enum footprint_by)by);
		else if (!strcmp(node->key, "bytes"))
			take_figures(r, node, d);
		else if (!strcmp(node->key, "stack"))
			take_stacks(r, node, d);
		else if (!take_field(r, device_fields, node, d))
			wrong(r, node, "unknown key '%s' in [[device]]", node->key);
	}
}

static int by_device(const void *a, const void *b)
{
	return footprint_compare_devices(a, b);
}

static void take_devices(struct reading *r, const struct toml_node *list)
{
	struct footprint *f = r->f;
	char name[64];

	if (!expect(r, list, TOML_ARRAY))
		return;
	f->device = room_for(list, sizeof(*f->device));
	for (const struct toml_node *node = list->first; node; node = node->next)
		take_device(r, node, &f->device[f->nr_devices++]);
	if (f->nr_devices)
		qsort(f->device, f->nr_devices, sizeof(*f->device), by_device);
	for (uint32_t i = 1; i < f->nr_devices; i++)
		if (!by_device(&f->device[i - 1], &f->device[i]))
			wrong(r, list, "[[device]] %s is there twice",
			      footprint_device_name(name, sizeof(name), &f->device[i]));
}

/* Whether it is a baseline at all is said before anything is found unknown in it. */
static void check_schema(struct reading *r, const struct toml_node *root)
{
	static const char any[] = "vramtrace/baseline/";
	const struct toml_node *node = root->first;

	while (node && strcmp(node->key, "schema"))
		node = node->next;
	if (!node || node->type != TOML_STRING || strncmp(node->string, any, strlen(any)))
		wrong(r, node, "it is no baseline: 'schema' is not \"" BASELINE_SCHEMA "\"");
	else if (strcmp(node->string, BASELINE_SCHEMA))
		wrong(r, node, "it has version '%.20s' of the format, this is version '%s'; make a new one",
		      node->string + strlen(any), &BASELINE_SCHEMA[strlen(any)]);
}

static void take_top(struct reading *r, const struct toml_node *root)
{
	check_schema(r, root);
	for (const struct toml_node *node = root->first; node && !r->is_wrong; node = node->next) {
		if (!strcmp(node->key, "schema"))
			continue;
		if (!strcmp(node->key, "device"))
			take_devices(r, node);
		else if (!take_field(r, top_fields, node, r->f))
			wrong(r, node, "unknown key '%s'", node->key);
	}
	if (!r->f->nr_devices)
		wrong(r, NULL, "it has no [[device]]");
}

int baselinefile_read(struct footprint *f, const char *path)
{
	struct reading r = { .f = f, .path = path };
	const struct toml_node *root;
	struct toml_file *file;
	char *reason;
	unsigned line;

	*f = (struct footprint){ .program = "", .torch = "", .simulated = "", .settings = "", .world_size = -1 };
	f->path = footprint_text(f, path);
	file = toml_open(path, &root, &reason, &line);
	if (!file) {
		struct toml_node at = { .line = line };

		wrong(&r, line ? &at : NULL, "%s", (const char *)heap_need(reason));
		free(reason);
		return CMD_TROUBLE;
	}
	take_top(&r, root);
	toml_close(file);
	return r.is_wrong ? CMD_TROUBLE : CMD_FINE;
}
