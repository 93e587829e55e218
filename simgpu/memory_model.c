/* SPDX-License-Identifier: MIT */
/* The memory model, its defaults, and the file that overrides them. */
#include "simgpu/memory_model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simgpu/answers.h"

enum { STATUS_TROUBLE = 125, MAX_NCCL_ROWS = 64, MAX_RANKS = 1 << 20 };

#define MAX_BYTES (1ULL << 46)

struct nccl_row {
	int nr_ranks;
	size_t init_bytes, first_bytes;
};

static struct sim_model model;
static struct nccl_row nccl_rows[MAX_NCCL_ROWS];
static int nr_nccl_rows;

const struct sim_model *sim_model(void)
{
	sim_profile();
	return &model;
}

/*
 * Channels that NCCL opens within a node: of an A100 two for each of its 12 NVLinks, of an H100 what
 * published logs show; a B200 gets the H100's. Without NVLink the buffers may lie in host memory: none then.
 */
static size_t sim_nccl_channels(const struct sim_profile *profile)
{
	int cc = profile->cc_major * 10 + profile->cc_minor;

	return cc == 80 ? 24 : cc == 90 || cc == 100 ? 16 : 0;
}

static void set_defaults(const struct sim_profile *profile)
{
	const struct sim_profile *P = profile;

#define QUANTITY(name, owner, value, source) model.name = (value);
#include "simgpu/memory_model.def"
#undef QUANTITY
}

/* The row for communicators of NR_RANKS: the largest that is not larger. NULL when the file has none. */
static const struct nccl_row *nccl_row(int nr_ranks)
{
	const struct nccl_row *best = NULL;

	sim_profile();
	for (int i = 0; i < nr_nccl_rows; i++)
		if (nccl_rows[i].nr_ranks <= nr_ranks && (!best || nccl_rows[i].nr_ranks > best->nr_ranks))
			best = &nccl_rows[i];
	return best;
}

size_t sim_model_nccl_init(int nr_ranks)
{
	const struct nccl_row *row = nccl_row(nr_ranks);

	return row ? row->init_bytes : 0;
}

/* Since NCCL 2.22 connections are made at first use: here those of one ring, a receiving one a channel. */
size_t sim_model_nccl_first(int nr_ranks)
{
	const struct nccl_row *row = nccl_row(nr_ranks);
	size_t bytes;

	if (row)
		return row->first_bytes;
	if (nr_ranks < 2)
		return 0;
	if (__builtin_mul_overflow(model.nccl_channels, model.nccl_connection_bytes, &bytes))
		return SIZE_MAX;
	return bytes;
}

/* ---- the file -------------------------------------------------------------------------------- */

struct line {
	const char *path;
	unsigned number;
	char *rest; /* what follows the name */
};

static _Noreturn void refuse(const struct line *line, const char *format, ...)
{
	char reason[256];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	dprintf(STDERR_FILENO, "simgpu: SIMGPU_MODEL '%s', line %u: %s\n", line->path, line->number, reason);
	_exit(STATUS_TROUBLE);
}

/* The next number of LINE, from MIN to MAX. */
static unsigned long long number(struct line *line, const char *name, unsigned long long min,
				 unsigned long long max)
{
	unsigned long long n;
	char *end;

	if (*line->rest < '0' || *line->rest > '9')
		refuse(line, "'%s' expects a number", name);
	errno = 0;
	n = strtoull(line->rest, &end, 10);
	if (errno || (*end && *end != ' ') || n < min || n > max)
		refuse(line, "'%s' expects a number from %llu to %llu", name, min, max);
	line->rest = *end ? end + 1 : end;
	return n;
}

/* The only value of NAME. */
static unsigned long long only_number(struct line *line, const char *name, unsigned long long min,
				      unsigned long long max)
{
	unsigned long long n = number(line, name, min, max);

	if (*line->rest)
		refuse(line, "'%s' expects one number", name);
	return n;
}

static void add_nccl_row(struct line *line)
{
	struct nccl_row row = { .nr_ranks = (int)number(line, "nccl", 1, MAX_RANKS) };

	if (nr_nccl_rows == MAX_NCCL_ROWS)
		refuse(line, "more than %d lines of 'nccl'", MAX_NCCL_ROWS);
	row.init_bytes = number(line, "nccl", 0, MAX_BYTES);
	row.first_bytes = only_number(line, "nccl", 0, MAX_BYTES);
	nccl_rows[nr_nccl_rows++] = row;
}

static void add_answer(struct line *line)
{
	size_t bytes = number(line, "answer", 0, MAX_BYTES);

	if (!strchr(line->rest, ' '))
		refuse(line, "'answer' expects a size, a kind and a question");
	sim_answers_add(line->rest, bytes);
}

/* Properties of the device that are one number: its name, the field of struct sim_profile, and what fits. */
static const struct {
	const char *name;
	size_t offset;
	int max;
} properties[] = {
#define PROPERTY(name, max)                                                                                  \
	{                                                                                                    \
#name, offsetof(struct sim_profile, name), max                                               \
	}
	PROPERTY(sms, 4096),
	PROPERTY(smem_optin_bytes, 1 << 24),
	PROPERTY(smem_sm_bytes, 1 << 24),
	PROPERTY(threads_per_sm, 1 << 16),
	PROPERTY(blocks_per_sm, 1 << 12),
	PROPERTY(l2_bytes, INT32_MAX),
	PROPERTY(bus_bits, 1 << 16),
	PROPERTY(clock_khz, INT32_MAX),
	PROPERTY(memory_clock_khz, INT32_MAX),
	PROPERTY(watts, 1 << 16),
#undef PROPERTY
};

static bool set_property(struct sim_profile *profile, struct line *line, const char *name)
{
	if (!strcmp(name, "product")) {
		if (!*line->rest || strlen(line->rest) > 200)
			refuse(line, "'product' expects a name of at most 200 bytes");
		profile->product = strcpy(sim_alloc(strlen(line->rest) + 1), line->rest);
		return true;
	}
	if (!strcmp(name, "capacity_bytes")) {
		profile->capacity_bytes = only_number(line, name, SIM_MIB(1), MAX_BYTES);
		return true;
	}
	if (!strcmp(name, "compute_capability")) {
		int cc = (int)only_number(line, name, 50, 999);

		profile->cc_major = cc / 10;
		profile->cc_minor = cc % 10;
		return true;
	}
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
		if (strcmp(properties[i].name, name))
			continue;
		*(int *)((char *)profile + properties[i].offset) =
			(int)only_number(line, name, 1, (unsigned long long)properties[i].max);
		return true;
	}
	return false;
}

static bool set_quantity(struct line *line, const char *name)
{
#define QUANTITY(field, owner, value, source)                                                                \
	if (!strcmp(name, #field)) {                                                                         \
		model.field = only_number(line, name, 0, MAX_BYTES);                                         \
		return true;                                                                                 \
	}
#include "simgpu/memory_model.def"
#undef QUANTITY
	return false;
}

/*
 * Properties decide the defaults of quantities, so there are two passes: the first, with PROFILE, takes only
 * properties, the second everything else.
 */
static void read_line(struct line *line, char *text, struct sim_profile *profile)
{
	static struct sim_profile ignored;
	char *name = text;

	line->rest = name + strcspn(name, " ");
	if (*line->rest)
		*line->rest++ = 0;
	if (!*name || *name == '#')
		return;
	if (profile) {
		set_property(profile, line, name);
		return;
	}
	if (!strcmp(name, "nccl"))
		add_nccl_row(line);
	else if (!strcmp(name, "answer"))
		add_answer(line);
	else if (!set_quantity(line, name) && !set_property(&ignored, line, name))
		refuse(line, "'%s' is not known", name);
}

static void read_file(const char *path, struct sim_profile *profile)
{
	struct line line = { .path = path };
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	ssize_t length;

	if (!f) {
		dprintf(STDERR_FILENO, "simgpu: cannot open SIMGPU_MODEL '%s': %s\n", path, strerror(errno));
		_exit(STATUS_TROUBLE);
	}
	while ((length = getline(&text, &size, f)) > 0) {
		line.number++;
		if (text[length - 1] == '\n')
			text[length - 1] = 0;
		read_line(&line, text, profile);
	}
	free(text);
	fclose(f);
}

void sim_model_load(struct sim_profile *profile)
{
	const char *path = getenv("SIMGPU_MODEL");
	bool has_file = path && *path;

	if (has_file)
		read_file(path, profile);
	set_defaults(profile);
	if (has_file)
		read_file(path, NULL);
	sim_answers_added();
}
