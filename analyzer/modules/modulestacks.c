/* SPDX-License-Identifier: MIT */
/* Stacks to the modules that they call. */
#include "analyzer/modules/modulestacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/recording/idtable.h"
#include "analyzer/stacks/pylines.h"
#include "analyzer/ui/heap.h"

#define DEPTH_MAX 10000
#define METHODS_MAX 8   /* that call each other between two modules' forwards */
#define ARGUMENTS_MAX 4 /* functions that give each other a module */

struct modulestack_site {
	struct callsite *callsite;
	uint32_t caller; /* the frame that the module is named in: of the call, or of what gives it to a
			    function that calls it */
	struct sequence *sequence; /* that is called here; NULL = it is none, or its members are not known */
	struct sequence *list;     /* a member of which is called here; NULL = the same */
	struct sourceloops *loops;
	bool known, found, sequence_known, list_known;
};

static const char *function_of(const struct tfmt_code *code)
{
	const char *dot = strrchr(code->name, '.');

	return dot ? dot + 1 : code->name;
}

static bool frame_code(const struct tfmt_reader *reader, uint32_t id, struct tfmt_frame *frame, struct tfmt_code *code)
{
	return id >= TFMT_STACK_FIRST && tfmt_reader_frame(reader, id, frame) && modulestacks_is_python(frame) &&
	       tfmt_reader_code(reader, (uint32_t)frame->a, code);
}

/* Frames that only pass a call on: PyTorch's, but for its containers, which call their members. */
static bool passes_on(const struct tfmt_code *code)
{
	if (strstr(code->file, "/torch/nn/modules/") && !strstr(code->file, "/torch/nn/modules/module.py"))
		return false;
	return strstr(code->file, "/torch/") || strstr(code->file, "/contextlib.py") ||
	       strstr(code->file, "/functools.py");
}

/*
 * The frame that calls the module whose forward is `callee`: the first outside of Module's own; 0 if it is no
 * module.
 */
static uint32_t caller_of(const struct tfmt_reader *reader, uint32_t callee)
{
	struct tfmt_frame frame;
	struct tfmt_code code;
	bool called = false;
	uint32_t id = callee;

	for (int depth = 0; depth < DEPTH_MAX; depth++) {
		if (!tfmt_reader_frame(reader, id, &frame) || frame.parent >= id)
			return 0;
		id = frame.parent;
		if (!frame_code(reader, id, &frame, &code))
			return 0;
		if (strstr(code.file, "/torch/nn/modules/module.py"))
			called = true;
		else if (called && !passes_on(&code))
			return id;
		else if (!called && !strcmp(function_of(&code), "forward"))
			return 0; /* an autograd function, or a forward that was called by hand */
	}
	return 0;
}

/* The frame that calls the function that runs in this one; 0: none that is known. */
static uint32_t outer_frame(const struct tfmt_reader *reader, uint32_t id, struct tfmt_frame *frame,
			    struct tfmt_code *code)
{
	if (!frame_code(reader, id, frame, code))
		return 0;
	for (uint32_t outer = frame->parent; outer < id && frame_code(reader, outer, frame, code);
	     outer = frame->parent) {
		if (!passes_on(code))
			return outer;
		id = outer;
	}
	return 0;
}

/* A list that was given to the function that calls its members is named where it was given. */
static void name_list(struct callsite *c, const struct callsite *list)
{
	size_t len = strlen(list->name);

	c->parameter = list->parameter;
	c->is_variable = list->is_variable;
	memcpy(c->name, list->name, sizeof(c->name));
	memcpy(c->parameter_name, list->parameter_name, sizeof(c->parameter_name));
	if (list->indexed || *list->behind)
		snprintf(c->name + len, sizeof(c->name) - len, ".%s", list->indexed ? "*" : list->behind);
}

/* A module that a function gets as an argument, and calls, has its name where the function is called. */
static void find_argument(struct modulestacks *m, const struct tfmt_reader *reader, struct modulestack_site *site)
{
	struct tfmt_code code, callee;
	struct tfmt_frame frame;
	struct callsite given;
	uint32_t id = site->caller;

	for (int depth = 0; site->callsite->parameter && depth < ARGUMENTS_MAX; depth++) {
		if (!frame_code(reader, id, &frame, &callee))
			return;
		id = outer_frame(reader, id, &frame, &code);
		if (!id || !callsite_find_argument(&given, &m->sources, &code, (int32_t)frame.b, &callee,
						   site->callsite))
			return;
		if (site->callsite->indexed) {
			name_list(site->callsite, &given);
		} else {
			*site->callsite = given;
			site->caller = id;
		}
	}
}

/*
 * "tower" before what is there, where `self.tower.features` is called and "features" runs. false: this is not told by
 * the call, or it is a variable's method.
 */
static bool add_receiver(char within[CALLSITE_NAME_MAX], const struct callsite *called, const char *function)
{
	char path[2 * CALLSITE_NAME_MAX + 4], before[CALLSITE_NAME_MAX], *dot;
	size_t len;

	snprintf(path, sizeof(path), "%s%s%s%s", called->name, called->indexed ? ".*" : "", *called->behind ? "." : "",
		 called->behind);
	dot = strrchr(path, '.');
	if (strcmp(dot ? dot + 1 : path, function))
		return false;
	if (!dot)
		return true;
	len = (size_t)(dot - path);
	memcpy(before, within, sizeof(before));
	if (called->is_variable || len + 1 + strlen(before) >= CALLSITE_NAME_MAX)
		return false;
	memcpy(within, path, len);
	snprintf(within + len, CALLSITE_NAME_MAX - len, "%s%s", *before ? "." : "", before);
	return true;
}

/* "Tower." of "Tower.features"; 0: no method. */
static size_t class_len(const struct tfmt_code *code)
{
	return strstr(code->name, "<locals>") ? 0 : (size_t)(function_of(code) - code->name);
}

/* Methods of two classes? */
static bool are_of_others(const struct tfmt_code *a, const struct tfmt_code *b)
{
	size_t of_a = class_len(a), of_b = class_len(b);

	return of_a && of_b && (of_a != of_b || strncmp(a->name, b->name, of_a));
}

/*
 * What calls the module may be another method, not forward: one that the forward of the module around it calls of one
 * of its members, as in `self.tower.features(x)`. Where that is not told, the class says as much as can be said.
 */
static void find_within(struct modulestacks *m, const struct tfmt_reader *reader, struct modulestack_site *site)
{
	char within[CALLSITE_NAME_MAX] = "";
	struct tfmt_code code, callee;
	struct callsite called;
	struct tfmt_frame frame;
	uint32_t id = site->caller;
	bool is_variable = false;

	for (int depth = 0; depth < METHODS_MAX; depth++) {
		if (!frame_code(reader, id, &frame, &callee))
			return;
		if (!strcmp(function_of(&callee), "forward")) {
			memcpy(site->callsite->within, within, sizeof(within));
			site->callsite->is_variable |= is_variable;
			return;
		}
		id = outer_frame(reader, id, &frame, &code);
		if (!id)
			return;
		if (!callsite_find(&called, &m->sources, &code, (int32_t)frame.b, false) ||
		    !add_receiver(within, &called, function_of(&callee)))
			is_variable |= are_of_others(&callee, &code);
	}
}

/* What is kept of a Python frame; NULL: it is none. */
static struct modulestack_site *site_at(struct modulestacks *m, const struct tfmt_reader *reader, uint32_t id,
					struct tfmt_frame *frame, struct tfmt_code *code)
{
	m->site = idtable_grown(m->site, &m->nr_sites, id, sizeof(*m->site), reader);
	m->sources.reader = reader;
	return id < m->nr_sites && frame_code(reader, id, frame, code) ? &m->site[id] : NULL;
}

static struct modulestack_site *site_of(struct modulestacks *m, const struct tfmt_reader *reader, uint32_t caller,
					bool makes)
{
	struct tfmt_frame frame;
	struct tfmt_code code;
	struct modulestack_site *site = site_at(m, reader, caller, &frame, &code);

	if (!site)
		return NULL;
	if (!site->known) {
		site->known = true;
		site->caller = caller;
		site->callsite = heap_alloc(1, sizeof(*site->callsite));
		site->found = callsite_find(site->callsite, &m->sources, &code, (int32_t)frame.b, makes);
		if (site->found)
			find_argument(m, reader, site);
		if (site->found && !makes)
			find_within(m, reader, site);
	}
	return site->found ? site : NULL;
}

typedef bool (*find_sequence_fn)(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line,
				 const struct callsite *site);

static bool find_called(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line,
			const struct callsite *site)
{
	return sequence_find(s, sources, file, line, site->name, site->indexed);
}

static bool find_list(struct sequence *s, struct sourcetext *sources, const char *file, uint32_t line,
		      const struct callsite *site)
{
	return site->indexed && !*site->behind && !site->nr_listed && !site->by_key &&
	       sequence_find_list(s, sources, file, line, site->name);
}

/* The members of what is called, or gone through, at this site. */
static const struct sequence *members_of(struct modulestacks *m, const struct tfmt_reader *reader,
					 const struct modulestack_site *site, struct sequence **members, bool *known,
					 find_sequence_fn find)
{
	struct tfmt_frame frame;
	struct tfmt_code code;

	if (*known || !frame_code(reader, site->caller, &frame, &code))
		return *members;
	*known = true;
	*members = heap_alloc(1, sizeof(**members));
	if (!find(*members, &m->sources, code.file, pylines_line(&code, (int32_t)frame.b), site->callsite)) {
		free(*members);
		*members = NULL;
	}
	return *members;
}

/* The members of the nn.Sequential, or of each of several, that is called at this site. */
static const struct sequence *sequence_of(struct modulestacks *m, const struct tfmt_reader *reader,
					  struct modulestack_site *site)
{
	return members_of(m, reader, site, &site->sequence, &site->sequence_known, find_called);
}

/* The members of the list that a loop around this site goes through. */
static const struct sequence *list_of(struct modulestacks *m, const struct tfmt_reader *reader,
				      struct modulestack_site *site)
{
	return members_of(m, reader, site, &site->list, &site->list_known, find_list);
}

/* One of torch.nn's that has no others. */
static bool is_leaf(const struct tfmt_code *code)
{
	return strstr(code->file, "/torch/nn/modules/") && !strstr(code->file, "/container.py") &&
	       !strstr(code->file, "/transformer.py");
}

static bool is_sequential(const struct tfmt_code *code)
{
	return !strcmp(code->name, "Sequential.forward") && strstr(code->file, "/torch/nn/modules/container.py");
}

/* "Mixer" of "Mixer.forward": the code's own name, which is never freed, up to the dot. */
static const char *class_of(const struct tfmt_code *code)
{
	return code->name;
}

/* Of calls in the arms of one `if`, of members of one list: the same number, not 0. */
static uint32_t branch_of(const struct callsite *site)
{
	uint64_t hash = site->branch;

	for (const char *p = site->name; *p; p++)
		hash = (hash ^ (uint8_t)*p) * 0x100000001b3ull;
	for (const char *p = site->behind; *p; p++)
		hash = (hash ^ (uint8_t)*p ^ 0x100) * 0x100000001b3ull;
	return (uint32_t)(hash >> 32 ^ hash) | 1;
}

static bool add_level(struct modulestacks *m, const struct tfmt_reader *reader, struct modulestack *s, uint32_t caller,
		      uint32_t callee, const struct tfmt_frame *frame, const struct tfmt_code *code)
{
	struct modulestack_site *at = site_of(m, reader, caller, s->makes);
	const struct callsite *site = at ? at->callsite : NULL;
	uint32_t branch = site && site->indexed && site->branch && !s->makes ? branch_of(site) : 0;
	struct tfmt_frame of_call;

	if (site && site->is_super)
		return true;
	if (s->nr_levels == MODULELEVELS_MAX)
		return true;
	caller = at ? at->caller : caller;
	if (!tfmt_reader_frame(reader, caller, &of_call))
		return false;
	s->level = heap_need(realloc(s->level, (s->nr_levels + 1u) * sizeof(*s->level)));
	s->level[s->nr_levels++] = (struct modulelevel){
		.caller = caller,
		.place = branch ? of_call.parent : caller,
		.branch = branch,
		.site = site,
		.callee = callee,
		.code = (uint32_t)frame->a,
		.position = (int32_t)frame->b,
		.name = site ? site->name : class_of(code),
		.behind = site ? site->behind : "",
		.within = site ? site->within : "",
		.indexed = !site || site->indexed,
		.by_class = !site,
		.forward = code->name,
		.sequence = site && is_sequential(code) ? sequence_of(m, reader, at) : NULL,
		.list = site && !s->makes ? list_of(m, reader, at) : NULL,
		.is_leaf = !s->makes && !(site && *site->behind) && is_leaf(code),
		.is_single = strstr(code->file, "/torch/nn/modules/linear.py") ||
			     strstr(code->file, "/torch/nn/modules/conv.py"),
		.is_variable = site && site->is_variable,
	};
	return true;
}

/* Does the stack make a module, or anything, and is it torch.nn that does? */
static void find_makers(const struct tfmt_reader *reader, struct modulestack *s, uint32_t stack)
{
	struct tfmt_frame frame;
	struct tfmt_code code;

	s->by_itself = true;
	for (uint32_t id = stack; frame_code(reader, id, &frame, &code); id = frame.parent) {
		if (!strcmp(function_of(&code), "_call_impl")) {
			s->makes = false;
			return;
		}
		if (strcmp(function_of(&code), "__init__"))
			continue;
		s->makes = true;
		s->by_itself &= !strstr(code.file, "/torch/nn/modules/");
	}
}

/* Within other modules a variable's name, that was not found to be one of theirs, says less than the class. */
static void name_by_class(struct modulestack *s)
{
	for (int i = 1; i < s->nr_levels; i++) {
		struct modulelevel *l = &s->level[i];

		if (!l->is_variable || s->makes)
			continue;
		l->name = l->forward;
		l->behind = l->within = "";
		l->site = NULL;
		l->sequence = l->list = NULL;
		l->place = l->caller;
		l->branch = 0;
		l->indexed = l->by_class = true;
		l->is_variable = false;
	}
}

static void turn_round(struct modulestack *s)
{
	for (int i = 0; i < s->nr_levels / 2; i++) {
		struct modulelevel l = s->level[i];

		s->level[i] = s->level[s->nr_levels - 1 - i];
		s->level[s->nr_levels - 1 - i] = l;
	}
}

uint32_t modulestacks_forward_part(const struct tfmt_reader *reader, uint32_t stack)
{
	struct tfmt_frame frame;

	for (uint32_t id = stack; id >= TFMT_STACK_FIRST && tfmt_reader_frame(reader, id, &frame) && frame.parent < id;
	     id = frame.parent)
		if (frame.kind == TFMT_FRAME_NODE && frame.b)
			return frame.parent;
	return stack;
}

static void find_levels(struct modulestacks *m, const struct tfmt_reader *reader, struct modulestack *s, uint32_t stack)
{
	struct tfmt_frame frame;
	struct tfmt_code code;

	s->known = true;
	find_makers(reader, s, stack);
	for (uint32_t id = stack; id >= TFMT_STACK_FIRST; id = frame.parent) {
		const char *function;
		uint32_t caller;

		if (!frame_code(reader, id, &frame, &code)) {
			if (id < TFMT_STACK_FIRST || !tfmt_reader_frame(reader, id, &frame) || frame.parent >= id)
				break;
			continue;
		}
		function = function_of(&code);
		if (strcmp(function, s->makes ? "__init__" : "forward") || function == code.name ||
		    (s->makes && strstr(code.file, "/torch/nn/modules/container.py")))
			continue;
		caller = s->makes ? frame.parent : caller_of(reader, id);
		if (caller >= TFMT_STACK_FIRST && !add_level(m, reader, s, caller, id, &frame, &code))
			break;
	}
	turn_round(s);
	name_by_class(s);
}

const struct modulestack *modulestacks_get(struct modulestacks *m, const struct tfmt_reader *reader, uint32_t stack)
{
	if (stack < TFMT_STACK_FIRST)
		return NULL;
	m->of_stack = idtable_grown(m->of_stack, &m->nr_stacks, stack, sizeof(*m->of_stack), reader);
	if (stack >= m->nr_stacks)
		return NULL;
	if (!m->of_stack[stack].known) {
		struct modulestack s = { 0 };

		find_levels(m, reader, &s, stack);
		m->of_stack[stack] = s;
	}
	return &m->of_stack[stack];
}

const struct sourceloops *modulestacks_loops(struct modulestacks *m, const struct tfmt_reader *reader, uint32_t frame)
{
	struct tfmt_frame f;
	struct tfmt_code code;
	struct modulestack_site *site = site_at(m, reader, frame, &f, &code);

	if (!site)
		return NULL;
	if (!site->loops) {
		site->loops = heap_alloc(1, sizeof(*site->loops));
		*site->loops = sourceloops_find(&m->sources, &code, (int32_t)f.b);
	}
	return site->loops->known ? site->loops : NULL;
}

bool modulestacks_is_generator(const struct tfmt_reader *reader, uint32_t frame)
{
	struct tfmt_frame f;
	struct tfmt_code code;

	return frame_code(reader, frame, &f, &code) && strstr(code.name, "<genexpr>");
}

uint32_t modulestacks_frame_beside(const struct tfmt_reader *reader, uint32_t stack, uint32_t of)
{
	struct tfmt_frame f, g;

	if (!tfmt_reader_frame(reader, of, &f))
		return 0;
	for (uint32_t id = stack; id > f.parent && tfmt_reader_frame(reader, id, &g) && g.parent < id; id = g.parent)
		if (g.parent == f.parent)
			return modulestacks_is_python(&g) && g.a == f.a ? id : 0;
	return 0;
}

void modulestacks_release(struct modulestacks *m)
{
	for (uint32_t i = 0; i < m->nr_stacks; i++)
		free(m->of_stack[i].level);
	for (uint32_t i = 0; i < m->nr_sites; i++) {
		free(m->site[i].callsite);
		free(m->site[i].sequence);
		free(m->site[i].list);
		free(m->site[i].loops);
	}
	sourcetext_release(&m->sources);
	free(m->of_stack);
	free(m->site);
}
