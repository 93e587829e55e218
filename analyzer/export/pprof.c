/* SPDX-License-Identifier: MIT */
/*
 * pprof: profile.proto, gzipped. Samples are stacks, with four values as those of Go's heap profiles: what was allocated in
 * all, and what was held at the moment. Devices, processes and ranks are labels.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/export/formats.h"
#include "analyzer/export/weights.h"
#include "analyzer/export/wire.h"

/* Numbers of fields, as the format's description has them. */
enum { PROFILE_SAMPLE_TYPE = 1, PROFILE_SAMPLE = 2, PROFILE_LOCATION = 4, PROFILE_FUNCTION = 5, PROFILE_STRING = 6,
       PROFILE_TIME = 9, PROFILE_DURATION = 10, PROFILE_COMMENT = 13, PROFILE_DEFAULT_TYPE = 14 };
enum { VALUE_TYPE = 1, VALUE_UNIT = 2 };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE = 2, SAMPLE_LABEL = 3 };
enum { LABEL_KEY = 1, LABEL_STRING = 2, LABEL_NUMBER = 3, LABEL_UNIT = 4 };
enum { LOCATION_ID = 1, LOCATION_LINE = 4 };
enum { LINE_FUNCTION = 1, LINE_NUMBER = 2 };
enum { FUNCTION_ID = 1, FUNCTION_NAME = 2, FUNCTION_SYSTEM_NAME = 3, FUNCTION_FILE = 4 };

struct pprof {
	gzFile file;
	bool has_failed;
	struct frames frames;
	struct textset strings;     /* index = number - 1; the first is "" */
	struct keyset functions; /* of name and file */
	struct wire field, part, inner; /* scratch */
};

/* ---- writing ----------------------------------------------------------------------------------- */

/* Write the field of the profile that has been made. */
static void put_field(struct pprof *p)
{
	if (!p->has_failed && gzwrite(p->file, p->field.byte, (unsigned)p->field.nr_bytes) <= 0)
		p->has_failed = true;
	wire_clear(&p->field);
}

static void put(struct pprof *p, uint32_t number, const struct wire *message)
{
	wire_message(&p->field, number, message);
	put_field(p);
}

static void put_uint(struct pprof *p, uint32_t number, uint64_t value)
{
	wire_uint(&p->field, number, value);
	put_field(p);
}

/* The place of a text in the table of strings. */
static uint64_t string(struct pprof *p, const char *text)
{
	return textset_add(&p->strings, 0, text, strlen(text))->number - 1;
}

static void put_sample_type(struct pprof *p, const char *type, const char *unit)
{
	wire_clear(&p->part);
	wire_uint(&p->part, VALUE_TYPE, string(p, type));
	wire_uint(&p->part, VALUE_UNIT, string(p, unit));
	put(p, PROFILE_SAMPLE_TYPE, &p->part);
}

static uint32_t put_function(struct pprof *p, const struct frame *f)
{
	bool is_new;
	uint32_t id = 1 + keyset_add(&p->functions, (struct keyset_key){ { f->name_number, f->file_number } }, &is_new);

	if (!is_new)
		return id;
	wire_clear(&p->part);
	wire_uint(&p->part, FUNCTION_ID, id);
	wire_uint(&p->part, FUNCTION_NAME, string(p, f->name));
	wire_uint(&p->part, FUNCTION_SYSTEM_NAME, string(p, f->name));
	wire_uint(&p->part, FUNCTION_FILE, string(p, f->file ? f->file : ""));
	put(p, PROFILE_FUNCTION, &p->part);
	return id;
}

static void put_location(struct pprof *p, const struct frame *f)
{
	uint32_t function = put_function(p, f);

	wire_clear(&p->inner);
	wire_uint(&p->inner, LINE_FUNCTION, function);
	wire_uint(&p->inner, LINE_NUMBER, f->line);
	wire_clear(&p->part);
	wire_uint(&p->part, LOCATION_ID, f->number);
	wire_message(&p->part, LOCATION_LINE, &p->inner);
	put(p, PROFILE_LOCATION, &p->part);
}

/* ---- samples ----------------------------------------------------------------------------------- */

/* With a unit, as pprof takes a number that is 0 and has none for no label: the first GPU and rank would have none. */
static void label_number(struct pprof *p, const char *key, uint64_t value)
{
	wire_clear(&p->inner);
	wire_uint(&p->inner, LABEL_KEY, string(p, key));
	wire_uint(&p->inner, LABEL_NUMBER, value);
	wire_uint(&p->inner, LABEL_UNIT, string(p, "count"));
	wire_message(&p->part, SAMPLE_LABEL, &p->inner);
}

static void label_text(struct pprof *p, const char *key, const char *text)
{
	wire_clear(&p->inner);
	wire_uint(&p->inner, LABEL_KEY, string(p, key));
	wire_uint(&p->inner, LABEL_STRING, string(p, text));
	wire_message(&p->part, SAMPLE_LABEL, &p->inner);
}

static void put_sample(struct pprof *p, const struct replay_device *d, const struct weight *w, bool in_all)
{
	const struct frames *f = &p->frames;
	char title[512];

	for (uint32_t i = 0; i < f->nr_frames; i++)
		if (f->frame[i].is_new)
			put_location(p, &f->frame[i]);
	wire_clear(&p->inner);
	for (uint32_t i = f->nr_frames; i-- > 0;)
		wire_number(&p->inner, f->frame[i].number);
	wire_clear(&p->part);
	wire_message(&p->part, SAMPLE_LOCATION, &p->inner);
	wire_clear(&p->inner);
	wire_number(&p->inner, in_all ? (uint64_t)w->blocks : 0);
	wire_number(&p->inner, in_all ? (uint64_t)w->bytes : 0);
	wire_number(&p->inner, in_all ? 0 : (uint64_t)w->blocks);
	wire_number(&p->inner, in_all ? 0 : (uint64_t)w->bytes);
	wire_message(&p->part, SAMPLE_VALUE, &p->inner);
	label_text(p, "gpu", export_device_title(title, sizeof(title), d));
	label_number(p, "device", d->ordinal);
	label_number(p, "pid", d->process->header->pid);
	if (d->process->rank >= 0)
		label_number(p, "rank", (uint64_t)d->process->rank);
	put(p, PROFILE_SAMPLE, &p->part);
}

static void put_device(struct pprof *p, const struct export *x, const struct replay_device *d, enum export_at at)
{
	struct weights w;

	weights_find(&w, x, d, at);
	for (size_t i = 0; i < w.nr_rows; i++) {
		weight_frames(&p->frames, x, d, &w.row[i]);
		put_sample(p, d, &w.row[i], at == EXPORT_ALL);
	}
	weights_release(&w);
}

/* ---- all --------------------------------------------------------------------------------------- */

static void put_head(struct pprof *p, const struct export *x)
{
	bool in_all = x->at == EXPORT_ALL;

	string(p, "");
	put_sample_type(p, "alloc_objects", "count");
	put_sample_type(p, "alloc_space", "bytes");
	put_sample_type(p, "inuse_objects", "count");
	put_sample_type(p, "inuse_space", "bytes");
	put_uint(p, PROFILE_DEFAULT_TYPE, string(p, in_all ? "alloc_space" : "inuse_space"));
	put_uint(p, PROFILE_TIME, x->replay->process[0].header->start_real_ns);
	put_uint(p, PROFILE_DURATION, x->replay->duration_ns);
	put_uint(p, PROFILE_COMMENT, string(p, x->at == EXPORT_END ? "vramtrace: inuse is of the end of the recording"
								   : "vramtrace: inuse is of the peak"));
}

static void put_strings(struct pprof *p)
{
	for (size_t i = 0; i < p->strings.nr_members; i++) {
		wire_text(&p->field, PROFILE_STRING, p->strings.member[i]->text);
		put_field(p);
	}
}

static void pprof_release(struct pprof *p)
{
	frames_release(&p->frames);
	textset_release(&p->strings);
	keyset_release(&p->functions);
	wire_release(&p->field);
	wire_release(&p->part);
	wire_release(&p->inner);
}

/* The samples of a moment go with those of all allocations: a viewer adds up samples of one stack. */
static void put_profile(struct pprof *p, const struct export *x)
{
	enum export_at moment = x->at == EXPORT_END ? EXPORT_END : EXPORT_PEAK;

	put_head(p, x);
	for (size_t i = 0; i < x->replay->nr_devices; i++) {
		if (!export_wants_device(x, &x->replay->device[i]))
			continue;
		put_device(p, x, &x->replay->device[i], moment);
		put_device(p, x, &x->replay->device[i], EXPORT_ALL);
	}
	put_strings(p);
}

int pprof_write(struct export *x)
{
	struct pprof p = { 0 };
	int fd, ret = CMD_FINE;

	fflush(x->out);
	fd = dup(fileno(x->out));
	p.file = fd < 0 ? NULL : gzdopen(fd, "wb");
	if (p.file)
		put_profile(&p, x);
	if (!p.file || gzclose(p.file) != Z_OK || p.has_failed)
		ret = message_error("cannot write the profile: %s", strerror(errno));
	pprof_release(&p);
	return ret;
}
