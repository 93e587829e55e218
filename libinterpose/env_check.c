/* SPDX-License-Identifier: MIT */
/* What of the environment could not be understood: noted for the trace, never printed. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "env.h"

#define PREFIX "VRAMTRACE_"

extern char **environ;

void ip_env_note(const char *format, ...)
{
	va_list args;

	if (ip_env.nr_notes == IP_ENV_NOTES)
		return;
	va_start(args, format);
	vsnprintf(ip_env.note[ip_env.nr_notes++], sizeof(ip_env.note[0]), format, args);
	va_end(args);
}

/* The values as a sentence has them: "python, full or none". */
static void list_values(char *out, size_t size, const char *const *values, unsigned nr)
{
	size_t n = 0;

	out[0] = 0;
	for (unsigned i = 0; i < nr && n < size; i++)
		n += (size_t)snprintf(out + n, size - n, "%s%s", i == 0 ? "" : i + 1 == nr ? " or " : ", ", values[i]);
}

unsigned ip_env_choose(const char *variable, const char *const *values, unsigned nr, unsigned otherwise)
{
	const char *v = getenv(variable);
	char known[64];

	if (!v || !*v)
		return otherwise;
	for (unsigned i = 0; i < nr; i++)
		if (!strcmp(v, values[i]))
			return i;
	list_values(known, sizeof(known), values, nr);
	ip_env_note("%s='%.60s' is not %s: %s taken", variable, v, known, values[otherwise]);
	return otherwise;
}

/* What a unit stands for; 0 if it is none. */
static uint64_t unit_bytes(const char *unit)
{
	static const char *const names[] = { "", "KiB", "MiB", "GiB", "TiB" };

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcasecmp(unit, names[i]))
			return 1ull << 10 * i;
	return 0;
}

/* A number with what follows it; false if there is none, or it is too large. */
static bool read_number(const char *text, uint64_t *number, char **end)
{
	errno = 0;
	*number = strtoull(text, end, 10);
	return *text >= '0' && *text <= '9' && !errno;
}

uint64_t ip_env_size(const char *variable, uint64_t least)
{
	const char *v = getenv(variable);
	uint64_t number, unit;
	char *end;

	if (!v || !*v)
		return 0;
	if (read_number(v, &number, &end) && (unit = unit_bytes(end)) && number <= UINT64_MAX / unit &&
	    number * unit >= least)
		return number * unit;
	ip_env_note("%s='%.60s' is no size of at least %llu MiB: it sets nothing", variable, v,
		    (unsigned long long)(least >> 20));
	return 0;
}

uint64_t ip_env_number(const char *variable, uint64_t most)
{
	const char *v = getenv(variable);
	uint64_t number;
	char *end;

	if (!v || !*v)
		return 0;
	if (read_number(v, &number, &end) && !*end && number && number <= most)
		return number;
	ip_env_note("%s='%.60s' is no number of 1 or more: it sets nothing", variable, v);
	return 0;
}

/* Those of `vramtrace` itself are here, too: its settings reach the programs that it runs. */
static bool is_known(const char *name, size_t len)
{
	static const char *const known[] = {
		"OUTPUT", "JOB",       "STACKS", "SIMULATE", "FILTER", "CUPTI",      "TRACKER",    "SAMPLE_MIB",
		"OWNERS", "NVTX_NEXT", "ARGV",   "BUILD",    "KEEP",   "KEEP_STEPS", "CATEGORIES",
		"WITNESS", "UNWINDER",  "RINGS",  "KEEPER", "NAMES", "NAMES_MEMORY", "NAMES_SECONDS",
	};

	for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strlen(known[i]) == len && !strncmp(name, known[i], len))
			return true;
	return false;
}

void ip_env_check_names(void)
{
	unsigned nr_more = 0;

	for (char **e = environ; e && *e; e++) {
		const char *name = *e + strlen(PREFIX);
		size_t len;

		if (strncmp(*e, PREFIX, strlen(PREFIX)))
			continue;
		len = strcspn(name, "=");
		if (is_known(name, len))
			continue;
		if (ip_env.nr_notes < IP_ENV_NOTES - 1)
			ip_env_note("unknown variable '" PREFIX "%.*s': it sets nothing", (int)(len < 60 ? len : 60),
				    name);
		else
			nr_more++;
	}
	if (nr_more)
		ip_env_note("%u more unknown variables " PREFIX "*", nr_more);
}
