/* SPDX-License-Identifier: MIT */
/* Making facts; see fact.h. */
#include "analyzer/findings/fact.h"

#include <string.h>

/* As much of a text as there is room for, with whole characters of UTF-8. */
static void copy_text(char *out, size_t size, const char *text)
{
	size_t len = strlen(text);

	if (len >= size) {
		len = size - 1;
		while (len && ((unsigned char)text[len] & 0xc0) == 0x80)
			len--;
	}
	memcpy(out, text, len);
	out[len] = 0;
}

/* Of a path that is too long the end, which has the file's name: from a '/' on, if one is there. */
static const char *tail_of(const char *path, size_t len)
{
	const char *tail = path + len - (FACT_TEXT_MAX - 1), *slash = strchr(tail, '/');

	return slash ? slash : tail;
}

struct fact fact_bytes(const char *key, uint64_t bytes)
{
	return (struct fact){ .key = key, .unit = FACT_BYTES, .number = bytes };
}

struct fact fact_signed_bytes(const char *key, int64_t bytes)
{
	return (struct fact){ .key = key, .unit = FACT_SIGNED_BYTES, .signed_number = bytes };
}

struct fact fact_count(const char *key, uint64_t count)
{
	return (struct fact){ .key = key, .unit = FACT_COUNT, .number = count };
}

struct fact fact_many(const char *key, uint64_t count)
{
	return (struct fact){ .key = key, .unit = FACT_MANY, .number = count };
}

struct fact fact_step(const char *key, uint64_t step)
{
	return (struct fact){ .key = key, .unit = FACT_STEP, .number = step };
}

struct fact fact_ns(const char *key, uint64_t ns)
{
	return (struct fact){ .key = key, .unit = FACT_NS, .number = ns };
}

struct fact fact_share(const char *key, double part, double whole)
{
	if (whole <= 0)
		return (struct fact){ .key = key };
	return (struct fact){ .key = key, .unit = FACT_SHARE, .ratio = part / whole };
}

struct fact fact_ratio(const char *key, double ratio)
{
	return (struct fact){ .key = key, .unit = FACT_RATIO, .ratio = ratio };
}

struct fact fact_name(const char *key, const char *name)
{
	struct fact f = { .key = key };

	if (name) {
		f.unit = FACT_NAME;
		copy_text(f.text, sizeof(f.text), name);
	}
	return f;
}

struct fact fact_flag(const char *key, bool is_so)
{
	return (struct fact){ .key = key, .unit = is_so ? FACT_FLAG : FACT_ABSENT };
}

struct fact fact_line(const char *key, const char *file, uint32_t line, const char *function)
{
	struct fact f = { .key = key };

	if (file) {
		size_t len = strlen(file);

		f.unit = FACT_SITE;
		f.line = line;
		copy_text(f.text, sizeof(f.text), len < sizeof(f.text) ? file : tail_of(file, len));
		if (function)
			copy_text(f.function, sizeof(f.function), function);
	}
	return f;
}

struct fact fact_site(const char *key, const struct stack_frame *frame)
{
	return fact_line(key, frame->file, frame->line, frame->function);
}

struct fact fact_as(struct fact figure, const char *text)
{
	copy_text(figure.text, sizeof(figure.text), text);
	return figure;
}

struct fact fact_if(bool is_known, struct fact fact)
{
	if (!is_known)
		fact.unit = FACT_ABSENT;
	return fact;
}
