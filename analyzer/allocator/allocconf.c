/* SPDX-License-Identifier: MIT */
/*
 * Reading the allocator's settings. Words are cut as PyTorch cuts them: at , : [ and ], spaces dropped. The sentences about
 * wrong values are PyTorch's own, as printed by 2.11 and, where they differ, as in the sources of releases before 2.9. With
 * which release a key came is by the dates of the changes; of all releases 2.11 alone was run.
 */
#include "analyzer/allocator/allocconf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"

#define WORDS_MAX 256
#define WORD_BYTES 64
#define MIB (1ull << 20)

/* The release in which settings moved to c10/core/AllocatorConfig.h: bounds and sentences are other ones from then on. */
#define LARGE_SEGMENTS ALLOCCONF_VERSION(2u, 11u) /* what may stay uncut follows their size, if it is not given */
#define SHARED_CONFIG ALLOCCONF_VERSION(2u, 9u)

struct words {
	char word[WORDS_MAX][WORD_BYTES];
	int nr, at;
	struct allocconf *conf;
	char *why;
	size_t why_size;
};

static bool wrong(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool wrong(struct words *w, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(w->why, w->why_size, format, args);
	va_end(args);
	return false;
}

/* ---- words -------------------------------------------------------------------------------------- */

static bool is_mark(char c)
{
	return c == ',' || c == ':' || c == '[' || c == ']';
}

static bool cut_into_words(struct words *w, const char *text)
{
	size_t len = 0;

	for (; *text; text++) {
		if (*text == ' ')
			continue;
		if (len + 1 >= WORD_BYTES || w->nr + 2 >= WORDS_MAX)
			return wrong(w, "the settings are too long: at most %d words of %d characters are read", WORDS_MAX - 2, WORD_BYTES - 1);
		if (is_mark(*text)) {
			w->nr += len > 0;
			len = 0;
			w->word[w->nr++][0] = *text;
			continue;
		}
		w->word[w->nr][len++] = *text;
	}
	w->nr += len > 0;
	return true;
}

/* The word to be read, "" after the last. */
static const char *word(const struct words *w)
{
	return w->at < w->nr ? w->word[w->at] : "";
}

static bool expect(struct words *w, const char *mark)
{
	if (strcmp(word(w), mark) != 0)
		return wrong(w, "Expected '%s' at index %d in ConfigTokenizer but got '%s'", mark, w->at, word(w));
	w->at++;
	return true;
}

/* A whole number as PyTorch's stoull() reads it: what follows the digits does not matter. */
static bool number(struct words *w, uint64_t *value)
{
	char *end;

	*value = strtoull(word(w), &end, 10);
	if (end == word(w))
		return wrong(w, "stoull: '%s' is no number", word(w));
	w->at++;
	return true;
}

static bool fraction(struct words *w, double *value)
{
	char *end;

	*value = strtod(word(w), &end);
	if (end == word(w))
		return wrong(w, "stod: '%s' is no number", word(w));
	w->at++;
	return true;
}

static bool truth(struct words *w, bool *value)
{
	const char *text = word(w);

	*value = strcmp(text, "True") == 0;
	if (!*value && strcmp(text, "False") != 0)
		return wrong(w, "Expected 'True' or 'False' at index %d in ConfigTokenizer but got '%s'", w->at, text);
	w->at++;
	return true;
}

/* ---- keys --------------------------------------------------------------------------------------- */

/* A size in MiB, of at least `least`, or above it where an old release asks for that. */
static bool mebibytes(struct words *w, const char *name, uint64_t least, bool or_equal, uint64_t *bytes)
{
	uint64_t value;

	if (!number(w, &value))
		return false;
	if (value < least || (!or_equal && value == least))
		return wrong(w, "CachingAllocator option %s too small, must be >%s %llu", name, or_equal ? "=" : "",
			     (unsigned long long)least);
	*bytes = value > UINT64_MAX / MIB ? UINT64_MAX : value * MIB;
	return true;
}

static bool set_max_split(struct words *w)
{
	struct allocconf *c = w->conf;

	return mebibytes(w, "max_split_size_mb", c->large_segment_bytes / MIB, c->version >= SHARED_CONFIG,
			 &c->max_split_bytes);
}

static bool set_unsplit_rounding(struct words *w)
{
	struct allocconf *c = w->conf;

	return mebibytes(w, "max_non_split_rounding_mb", c->large_segment_bytes / MIB, c->version >= SHARED_CONFIG,
			 &c->unsplit_rounding_bytes);
}

static bool set_large_segment(struct words *w)
{
	uint64_t value;

	if (!number(w, &value))
		return false;
	if (value <= TORCH_LARGE_MIN / MIB)
		return wrong(w, "CachingAllocator option large_segment_size_mb must be > %llu MB", TORCH_LARGE_MIN / MIB);
	w->conf->large_segment_bytes = value > (1ull << 30) ? 1ull << 50 : value * MIB;
	return true;
}

static bool set_gc(struct words *w)
{
	double value;

	if (!fraction(w, &value))
		return false;
	if (!(value > 0 && value < 1)) {
		if (w->conf->version >= SHARED_CONFIG)
			return wrong(w, "garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
		return wrong(w, "garbage_collect_threshold too %s, set it 0.0~1.0", value > 0 ? "big" : "small");
	}
	w->conf->gc_threshold = value;
	return true;
}

static bool set_fraction(struct words *w)
{
	double value;

	if (!fraction(w, &value))
		return false;
	if (!(value >= 0 && value <= 1))
		return wrong(w, "per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
	w->conf->fraction = value;
	return true;
}

static bool set_expandable(struct words *w)
{
	return truth(w, &w->conf->expandable);
}

static bool set_backend(struct words *w)
{
	if (strcmp(word(w), "native") != 0 && strcmp(word(w), "cudaMallocAsync") != 0)
		return wrong(w, "Unknown allocator backend, options are native and cudaMallocAsync");
	w->conf->backend = strcmp(word(w), "native") == 0 ? ALLOCCONF_NATIVE : ALLOCCONF_ASYNC;
	w->at++;
	return true;
}

/* Of the host's memory, or of when a lock is held: nothing that this models. */
static bool pass_over(struct words *w)
{
	w->at++;
	return true;
}

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static unsigned log2_of(uint64_t n)
{
	return n ? 63u - (unsigned)__builtin_clzll(n) : 0;
}

/* One "256:2" or ">:4" of a list; `last` is the interval after the one before it. */
static bool list_entry(struct words *w, int *last)
{
	struct allocconf *c = w->conf;
	bool is_rest = strcmp(word(w), ">") == 0;
	uint64_t from = 0, value;
	unsigned index;

	if (is_rest)
		w->at++;
	else if (!number(w, &from))
		return false;
	if (!is_rest && !is_power_of_two(from))
		return wrong(w, "For roundups, the intervals have to be power of 2 ");
	if (!expect(w, ":") || !number(w, &value))
		return false;
	if (value && !is_power_of_two(value))
		return wrong(w, "For roundups, the divisions has to be power of 2 or 0 to disable roundup ");
	if (is_rest) {
		/* Releases before 2.9 begin with the last interval that was named. */
		for (int i = c->version >= SHARED_CONFIG || !*last ? *last : *last - 1; i < ALLOCCONF_INTERVALS; i++)
			c->divisions[i] = (uint32_t)value;
		return true;
	}
	index = log2_of(from) < ALLOCCONF_INTERVALS ? log2_of(from) : ALLOCCONF_INTERVALS - 1;
	for (unsigned i = *last ? index : 0; i <= index; i++)
		c->divisions[i] = (uint32_t)value;
	*last = (int)index + 1;
	return true;
}

static bool set_roundup(struct words *w)
{
	uint64_t value;
	int last = 0;

	if (strcmp(word(w), "[") != 0) {
		if (!number(w, &value))
			return false;
		if (!is_power_of_two(value))
			return wrong(w, "For roundups, the divisions has to be power of 2 ");
		for (int i = 0; i < ALLOCCONF_INTERVALS; i++)
			w->conf->divisions[i] = (uint32_t)value;
		return true;
	}
	w->at++;
	while (strcmp(word(w), "]") != 0) {
		if (w->at >= w->nr)
			return wrong(w, "Expected closing bracket ']' in ConfigTokenizer but reached end of config");
		if (!list_entry(w, &last))
			return false;
		if (w->at < w->nr && strcmp(word(w), "]") != 0 && !expect(w, ","))
			return false;
	}
	w->at++;
	return true;
}

static const struct key {
	const char *name;
	unsigned since;
	bool (*set)(struct words *w);
} keys[] = {
	{ "backend", ALLOCCONF_VERSION(2u, 0u), set_backend },
	{ "max_split_size_mb", ALLOCCONF_VERSION(2u, 0u), set_max_split },
	{ "roundup_power2_divisions", ALLOCCONF_VERSION(2u, 0u), set_roundup },
	{ "garbage_collection_threshold", ALLOCCONF_VERSION(2u, 0u), set_gc },
	{ "expandable_segments", ALLOCCONF_VERSION(2u, 1u), set_expandable },
	{ "release_lock_on_cudamalloc", ALLOCCONF_VERSION(2u, 1u), pass_over },
	{ "pinned_use_cuda_host_register", ALLOCCONF_VERSION(2u, 1u), pass_over },
	{ "pinned_num_register_threads", ALLOCCONF_VERSION(2u, 1u), pass_over },
	{ "pinned_use_background_threads", ALLOCCONF_VERSION(2u, 6u), pass_over },
	{ "max_non_split_rounding_mb", ALLOCCONF_VERSION(2u, 6u), set_unsplit_rounding },
	{ "graph_capture_record_stream_reuse", ALLOCCONF_VERSION(2u, 9u), pass_over },
	{ "pinned_reserve_segment_size_mb", ALLOCCONF_VERSION(2u, 9u), pass_over },
	{ "per_process_memory_fraction", ALLOCCONF_VERSION(2u, 10u), set_fraction },
	{ "large_segment_size_mb", LARGE_SEGMENTS, set_large_segment },
};

static bool read_key(struct words *w)
{
	const char *name = word(w);

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		if (strcmp(keys[i].name, name) != 0)
			continue;
		if (keys[i].since > w->conf->version)
			return wrong(w, "'%s' came with PyTorch %u.%u; this is %u.%u", name, keys[i].since / 1000,
				     keys[i].since % 1000, w->conf->version / 1000, w->conf->version % 1000);
		w->at++;
		return expect(w, ":") && keys[i].set(w);
	}
	if (w->conf->version >= SHARED_CONFIG)
		return wrong(w, "Unrecognized key '%s' in CUDA allocator config.", name);
	return wrong(w, "Unrecognized CachingAllocator option: %s", name);
}

struct allocconf allocconf_default(unsigned version)
{
	return (struct allocconf){ .version = version,
				   .max_split_bytes = UINT64_MAX,
				   .unsplit_rounding_bytes = TORCH_LARGE_SEGMENT,
				   .large_segment_bytes = TORCH_LARGE_SEGMENT,
				   .fraction = 1 };
}

bool allocconf_read(struct allocconf *c, const char *text, unsigned version, char *why, size_t size)
{
	*c = allocconf_default(version);
	return !text || allocconf_change(c, text, why, size);
}

static bool read_keys(struct words *w, const char *text)
{
	if (!cut_into_words(w, text))
		return false;
	while (w->at < w->nr)
		if (!read_key(w) || (w->at < w->nr && !expect(w, ",")))
			return false;
	return true;
}

bool allocconf_change(struct allocconf *c, const char *text, char *why, size_t size)
{
	struct words w = { .conf = c, .why = why, .why_size = size };
	struct allocconf none = allocconf_default(c->version);
	uint64_t unsplit_rounding = c->unsplit_rounding_bytes;

	c->max_split_bytes = none.max_split_bytes;
	c->gc_threshold = none.gc_threshold;
	memcpy(c->divisions, none.divisions, sizeof(c->divisions));
	c->unsplit_rounding_bytes = 0;
	if (!read_keys(&w, text))
		return false;
	if (!c->unsplit_rounding_bytes)
		c->unsplit_rounding_bytes = c->version >= LARGE_SEGMENTS ? c->large_segment_bytes : unsplit_rounding;
	return true;
}

unsigned allocconf_version(const char *torch)
{
	unsigned major, minor;

	if (!torch || sscanf(torch, "%3u.%3u", &major, &minor) != 2)
		return 0;
	return ALLOCCONF_VERSION(major, minor);
}

/* ---- sizes -------------------------------------------------------------------------------------- */

/* The intervals between two powers of two are cut into `divisions`: round up to the next of those places. */
static uint64_t next_division(uint64_t bytes, uint32_t divisions)
{
	uint64_t floor = 1ull << log2_of(bytes), step = floor >> log2_of(divisions);

	if (bytes == floor)
		return bytes;
	if (!step)
		return floor << 1;
	return (bytes + step - 1) & ~(step - 1);
}

uint64_t allocconf_rounded(const struct allocconf *c, uint64_t bytes)
{
	unsigned log = log2_of(bytes), index = log < 20 ? 0 : log - 20;
	uint32_t divisions = c->divisions[index < ALLOCCONF_INTERVALS ? index : ALLOCCONF_INTERVALS - 1];

	if (bytes < TORCH_ROUND)
		return TORCH_ROUND;
	if (divisions > 1 && bytes > TORCH_ROUND * divisions)
		return next_division(bytes, divisions);
	return torch_rounded(bytes);
}

uint64_t allocconf_segment(const struct allocconf *c, uint64_t rounded)
{
	if (rounded <= TORCH_SMALL_MAX)
		return TORCH_SMALL_SEGMENT;
	if (rounded < TORCH_LARGE_MIN)
		return c->large_segment_bytes;
	return (rounded + TORCH_SEGMENT_ROUND - 1) / TORCH_SEGMENT_ROUND * TORCH_SEGMENT_ROUND;
}
