/* SPDX-License-Identifier: MIT */
/* The latest INFO of each key; see infokeys.h. */
#include "tracefmt/infokeys.h"
#include "tracefmt/varint.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Of the key that the payload begins with; 0: of none that can be replaced. */
static uint64_t key_hash(const uint8_t *payload, size_t len)
{
	struct tfmt_cursor c = { payload, payload + len, false };
	const uint8_t *s;
	size_t bytes;

	if (!tfmt_string_get(&c, &s, &bytes) || (bytes == 4 && !memcmp(s, "note", 4)))
		return 0;
	return XXH64(s, bytes, 0);
}

/* Its place, or the empty one where it would be. There always is one. */
static uint32_t place_of(const struct tfmt_infokeys *k, uint64_t hash)
{
	uint32_t i = (uint32_t)hash % TFMT_NR_INFOKEYS;

	while (k->key[i].hash && k->key[i].hash != hash)
		i = (i + 1) % TFMT_NR_INFOKEYS;
	return i;
}

void tfmt_infokeys_define(struct tfmt_infokeys *k, uint32_t id, const uint8_t *payload, size_t len)
{
	uint64_t hash = key_hash(payload, len);
	uint32_t i = place_of(k, hash);

	if (!hash)
		return;
	if (!k->key[i].hash) {
		if (k->nr == TFMT_NR_INFOKEYS - 1)
			return;
		k->nr++;
		k->key[i].hash = hash;
	}
	k->key[i].latest = id + 1;
}

void tfmt_infokeys_written(struct tfmt_infokeys *k)
{
	for (uint32_t i = 0; k->nr && i < TFMT_NR_INFOKEYS; i++)
		k->key[i].written = k->key[i].latest;
}

bool tfmt_infokeys_is_old(const struct tfmt_infokeys *k, uint32_t id, const uint8_t *payload, size_t len)
{
	uint64_t hash = key_hash(payload, len);

	return hash && k->key[place_of(k, hash)].written > id + 1;
}
