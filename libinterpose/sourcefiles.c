/* SPDX-License-Identifier: MIT */
/* Source files, each looked at once; see sourcefiles.h. */
#include "sourcefiles.h"

#include <string.h>

#include "interpose.h"

#define FILES_MAX 8192u /* a power of two; of more, nothing is told */
#define PATHS_BYTES (1u << 20)

struct waiting {
	uint32_t code;
	const char *path;
};

struct files {
	uint64_t seen[2 * FILES_MAX]; /* hashes of paths, 0 = none: who shares one's is not told of */
	struct waiting waiting[FILES_MAX];
	uint32_t nr, told; /* of `waiting`, in order */
	char paths[PATHS_BYTES];
	size_t paths_used;
};

static struct {
	uint32_t generation; /* whose they are: a fork child begins anew */
	struct files *files;
} sourcefiles;

/* This process's; what a fork child inherits the pointer of is not mapped there. */
static struct files *files_ready(void)
{
	if (sourcefiles.generation != ip_recorder->generation || !sourcefiles.files) {
		sourcefiles.generation = ip_recorder->generation;
		sourcefiles.files = ip_map(sizeof(*sourcefiles.files));
	}
	return sourcefiles.files;
}

/* FNV-1a. */
static uint64_t hash_of(const uint8_t *text, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	while (len--)
		h = (h ^ *text++) * 0x100000001b3u;
	return h ? h : 1;
}

/* True if it is new. */
static bool add_seen(struct files *f, uint64_t hash)
{
	uint32_t mask = 2 * FILES_MAX - 1, i = (uint32_t)hash & mask;

	for (; f->seen[i]; i = (i + 1) & mask)
		if (f->seen[i] == hash)
			return false;
	f->seen[i] = hash;
	return true;
}

void sourcefiles_see(uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	struct tfmt_text text[TFMT_DEFINITION_TEXTS];
	struct files *f;
	char *path;

	if (type != TFMT_DEF_CODE || tfmt_definition_texts(type, payload, len, text) != 2)
		return;
	/* "<string>", "<frozen os>", and what is relative to a folder that nobody will know. */
	if (!text[1].len || *text[1].s != '/')
		return;
	f = files_ready();
	if (!f || f->nr == FILES_MAX || text[1].len >= PATHS_BYTES - f->paths_used ||
	    !add_seen(f, hash_of((const uint8_t *)text[1].s, text[1].len)))
		return;
	path = memcpy(f->paths + f->paths_used, text[1].s, text[1].len);
	f->paths_used += text[1].len + 1;
	f->waiting[f->nr++] = (struct waiting){ id, path };
}

static void define(struct tfmt_writer *w, uint32_t code, const struct tfmt_source *s)
{
	uint8_t payload[32], *p = payload;

	p = tfmt_put_varint(p, s->bytes);
	p = tfmt_put_varint(p, s->hash);
	tfmt_writer_definition(w, TFMT_DEF_SOURCE, code, payload, (size_t)(p - payload));
}

bool sourcefiles_tell(struct tfmt_writer *w, uint64_t until_ns)
{
	struct files *f = sourcefiles.files;
	struct tfmt_source source;
	bool has_told = false;

	if (sourcefiles.generation != ip_recorder->generation || !f)
		return false;
	for (; f->told < f->nr && ip_now_ns() < until_ns; f->told++)
		if (tfmt_source_read(f->waiting[f->told].path, &source)) {
			define(w, f->waiting[f->told].code, &source);
			has_told = true;
		}
	return has_told;
}
