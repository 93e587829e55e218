/* SPDX-License-Identifier: MIT */
/* The table of modules. */
#include "analyzer/pages/print_modules.h"

#include <inttypes.h>
#include <string.h>

#include "analyzer/base/human.h"

#define PATH_TEXT_MAX 512

static const struct emit_column columns[] = {
	{ "module", "module", EMIT_LEFT, false },      { "bytes", "bytes", EMIT_RIGHT, false },
	{ "share", "share", EMIT_RIGHT, true },	       { "count", "blocks", EMIT_RIGHT, false },
	{ "parameter", "parameter", EMIT_RIGHT, true }, { "gradient", "gradient", EMIT_RIGHT, true },
	{ "optimizer_state", "optimizer", EMIT_RIGHT, true }, { "activation", "activation", EMIT_RIGHT, true },
	{ NULL, NULL, EMIT_LEFT, false },
};

/* What the model itself holds, and what none does, have no path. */
static const char *module_text(char *buf, const struct modulepaths *paths, const struct modules *m, uint32_t path)
{
	if (!path)
		return "(no module)";
	if (modulepaths_depth(paths, path) <= m->nr_common)
		return "(the model)";
	return modulepaths_text(paths, path, m->nr_common, buf, PATH_TEXT_MAX);
}

static void category_columns(struct emit *e, const struct module_sum *s)
{
	static const enum category shown[] = { CATEGORY_PARAMETER, CATEGORY_GRADIENT, CATEGORY_OPTIMIZER_STATE,
					       CATEGORY_ACTIVATION };
	char text[HUMAN_MAX];

	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
		emit_label(e, category_names[shown[i]], NULL, "%s",
			   s->category[shown[i]] ? human_bytes(text, s->category[shown[i]]) : "-");
	emit_object_begin(e, "categories", NULL);
	for (int i = 0; i < NR_CATEGORIES; i++)
		if (category_has_row(i, s->category[i]))
			emit_uint(e, category_names[i], NULL, s->category[i]);
	emit_object_end(e);
}

void print_modules(struct emit *e, const struct replay_process *p, const struct modules *m, uint64_t total, uint64_t top)
{
	const struct modulepaths *paths = p->modulepaths;
	bool by_class = false;
	char text[PATH_TEXT_MAX];

	emit_table_begin(e, "modules", columns);
	for (size_t i = 0; i < m->nr_sums && (!top || i < top); i++) {
		const struct module_sum *s = &m->sum[i];

		emit_row_begin(e);
		if (emit_is_json(e) && !s->path)
			emit_null(e, "module", NULL);
		else if (emit_is_json(e) && modulepaths_depth(paths, s->path) <= m->nr_common)
			emit_string(e, "module", NULL, "");
		else
			emit_string(e, "module", NULL, module_text(text, paths, m, s->path));
		emit_string(e, "named_by", NULL, !s->path ? NULL : s->by_class ? "class" : "census");
		emit_bytes(e, "bytes", NULL, s->bytes);
		emit_label(e, "share", NULL, "%s", human_percent(text, (double)s->bytes, (double)total));
		emit_uint(e, "count", NULL, s->blocks);
		category_columns(e, s);
		emit_row_end(e);
		by_class |= s->by_class;
	}
	emit_table_end(e);
	if (top && m->nr_sums > top)
		emit_text(e, "(%" PRIu64 " more modules: --top N)", (uint64_t)m->nr_sums - top);
	if (by_class)
		emit_text(e, "<Name>: its class, and its number by the order of first calls; no census has seen its name");
}
