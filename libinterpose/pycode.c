/* SPDX-License-Identifier: MIT */
/* Code objects by content: per-thread caches, shared table, definitions. */
#include "pycode.h"

#include <stddef.h>
#include <string.h>

#include "interpose.h"
#include "pyframes.h"
#include "pytext.h"
#include "pywatch.h"

#define ARENA_BYTES (256u << 10)
#define FIRST_SLOTS 1024u
#define TEXT_MAX (16u << 10)    /* characters of a name */
#define TABLE_MAX (512u << 10)  /* bytes of a line table; a longer one (some 100,000 lines) is left out */
#define TABLE_HEAD 32u        /* bytes of it that a cache hit compares */

/*
 * What every call of an nn.Module runs through since PyTorch 2.1, and what moves one to a device or type (Module.to() and the
 * like, for each module within as well): until Python 3.10 without their class's name.
 */
#define CALL_NAME "_wrapped_call_impl"
#define MOVE_NAME "_apply"
#define MODULE_FILE "torch/nn/modules/module.py"

/* A distinct code object: never moves, never changes. Its payload is that of TFMT_DEF_CODE. */
struct pycode {
	uint64_t hash;
	uint32_t id;
	uint32_t name_bytes, file_bytes, table_bytes;
	size_t payload_bytes;
	const uint8_t *name, *file, *table; /* inside the payload */
	bool has_module; /* as struct pycode_seen has it */
	uint8_t payload[];
};

static struct {
	struct pycode **slot;
	uint32_t nr_slots, nr_codes;
	uint8_t *arena;
	size_t arena_left, mapped_bytes;
	uint8_t *scratch;
	size_t scratch_bytes;
	_Atomic uint32_t lock;
} codes;

/* ---- Python's strings ------------------------------------------------------------------------ */

static IP_COLD bool same_wide_text(const struct pylayout *l, const void *str, const uint8_t *utf8,
				   uint32_t bytes)
{
	struct pytext t = pytext_of(l, str, TEXT_MAX);
	uint32_t at = 0;
	uint8_t c[4];

	for (uint32_t i = 0; i < t.length; i++) {
		size_t n = pytext_char(&t, i, c);

		if (at + n > bytes || memcmp(utf8 + at, c, n) != 0)
			return false;
		at += (uint32_t)n;
	}
	return at == bytes;
}

static inline bool same_text(const struct pylayout *l, const void *str, const uint8_t *utf8, uint32_t bytes)
{
	if (((uint32_t)py_int(str, PY_STR_STATE) & PYTEXT_PLAIN) != PYTEXT_PLAIN)
		return same_wide_text(l, str, utf8, bytes);
	return py_long(str, PY_STR_LENGTH) == bytes && !memcmp((const char *)str + l->str_ascii, utf8, bytes);
}

/* ---- the shared table ------------------------------------------------------------------------ */

static void *take_memory(size_t bytes)
{
	bytes = (bytes + 15) & ~(size_t)15;
	if (bytes > codes.arena_left) {
		size_t map = bytes > ARENA_BYTES ? bytes : ARENA_BYTES;
		uint8_t *fresh;

		if (codes.mapped_bytes + map > PYCODE_MAX_BYTES)
			return NULL;
		fresh = ip_map(map);
		if (!fresh)
			return NULL;
		codes.mapped_bytes += map;
		codes.arena = fresh;
		codes.arena_left = map;
	}
	codes.arena += bytes;
	codes.arena_left -= bytes;
	return codes.arena - bytes;
}

static uint8_t *scratch_of(size_t bytes)
{
	size_t map = ARENA_BYTES;

	if (codes.scratch_bytes >= bytes)
		return codes.scratch;
	while (map < bytes)
		map *= 2;
	if (codes.scratch)
		ip_unmap(codes.scratch, codes.scratch_bytes);
	codes.scratch = ip_map(map);
	codes.scratch_bytes = codes.scratch ? map : 0;
	return codes.scratch;
}

static uint64_t hash_of(const uint8_t *p, size_t len)
{
	uint64_t h = len * 0x9e3779b97f4a7c15ull, word;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&word, p, 8);
		h = (h ^ word) * 0x9e3779b97f4a7c15ull;
		h ^= h >> 32;
	}
	word = 0;
	memcpy(&word, p, len);
	h = (h ^ word) * 0xc2b2ae3d27d4eb4full;
	return h ^ h >> 29;
}

static struct pycode **slot_of(struct pycode **slot, uint32_t nr_slots, const struct pycode *key)
{
	uint32_t i = (uint32_t)key->hash & (nr_slots - 1);

	while (slot[i] && (slot[i]->hash != key->hash || slot[i]->payload_bytes != key->payload_bytes ||
			   memcmp(slot[i]->payload, key->payload, key->payload_bytes) != 0))
		i = (i + 1) & (nr_slots - 1);
	return &slot[i];
}

static bool grow(void)
{
	uint32_t nr_slots = codes.nr_slots ? codes.nr_slots * 2 : FIRST_SLOTS;
	struct pycode **slot = ip_map(nr_slots * sizeof(*slot));

	if (!slot)
		return false;
	for (uint32_t i = 0; i < codes.nr_slots; i++) {
		if (codes.slot[i])
			*slot_of(slot, nr_slots, codes.slot[i]) = codes.slot[i];
	}
	if (codes.slot)
		ip_unmap(codes.slot, codes.nr_slots * sizeof(*slot));
	codes.slot = slot;
	codes.nr_slots = nr_slots;
	return true;
}

static bool ends_with(const uint8_t *text, uint32_t bytes, const char *end)
{
	size_t len = strlen(end);

	return bytes >= len && !memcmp(text + bytes - len, end, len);
}

/* The object's content in scratch memory, NULL without memory. */
static struct pycode *read_code(const struct pylayout *l, const void *code)
{
	struct pytext name = pytext_of(l, py_pointer(code, l->code_name), TEXT_MAX);
	struct pytext file = pytext_of(l, py_pointer(code, l->code_file), TEXT_MAX);
	const void *table = py_pointer(code, l->code_table);
	int64_t table_bytes = table ? py_long(table, PY_OB_SIZE) : 0;
	int32_t line = py_int(code, l->code_line);
	struct pycode *c;
	uint8_t *p;

	if (table_bytes < 0 || table_bytes > TABLE_MAX)
		table_bytes = 0;
	c = (struct pycode *)scratch_of(sizeof(*c) + 50 + 4 * ((size_t)name.length + file.length) +
					(size_t)table_bytes);
	if (!c)
		return NULL;
	c->name_bytes = (uint32_t)pytext_bytes(&name);
	c->file_bytes = (uint32_t)pytext_bytes(&file);
	c->table_bytes = (uint32_t)table_bytes;
	p = tfmt_put_varint(c->payload, l->lines);
	p = tfmt_put_varint(p, line < 0 ? 0 : (uint64_t)line);
	p = tfmt_put_varint(p, c->name_bytes);
	c->name = p;
	p = pytext_put(p, &name);
	p = tfmt_put_varint(p, c->file_bytes);
	c->file = p;
	p = pytext_put(p, &file);
	c->table = p;
	if (table_bytes)
		memcpy(p, (const uint8_t *)table + PY_BYTES_DATA, (size_t)table_bytes);
	c->payload_bytes = (size_t)(p + table_bytes - c->payload);
	c->hash = hash_of(c->payload, c->payload_bytes);
	c->has_module = ends_with(c->file, c->file_bytes, MODULE_FILE) &&
			(ends_with(c->name, c->name_bytes, CALL_NAME) || ends_with(c->name, c->name_bytes, MOVE_NAME));
	return c;
}

/* A lasting copy of what lies in scratch memory, with an id that the trace knows. */
static struct pycode *add(const struct pycode *read)
{
	size_t bytes = sizeof(*read) + read->payload_bytes;
	struct pycode *c;

	if (codes.nr_codes >= PYCODE_MAX || (codes.nr_codes >= codes.nr_slots / 2 && !grow()))
		return NULL;
	c = take_memory(bytes);
	if (!c)
		return NULL;
	memcpy(c, read, bytes);
	c->id = codes.nr_codes + 1;
	c->name = c->payload + (read->name - read->payload);
	c->file = c->payload + (read->file - read->payload);
	c->table = c->payload + (read->table - read->payload);
	if (!ip_define(TFMT_DEF_CODE, c->id, c->payload, c->payload_bytes)) {
		bytes = (bytes + 15) & ~(size_t)15;
		codes.arena -= bytes;
		codes.arena_left += bytes;
		return NULL;
	}
	codes.nr_codes++;
	*slot_of(codes.slot, codes.nr_slots, c) = c;
	return c;
}

static IP_COLD const struct pycode *intern(const struct pylayout *l, const void *code)
{
	const struct pycode *read, *known = NULL;

	ip_lock(&codes.lock);
	read = read_code(l, code);
	if (read && codes.nr_slots)
		known = *slot_of(codes.slot, codes.nr_slots, read);
	if (read && !known)
		known = add(read);
	ip_unlock(&codes.lock);
	return known;
}

void pycode_init(void)
{
	memset(&codes, 0, sizeof(codes));
}

/* ---- a thread's cache ------------------------------------------------------------------------ */

static inline bool fixed_same(const struct pylayout *l, const void *code, const uint64_t *was)
{
	const uint64_t *now = (const uint64_t *)((const char *)code + l->code_fixed);
	uint64_t different = 0;

	for (int i = 0; i < PYLAYOUT_FIXED_WORDS; i++)
		different |= (now[i] ^ was[i]) & l->fixed[i];
	return different == 0;
}

/*
 * Pointers and numbers alone are not enough to tell that an object was replaced by another one at the same
 * address; a version number is, and so are the characters of name and file.
 */
static inline bool content_same(const struct pylayout *l, const void *code, const struct pycode *known)
{
	const void *table;

	if (l->code_version >= 0 && py_int(code, l->code_version) != 0)
		return true;
	if (!same_text(l, py_pointer(code, l->code_name), known->name, known->name_bytes) ||
	    !same_text(l, py_pointer(code, l->code_file), known->file, known->file_bytes))
		return false;
	table = py_pointer(code, l->code_table);
	if (!table || py_long(table, PY_OB_SIZE) != known->table_bytes)
		return false;
	table = (const uint8_t *)table + PY_BYTES_DATA;
	if (known->table_bytes < TABLE_HEAD)
		return !memcmp(table, known->table, known->table_bytes);
	return !memcmp(table, known->table, TABLE_HEAD);
}

static inline bool entry_holds(const struct pycode_entry *e, const struct pylayout *l, const void *code)
{
	return e->code == code && fixed_same(l, code, e->fixed) && content_same(l, code, e->known);
}

static inline size_t set_of(const void *code)
{
	_Static_assert(PYCODE_SETS == 1u << 10, "the set number is the top 10 bits of the product");
	return (uintptr_t)code * 0x9e3779b97f4a7c15ull >> 54;
}

uint32_t pycode_id(struct pycode_cache *cache, const struct pylayout *l, const void *code)
{
	struct pycode_entry *set = cache->set[set_of(code)], swap;
	const struct pycode *known;

	if (entry_holds(&set[0], l, code))
		return set[0].known->id;
	if (entry_holds(&set[1], l, code)) {
		swap = set[0];
		set[0] = set[1];
		set[1] = swap;
		return set[0].known->id;
	}
	known = intern(l, code);
	if (!known)
		return 0;
	if (set[0].code != code)
		set[1] = set[0];
	set[0].code = code;
	set[0].known = known;
	memcpy(set[0].fixed, (const char *)code + l->code_fixed, sizeof(set[0].fixed));
	return known->id;
}

/* ---- watched objects ----------------------------------------------------------------------------- */

static IP_COLD bool see_first(struct pycode_seen *set, const struct pylayout *l, const void *code,
			      struct pycode_seen *out)
{
	const struct pycode *known;

	if (!code || !pyframes_still_there() || py_pointer(code, PY_OB_TYPE) != pywatch_code_type())
		return false;
	*out = (struct pycode_seen){ .code = code, .deaths = pywatch_deaths_at(code), .traceable = INT32_MIN };
	if (l->code_traceable >= 0)
		out->traceable = py_int(code, l->code_traceable);
	known = intern(l, code);
	if (!known)
		return true;
	out->id = known->id;
	out->has_module = known->has_module;
	if (set[0].code != code)
		set[1] = set[0];
	set[0] = *out;
	return true;
}

bool pycode_see(struct pycode_cache *cache, const struct pylayout *l, const void *code, struct pycode_seen *out)
{
	struct pycode_seen *set = cache->seen[set_of(code)], swap;
	uint32_t deaths = pywatch_deaths_at(code);

	if (set[1].code == code && set[1].deaths == deaths) {
		swap = set[0];
		set[0] = set[1];
		set[1] = swap;
	}
	if (set[0].code != code || set[0].deaths != deaths)
		return see_first(set, l, code, out);
	*out = set[0];
	return true;
}
