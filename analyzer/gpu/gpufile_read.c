/* SPDX-License-Identifier: MIT */
/* Reading GPU files: every key must be known, every value of its type and in its range. */
#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gpu/gpufile.h"
#include "analyzer/gpu/gpunames.h"
#include "analyzer/recording/toml.h"

struct reading {
	struct gpufile *g;
	const char *path;
	bool is_wrong;
};

/* The first trouble is told, no other. */
static void __attribute__((format(printf, 3, 4)))
wrong(struct reading *r, unsigned line, const char *format, ...)
{
	char reason[2048];
	va_list args;

	if (r->is_wrong)
		return;
	r->is_wrong = true;
	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	if (line)
		message_error("cannot use GPU file '%s': line %u: %s", r->path, line, reason);
	else
		message_error("cannot use GPU file '%s': %s", r->path, reason);
}

static bool expect(struct reading *r, const struct toml_node *node, enum toml_type type)
{
	if (node->type == type)
		return true;
	wrong(r, node->line, "'%s' is %s, expected %s", node->key ? node->key : "element",
	      toml_type_name(node->type), toml_type_name(type));
	return false;
}

static bool has_control(const char *text)
{
	while (*text && !iscntrl((unsigned char)*text))
		text++;
	return *text;
}

/* A line end would end a line of the model file. */
static void take_string(struct reading *r, const struct toml_node *node, char **out)
{
	if (!expect(r, node, TOML_STRING))
		return;
	if (!*node->string || has_control(node->string)) {
		wrong(r, node->line, "'%s' must be one line of text", node->key);
		return;
	}
	free(*out);
	*out = heap_copy(node->string);
}

static void take_number(struct reading *r, const struct toml_node *node, uint64_t min, uint64_t max,
			uint64_t *out)
{
	if (!expect(r, node, TOML_INTEGER))
		return;
	if (node->integer < 0 || (uint64_t)node->integer < min || (uint64_t)node->integer > max)
		wrong(r, node->line, "'%s' is %lld, expected %llu to %llu", node->key,
		      (long long)node->integer, (unsigned long long)min, (unsigned long long)max);
	else
		*out = (uint64_t)node->integer;
}

static void unknown_key(struct reading *r, const struct toml_node *node, const char *where, const char *known)
{
	wrong(r, node->line, "unknown key '%s'%s; the known ones are %s", node->key, where, known);
}

/* A key of [device] or [memory] that is none of them. */
static void unknown_key_in(struct reading *r, const struct toml_node *node, const char *section)
{
	bool is_device = !strcmp(section, "device");
	char known[1024];
	size_t n = (size_t)snprintf(known, sizeof(known), "%s", is_device ? "product, " : "");

	for (int i = 0; i < GPUFILE_NR_KEYS; i++) {
		if (!strcmp(gpufile_keys[i].section, section))
			n += (size_t)snprintf(known + n, sizeof(known) - n, "%s, ", gpufile_keys[i].name);
	}
	known[n - 2] = 0;
	unknown_key(r, node, is_device ? " in [device]" : " in [memory]", known);
}

static void take_section(struct reading *r, const struct toml_node *section)
{
	if (!expect(r, section, TOML_TABLE))
		return;
	for (const struct toml_node *node = section->first; node; node = node->next) {
		int i = 0;

		if (!strcmp(section->key, "device") && !strcmp(node->key, "product")) {
			take_string(r, node, &r->g->product);
			if (r->g->product && strlen(r->g->product) > GPUFILE_MAX_PRODUCT)
				wrong(r, node->line, "'product' is longer than %d bytes", GPUFILE_MAX_PRODUCT);
			continue;
		}
		while (i < GPUFILE_NR_KEYS && (strcmp(gpufile_keys[i].section, section->key) ||
					       strcmp(gpufile_keys[i].name, node->key)))
			i++;
		if (i == GPUFILE_NR_KEYS) {
			unknown_key_in(r, node, section->key);
			return;
		}
		take_number(r, node, gpufile_keys[i].min, gpufile_keys[i].max, &r->g->value[i]);
		r->g->has[i] = true;
	}
}

static void take_nccl(struct reading *r, const struct toml_node *row)
{
	const uint64_t max = gpufile_keys[0].max;
	struct gpufile_nccl *out = &r->g->nccl[r->g->nr_nccl];

	if (!expect(r, row, TOML_TABLE))
		return;
	if (r->g->nr_nccl == GPUFILE_MAX_NCCL) {
		wrong(r, row->line, "more than %d rows of [[nccl]]", GPUFILE_MAX_NCCL);
		return;
	}
	*out = (struct gpufile_nccl){ 0 };
	for (const struct toml_node *node = row->first; node; node = node->next) {
		if (!strcmp(node->key, "ranks"))
			take_number(r, node, 1, 1 << 20, &out->ranks);
		else if (!strcmp(node->key, "init_bytes"))
			take_number(r, node, 0, max, &out->init_bytes);
		else if (!strcmp(node->key, "first_bytes"))
			take_number(r, node, 0, max, &out->first_bytes);
		else
			unknown_key(r, node, " in [[nccl]]", "ranks, init_bytes, first_bytes");
	}
	if (!out->ranks)
		wrong(r, row->line, "[[nccl]] without 'ranks'");
	for (unsigned i = 0; i < r->g->nr_nccl; i++) {
		if (r->g->nccl[i].ranks == out->ranks)
			wrong(r, row->line, "a second [[nccl]] with 'ranks' %llu",
			      (unsigned long long)out->ranks);
	}
	r->g->nr_nccl++;
}

static void take_answer(struct reading *r, const struct toml_node *row)
{
	char *question = NULL, *what = NULL;
	uint64_t bytes = UINT64_MAX;

	if (!expect(r, row, TOML_TABLE))
		return;
	for (const struct toml_node *node = row->first; node; node = node->next) {
		if (!strcmp(node->key, "question"))
			take_string(r, node, &question);
		else if (!strcmp(node->key, "what"))
			take_string(r, node, &what);
		else if (!strcmp(node->key, "bytes"))
			take_number(r, node, 0, gpufile_keys[0].max, &bytes);
		else
			unknown_key(r, node, " in [[answer]]", "what, question, bytes");
	}
	if (!question || !strchr(question, ' ') || bytes == UINT64_MAX)
		wrong(r, row->line, "[[answer]] needs 'question', a kind and what is asked, and 'bytes'");
	else if (gpufile_has_answer(r->g, question))
		wrong(r, row->line, "a second [[answer]] to '%.60s'", question);
	else
		gpufile_add_answer(r->g, question, what, bytes);
	free(question);
	free(what);
}

static void take_rows(struct reading *r, const struct toml_node *rows,
		      void (*take)(struct reading *r, const struct toml_node *row))
{
	if (!expect(r, rows, TOML_ARRAY))
		return;
	for (const struct toml_node *row = rows->first; row; row = row->next)
		take(r, row);
}

static void take_top(struct reading *r, const struct toml_node *root)
{
	for (const struct toml_node *node = root->first; node; node = node->next) {
		if (!strcmp(node->key, "name"))
			take_string(r, node, &r->g->name);
		else if (!strcmp(node->key, "base"))
			take_string(r, node, &r->g->base);
		else if (!strcmp(node->key, "device") || !strcmp(node->key, "memory"))
			take_section(r, node);
		else if (!strcmp(node->key, "nccl"))
			take_rows(r, node, take_nccl);
		else if (!strcmp(node->key, "answer"))
			take_rows(r, node, take_answer);
		else
			unknown_key(r, node, "", "name, base, [device], [memory], [[nccl]], [[answer]]");
	}
	if (!r->g->name || !gpufile_name_is_usable(r->g->name))
		wrong(r, 0, "'name' is needed: letters, digits, '.', '_' and '-'");
	if (!r->g->base)
		wrong(r, 0, "'base' is needed: the profile that holds where the file says nothing");
	else if (!gpunames_find(r->g->base))
		wrong(r, 0, "'base' is '%s', expected one of %s", r->g->base, gpunames_list());
}

int gpufile_read(struct gpufile *g, const char *path)
{
	struct reading r = { .g = g, .path = path };
	const struct toml_node *root;
	struct toml_file *file;
	char *reason;
	unsigned line;

	memset(g, 0, sizeof(*g));
	file = toml_open(path, &root, &reason, &line);
	if (!file) {
		wrong(&r, line, "%s", (const char *)heap_need(reason));
		free(reason);
		return CMD_TROUBLE;
	}
	take_top(&r, root);
	toml_close(file);
	return r.is_wrong ? CMD_TROUBLE : CMD_FINE;
}
