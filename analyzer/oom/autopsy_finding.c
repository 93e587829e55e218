/* SPDX-License-Identifier: MIT */
/* What a finding says. */
#include "analyzer/oom/autopsy_facts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/findings/sentence.h"
#include "analyzer/names/groupkeeper.h"
#include "analyzer/names/letgo.h"
#include "analyzer/purpose/namedblocks.h"

void autopsy_set_aside(struct autopsy *a, struct said said)
{
	a->aside = heap_need(realloc(a->aside, (a->nr_aside + 1) * sizeof(*a->aside)));
	a->aside[a->nr_aside++] = said;
}

void autopsy_say(struct autopsy_finding *f, struct said said)
{
	f->sentence = said;
}

void autopsy_evidence(struct autopsy_finding *f, struct said said)
{
	if (f->nr_evidence < AUTOPSY_LINES_MAX)
		f->evidence[f->nr_evidence++] = said;
}

/* Before the others, of which the last may have no room. */
static void put_first(struct said *line, unsigned *nr, struct said said)
{
	*nr -= *nr == AUTOPSY_LINES_MAX;
	memmove(&line[1], line, *nr * sizeof(*line));
	line[0] = said;
	++*nr;
}

void autopsy_evidence_first(struct autopsy_finding *f, struct said said)
{
	put_first(f->evidence, &f->nr_evidence, said);
}

void autopsy_drop_evidence(struct autopsy_finding *f, enum sentence sentence)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < f->nr_evidence; i++)
		if (f->evidence[i].sentence != sentence)
			f->evidence[nr++] = f->evidence[i];
	f->nr_evidence = nr;
}

void autopsy_advise_first(struct autopsy_finding *f, struct said said)
{
	put_first(f->advice, &f->nr_advice, said);
}

/* Is it kept, so that one line of the program may let go of it? Of a cycle the collector does, but for one through a Function's ctx. */
static bool has_a_line(const struct autopsy_finding *f)
{
	return f->verdict == VERDICT_LEAK || f->verdict == VERDICT_GRAPH_RETENTION ||
	       (f->verdict == VERDICT_CYCLE && letgo_ctx_attribute(f->named));
}

/* A generator has what it is still to give; many in a container, of which some have ended, what each was last at. */
static void advise_generators(struct autopsy_finding *f)
{
	const struct namegroup *g = f->named;
	struct said let_go = letgo_of_owner(g);
	char code[SENTENCE_MAX];
	struct suspended s;
	struct keeper around;
	bool is_variable;

	if (let_go.sentence != SAY_nothing) {
		autopsy_advise_first(f, SAID(let_go_advice, fact_name("code", sentence_text(code, &let_go)), fact_if(f->has_site, fact_site("site", &f->site)),
					     fact_bytes("bytes", g->bytes)));
	} else if (groupkeeper_around(&around, g, TFMT_KIND_GENERATOR)) {
		is_variable = suspended_find(&s, &g->named) && s.function && !strcmp(s.variable, g->named.name.text);
		autopsy_advise_first(f, SAID(generators_advice, fact_if(is_variable, fact_name("variable", s.variable)),
					     fact_if(is_variable, fact_name("function", s.function)),
					     fact_name("holder", groupkeeper_name(g, &around.name)), fact_bytes("bytes", g->bytes)));
	} else {
		autopsy_advise_first(f, SAID(line_has_most_advice, fact_bytes("each", g->bytes / g->blocks)));
	}
}

/* That only a small part of each is looked at says more than how they came to be kept. */
static void say_views(struct autopsy_finding *f)
{
	uint64_t seen = f->named_bytes > f->named_unseen ? f->named_bytes - f->named_unseen : 0;

	autopsy_evidence_first(f, f->sentence);
	autopsy_evidence_first(f, SAID(views_of_more, fact_bytes("seen", seen), fact_bytes("kept", f->named_bytes)));
	autopsy_say(f, SAID(views_hold, fact_bytes("bytes", f->bytes)));
}

void autopsy_let_go(struct autopsy_finding *f)
{
	char code[SENTENCE_MAX];
	struct keeper k, next;
	const struct objectname *n = &k.name;
	struct hookname hook;
	struct said said, let_go;
	bool has_hook, has_place, is_called, evaluates, makes_graphs;
	bool frees_all; /* and what it was computed of */
	uint64_t bytes;

	if (!strcmp(f->cause, "growing_tensor") || f->is_awaited) /* what it has so far is wanted */
		return;
	if (f->verdict == VERDICT_LEAK && f->named && f->named->is_named && f->named->named.name.root == ROOT_GENERATOR) {
		advise_generators(f);
		return;
	}
	if (!f->named || !has_a_line(f) || !groupkeeper_nearest(&k, &next, f->named))
		return;
	let_go = letgo_said(f->named, f->verdict == VERDICT_GRAPH_RETENTION);
	if (let_go.sentence == SAY_nothing)
		return;
	sentence_text(code, &let_go);
	/* In the same container, which is not to be cleared: its name is added to what is said. */
	if (f->has_some_in_use && letgo_of_owner(f->named).sentence == SAY_nothing) {
		f->advice[0] = SAID(calls_keep_some_advice, fact_name("holder", groupkeeper_name(f->named, &k.name)),
				    fact_bytes("bytes", f->bytes));
		return;
	}
	if (f->verdict == VERDICT_LEAK && namegroup_is_of_views(f->named) && f->sentence.sentence != SAY_views_keep)
		say_views(f);
	frees_all = f->named->named.has_node || f->named_bytes > f->bytes;
	is_called = f->has_caller && !letgo_ctx_attribute(f->named);
	has_hook = letgo_is_hook(&hook, f->named);
	has_place = f->has_site && !has_hook && !letgo_is_of_methods(f->named); /* hooks and methods are registered elsewhere */
	if (frees_all)
		bytes = f->bytes;
	else
		bytes = namegroup_is_of_views(f->named) ? f->named_unseen : f->named_bytes;
	/* A variable is deleted where it is in scope; entries and graphs are let go of where they are put into what keeps them. */
	if (!has_hook && keeper_is_variable(&k) && f->verdict == VERDICT_LEAK)
		said = SAID(let_go_in_advice, fact_name("code", code), fact_name("function", n->function), fact_bytes("bytes", bytes));
	else
		said = SAID(let_go_advice, fact_name("code", code),
			    fact_if(has_place, fact_site("site", is_called ? &f->caller : &f->site)), fact_bytes("bytes", bytes));
	/*
	 * Who only evaluates needs no graph at all: no_grad() comes first, but for results that a timer or the like keeps, which nobody
	 * means to keep. A loss that waits for a backward pass cannot be detached; it is one number. And a hook goes on to collect what is
	 * let go of.
	 */
	evaluates = (!strcmp(f->cause, "evaluation") || (f->nr_advice && f->advice[0].sentence == SAY_inference_advice)) &&
		    !letgo_owner_class(f->named);
	makes_graphs = f->nr_advice && f->advice[0].sentence == SAY_no_graphs_advice; /* each step would have to let go of several */
	if (evaluates || makes_graphs || (!strcmp(f->cause, "no_backward") && f->named->named.is_number) || (f->is_of_hooked && !has_hook))
		autopsy_advise(f, said);
	else
		autopsy_advise_first(f, said);
}

void autopsy_advise(struct autopsy_finding *f, struct said said)
{
	if (f->nr_advice < AUTOPSY_LINES_MAX)
		f->advice[f->nr_advice++] = said;
}

/* ---- who holds what is older than it need be --------------------------------------------------- */

/*
 * What several holders are called: their pattern, if it is one; session.by_task['ner'] and session.by_task['tags'] are
 * session.by_task[*]. Where they differ by more than one key, as the first is.
 */
static void text_of_several(char text[static OBJECTNAME_MAX], const struct objectname *first, const struct objectname *other)
{
	const char *a = first->text, *b = other->text, *key = a, *ends[2];

	for (const char *at = a; *at && *at == b[at - a]; at++)
		key = *at == '[' ? at : key;
	ends[0] = strchr(key, ']');
	ends[1] = strchr(b + (key - a), ']');
	if (!strcmp(first->pattern, other->pattern) || *key != '[' || !ends[0] || !ends[1] || strcmp(ends[0], ends[1]) != 0)
		snprintf(text, OBJECTNAME_MAX, "%s", first->pattern);
	else
		snprintf(text, OBJECTNAME_MAX, "%.*s[*%s", (int)(key - a), a, ends[0]);
}

bool autopsy_find_holder(struct modelkeeper *k, const struct autopsy *a, size_t block)
{
	struct named named;

	return namedblocks_name(&named, a->device->process, &a->categories.block[block].life, LIVES_OOM) &&
	       modelkeeper_find(k, named.census->census, named.object);
}

bool autopsy_say_holder(char text[static OBJECTNAME_MAX], const struct autopsy *a, struct autopsy_finding *f, size_t block,
			size_t other)
{
	struct modelkeeper k, second;

	if (!autopsy_find_holder(&k, a, block))
		return false;
	if (other != block && autopsy_find_holder(&second, a, other))
		text_of_several(text, &k.name, &second.name);
	else
		snprintf(text, OBJECTNAME_MAX, "%s", k.name.text);
	f->certainty = CERTAINTY_PROVEN;
	autopsy_evidence(f, SAID(older_holder, fact_name("holder", text),
				 fact_line("site", k.name.file, k.name.line, k.name.function)));
	return true;
}
