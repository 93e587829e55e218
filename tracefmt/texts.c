/* SPDX-License-Identifier: MIT */
/* The strings in definitions: where they lie, and a payload with others. */
#include "tracefmt/tracefmt.h"
#include "tracefmt/varint.h"

#include <stdlib.h>

/*
 * The known part of a payload, field by field: v a varint, s a string, n a varint that says how many varints
 * follow it, * whatever is left.
 */
static const struct {
	const char *fields;
	enum tfmt_text_kind text[TFMT_DEFINITION_TEXTS];
} layouts[] = {
	[TFMT_DEF_FRAME] = { "vvvv*", { 0 } },
	[TFMT_DEF_CODE] = { "vvss*", { TFMT_TEXT_CODE_NAME, TFMT_TEXT_CODE_FILE } },
	[TFMT_DEF_MODULE] = { "vvvss", { TFMT_TEXT_MODULE_PATH, TFMT_TEXT_BUILD_ID } },
	[TFMT_DEF_SHAPE] = { "vvn", { 0 } },
	[TFMT_DEF_THREAD] = { "vs", { TFMT_TEXT_THREAD } },
	[TFMT_DEF_DEVICE] = { "vsssvv", { TFMT_TEXT_DEVICE, TFMT_TEXT_UUID, TFMT_TEXT_PCI_BUS_ID } },
	[TFMT_DEF_FUNCTION] = { "s", { TFMT_TEXT_FUNCTION } },
	[TFMT_DEF_INFO] = { "ss", { TFMT_TEXT_INFO_KEY, TFMT_TEXT_INFO_VALUE } },
	[TFMT_DEF_CLOCK] = { "vv", { 0 } },
	[TFMT_DEF_STRING] = { "s", { TFMT_TEXT_STRING } },
	[TFMT_DEF_PASSES] = { "*", { 0 } },
	[TFMT_DEF_SOURCE] = { "vv", { 0 } },
	[TFMT_DEF_CENSUS] = { "vvvvvvv", { 0 } },
	[TFMT_DEF_OBJECT] = { "vvvvvvvvvvv", { 0 } },
	[TFMT_DEF_TENSOR] = { "vvvvvv", { 0 } },
	[TFMT_DEF_INSTANCE] = { "vs", { TFMT_TEXT_CLASS } },
};

static const char *fields_of(uint32_t type)
{
	return type < sizeof(layouts) / sizeof(*layouts) ? layouts[type].fields : NULL;
}

/* Step over a field that is no string. */
static void skip_field(struct tfmt_cursor *c, char field)
{
	uint64_t nr = 0;

	if (field == '*') {
		c->p = c->end;
		return;
	}
	if (field == 'n')
		nr = tfmt_varint_get(c);
	else
		tfmt_varint_get(c);
	while (nr-- && !c->bad)
		tfmt_varint_get(c);
}

int tfmt_definition_texts(uint32_t type, const uint8_t *payload, size_t len,
			  struct tfmt_text text[TFMT_DEFINITION_TEXTS])
{
	struct tfmt_cursor c = { payload, payload + len, false };
	const char *fields = fields_of(type);
	int nr = 0;

	for (; fields && *fields; fields++) {
		const uint8_t *s = NULL;

		if (*fields != 's') {
			skip_field(&c, *fields);
			continue;
		}
		text[nr] = (struct tfmt_text){ .kind = layouts[type].text[nr] };
		tfmt_string_get(&c, &s, &text[nr].len);
		text[nr++].s = (const char *)s;
	}
	return c.bad ? TFMT_E_DAMAGED : nr;
}

int tfmt_definition_rewrite(uint32_t type, const uint8_t *payload, size_t len, const struct tfmt_text *text,
			    uint8_t **out, size_t *out_len)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	struct tfmt_text old[TFMT_DEFINITION_TEXTS];
	const char *fields = fields_of(type);
	int nr = tfmt_definition_texts(type, payload, len, old);
	size_t room = len + 1;
	uint8_t *p;

	*out = NULL;
	if (!fields || nr < 0)
		return fields ? nr : TFMT_E_INVALID;
	for (int i = 0; i < nr; i++)
		room += text[i].len + TFMT_VARINT_MAX;
	p = *out = malloc(room);
	if (!p)
		return TFMT_E_NOMEM;
	for (; *fields; fields++) {
		const uint8_t *from = c.p;

		if (*fields == 's') {
			tfmt_string_get(&c, &from, &len);
			p = tfmt_put_string(p, text->s, text->len);
			text++;
			continue;
		}
		skip_field(&c, *fields);
		if (c.p > from)
			memcpy(p, from, (size_t)(c.p - from));
		p += c.p - from;
	}
	*out_len = (size_t)(p - *out);
	return 0;
}
