/* SPDX-License-Identifier: MIT */
/* The table of names, and who keeps what. */
#include "analyzer/pages/print_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/letgo.h"
#include "analyzer/pages/print_said.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/purpose/category.h"

#define PLACE_MAX 160 /* of a file and its line */
#define LENGTHS_SHOWN 5 /* of a container that grows, the latest */

_Static_assert(NR_CATEGORIES <= NAMEGROUPS_KINDS, "a group sums its bytes by category");

static const struct emit_column columns[] = {
	{ "bytes", "bytes", EMIT_RIGHT, false },      { "share", "share", EMIT_RIGHT, true },
	{ "blocks", "blocks", EMIT_RIGHT, false },    { "category", "category", EMIT_LEFT, false },
	{ "name", "name", EMIT_LEFT, false },	      { NULL, NULL, EMIT_LEFT, false },
};

/* ---- keepers ------------------------------------------------------------------------------------ */

/* "in main() at train.py:31"; SAY_nothing: nothing is known. */
static struct said place_said(const struct objectname *n)
{
	static const enum sentence in[NR_ROOTS] = {
		[ROOT_LOCAL] = SAY_place_local,		  [ROOT_CLOSURE] = SAY_place_closure,
		[ROOT_DEFAULT] = SAY_place_default,	  [ROOT_GENERATOR] = SAY_place_generator,
		[ROOT_EXCEPTION] = SAY_place_traceback,
	};
	static const enum sentence without[NR_ROOTS] = {
		[ROOT_GLOBAL] = SAY_place_is_global,	     [ROOT_CLASS] = SAY_place_is_of_class,
		[ROOT_EXCEPTION] = SAY_place_is_of_exception, [ROOT_THREAD] = SAY_place_is_of_thread,
		[ROOT_CLOSURE] = SAY_place_is_in_closure,     [ROOT_DEFAULT] = SAY_place_is_default,
		[ROOT_GENERATOR] = SAY_place_is_in_generator, [ROOT_LOCAL] = SAY_place_is_local,
	};
	char at[PLACE_MAX] = "";

	if (in[n->root] == SAY_nothing || !n->function)
		return (struct said){ .sentence = without[n->root] };
	if (n->file && n->line)
		snprintf(at, sizeof(at), "%.140s:%" PRIu32, print_short_path(n->file), n->line);
	return said_of(in[n->root], (struct fact[]){ fact_name("function", n->function), fact_name("line", *at ? at : NULL) }, 2);
}

/* The nearest that keeps it: a list of 200 entries, history, in main() at train.py:31. */
static struct said keeper_said(const struct namegroup *g)
{
	struct keeper k, function, container;
	struct fact keeper, place, kind, entries, bound;
	char text[SENTENCE_MAX];
	struct said where;

	if (!groupkeeper_nearest(&k, &function, g))
		return SAID_NOTHING;
	if ((groupkeeper_growing(&container, g) && strcmp(container.name.text, k.name.text)) ||
	    ((!k.has_length || 2 * k.length < g->blocks) && groupkeeper_container(&container, g))) {
		k = container;
		function.kind = TFMT_KIND_OTHER;
	}
	where = place_said(&k.name);
	if (k.name.root == ROOT_CLOSURE && !k.name.function && function.kind == TFMT_KIND_FUNCTION)
		where = SAID(place_closure_of, fact_name("function", function.name.text));
	place = fact_if(where.sentence != SAY_nothing, fact_name("place", sentence_text(text, &where)));
	keeper = fact_name("keeper", groupkeeper_name(g, &k.name));
	kind = fact_name("kind", objectname_kind(k.kind));
	entries = fact_many("entries", k.length);
	bound = fact_if(k.has_bound, fact_many("bound", k.bound));
	if (k.name.root == ROOT_CYCLE)
		return SAID(keeper_is_none, NO_FACTS);
	if (k.name.root == ROOT_NATIVE)
		return SAID(keeper_is_native, NO_FACTS);
	if (k.name.root == ROOT_UNNAMED && *k.name.text != '(' && k.has_length)
		return SAID(keeper_has_no_name, kind, entries, bound);
	if (keeper_is_variable(&k))
		return k.name.root == ROOT_LOCAL ? SAID(keeper_is_variable, place) : SAID(keeper_is_itself, place);
	if (keeper_is_lru_cache(&k))
		return SAID(keeper_is_lru_cache, keeper, fact_if(k.has_bound, entries), bound, place);
	return k.has_length ? SAID(keeper_has_entries, keeper, kind, entries, bound, place) : SAID(kept_by, keeper, place);
}

void json_let_go(struct emit *e, const struct namegroup *g, bool of_graph)
{
	struct said let_go = emit_is_json(e) ? letgo_said(g, of_graph) : SAID_NOTHING;
	char text[SENTENCE_MAX];

	if (let_go.sentence != SAY_nothing)
		emit_string(e, "let_go_by", NULL, sentence_text(text, &let_go));
}

/* How many entries the container that grows, or else the nearest keeper, had in the latest censuses; 0: nothing tells. */
static uint32_t lengths_of(uint64_t length[static LENGTHS_SHOWN], const struct names *names, const struct namegroup *g)
{
	struct keeper k, next;

	if (!names || (!groupkeeper_growing(&k, g) && !groupkeeper_nearest(&k, &next, g)))
		return 0;
	return k.has_length ? names_lengths(names, &k, length, LENGTHS_SHOWN) : 0;
}

struct said lengths_said(const struct names *names, const struct namegroup *g)
{
	uint64_t length[LENGTHS_SHOWN];
	uint32_t nr = lengths_of(length, names, g);
	char text[LENGTHS_SHOWN * HUMAN_MAX + 32], count[HUMAN_MAX];
	size_t n = 0;

	if (nr < 2 || length[nr - 1] <= length[0])
		return SAID_NOTHING;
	for (uint32_t i = 0; i < nr && n < sizeof(text); i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i == 0 ? "" : i + 1 == nr ? " and " : ", ",
				      human_count(count, length[i]));
	return SAID(keeper_grew, fact_name("lengths", text));
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

struct said named_said(const struct namegroup *g)
{
	struct said keeper = is_telling(g) ? keeper_said(g) : SAID_NOTHING;
	struct fact name = fact_name("name", namegroup_text(g));
	char text[SENTENCE_MAX];

	if (g->named.name.root == ROOT_CYCLE)
		return SAID(named_in_cycle, name);
	if (keeper.sentence == SAY_nothing)
		return SAID(named, name);
	return SAID(named_and_kept, name, fact_name("keeper", sentence_text(text, &keeper)));
}

static void group_row(struct emit *e, const struct namegroup *g, const struct print_names_options *o)
{
	const char *name = namegroup_text(g);
	char text[SENTENCE_MAX];
	struct said keeper;

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
	if (is_telling(g) || (o->verbose && g->is_named)) {
		keeper = keeper_said(g);
		emit_text(e, "%s", sentence_text(text, &keeper));
	}
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
