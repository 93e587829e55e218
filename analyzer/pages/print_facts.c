/* SPDX-License-Identifier: MIT */
/* Samples, data-dependent places and modelled memory, in text. */
#include "analyzer/pages/print_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/findings/sentence.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/recording/basename.h"

#define PLACE_NAME_WIDTH 30 /* of a file name, so that its line has 80 columns */

void facts_find(struct facts *f, const struct replay *m, bool is_text)
{
	*f = (struct facts)FACTS_INIT;
	if (m->recording.nr_runs > 1)
		repeat_load(&f->repeat, &m->recording);
	if (is_text)
		readplaces_find(&f->places, m, NULL);
}

void facts_release(struct facts *f)
{
	repeat_release(&f->repeat);
	readplaces_release(&f->places);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Ranks talk to each other on threads of their own, whose timing is not the program's. */
static bool has_several_ranks(const struct replay *m)
{
	for (size_t i = 0; i < m->nr_processes; i++)
		if (m->process[i].world_size > 1)
			return true;
	return false;
}

/* Of a large job only some ranks ran. */
static unsigned print_ranks(struct emit *e, const struct replay *m)
{
	int64_t nr_absent;
	const struct replay_process *p = print_some_ranks(m, &nr_absent);

	if (!p)
		return 0;
	emit_text(e, "rank%s %.60s%s of %" PRId64 " ran; the other %" PRId64 " were assumed alike",
		  strchr(p->ranks_run, ',') ? "s" : "", p->ranks_run, strlen(p->ranks_run) > 60 ? "..." : "",
		  p->world_size, nr_absent);
	return 1;
}

static unsigned print_repeat(struct emit *e, const struct replay *m, const struct replay_device *d,
			     const struct repeat *r)
{
	const struct repeat_device *device = repeat_device_of(r, m, d);
	bool is_largest = m->recording.run_shown == r->largest, is_stable = true;
	char text[REPEAT_TEXT_MAX];

	for (size_t i = 0; i < r->nr_devices; i++)
		is_stable &= repeat_is_stable(r, &r->device[i]);
	if (device)
		emit_text(e, "runs: %s", repeat_text(text, r, device));
	if (is_stable && is_largest)
		return device != NULL;
	emit_text(e, "      %sshown is run %u of %u%s%s", is_stable ? "" : "depends on thread timing; ",
		  m->recording.run_shown, m->recording.runs_wanted, is_largest ? ", the largest" : "",
		  r->nr_devices > 1 ? "; each GPU: -v" : "");
	return 1 + (device != NULL);
}

static unsigned print_samples(struct emit *e, const struct replay *m, const struct replay_device *d,
			      const struct repeat *r)
{
	if (r->nr_runs > 1)
		return print_repeat(e, m, d, r);
	if (!has_several_ranks(m))
		return 0;
	emit_text(e, "one sample: peaks of jobs with communication threads can vary; run --repeat 3");
	return 1;
}

static void print_each_device(struct emit *e, const struct repeat *r)
{
	char name[64], text[REPEAT_TEXT_MAX];

	emit_blank(e);
	emit_heading(e, "peaks of %u runs", r->nr_runs);
	for (size_t i = 0; i < r->nr_devices; i++)
		emit_text(e, "%s: %s", repeat_device_name(name, sizeof(name), r, &r->device[i]),
			  repeat_text(text, r, &r->device[i]));
}

/* Of several processes the first that has some. */
static unsigned print_unhooked(struct emit *e, const struct replay *m)
{
	char text[96];

	for (size_t i = 0; i < m->nr_processes; i++)
		if (unhooked_text(text, sizeof(text), books_unhooked(m->process[i].books), m->process[i].reader)) {
			emit_text(e, "past the hooks: %s", text);
			return 1;
		}
	return 0;
}

/* ---- data-dependent places ------------------------------------------------------------------- */

static const char *place_text(char *buf, size_t size, const struct readplace *p)
{
	if (!p->known)
		snprintf(buf, size, "%s", sentence_words(SAY_unknown_place));
	else if (p->site.file && p->site.line)
		snprintf(buf, size, "%.*s:%" PRIu32, PLACE_NAME_WIDTH, basename_of(p->site.file),
			 p->site.line);
	else
		stack_frame_text(buf, size < 48 ? size : 48, &p->site);
	return buf;
}

static unsigned print_places(struct emit *e, const struct readplaces *p)
{
	char count[HUMAN_MAX], place[64];

	if (!p->nr_places)
		return 0;
	emit_text(e, "data-dependent: %zu place%s, first at %s (%s read%s)%s", p->nr_places,
		  p->nr_places == 1 ? "" : "s", place_text(place, sizeof(place), &p->place[0]),
		  human_count(count, p->place[0].reads), p->place[0].reads == 1 ? "" : "s",
		  p->nr_places == 1 ? "" : "; all: -v");
	return 1;
}

static void print_each_place(struct emit *e, const struct readplaces *p)
{
	static const struct emit_column columns[] = {
		{ "reads", "reads", EMIT_RIGHT, true },
		{ "bytes", "bytes", EMIT_RIGHT, true },
		{ "first", "first after", EMIT_RIGHT, true },
		{ "place", "place", EMIT_LEFT, true },
		{ NULL, NULL, EMIT_LEFT, false },
	};
	char text[512];

	emit_blank(e);
	emit_heading(e, "data-dependent: here the host read what a GPU would have computed");
	emit_table_begin(e, NULL, columns);
	for (size_t i = 0; i < p->nr_places; i++) {
		const struct readplace *place = &p->place[i];

		emit_row_begin(e);
		emit_label(e, "reads", NULL, "%s", human_count(text, place->reads));
		emit_label(e, "bytes", NULL, "%s", human_bytes(text, place->bytes));
		emit_label(e, "first", NULL, "%s", human_ns(text, place->first_ns));
		emit_label(e, "place", NULL, "%s",
			   place->known ? stack_frame_text(text, sizeof(text), &place->site) : "not recorded");
		emit_row_end(e);
	}
	emit_table_end(e);
}

/* ---- all ------------------------------------------------------------------------------------- */

unsigned print_facts(struct emit *e, const struct replay *m, const struct replay_device *d,
		     const struct facts *f)
{
	unsigned lines = print_ranks(e, m);

	lines += print_samples(e, m, d, &f->repeat);
	lines += print_unhooked(e, m);
	return lines + print_places(e, &f->places);
}

void print_facts_whole(struct emit *e, const struct facts *f)
{
	if (f->repeat.nr_runs > 1)
		print_each_device(e, &f->repeat);
	if (f->places.nr_places)
		print_each_place(e, &f->places);
}
