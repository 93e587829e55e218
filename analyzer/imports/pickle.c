/* SPDX-License-Identifier: MIT */
/* The machine that a pickle is a program of: its opcodes but for those that would run something. */
#include "analyzer/imports/pickle.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/imports/pickleinput.h"
#include "analyzer/imports/pickleobjects.h"

#define TEXT_MAX (64u << 20)
#define LINE_MAX_BYTES (1u << 20) /* of protocol 0 */
/* What objects may take: CPython's own pickles of snapshots need a quarter of it at most. */
#define MEMORY_MIN (64u << 20)
#define MEMORY_FACTOR 24

struct pickle {
	struct pickleinput in;
	struct pickleobjects objects;
	const struct pickle_hooks *hooks;
	struct pickle_value *stack;
	size_t nr_stack, stack_room;
	uint32_t *mark; /* places in the stack */
	size_t nr_marks, marks_room;
	uint32_t nr_memoized; /* the number that MEMOIZE gives next */
	uint64_t opcode_at;
	char trouble[256];
};

static int failed(struct pickle *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int failed(struct pickle *p, const char *format, ...)
{
	va_list args;
	size_t len;

	va_start(args, format);
	vsnprintf(p->trouble, sizeof(p->trouble), format, args);
	va_end(args);
	len = strlen(p->trouble);
	snprintf(p->trouble + len, sizeof(p->trouble) - len, " (at byte %" PRIu64 ")", p->opcode_at);
	return -1;
}

static int failed_reading(struct pickle *p)
{
	if (p->in.error)
		return failed(p, "it cannot be read: %s", strerror(p->in.error));
	p->opcode_at = pickleinput_offset(&p->in);
	return failed(p, "it is cut off");
}

/* ---- the stack ---------------------------------------------------------------------------------- */

/* The stack has the caller's reference from now on. */
static int push(struct pickle *p, struct pickle_value v)
{
	p->stack = heap_grow(p->stack, &p->stack_room, p->nr_stack + 1, sizeof(*p->stack));
	p->stack[p->nr_stack++] = v;
	return 0;
}

static int push_number(struct pickle *p, enum pickle_type type, int64_t number)
{
	return push(p, (struct pickle_value){ .type = type, .integer = number });
}

static int push_text(struct pickle *p, const uint8_t *text, size_t len)
{
	struct pickle_value v = pickleobjects_text(&p->objects, (const char *)text, (uint32_t)len);
	struct pickleobject *b = &p->objects.object[v.object];

	for (unsigned i = 0; p->hooks->words[i] && !b->word; i++)
		if (!strcmp(p->hooks->words[i], b->text) && strlen(b->text) == len)
			b->word = (uint8_t)(i + 1);
	return push(p, v);
}

/* Where the values since the latest mark, or since the beginning, begin. */
static size_t bottom(const struct pickle *p)
{
	return p->nr_marks ? p->mark[p->nr_marks - 1] : 0;
}

static int underflow(struct pickle *p)
{
	return failed(p, "it takes from an empty stack");
}

/* The value on top, if there are n above the latest mark. */
static struct pickle_value *top_of(struct pickle *p, size_t n)
{
	return p->nr_stack - bottom(p) >= n ? &p->stack[p->nr_stack - n] : NULL;
}

/* The container below the latest mark, which ends there; its type must be this. *from: the first value after it. */
static int container_below(struct pickle *p, enum pickle_type type, uint32_t *container, size_t *from)
{
	if (!p->nr_marks)
		return failed(p, "it asks for a mark that is not there");
	*from = p->mark[--p->nr_marks];
	if (*from <= bottom(p))
		return underflow(p);
	if (p->stack[*from - 1].type != type)
		return failed(p, "it adds items to what is no %s", type == PICKLE_LIST ? "list" : "dict");
	*container = p->stack[*from - 1].object;
	return 0;
}

/* ---- containers ---------------------------------------------------------------------------------- */

static void list_add(struct pickle *p, uint32_t list, struct pickle_value item)
{
	struct pickle_value v = { .type = PICKLE_LIST, .object = list };

	if (!p->hooks->append || !p->hooks->append(p->hooks->ctx, p, v, item)) {
		pickleobjects_add(&p->objects, list, item);
		return;
	}
	if (pickleobjects_is_object(item))
		pickleobjects_forget(&p->objects, item);
	pickleobjects_drop(&p->objects, item);
}

static void dict_add(struct pickle *p, uint32_t dict, struct pickle_value key, struct pickle_value value)
{
	struct pickle_value before = value;

	if (p->hooks->set)
		p->hooks->set(p->hooks->ctx, p, key, &value);
	if (value.type == PICKLE_OWN && before.type != PICKLE_OWN)
		pickleobjects_drop(&p->objects, before);
	pickleobjects_add(&p->objects, dict, key);
	pickleobjects_add(&p->objects, dict, value);
}

static int append_items(struct pickle *p)
{
	uint32_t list;
	size_t from;

	if (container_below(p, PICKLE_LIST, &list, &from))
		return -1;
	for (size_t i = from; i < p->nr_stack; i++)
		list_add(p, list, p->stack[i]);
	p->nr_stack = from;
	return 0;
}

static int set_items(struct pickle *p)
{
	uint32_t dict;
	size_t from;

	if (container_below(p, PICKLE_DICT, &dict, &from))
		return -1;
	if ((p->nr_stack - from) % 2)
		return failed(p, "it has a key without a value");
	for (size_t i = from; i < p->nr_stack; i += 2)
		dict_add(p, dict, p->stack[i], p->stack[i + 1]);
	p->nr_stack = from;
	return 0;
}

static int append_one(struct pickle *p)
{
	struct pickle_value *list = top_of(p, 2);

	if (!list)
		return underflow(p);
	if (list->type != PICKLE_LIST)
		return failed(p, "it adds an item to what is no list");
	p->nr_stack--;
	list_add(p, list->object, list[1]);
	return 0;
}

static int set_one(struct pickle *p)
{
	struct pickle_value *dict = top_of(p, 3);

	if (!dict)
		return underflow(p);
	if (dict->type != PICKLE_DICT)
		return failed(p, "it adds an item to what is no dict");
	p->nr_stack -= 2;
	dict_add(p, dict->object, dict[1], dict[2]);
	return 0;
}

/* A new container takes the place of the last n values. */
static int gather(struct pickle *p, enum pickle_type type, size_t n)
{
	struct pickle_value v;

	if (p->nr_stack - bottom(p) < n)
		return underflow(p);
	v = pickleobjects_new(&p->objects, type);
	p->nr_stack -= n;
	for (size_t i = p->nr_stack; i < p->nr_stack + n; i++) {
		if (type == PICKLE_TUPLE)
			pickleobjects_add(&p->objects, v.object, p->stack[i]);
		else if (type == PICKLE_LIST)
			list_add(p, v.object, p->stack[i]);
		else if ((i - p->nr_stack) % 2)
			dict_add(p, v.object, p->stack[i - 1], p->stack[i]);
	}
	return push(p, v);
}

/* As above, of the values since the latest mark. */
static int gather_marked(struct pickle *p, enum pickle_type type)
{
	size_t n = p->nr_stack - bottom(p);

	if (!p->nr_marks)
		return failed(p, "it asks for a mark that is not there");
	if (type == PICKLE_DICT && n % 2)
		return failed(p, "it has a key without a value");
	p->nr_marks--;
	return gather(p, type, n);
}

static int push_mark(struct pickle *p)
{
	p->mark = heap_grow(p->mark, &p->marks_room, p->nr_marks + 1, sizeof(*p->mark));
	p->mark[p->nr_marks++] = (uint32_t)p->nr_stack;
	return 0;
}

static int pop(struct pickle *p)
{
	if (p->nr_stack > bottom(p))
		pickleobjects_drop(&p->objects, p->stack[--p->nr_stack]);
	else if (p->nr_marks)
		p->nr_marks--;
	else
		return underflow(p);
	return 0;
}

static int pop_mark(struct pickle *p)
{
	if (!p->nr_marks)
		return failed(p, "it asks for a mark that is not there");
	while (p->nr_stack > bottom(p))
		pickleobjects_drop(&p->objects, p->stack[--p->nr_stack]);
	p->nr_marks--;
	return 0;
}

static int duplicate(struct pickle *p)
{
	struct pickle_value *v = top_of(p, 1);

	if (!v)
		return underflow(p);
	pickleobjects_hold(&p->objects, *v);
	return push(p, *v);
}

/* ---- the memo ------------------------------------------------------------------------------------ */

/* Numbers come one by one, each with an opcode: a larger one is no pickler's. */
static int memoize(struct pickle *p, uint64_t number)
{
	struct pickle_value *v = top_of(p, 1);

	if (!v)
		return underflow(p);
	if (number > pickleinput_offset(&p->in) || number >= UINT32_MAX)
		return failed(p, "it remembers something under the number %" PRIu64 ", which is too large", number);
	pickleobjects_memoize(&p->objects, (uint32_t)number, *v);
	p->nr_memoized++;
	return 0;
}

static int recall(struct pickle *p, uint64_t number)
{
	struct pickle_value v = pickleobjects_recall(&p->objects, number);

	if (v.type == PICKLE_NONE)
		return failed(p, "it asks again for number %" PRIu64 ", which is not remembered", number);
	pickleobjects_hold(&p->objects, v);
	return push(p, v);
}

/* ---- numbers and texts --------------------------------------------------------------------------- */

/* An unsigned number of n bytes, little endian. */
static int take_uint(struct pickle *p, size_t n, uint64_t *number)
{
	const uint8_t *b = pickleinput_take(&p->in, n);

	*number = 0;
	if (!b)
		return failed_reading(p);
	for (size_t i = 0; i < n; i++)
		*number |= (uint64_t)b[i] << 8 * i;
	return 0;
}

static int fixed_int(struct pickle *p, size_t n)
{
	uint64_t number;

	if (take_uint(p, n, &number))
		return -1;
	return push_number(p, PICKLE_INT, n == 4 ? (int32_t)number : (int64_t)number);
}

/* LONG1 and LONG4: two's complement of any length. */
static int long_int(struct pickle *p, size_t length_bytes)
{
	uint64_t n, number = 0;
	const uint8_t *b;

	if (take_uint(p, length_bytes, &n))
		return -1;
	if (n > sizeof(number))
		return failed(p, "it has an integer of more than 64 bits");
	b = pickleinput_take(&p->in, n);
	if (!b)
		return failed_reading(p);
	for (size_t i = 0; i < n; i++)
		number |= (uint64_t)b[i] << 8 * i;
	if (n && n < sizeof(number) && b[n - 1] & 0x80)
		number |= ~0ull << 8 * n;
	return push_number(p, PICKLE_INT, (int64_t)number);
}

static int binary_float(struct pickle *p)
{
	const uint8_t *b = pickleinput_take(&p->in, 8);
	struct pickle_value v = { .type = PICKLE_FLOAT };
	uint64_t bits = 0;

	if (!b)
		return failed_reading(p);
	for (int i = 0; i < 8; i++)
		bits = bits << 8 | b[i];
	memcpy(&v.real, &bits, sizeof(bits));
	return push(p, v);
}

static int binary_text(struct pickle *p, size_t length_bytes)
{
	const uint8_t *text;
	uint64_t len;

	if (take_uint(p, length_bytes, &len))
		return -1;
	if (len > TEXT_MAX)
		return failed(p, "it has a text of %" PRIu64 " bytes", len);
	text = pickleinput_take(&p->in, len);
	return text ? push_text(p, text, len) : failed_reading(p);
}

/* ---- protocol 0: lines --------------------------------------------------------------------------- */

/* The next line, terminated, in buf. */
static int take_line(struct pickle *p, char *buf, size_t size)
{
	size_t len;
	const uint8_t *line = pickleinput_line(&p->in, size - 1, &len);

	if (!line || len >= size)
		return failed_reading(p);
	memcpy(buf, line, len);
	buf[len] = 0;
	return 0;
}

static int line_int(struct pickle *p, bool may_be_bool)
{
	char line[32], *end;
	long long number;

	if (take_line(p, line, sizeof(line)))
		return -1;
	if (may_be_bool && (!strcmp(line, "00") || !strcmp(line, "01")))
		return push_number(p, PICKLE_BOOL, line[1] == '1');
	errno = 0;
	number = strtoll(line, &end, 10);
	if (errno || end == line || (*end && strcmp(end, "L") != 0))
		return failed(p, "it has an integer that is none, or has more than 64 bits");
	return push_number(p, PICKLE_INT, number);
}

static int line_float(struct pickle *p)
{
	struct pickle_value v = { .type = PICKLE_FLOAT };
	char line[64], *end;

	if (take_line(p, line, sizeof(line)))
		return -1;
	v.real = strtod(line, &end);
	return end == line || *end ? failed(p, "it has a float that is none") : push(p, v);
}

/* One character as UTF-8; returns how many bytes. */
static size_t put_utf8(uint8_t *out, uint32_t c)
{
	if (c < 0x80)
		return out[0] = (uint8_t)c, 1;
	if (c < 0x800)
		return out[0] = (uint8_t)(0xc0 | c >> 6), out[1] = (uint8_t)(0x80 | (c & 63)), 2;
	if (c < 0x10000) {
		out[0] = (uint8_t)(0xe0 | c >> 12);
		out[1] = (uint8_t)(0x80 | (c >> 6 & 63));
		out[2] = (uint8_t)(0x80 | (c & 63));
		return 3;
	}
	out[0] = (uint8_t)(0xf0 | (c >> 18 & 7));
	out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
	out[2] = (uint8_t)(0x80 | (c >> 6 & 63));
	out[3] = (uint8_t)(0x80 | (c & 63));
	return 4;
}

/* Raw-unicode-escape: Latin-1 with \uXXXX and \UXXXXXXXX. */
static int line_text(struct pickle *p)
{
	size_t len, n = 0;
	const uint8_t *line = pickleinput_line(&p->in, LINE_MAX_BYTES, &len);
	uint8_t *text;
	int err;

	if (!line)
		return failed_reading(p);
	text = heap_alloc(2 * len + 1, 1);
	for (size_t i = 0; i < len; i++) {
		size_t digits = line[i] == '\\' && i + 1 < len ? (line[i + 1] == 'u' ? 4 : line[i + 1] == 'U' ? 8 : 0) : 0;
		char hex[9] = "";

		if (digits && i + 2 + digits <= len) {
			memcpy(hex, line + i + 2, digits);
			n += put_utf8(text + n, (uint32_t)strtoul(hex, NULL, 16));
			i += 1 + digits;
		} else {
			n += put_utf8(text + n, line[i]);
		}
	}
	err = push_text(p, text, n);
	free(text);
	return err;
}

static int line_memo(struct pickle *p, int (*use)(struct pickle *, uint64_t))
{
	char line[32], *end;
	uint64_t number;

	if (take_line(p, line, sizeof(line)))
		return -1;
	number = strtoull(line, &end, 10);
	return end == line || *end ? failed(p, "it has a number that is none") : use(p, number);
}

/* ---- opcodes ------------------------------------------------------------------------------------- */

static int refuse(struct pickle *p, uint8_t opcode)
{
	static const struct {
		uint8_t opcode;
		const char *name, *what;
	} refused[] = {
#define OP(opcode, name, what) { opcode, name, what },
#include "analyzer/imports/pickleops.def"
#undef OP
	};

	for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
		if (refused[i].opcode == opcode)
			return failed(p, "its opcode %s would %s, which no memory snapshot needs", refused[i].name,
				      refused[i].what);
	return failed(p, "it has an opcode 0x%02x, which pickles do not have", opcode);
}

static int memo_op(struct pickle *p, size_t n, int (*use)(struct pickle *, uint64_t))
{
	uint64_t number;

	return take_uint(p, n, &number) ? -1 : use(p, number);
}

/* PROTO and FRAME, which say nothing that matters. */
static int skip(struct pickle *p, size_t n)
{
	return pickleinput_take(&p->in, n) ? 0 : failed_reading(p);
}

static int step(struct pickle *p, uint8_t opcode)
{
	switch (opcode) {
	case 0x80: return skip(p, 1);
	case 0x95: return skip(p, 8);
	case '(': return push_mark(p);
	case '0': return pop(p);
	case '1': return pop_mark(p);
	case '2': return duplicate(p);
	case 'N': return push_number(p, PICKLE_NONE, 0);
	case 0x88: return push_number(p, PICKLE_BOOL, 1);
	case 0x89: return push_number(p, PICKLE_BOOL, 0);
	case 'K': return fixed_int(p, 1);
	case 'M': return fixed_int(p, 2);
	case 'J': return fixed_int(p, 4);
	case 0x8a: return long_int(p, 1);
	case 0x8b: return long_int(p, 4);
	case 'G': return binary_float(p);
	case 0x8c: return binary_text(p, 1);
	case 'X': return binary_text(p, 4);
	case 0x8d: return binary_text(p, 8);
	case 'I': return line_int(p, true);
	case 'L': return line_int(p, false);
	case 'F': return line_float(p);
	case 'V': return line_text(p);
	case ']': return gather(p, PICKLE_LIST, 0);
	case '}': return gather(p, PICKLE_DICT, 0);
	case ')': return gather(p, PICKLE_TUPLE, 0);
	case 'l': return gather_marked(p, PICKLE_LIST);
	case 'd': return gather_marked(p, PICKLE_DICT);
	case 't': return gather_marked(p, PICKLE_TUPLE);
	case 0x85: return gather(p, PICKLE_TUPLE, 1);
	case 0x86: return gather(p, PICKLE_TUPLE, 2);
	case 0x87: return gather(p, PICKLE_TUPLE, 3);
	case 'a': return append_one(p);
	case 'e': return append_items(p);
	case 's': return set_one(p);
	case 'u': return set_items(p);
	case 'q': return memo_op(p, 1, memoize);
	case 'r': return memo_op(p, 4, memoize);
	case 'p': return line_memo(p, memoize);
	case 0x94: return memoize(p, p->nr_memoized);
	case 'h': return memo_op(p, 1, recall);
	case 'j': return memo_op(p, 4, recall);
	case 'g': return line_memo(p, recall);
	default: return refuse(p, opcode);
	}
}

static bool is_too_large(const struct pickle *p)
{
	uint64_t bytes = p->objects.bytes + p->nr_stack * sizeof(*p->stack) + p->nr_marks * sizeof(*p->mark);

	return bytes > MEMORY_MIN && bytes - MEMORY_MIN > MEMORY_FACTOR * pickleinput_offset(&p->in);
}

int pickle_read(struct pickle *p, struct pickle_value *top)
{
	for (;;) {
		const uint8_t *opcode;

		p->opcode_at = pickleinput_offset(&p->in);
		opcode = pickleinput_take(&p->in, 1);
		if (!opcode)
			return failed_reading(p);
		if (*opcode == '.')
			break;
		if (step(p, *opcode))
			return -1;
		if (is_too_large(p))
			return failed(p, "it would grow to many times its size");
	}
	if (p->nr_stack != 1 || p->nr_marks)
		return failed(p, "it does not end with one value");
	*top = p->stack[0];
	return 0;
}

/* ---- open and close, and what hooks ask ---------------------------------------------------------- */

struct pickle *pickle_open(int fd, const struct pickle_hooks *hooks)
{
	struct pickle *p = heap_alloc(1, sizeof(*p));

	p->hooks = hooks;
	pickleinput_open(&p->in, fd);
	return p;
}

void pickle_close(struct pickle *p)
{
	if (!p)
		return;
	pickleinput_release(&p->in);
	pickleobjects_release(&p->objects);
	free(p->stack);
	free(p->mark);
	free(p);
}

const char *pickle_trouble(const struct pickle *p)
{
	return p->trouble;
}

uint64_t pickle_bytes(const struct pickle *p)
{
	return pickleinput_offset(&p->in);
}

const char *pickle_text(const struct pickle *p, struct pickle_value v, size_t *len)
{
	*len = v.type == PICKLE_TEXT ? p->objects.object[v.object].nr : 0;
	return v.type == PICKLE_TEXT ? p->objects.object[v.object].text : "";
}

unsigned pickle_word(const struct pickle *p, struct pickle_value v)
{
	return v.type == PICKLE_TEXT ? p->objects.object[v.object].word : 0;
}

const struct pickle_value *pickle_items(const struct pickle *p, struct pickle_value v, uint32_t *nr)
{
	*nr = v.type > PICKLE_TEXT ? p->objects.object[v.object].nr : 0;
	return *nr ? p->objects.object[v.object].item : NULL;
}

struct pickle_value pickle_get(const struct pickle *p, struct pickle_value dict, unsigned word)
{
	uint32_t nr;
	const struct pickle_value *item = pickle_items(p, dict, &nr);

	for (uint32_t i = 0; dict.type == PICKLE_DICT && i + 1 < nr; i += 2)
		if (pickle_word(p, item[i]) == word)
			return item[i + 1];
	return (struct pickle_value){ 0 };
}

uint32_t *pickle_tag(struct pickle *p, struct pickle_value v)
{
	return &p->objects.object[v.object].tag;
}

void pickle_clear(struct pickle *p, struct pickle_value v)
{
	pickleobjects_clear(&p->objects, v.object);
}
