/* SPDX-License-Identifier: MIT */
/* speedscope: one JSON document, with a profile for each device; a sample for each stack, its weight in bytes. */
#include <inttypes.h>
#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/command.h"
#include "analyzer/export/formats.h"
#include "analyzer/base/jsontext.h"
#include "analyzer/export/weights.h"

/* The document names frames by their place in its list, which comes last: it is made of what samples have used. */
struct speedscope {
	FILE *out;
	struct frames frames;
	struct frame *known; /* by number, from 0 */
	size_t nr_known, room;
};

static void keep_new_frames(struct speedscope *s)
{
	for (uint32_t i = 0; i < s->frames.nr_frames; i++) {
		if (!s->frames.frame[i].is_new)
			continue;
		s->known = heap_grow(s->known, &s->room, s->nr_known + 1, sizeof(*s->known));
		s->known[s->nr_known++] = s->frames.frame[i];
	}
}

static void write_samples(struct speedscope *s, const struct export *x, const struct replay_device *d,
			  const struct weights *w)
{
	fputs("\"samples\":[", s->out);
	for (size_t i = 0; i < w->nr_rows; i++) {
		weight_frames(&s->frames, x, d, &w->row[i]);
		keep_new_frames(s);
		fputs(i ? ",\n[" : "\n[", s->out);
		for (uint32_t k = 0; k < s->frames.nr_frames; k++)
			fprintf(s->out, "%s%" PRIu32, k ? "," : "", s->frames.frame[k].number - 1);
		putc(']', s->out);
	}
	fputs("],\n\"weights\":[", s->out);
	for (size_t i = 0; i < w->nr_rows; i++)
		fprintf(s->out, "%s%" PRId64, i ? "," : "", w->row[i].bytes);
	putc(']', s->out);
}

static void write_profile(struct speedscope *s, const struct export *x, const struct replay_device *d)
{
	int64_t total = 0;
	struct weights w;
	char title[512];

	weights_find(&w, x, d, x->at);
	for (size_t i = 0; i < w.nr_rows; i++)
		total += w.row[i].bytes;
	fputs("{\"type\":\"sampled\",\"name\":", s->out);
	jsontext_write(s->out, export_device_title(title, sizeof(title), d));
	fprintf(s->out, ",\"unit\":\"bytes\",\"startValue\":0,\"endValue\":%" PRId64 ",\n", total);
	write_samples(s, x, d, &w);
	putc('}', s->out);
	weights_release(&w);
}

static void write_frames(const struct speedscope *s)
{
	fputs("\"shared\":{\"frames\":[", s->out);
	for (size_t i = 0; i < s->nr_known; i++) {
		const struct frame *f = &s->known[i];

		fputs(i ? ",\n{\"name\":" : "\n{\"name\":", s->out);
		jsontext_write(s->out, f->name);
		if (f->file) {
			fputs(",\"file\":", s->out);
			jsontext_write(s->out, f->file);
		}
		if (f->line)
			fprintf(s->out, ",\"line\":%" PRIu32, f->line);
		putc('}', s->out);
	}
	fputs("]}}\n", s->out);
}

int speedscope_write(struct export *x)
{
	static const char *const moments[] = { "at the peak", "at the end", "allocated in all" };
	struct speedscope s = { .out = x->out };
	bool any = false;

	fputs("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"vramtrace\",\"name\":",
	      x->out);
	jsontext_write(x->out, moments[x->at]);
	fputs(",\"activeProfileIndex\":0,\n\"profiles\":[", x->out);
	for (size_t i = 0; i < x->replay->nr_devices; i++) {
		if (!export_wants_device(x, &x->replay->device[i]))
			continue;
		fputs(any ? ",\n" : "\n", x->out);
		any = true;
		write_profile(&s, x, &x->replay->device[i]);
	}
	fputs("],\n", x->out);
	write_frames(&s);
	frames_release(&s.frames);
	free(s.known);
	return CMD_FINE;
}
