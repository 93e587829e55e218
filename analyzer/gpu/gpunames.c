/* SPDX-License-Identifier: MIT */
/* The names of the simulated GPUs: which profile a name stands for, and which it was to be. */
#include "analyzer/gpu/gpunames.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { SPELLING_MAX = 48 };

/* NAME stands for PROFILE. */
struct gpu_name {
	const char *name, *profile;
};

/* Made from simgpu/profiles.def by analyzer.mk: names and capacities, the analyzer knows nothing else of simgpu. */
static const struct gpu_name names[] = {
#define GPU(name, product, capacity) { name, name }, { product, name },
#define ALIAS(alias, name) { alias, name },
#include "gen/gpu_names.h"
#undef GPU
#undef ALIAS
};

static const char *const profiles[] = {
#define GPU(name, product, capacity) name,
#define ALIAS(alias, name)
#include "gen/gpu_names.h"
#undef GPU
#undef ALIAS
	NULL,
};

static const uint64_t capacities[] = {
#define GPU(name, product, capacity) capacity,
#define ALIAS(alias, name)
#include "gen/gpu_names.h"
#undef GPU
#undef ALIAS
};

enum { NR_NAMES = sizeof(names) / sizeof(*names), NR_PROFILES = sizeof(profiles) / sizeof(*profiles) - 1 };

static void drop_prefix(char *text, const char *prefix)
{
	size_t length = strlen(prefix);

	if (!strncmp(text, prefix, length))
		memmove(text, text + length, strlen(text + length) + 1);
}

/* NAME without what people write in different ways: case, blanks and dashes, the maker, a unit at the end. */
static void fold(const char *name, char out[static SPELLING_MAX])
{
	size_t n = 0;

	for (; *name && n < SPELLING_MAX - 1; name++)
		if (isalnum((unsigned char)*name))
			out[n++] = (char)tolower((unsigned char)*name);
	out[n] = 0;
	if (n > 2 && !strcmp(out + n - 2, "gb"))
		out[n - 2] = 0;
	drop_prefix(out, "nvidia");
	drop_prefix(out, "geforce");
	drop_prefix(out, "tesla");
}

const char *gpunames_find(const char *name)
{
	char wanted[SPELLING_MAX], known[SPELLING_MAX];

	fold(name, wanted);
	for (size_t i = 0; i < NR_NAMES; i++) {
		fold(names[i].name, known);
		if (!strcmp(wanted, known))
			return names[i].profile;
	}
	return NULL;
}

uint64_t gpunames_capacity(const char *profile)
{
	for (size_t i = 0; i < NR_PROFILES; i++)
		if (!strcmp(profiles[i], profile))
			return capacities[i];
	return 0;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/* How many characters must be put in, taken out or replaced to make B of A. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[SPELLING_MAX], diagonal, above;
	size_t nr = strlen(b);

	for (size_t i = 0; i <= nr; i++)
		row[i] = (unsigned)i;
	for (; *a; a++) {
		diagonal = row[0]++;
		for (size_t i = 1; i <= nr; i++) {
			above = row[i];
			row[i] = least(least(above, row[i - 1]) + 1, diagonal + (*a != b[i - 1]));
			diagonal = above;
		}
	}
	return row[nr];
}

const char *gpunames_nearest(const char *name)
{
	char wanted[SPELLING_MAX], known[SPELLING_MAX];
	const char *nearest = NULL;
	unsigned best, d;

	fold(name, wanted);
	/* Farther than a third of the name is another word. Of two as near, the one that begins like it. */
	best = 2 * ((unsigned)strlen(wanted) / 3 + 1);
	for (size_t i = 0; *wanted && i < NR_NAMES; i++) {
		fold(names[i].name, known);
		d = 2 * distance(wanted, known) + (strncmp(wanted, known, strlen(wanted)) != 0);
		if (d < best) {
			best = d;
			nearest = names[i].profile;
		}
	}
	return nearest;
}

const char *const *gpunames_profiles(void)
{
	return profiles;
}

const char *gpunames_list(void)
{
	static char list[2048];
	size_t n = 0;

	for (size_t i = 0; i < NR_PROFILES && n < sizeof(list); i++)
		n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", i ? ", " : "", profiles[i]);
	return list;
}
