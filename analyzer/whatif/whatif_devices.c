/* SPDX-License-Identifier: MIT */
/* The devices of a recording, each with the settings that are tried there, and those that its program gives itself. */
#include "analyzer/whatif/whatif_inside.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

static void device_release(struct whatif_device *d)
{
	tried_close(&d->recorded);
	for (size_t i = 0; i < d->nr_tried; i++)
		tried_close(&d->tried[i]);
	free(d->tried);
	blockslots_release(&d->slots);
	arenas_release(&d->arenas);
	ideal_release(&d->ideal);
	free(d);
}

void whatif_release(struct whatif *w)
{
	for (size_t i = 0; i < w->nr_devices; i++)
		device_release(w->device[i]);
	free(w->device);
	free(w->given);
	w->device = NULL;
	w->given = NULL;
	w->nr_devices = w->devices_room = w->nr_given = w->given_room = 0;
}

static struct whatif_device *find_device(const struct whatif *w, const struct replay_process *process, uint32_t ordinal)
{
	for (size_t i = w->nr_devices; i-- > 0;)
		if (w->device[i]->process == process && w->device[i]->ordinal == ordinal)
			return w->device[i];
	return NULL;
}

struct whatif_device *whatif_of(const struct whatif *w, const struct replay_device *d)
{
	struct whatif_device *found = find_device(w, d->process, d->ordinal);

	return found && found->requests ? found : NULL;
}

/* Of the GPU that was recorded; 0: it has no end, or nobody said. */
static uint64_t recorded_capacity(const struct replay_process *p, uint32_t ordinal)
{
	struct tfmt_device info;

	if (!tfmt_reader_device(p->reader, ordinal, &info) || info.capacity_bytes == TFMT_CAPACITY_UNLIMITED)
		return 0;
	return info.capacity_bytes;
}

static const char *info_of(const struct replay_process *p, const char *wanted)
{
	const char *key, *value, *found = NULL;

	for (uint32_t i = 0; tfmt_reader_info(p->reader, i, &key, &value); i++)
		if (!strcmp(key, wanted))
			found = value;
	return found;
}

unsigned whatif_version(const struct replay_process *p)
{
	unsigned version = allocconf_version(info_of(p, "torch"));

	return version < ALLOCCONF_OLDEST || version > ALLOCCONF_NEWEST ? ALLOCCONF_NEWEST : version;
}

/* The recorded settings as PyTorch has read them: it did, so that they are not wrong. */
static struct allocconf recorded_conf(const struct replay_process *p, unsigned version)
{
	struct allocconf conf;
	char why[256];

	if (!allocconf_read(&conf, info_of(p, "allocator_conf"), version, why, sizeof(why)))
		return allocconf_default(version);
	return conf;
}

/* Begin to try a setting on a device. */
static void begin_try(struct whatif *w, const struct whatif_setting *s, const struct whatif_device *d, struct tried *t)
{
	unsigned version = s->version ? s->version : whatif_version(d->process);

	t->conf = recorded_conf(d->process, version);
	if (s->text && !allocconf_read(&t->conf, s->text, version, w->wrong, sizeof(w->wrong))) {
		t->conf = allocconf_default(version);
		t->is_refused = t->is_over = true;
	}
	if (s->is_uncached)
		t->conf.backend = ALLOCCONF_UNCACHED;
	t->is_least = s->is_least;
	t->capacity = s->is_endless ? 0 : s->capacity ? s->capacity : d->recorded.capacity;
	tried_open(t);
}

/* ---- settings that the program gives ------------------------------------------------------------- */

static struct whatif_given *find_given(const struct whatif *w, const struct replay_process *process)
{
	for (size_t i = 0; i < w->nr_given; i++)
		if (w->given[i].process == process)
			return &w->given[i];
	return NULL;
}

uint64_t whatif_times_given(const struct whatif *w, const struct whatif_device *d)
{
	const struct whatif_given *g = find_given(w, d->process);

	return g ? g->times : 0;
}

/*
 * What a program that began with other settings would have given in place of these: those that it had at first, alone or
 * before its own, are settings that it found. Where it had none, its own are taken to come after what it finds. The result is
 * to be freed.
 */
static char *given_instead(const struct replay_process *process, const char *text, const char *tried)
{
	const char *first = info_of(process, "allocator_conf"), *own = text;
	size_t nr = first ? strlen(first) : 0;
	char *instead;

	if (nr && !strncmp(text, first, nr) && (!text[nr] || text[nr] == ','))
		own = text + nr + (text[nr] == ',');
	else if (nr)
		tried = "";
	instead = heap_alloc(strlen(tried) + strlen(own) + 2, 1);
	stpcpy(stpcpy(stpcpy(instead, tried), *tried && *own ? "," : ""), own);
	return instead;
}

static void give(const struct whatif *w, struct whatif_device *d, const char *text)
{
	tried_give(&d->recorded, text);
	for (size_t i = 0; i < d->nr_tried; i++) {
		char *instead = w->setting[i].text ? given_instead(d->process, text, w->setting[i].text) : NULL;

		tried_give(&d->tried[i], instead ? instead : text);
		free(instead);
	}
}

static void give_torch(const struct whatif *w, const struct replay_process *process, const char *text)
{
	char *instead = w->nr_settings && w->setting[0].text ? given_instead(process, text, w->setting[0].text) : NULL;

	torchengine_give(w->torch, instead ? instead : text);
	free(instead);
}

void whatif_settings(struct whatif *w, const struct replay_process *process, const struct tfmt_event *ev)
{
	struct whatif_given *g = find_given(w, process);

	if (!g) {
		w->given = heap_grow(w->given, &w->given_room, w->nr_given + 1, sizeof(*w->given));
		g = &w->given[w->nr_given++];
		*g = (struct whatif_given){ .process = process };
	}
	g->text = tfmt_reader_string(process->reader, (uint32_t)ev->address);
	g->times++;
	if (w->torch)
		give_torch(w, process, g->text);
	for (size_t i = 0; i < w->nr_devices; i++)
		if (w->device[i]->process == process)
			give(w, w->device[i], g->text);
}

/* ---- devices ------------------------------------------------------------------------------------ */

struct whatif_device *whatif_device_get(struct whatif *w, const struct replay_process *process, uint32_t ordinal)
{
	struct whatif_device *d = find_device(w, process, ordinal);
	const struct whatif_given *given;

	if (d)
		return d;
	given = find_given(w, process);
	w->device = heap_grow(w->device, &w->devices_room, w->nr_devices + 1, sizeof(*w->device));
	d = w->device[w->nr_devices++] = heap_alloc(1, sizeof(*d));
	d->process = process;
	d->ordinal = ordinal;
	d->torch = w->torch;
	d->wants_ideal = w->wants_ideal;
	d->books = books_device(process->books, ordinal);
	for (size_t i = 0; i < w->nr_edits; i++)
		if (w->edits[i].device == ordinal && !strcmp(w->edits[i].path, process->path))
			d->edits = &w->edits[i];
	d->failed_step = SIZE_MAX;
	d->differing_event = d->taking_event = TFMT_NO_ORDINAL;
	d->recorded.conf = recorded_conf(process, whatif_version(process));
	d->recorded.capacity = recorded_capacity(process, ordinal);
	tried_open(&d->recorded);
	d->nr_tried = w->nr_settings;
	d->tried = heap_alloc(d->nr_tried, sizeof(*d->tried));
	for (size_t i = 0; i < d->nr_tried; i++)
		begin_try(w, &w->setting[i], d, &d->tried[i]);
	if (given)
		give(w, d, given->text);
	return d;
}
