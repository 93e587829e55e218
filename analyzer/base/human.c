/* SPDX-License-Identifier: MIT */
/* Numbers as people read and type them. */
#include "analyzer/base/human.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

static const char *const binary_units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
#define NR_UNITS ((int)(sizeof(binary_units) / sizeof(binary_units[0])))

/* Decimals that make three significant digits. */
static int decimals(double value)
{
	return value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
}

const char *human_bytes(char buf[static HUMAN_MAX], uint64_t bytes)
{
	double value = (double)bytes;
	int unit = 0;

	if (bytes < 1024) {
		snprintf(buf, HUMAN_MAX, "%u B", (unsigned)bytes);
		return buf;
	}
	/* 1023.5 would print as 1024: it belongs to the next unit. */
	while (unit + 1 < NR_UNITS && value >= 1023.5) {
		value /= 1024;
		unit++;
	}
	snprintf(buf, HUMAN_MAX, "%.*f %s", decimals(value), value, binary_units[unit]);
	return buf;
}

const char *human_signed_bytes(char buf[static HUMAN_MAX], int64_t bytes)
{
	char size[HUMAN_MAX];

	human_bytes(size, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes);
	snprintf(buf, HUMAN_MAX, "%s%.*s", bytes < 0 ? "-" : "", HUMAN_MAX - 2, size);
	return buf;
}

const char *human_bytes_delta(char buf[static HUMAN_MAX], int64_t bytes)
{
	char size[HUMAN_MAX];
	uint64_t magnitude = bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes;

	human_bytes(size, magnitude);
	snprintf(buf, HUMAN_MAX, "%s%.*s", bytes < 0 ? "-" : bytes > 0 ? "+" : "", HUMAN_MAX - 2, size);
	return buf;
}

const char *human_ns(char buf[static HUMAN_MAX], uint64_t ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	uint64_t seconds = ns / 1000000000u;
	double value = (double)ns;
	int unit = 0;

	if (ns == 0) {
		snprintf(buf, HUMAN_MAX, "0 s");
	} else if (ns < 1000) {
		snprintf(buf, HUMAN_MAX, "%u ns", (unsigned)ns);
	} else if (ns < 99950000000u) {
		while (unit < 3 && value >= 999.5) {
			value /= 1000;
			unit++;
		}
		snprintf(buf, HUMAN_MAX, "%.*f %s", decimals(value), value, units[unit]);
	} else if (seconds < 3600) {
		snprintf(buf, HUMAN_MAX, "%u min %02u s", (unsigned)(seconds / 60), (unsigned)(seconds % 60));
	} else if (seconds < 86400) {
		snprintf(buf, HUMAN_MAX, "%u h %02u min", (unsigned)(seconds / 3600),
			 (unsigned)(seconds / 60 % 60));
	} else {
		snprintf(buf, HUMAN_MAX, "%llu d %02u h", (unsigned long long)(seconds / 86400),
			 (unsigned)(seconds / 3600 % 24));
	}
	return buf;
}

const char *human_count(char buf[static HUMAN_MAX], uint64_t count)
{
	char *p = buf + HUMAN_MAX - 1;
	int digits = 0;

	*p = 0;
	do {
		if (digits && digits % 3 == 0)
			*--p = ',';
		*--p = (char)('0' + count % 10);
		count /= 10;
		digits++;
	} while (count);
	memmove(buf, p, strlen(p) + 1);
	return buf;
}

const char *human_percent(char buf[static HUMAN_MAX], double part, double whole)
{
	double percent = whole != 0 ? 100 * part / whole : NAN;

	if (isfinite(percent) && fabs(percent) < 1e15)
		snprintf(buf, HUMAN_MAX, "%.1f%%", percent);
	else
		snprintf(buf, HUMAN_MAX, "-");
	return buf;
}

const char *human_unix_ns(char buf[static HUMAN_MAX], uint64_t unix_ns)
{
	time_t seconds = (time_t)(unix_ns / 1000000000u);
	struct tm tm;

	if (!localtime_r(&seconds, &tm) || !strftime(buf, HUMAN_MAX, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(buf, HUMAN_MAX, "-");
	return buf;
}

/* Bytes per unit for "", "B", "K", "kB", "KB", "KiB", ... in any case; 0 = not a unit. */
static uint64_t unit_scale(const char *unit)
{
	static const char letters[] = "kmgtpe";
	const char *letter;
	uint64_t scale = 1, base = 1024;

	if (!*unit || !strcasecmp(unit, "b"))
		return 1;
	letter = strchr(letters, tolower((unsigned char)unit[0]));
	if (!letter || !*letter)
		return 0;
	if (!strcasecmp(unit + 1, "b"))
		base = 1000;
	else if (unit[1] && strcasecmp(unit + 1, "i") && strcasecmp(unit + 1, "ib"))
		return 0;
	for (const char *l = letters; l <= letter; l++)
		scale *= base;
	return scale;
}

bool human_parse_bytes(const char *text, uint64_t *bytes)
{
	const char *p = text;
	uint64_t whole = 0, scale, total;
	double fraction = 0, weight = 0.1;

	if (!isdigit((unsigned char)*p))
		return false;
	for (; isdigit((unsigned char)*p); p++) {
		if (__builtin_mul_overflow(whole, 10u, &whole) ||
		    __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
			return false;
	}
	if (*p == '.') {
		if (!isdigit((unsigned char)*++p))
			return false;
		for (; isdigit((unsigned char)*p); p++, weight /= 10)
			fraction += (*p - '0') * weight;
	}
	while (*p == ' ')
		p++;
	scale = unit_scale(p);
	if (!scale || (fraction > 0 && scale == 1) || __builtin_mul_overflow(whole, scale, &total) ||
	    __builtin_add_overflow(total, (uint64_t)(fraction * (double)scale + 0.5), &total))
		return false;
	*bytes = total;
	return true;
}

bool human_parse_time(const char *text, uint64_t *ns)
{
	static const struct {
		const char *suffix;
		double ns;
	} units[] = { { "", 1e9 }, { "s", 1e9 }, { "ms", 1e6 }, { "us", 1e3 }, { "ns", 1 }, { "min", 60e9 } };
	char *end;
	double number;

	errno = 0;
	if (strspn(text, "0123456789.") == 0)
		return false;
	number = strtod(text, &end);
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(end, units[i].suffix) || errno || !(number * units[i].ns < 1e19))
			continue;
		/* Whole nanoseconds are beyond a double's exactness after 104 days. */
		*ns = units[i].ns == 1 ? strtoull(text, NULL, 10) : (uint64_t)(number * units[i].ns + 0.5);
		return true;
	}
	return false;
}
