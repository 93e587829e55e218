/* SPDX-License-Identifier: MIT */
/* Modules on the ways to objects. */
#include "analyzer/names/modulename.h"

#include <string.h>

#include "analyzer/names/objectway.h"
#include "analyzer/recording/sorted.h"

/* Containers that are never called themselves. */
static bool is_container(const struct tfmt_object_facts *o)
{
	return !strcmp(o->class_name, "ModuleList") || !strcmp(o->class_name, "ModuleDict");
}

/* A step's text without the dot that parts it from the one before. */
static void add_step(struct modulename *m, size_t *used, const char *text)
{
	size_t len;

	text += *text == '.';
	len = strlen(text) + 1;
	if (m->nr_steps == MODULENAME_STEPS || *used + len > sizeof(m->text))
		return;
	m->step[m->nr_steps++] = memcpy(m->text + *used, text, len);
	*used += len;
}

/* Up to the last step that is a module. */
static uint32_t last_module(const struct objectway *w)
{
	uint32_t i = w->nr;

	while (i && w->step[i - 1]->kind != TFMT_KIND_MODULE)
		i--;
	return i;
}

bool modulename_of(struct modulename *m, const struct tfmt_census *c, uint32_t object)
{
	struct objectname name = { .root = ROOT_NATIVE };
	size_t used = 0, begin = 0;
	struct objectway w;
	uint32_t state, end;

	memset(m, 0, offsetof(struct modulename, text));
	objectway_find(&w, c, object);
	state = objectway_state(&w, c);
	if (state)
		objectway_find(&w, c, (uint32_t)w.step[state]->number);
	end = w.nr && w.root->edge != TFMT_EDGE_CYCLE ? last_module(&w) : 0;
	if (!end || w.is_cut)
		return false;
	m->outermost = w.step[w.top]->address;
	for (uint32_t i = objectname_first_step(&w); i < end; i++) {
		objectname_add_step(&name, c, &w, i);
		if (i < w.top || w.step[i]->kind != TFMT_KIND_MODULE || is_container(w.step[i]))
			continue;
		add_step(m, &used, name.text + begin);
		begin = strlen(name.text);
	}
	return m->nr_steps > 0;
}

static uint32_t object_at(const struct names_census *c, uint64_t address)
{
	size_t i = sorted_below(c->module, c->nr_modules, sizeof(*c->module), offsetof(struct names_module, address), address);

	return i == c->nr_modules || c->module[i].address != address ? 0 : c->module[i].object;
}

/* The object that a module is in one census; 0: it is not there. */
static uint32_t object_of(const struct names_census *c, const struct tfmt_instance *module)
{
	uint32_t object = object_at(c, module->address);

	return object && !strcmp(tfmt_census_object(c->census, object)->class_name, module->class_name) ? object : 0;
}

/* In one census: is there this module, and does it have a name? */
static bool find_in(struct modulename *m, const struct names_census *c, const struct tfmt_instance *module)
{
	uint32_t object = object_of(c, module);

	return object && modulename_of(m, c->census, object);
}

uint32_t modulename_mode(const struct names *n, const struct tfmt_instance *module)
{
	for (size_t i = n->nr_censuses; i-- > 0;) {
		uint32_t object = object_of(&n->census[i], module);

		if (object)
			return tfmt_census_object(n->census[i].census, object)->flags;
	}
	return 0;
}

uint32_t modulename_modes(const struct names *n, const struct tfmt_instance *module)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < n->nr_censuses; i++) {
		uint32_t object = object_of(&n->census[i], module);

		flags |= object ? tfmt_census_object(n->census[i].census, object)->flags : 0;
	}
	return flags;
}

bool modulename_find(struct modulename *m, const struct names *n, const struct tfmt_instance *module, uint64_t first_ns,
		     uint64_t outermost)
{
	size_t before = 0;

	while (before < n->nr_censuses && n->census[before].time_ns < first_ns)
		before++;
	for (size_t i = before; i < n->nr_censuses; i++)
		if (find_in(m, &n->census[i], module))
			return true;
	while (before--)
		if (find_in(m, &n->census[before], module) && m->outermost == outermost)
			return true;
	return false;
}

bool modulename_of_block(struct modulename *m, const struct names *n, const struct names_block *block, uint64_t moment)
{
	struct named named;

	return names_find(&named, n, block, moment) && named.use != USE_UNKNOWN &&
	       modulename_of(m, named.census->census, named.object);
}

bool modulename_at(struct objectname *name, const struct names *n, uint64_t address)
{
	for (size_t i = n->nr_censuses; i-- > 0;) {
		uint32_t object = object_at(&n->census[i], address);

		if (!object)
			continue;
		objectname_find(name, n->census[i].census, object);
		return true;
	}
	return false;
}
