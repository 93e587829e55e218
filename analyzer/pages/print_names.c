/* SPDX-License-Identifier: MIT */
/* The table of names, and who keeps what. */
#include "analyzer/pages/print_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/letgo.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/category.h"

#define PLACE_MAX 320
#define LENGTHS_SHOWN 5 /* of a container that grows, the latest */

_Static_assert(NR_CATEGORIES <= NAMEGROUPS_KINDS, "a group sums its bytes by category");

static const struct emit_column columns[] = {
	{ "bytes", "bytes", EMIT_RIGHT, false },      { "share", "share", EMIT_RIGHT, true },
	{ "blocks", "blocks", EMIT_RIGHT, false },    { "category", "category", EMIT_LEFT, false },
	{ "name", "name", EMIT_LEFT, false },	      { NULL, NULL, EMIT_LEFT, false },
};

/* ---- keepers ------------------------------------------------------------------------------------ */

/* "in main() at train.py:31", with a comma before; "" if nothing is known. Returns buf. */
static const char *place_text(char buf[static PLACE_MAX], const struct objectname *n)
{
	static const char *const in[NR_ROOTS] = {
		[ROOT_LOCAL] = "in",
		[ROOT_CLOSURE] = "in the closure of",
		[ROOT_DEFAULT] = "a default argument of",
		[ROOT_GENERATOR] = "in the generator",
		[ROOT_EXCEPTION] = "held by an exception's traceback in",
	};
	static const char *const without[NR_ROOTS] = {
		[ROOT_GLOBAL] = ", a global variable", [ROOT_CLASS] = ", an attribute of a class",
		[ROOT_EXCEPTION] = ", held by an exception", [ROOT_THREAD] = ", data of a thread",
		[ROOT_CLOSURE] = ", in a closure", [ROOT_DEFAULT] = ", a default argument",
		[ROOT_GENERATOR] = ", in a generator", [ROOT_LOCAL] = ", a local variable",
	};
	int len;

	if (!in[n->root] || !n->function) {
		snprintf(buf, PLACE_MAX, "%s", without[n->root] ? without[n->root] : "");
		return buf;
	}
	len = snprintf(buf, PLACE_MAX, ", %s %.100s()", in[n->root], n->function);
	if (n->file && n->line)
		snprintf(buf + len, PLACE_MAX - (size_t)len, " at %.140s:%" PRIu32, print_short_path(n->file), n->line);
	return buf;
}

/* "52", "52 of at most 1,000" */
static const char *entries_text(char *buf, size_t size, const struct keeper *k)
{
	char count[HUMAN_MAX], bound[HUMAN_MAX];

	human_count(count, k->length);
	if (k->has_bound)
		snprintf(buf, size, "%s of at most %s", count, human_count(bound, k->bound));
	else
		snprintf(buf, size, "%s", count);
	return buf;
}

const char *print_keeper(char *buf, size_t size, const struct namegroup *g)
{
	char place[PLACE_MAX], count[2 * HUMAN_MAX + 32];
	struct keeper k, function, container;

	*buf = 0;
	if (!groupkeeper_nearest(&k, &function, g))
		return buf;
	if ((groupkeeper_growing(&container, g) && strcmp(container.name.text, k.name.text)) ||
	    ((!k.has_length || 2 * k.length < g->blocks) && groupkeeper_container(&container, g))) {
		k = container;
		function.kind = TFMT_KIND_OTHER;
	}
	place_text(place, &k.name);
	if (k.name.root == ROOT_CLOSURE && !k.name.function && function.kind == TFMT_KIND_FUNCTION)
		snprintf(place, sizeof(place), ", in the closure of %.200s", function.name.text);
	if (k.name.root == ROOT_CYCLE)
		snprintf(buf, size, "kept by nothing: it waits for Python's collector");
	else if (k.name.root == ROOT_NATIVE)
		snprintf(buf, size, "kept by no object of Python's");
	else if (k.name.root == ROOT_UNNAMED && *k.name.text != '(' && k.has_length)
		snprintf(buf, size, "kept by a %s of %s without a name, such as one that a comprehension is making", objectname_kind(k.kind),
			 entries_text(count, sizeof(count), &k));
	else if (keeper_is_variable(&k))
		snprintf(buf, size, "kept by %s%s", k.name.root == ROOT_LOCAL ? "a variable" : "itself", place);
	else if (keeper_is_lru_cache(&k))
		snprintf(buf, size, "kept by the cache of %s()%s%s%s", groupkeeper_name(g, &k.name), k.has_bound ? ", which has " : "",
			 k.has_bound ? entries_text(count, sizeof(count), &k) : "", place);
	else if (k.has_length)
		snprintf(buf, size, "kept by %s, a %s of %s%s", groupkeeper_name(g, &k.name), objectname_kind(k.kind),
			 entries_text(count, sizeof(count), &k), place);
	else
		snprintf(buf, size, "kept by %s%s", groupkeeper_name(g, &k.name), place);
	return buf;
}

void json_let_go(struct emit *e, const struct namegroup *g, bool of_graph)
{
	char text[OBJECTNAME_MAX];

	if (emit_is_json(e) && letgo_text(text, sizeof(text), g, of_graph))
		emit_string(e, "let_go_by", NULL, text);
}

/* How many entries the container that grows, or else the nearest keeper, had in the latest censuses; 0: nothing tells. */
static uint32_t lengths_of(uint64_t length[static LENGTHS_SHOWN], const struct names *names, const struct namegroup *g)
{
	struct keeper k, next;

	if (!names || (!groupkeeper_growing(&k, g) && !groupkeeper_nearest(&k, &next, g)))
		return 0;
	return k.has_length ? names_lengths(names, &k, length, LENGTHS_SHOWN) : 0;
}

const char *print_lengths(char *buf, size_t size, const struct names *names, const struct namegroup *g)
{
	uint64_t length[LENGTHS_SHOWN];
	uint32_t nr = lengths_of(length, names, g);
	char count[HUMAN_MAX];
	size_t n;

	if (nr < 2 || length[nr - 1] <= length[0])
		return NULL;
	n = (size_t)snprintf(buf, size, "from census to census it had ");
	for (uint32_t i = 0; i < nr && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i == 0 ? "" : i + 1 == nr ? " and " : ", ",
				      human_count(count, length[i]));
	if (n < size)
		snprintf(buf + n, size - n, " entries");
	return buf;
}

void json_lengths(struct emit *e, const struct names *names, const struct namegroup *g)
{
	uint64_t length[LENGTHS_SHOWN];
	uint32_t nr = lengths_of(length, names, g);

	if (!nr || !emit_is_json(e))
		return;
	emit_array_begin(e, "keeper_lengths", NULL);
	for (uint32_t i = 0; i < nr; i++)
		emit_uint(e, NULL, NULL, length[i]);
	emit_array_end(e);
}

static void uint_or_null(struct emit *e, const char *key, bool is_known, uint64_t value)
{
	if (is_known)
		emit_uint(e, key, NULL, value);
	else
		emit_null(e, key, NULL);
}

static void json_keeper(struct emit *e, const struct namegroup *g, const struct keeper *k)
{
	const struct objectname *n = &k->name;

	emit_object_begin(e, NULL, NULL);
	emit_string(e, "name", NULL, groupkeeper_name(g, n));
	emit_string(e, "root", NULL, objectname_roots[n->root]);
	emit_string(e, "kind", NULL, objectname_kind(k->kind));
	uint_or_null(e, "length", k->has_length, k->length);
	if (k->has_bound)
		emit_uint(e, "bound", NULL, k->bound);
	emit_string(e, "file", NULL, n->file);
	uint_or_null(e, "line", n->line, n->line);
	emit_string(e, "function", NULL, n->function);
	emit_object_end(e);
}

static void json_keepers(struct emit *e, const struct namegroup *g)
{
	struct keeper keeper[GROUPKEEPER_MOST];
	uint32_t nr = 0;

	if (g->is_named)
		nr = objectname_keepers(keeper, GROUPKEEPER_MOST, g->named.census->census, g->named.object);
	emit_array_begin(e, "keepers", NULL);
	for (uint32_t i = 0; i < nr; i++)
		json_keeper(e, g, &keeper[i]);
	emit_array_end(e);
}

void json_name(struct emit *e, const struct namegroup *g)
{
	if (!emit_is_json(e))
		return;
	emit_string(e, "name", NULL, namegroup_text(g));
	json_keepers(e, g);
}

/* ---- the table ---------------------------------------------------------------------------------- */

/* Does the keeper say more than the name? What a model or an optimizer holds is known by its name. */
static bool is_telling(const struct namegroup *g)
{
	return g->is_named && g->named.use == USE_UNKNOWN;
}

const char *print_named(char *buf, size_t size, const struct namegroup *g)
{
	char keeper[OBJECTNAME_MAX + PLACE_MAX + 64];

	if (g->named.name.root == ROOT_CYCLE)
		snprintf(buf, size, "%s: it waits for Python's collector", namegroup_text(g));
	else if (is_telling(g))
		snprintf(buf, size, "named %s, %s", namegroup_text(g), print_keeper(keeper, sizeof(keeper), g));
	else
		snprintf(buf, size, "named %s", namegroup_text(g));
	return buf;
}

static void group_row(struct emit *e, const struct namegroup *g, const struct print_names_options *o)
{
	const char *name = namegroup_text(g);
	char text[OBJECTNAME_MAX + PLACE_MAX + 64];

	emit_row_begin(e);
	emit_bytes(e, "bytes", NULL, g->bytes);
	emit_label(e, "share", NULL, "%s", human_percent(text, (double)g->bytes, (double)o->total));
	emit_uint(e, "blocks", NULL, g->blocks);
	emit_string(e, "category", NULL, category_names[namegroup_kind(g)]);
	if (emit_is_json(e))
		json_name(e, g);
	else if (emit_is_csv(e) || !g->nr_others || !(is_telling(g) || o->verbose))
		emit_string(e, "name", NULL, name ? name : emit_is_csv(e) ? "" : "(no name)");
	else
		emit_label(e, "name", NULL, "%s (and %" PRIu32 " other%s)", name, g->nr_others,
			   g->nr_others == 1 ? "" : "s");
	emit_uint(e, "other_names", NULL, g->nr_others);
	if (is_telling(g) || (o->verbose && g->is_named))
		emit_text(e, "%s", print_keeper(text, sizeof(text), g));
	emit_row_end(e);
}

void print_names(struct emit *e, const struct replay_process *p, const struct namegroups *g,
		 const struct print_names_options *o)
{
	emit_table_begin(e, "groups", columns);
	for (size_t i = 0; i < g->nr_groups && (!o->top || i < o->top); i++)
		group_row(e, &g->group[i], o);
	emit_table_end(e);
	emit_uint(e, "censuses", NULL, p->names ? p->names->nr_censuses : 0);
	emit_uint(e, "named_bytes", NULL, g->named_bytes);
	if (o->top && g->nr_groups > o->top)
		emit_text(e, "(%zu more group%s: --top N)", g->nr_groups - (size_t)o->top,
			  g->nr_groups - o->top == 1 ? "" : "s");
	if (!p->names)
		emit_text(e, "(no census of the program's objects was taken: nothing tells their names)");
}
