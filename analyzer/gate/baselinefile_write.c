/* SPDX-License-Identifier: MIT */
/* Writing baselines. */
#include <inttypes.h>
#include <string.h>

#include "analyzer/gate/baselinefile.h"

/* How many bytes the UTF-8 sequence at p has; 0 if it is none that TOML allows. */
static size_t utf8_length(const unsigned char *p)
{
	size_t len = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 :
		     *p >= 0xf0 && *p < 0xf5 ? 4 : 0;

	for (size_t i = 1; i < len; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Overlong forms, surrogates, and what lies beyond Unicode. */
	if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] >= 0xa0) || (*p == 0xf0 && p[1] < 0x90) ||
	    (*p == 0xf4 && p[1] >= 0x90))
		return 0;
	return len;
}

static void write_string(FILE *out, const char *text)
{
	fputc('"', out);
	while (*text) {
		size_t len = utf8_length((const unsigned char *)text);

		if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else if ((unsigned char)*text < 0x20 || *text == 0x7f)
			fprintf(out, "\\u%04x", (unsigned)*text);
		else if (len)
			fwrite(text, 1, len, out);
		else
			fputs("\xef\xbf\xbd", out);
		text += len ? len : 1;
	}
	fputc('"', out);
}

static void write_text(FILE *out, const char *key, const char *text)
{
	if (!*text)
		return;
	fprintf(out, "%s = ", key);
	write_string(out, text);
	fputc('\n', out);
}

static void write_callers(FILE *out, const struct footprint_stack *s)
{
	if (!s->nr_callers)
		return;
	fputs("callers = [", out);
	for (uint32_t i = 0; i < s->nr_callers; i++) {
		fputs(i ? ", " : "", out);
		write_string(out, s->caller[i]);
	}
	fputs("]\n", out);
}

static void write_stack(FILE *out, const struct footprint_stack *s)
{
	fputs("\n[[device.stack]]\n", out);
	write_text(out, "file", s->file);
	if (s->line)
		fprintf(out, "line = %" PRIu32 "\n", s->line);
	write_text(out, "function", s->function);
	write_text(out, "node", s->node);
	if (s->from_forward)
		fputs("from_forward = true\n", out);
	write_text(out, "through", s->through);
	write_text(out, "call", s->call);
	write_callers(out, s);
	write_text(out, "shape", s->shape);
	write_text(out, "phase", s->phase);
	write_text(out, "name", s->name);
	write_text(out, "name_in", s->name_in);
	fprintf(out, "blocks = %" PRIu64 "\nbytes = %" PRIu64 "\n", s->blocks, s->bytes);
}

/* A key of TOML without quotes where it can be one. */
static void write_key(FILE *out, const char *key)
{
	static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

	if (*key && !key[strspn(key, bare)])
		fputs(key, out);
	else
		write_string(out, key);
}

static void write_device(FILE *out, const struct footprint_device *d, uint64_t min_bytes)
{
	fprintf(out, "\n[[device]]\n");
	if (d->rank >= 0)
		fprintf(out, "rank = %" PRId64 "\n", d->rank);
	if (d->process)
		fprintf(out, "process = %" PRIu32 "\n", d->process);
	fprintf(out, "ordinal = %" PRIu32 "\n", d->ordinal);
	write_text(out, "name", d->name);
	if (d->capacity_bytes)
		fprintf(out, "capacity_bytes = %" PRIu64 "\n", d->capacity_bytes);
	fputs("\n[device.bytes]\n", out);
	for (int i = 0; i < NR_FIGURES; i++)
		fprintf(out, "%s = %" PRIu64 "\n", footprint_figures[i].key, d->figure[i]);
	for (int by = 0; by < NR_BREAKDOWNS; by++) {
		if (d->nr_parts[by])
			fprintf(out, "\n[device.%s]\n", footprint_breakdowns[by]);
		for (uint32_t i = 0; i < d->nr_parts[by]; i++) {
			write_key(out, d->part[by][i].name);
			fprintf(out, " = %" PRIu64 "\n", d->part[by][i].bytes);
		}
	}
	for (uint32_t i = 0; i < d->nr_stacks; i++)
		if (d->stack[i].bytes >= min_bytes)
			write_stack(out, &d->stack[i]);
}

void baselinefile_write(const struct footprint *f, FILE *out)
{
	fputs("# GPU memory at the peak, written by 'vramtrace baseline'; 'vramtrace check --baseline' compares.\n",
	      out);
	fprintf(out, "schema = \"%s\"\n", BASELINE_SCHEMA);
	write_text(out, "program", f->program);
	write_text(out, "torch", f->torch);
	write_text(out, "simulated", f->simulated);
	write_text(out, "settings", f->settings);
	if (f->world_size >= 0)
		fprintf(out, "world_size = %" PRId64 "\n", f->world_size);
	fprintf(out, "min_bytes = %" PRIu64 "\n", f->min_bytes);
	for (uint32_t i = 0; i < f->nr_devices; i++)
		write_device(out, &f->device[i], f->min_bytes);
}
