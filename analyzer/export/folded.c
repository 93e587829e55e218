/* SPDX-License-Identifier: MIT */
/* folded: a line for each stack, the outermost frame first: "main (train.py:9);step (train.py:36) 4096". */
#include <inttypes.h>

#include "analyzer/command.h"
#include "analyzer/export/formats.h"
#include "analyzer/export/weights.h"
#include "analyzer/recording/basename.h"

/* A frame must not hold what separates frames, or ends lines. */
static void write_text(FILE *out, const char *text)
{
	for (; *text; text++)
		putc_unlocked(*text == ';' ? ':' : (unsigned char)*text < 0x20 ? ' ' : *text, out);
}

static void write_frame(FILE *out, const struct frame *f)
{
	write_text(out, f->name);
	if (!f->file || !f->line)
		return;
	fputs(" (", out);
	write_text(out, basename_of(f->file));
	fprintf(out, ":%" PRIu32 ")", f->line);
}

static void write_device(struct export *x, const struct replay_device *d, struct frames *f)
{
	struct weights w;

	weights_find(&w, x, d, x->at);
	for (size_t i = 0; i < w.nr_rows; i++) {
		weight_frames_of_device(f, x, d, &w.row[i]);
		for (uint32_t k = 0; k < f->nr_frames; k++) {
			if (k)
				putc_unlocked(';', x->out);
			write_frame(x->out, &f->frame[k]);
		}
		fprintf(x->out, " %" PRId64 "\n", w.row[i].bytes);
	}
	weights_release(&w);
}

int folded_write(struct export *x)
{
	struct frames f = { 0 };

	for (size_t i = 0; i < x->replay->nr_devices; i++)
		if (export_wants_device(x, &x->replay->device[i]))
			write_device(x, &x->replay->device[i], &f);
	frames_release(&f);
	return CMD_FINE;
}
