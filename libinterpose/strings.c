/* SPDX-License-Identifier: MIT */
/*
 * Texts that events name by id. A lookup takes no lock: a slot's text is stored last and never changes. The table
 * hangs on the recorder's state, which a fork child finds zeroed, so it begins with none. When it is full (a program
 * names each of its steps) new texts are defined each time they are used.
 */
#include "strings.h"

#include <string.h>

#include "interpose.h"
#include "resolve.h"

#define SLOTS 8192u /* power of two */
#define TEXT_BYTES (1u << 20)
/* Of both, what is kept for names that are few: of classes and functions. */
#define SLOTS_FEW (SLOTS / 8)
#define TEXT_BYTES_FEW (TEXT_BYTES / 8)
#define TEXT_MAX 4096u /* longer ones are cut */

struct slot {
	const char *_Atomic text; /* NULL = empty */
	uint64_t hash;
	uint32_t len, id;
	uint32_t type; /* TFMT_DEF_STRING or TFMT_DEF_FUNCTION */
};

struct ip_strings {
	struct slot slot[SLOTS];
	uint32_t nr, nr_strings, nr_functions;
	size_t text_bytes;
	char text[TEXT_BYTES];
};

static uint64_t hash_of(uint32_t type, const char *text, size_t len)
{
	uint64_t h = len ^ (uint64_t)type << 32, word;

	for (; len >= sizeof(word); len -= sizeof(word), text += sizeof(word)) {
		memcpy(&word, text, sizeof(word));
		h = (h ^ word) * 0x9e3779b97f4a7c15u;
		h ^= h >> 32;
	}
	for (word = 0; len; len--)
		word = word << 8 | (unsigned char)text[len - 1];
	h = (h ^ word) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 32;
}

/*
 * The slot that holds the text (*known), or the empty one where it belongs: without the lock, that may be another
 * text's by the time it is looked at.
 */
static struct slot *find(struct ip_strings *s, uint32_t type, uint64_t hash, const char *text, size_t len, bool *known)
{
	for (uint32_t i = (uint32_t)hash & (SLOTS - 1);; i = (i + 1) & (SLOTS - 1)) {
		struct slot *slot = &s->slot[i];
		const char *here = atomic_load_explicit(&slot->text, memory_order_acquire);

		*known = here && slot->hash == hash && slot->type == type && slot->len == len &&
			 !memcmp(here, text, len);
		if (!here || *known)
			return slot;
	}
}

/* Lock held: the table, made at first use. */
static struct ip_strings *table_ready(void)
{
	struct ip_strings *s = atomic_load_explicit(&ip_recorder->strings, memory_order_acquire);

	if (!s) {
		s = ip_map(sizeof(*s));
		atomic_store_explicit(&ip_recorder->strings, s, memory_order_release);
	}
	return s;
}

static bool has_room(const struct ip_strings *s, size_t len, bool few)
{
	return s->nr < SLOTS / 4 * 3 + (few ? SLOTS_FEW : 0) &&
	       s->text_bytes + len <= TEXT_BYTES - (few ? 0 : TEXT_BYTES_FEW);
}

static IP_COLD uint32_t add(uint32_t type, bool few, uint64_t hash, const char *text, size_t len)
{
	uint8_t payload[TEXT_MAX + 10], *end = tfmt_put_string(payload, text, len);
	struct ip_strings *s;
	struct slot *slot;
	bool is_kept, known;
	uint32_t id = 0;

	ip_lock(&ip_recorder->string_lock);
	s = table_ready();
	slot = s ? find(s, type, hash, text, len, &known) : NULL;
	if (!slot)
		goto out;
	if (known) {
		id = slot->id;
		goto out;
	}
	is_kept = has_room(s, len, few);
	if (type == TFMT_DEF_FUNCTION && (!is_kept || FN_NR + s->nr_functions > UINT16_MAX))
		goto out;
	id = type == TFMT_DEF_FUNCTION ? FN_NR + s->nr_functions : s->nr_strings + 1;
	if (!ip_define(type, id, payload, (size_t)(end - payload))) {
		id = 0;
		goto out;
	}
	s->nr_strings += type == TFMT_DEF_STRING;
	s->nr_functions += type == TFMT_DEF_FUNCTION;
	if (!is_kept)
		goto out;
	s->nr++;
	slot->hash = hash;
	slot->type = type;
	slot->len = (uint32_t)len;
	slot->id = id;
	memcpy(s->text + s->text_bytes, text, len);
	atomic_store_explicit(&slot->text, s->text + s->text_bytes, memory_order_release);
	s->text_bytes += len ? len : 1; /* the empty text has an address, too */
out:
	ip_unlock(&ip_recorder->string_lock);
	return id;
}

static uint32_t intern(uint32_t type, bool few, const char *text, size_t len)
{
	struct ip_strings *s = atomic_load_explicit(&ip_recorder->strings, memory_order_acquire);
	struct slot *slot;
	uint64_t hash;
	bool known;

	len = len < TEXT_MAX ? len : TEXT_MAX;
	hash = hash_of(type, text, len);
	slot = s ? find(s, type, hash, text, len, &known) : NULL;
	if (slot && known)
		return slot->id;
	return add(type, few, hash, text, len);
}

uint32_t ip_string(const char *text, size_t len)
{
	return intern(TFMT_DEF_STRING, false, text, len);
}

uint32_t ip_string_few(const char *text, size_t len)
{
	return intern(TFMT_DEF_STRING, true, text, len);
}

uint16_t ip_function_named(const char *name)
{
	return (uint16_t)intern(TFMT_DEF_FUNCTION, true, name, strlen(name));
}
