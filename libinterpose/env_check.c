/* SPDX-License-Identifier: MIT */
/* What of the environment could not be understood: noted for the trace, never printed. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Those of `vramtrace` itself are here, too: its settings reach the programs that it runs. */
static bool is_known(const char *name, size_t len)
{
	static const char *const known[] = {
		"OUTPUT", "JOB", "STACKS", "SIMULATE", "FILTER", "CUPTI", "TRACKER", "SAMPLE_MIB", "OWNERS", "NVTX_NEXT",
		"ARGV", "BUILD",
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
			ip_env_note("unknown variable '" PREFIX "%.*s': it sets nothing", (int)(len < 60 ? len : 60), name);
		else
			nr_more++;
	}
	if (nr_more)
		ip_env_note("%u more unknown variables " PREFIX "*", nr_more);
}
