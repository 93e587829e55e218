/* SPDX-License-Identifier: MIT */
/* What findings say; see print_said.h. */
#include "analyzer/pages/print_said.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/ui/print_wrapped.h"

#define KEY_MAX 48

unsigned print_said(struct emit *e, const char *lead, const char *indent, struct said said)
{
	char text[SENTENCE_MAX];

	return said.sentence == SAY_nothing ? 0 : print_wrapped(e, lead, indent, sentence_text(text, &said));
}

void print_said_heading(struct emit *e, struct said said)
{
	char text[SENTENCE_MAX];

	emit_heading(e, "%s", sentence_text(text, &said));
}

void print_said_label(struct emit *e, const char *label, struct said said)
{
	char text[SENTENCE_MAX];

	emit_label(e, NULL, label, "%s", sentence_text(text, &said));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* With its unit at the end, if the key does not say it. */
static const char *key_of(char buf[static KEY_MAX], const struct fact *f)
{
	const char *unit = f->unit == FACT_BYTES || f->unit == FACT_SIGNED_BYTES ? "bytes" : f->unit == FACT_NS ? "ns" : "";

	snprintf(buf, KEY_MAX, "%s%s%s", f->key, *unit && strcmp(f->key, unit) ? "_" : "", strcmp(f->key, unit) ? unit : "");
	return buf;
}

static void fact_json(struct emit *e, const struct fact *f)
{
	char key[KEY_MAX];

	key_of(key, f);
	switch (f->unit) {
	case FACT_BYTES:
	case FACT_COUNT:
	case FACT_MANY:
	case FACT_STEP:
	case FACT_NS:
		emit_uint(e, key, NULL, f->number);
		break;
	case FACT_SIGNED_BYTES:
		emit_int(e, key, NULL, f->signed_number);
		break;
	case FACT_SHARE:
	case FACT_RATIO:
		emit_double(e, key, NULL, f->ratio);
		break;
	case FACT_NAME:
		emit_string(e, key, NULL, f->text);
		break;
	case FACT_SITE:
		emit_object_begin(e, key, NULL);
		emit_string(e, "file", NULL, f->text);
		emit_uint(e, "line", NULL, f->line);
		emit_string(e, "function", NULL, *f->function ? f->function : NULL);
		emit_object_end(e);
		break;
	case FACT_FLAG:
		emit_bool(e, key, NULL, true);
		break;
	case FACT_ABSENT:
		break;
	}
}

void sentence_json(struct emit *e, const char *key, const struct said *s)
{
	if (s->sentence == SAY_nothing) {
		emit_null(e, key, NULL);
		return;
	}
	emit_object_begin(e, key, NULL);
	emit_string(e, "says", NULL, sentence_name(s->sentence));
	for (unsigned i = 0; i < s->nr_facts; i++)
		fact_json(e, &s->fact[i]);
	emit_object_end(e);
}

void sentence_json_text(struct emit *e, const struct said *s)
{
	char text[SENTENCE_MAX];

	if (s->sentence != SAY_nothing)
		emit_string(e, NULL, NULL, sentence_text(text, s));
}

void sentence_json_texts(struct emit *e, const char *key, const struct said *said, size_t nr)
{
	emit_array_begin(e, key, NULL);
	for (size_t i = 0; i < nr; i++)
		sentence_json_text(e, &said[i]);
	emit_array_end(e);
}

void sentence_json_facts(struct emit *e, const char *key, const struct said *said, size_t nr)
{
	emit_array_begin(e, key, NULL);
	for (size_t i = 0; i < nr; i++)
		if (said[i].sentence != SAY_nothing)
			sentence_json(e, NULL, &said[i]);
	emit_array_end(e);
}
