/* SPDX-License-Identifier: MIT */
/* Findings in words; see sentence.h. */
#include "analyzer/findings/sentence.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"

#define KEY_MAX 48

static const struct {
	const char *name, *text;
} sentences[NR_SENTENCES] = {
	[SAY_nothing] = { NULL, "" },
#define SENTENCE(name, text) [SAY_##name] = { #name, text },
#include "analyzer/findings/sentences.def"
#undef SENTENCE
};

const char *sentence_words(enum sentence sentence)
{
	return sentences[sentence].text;
}

const char *sentence_name(enum sentence sentence)
{
	return sentences[sentence].name;
}

/* Where text goes: bytes beyond the room are counted only. */
struct out {
	char *buf;
	size_t used, size;
};

static void put(struct out *o, const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++, o->used++)
		if (o->used + 1 < o->size)
			o->buf[o->used] = text[i];
}

static void put_text(struct out *o, const char *text)
{
	put(o, text, strlen(text));
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "4", "1.5", "1,024": three digits are enough of a ratio. */
static void put_ratio(struct out *o, double ratio)
{
	char text[HUMAN_MAX];

	if (ratio < 1000)
		snprintf(text, sizeof(text), "%.3g", ratio);
	else
		human_count(text, (uint64_t)ratio);
	put_text(o, text);
}

static void put_fact(struct out *o, const struct fact *f)
{
	char text[HUMAN_MAX];

	if (*f->text && f->unit != FACT_SITE) {
		put_text(o, f->text);
		return;
	}
	switch (f->unit) {
	case FACT_BYTES:
		put_text(o, human_bytes(text, f->number));
		break;
	case FACT_SIGNED_BYTES:
		put_text(o, human_signed_bytes(text, f->signed_number));
		break;
	case FACT_COUNT:
	case FACT_STEP:
		snprintf(text, sizeof(text), "%" PRIu64, f->number);
		put_text(o, text);
		break;
	case FACT_MANY:
		put_text(o, human_count(text, f->number));
		break;
	case FACT_NS:
		put_text(o, human_ns(text, f->number));
		break;
	case FACT_SHARE:
		put_text(o, human_percent(text, f->ratio, 1));
		break;
	case FACT_RATIO:
		put_ratio(o, f->ratio);
		break;
	case FACT_SITE:
		put_text(o, file_name(f->text));
		snprintf(text, sizeof(text), ":%" PRIu32, f->line);
		put_text(o, text);
		break;
	case FACT_NAME: /* an empty one */
	case FACT_FLAG:
	case FACT_ABSENT:
		break;
	}
}

/* "block" for one, "blocks" for others; of "entry/entries" the one or the other. */
static void put_noun(struct out *o, const struct fact *f, const char *noun, size_t len)
{
	const char *slash = memchr(noun, '/', len);
	size_t one = slash ? (size_t)(slash - noun) : len;
	bool is_one = f->number == 1;

	put_text(o, " ");
	if (is_one || !slash) {
		put(o, noun, one);
		if (!is_one)
			put_text(o, "s");
		return;
	}
	put(o, slash + 1, len - one - 1);
}

/* A key in braces, without them: "bytes", "blocks:block", "site.function". Returns false if there is no such fact. */
static bool put_key(struct out *o, const struct said *s, const char *at, size_t len)
{
	const char *part = memchr(at, ':', len), *dot = memchr(at, '.', len);
	size_t key_len = part ? (size_t)(part - at) : dot ? (size_t)(dot - at) : len;
	const struct fact *f;
	char key[KEY_MAX];

	snprintf(key, sizeof(key), "%.*s", (int)key_len, at);
	f = said_fact(s, key);
	if (!f || (dot && !*f->function))
		return false;
	if (dot) {
		put_text(o, f->function);
		return true;
	}
	put_fact(o, f);
	if (part)
		put_noun(o, f, part + 1, len - key_len - 1);
	return true;
}

/* Up to the end of the text or the bracket that closes it. Returns false if a fact was missing. */
static bool put_part(struct out *o, const struct said *s, const char **text)
{
	bool is_all_there = true;
	const char *t = *text;

	while (*t && *t != ']') {
		if (*t == '[') {
			size_t before = o->used;

			t++;
			if (!put_part(o, s, &t))
				o->used = before;
			t += *t == ']';
		} else if (*t == '{') {
			size_t len = strcspn(t + 1, "}");

			if (!put_key(o, s, t + 1, len)) {
				is_all_there = false;
				put_text(o, "?");
			}
			t += len + 2;
		} else {
			put(o, t++, 1);
		}
	}
	*text = t;
	return is_all_there;
}

const char *sentence_text(char buf[static SENTENCE_MAX], const struct said *s)
{
	struct out o = { .buf = buf, .size = SENTENCE_MAX };
	const char *text = sentences[s->sentence].text;

	put_part(&o, s, &text);
	buf[o.used < o.size ? o.used : o.size - 1] = 0;
	return buf;
}
