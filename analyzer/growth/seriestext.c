/* SPDX-License-Identifier: MIT */
/* A series of readings from a text; see seriestext.h. */
#include "analyzer/growth/seriestext.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/growth/growth_thresholds.h"

#define LINE_MAX_BYTES 4096 /* of a line; what comes after it is not looked at */
#define LARGEST 9223372036854775808.0

double seriestext_unit(const char *unit, size_t length, bool is_binary, bool *is_decimal)
{
	static const char letters[] = "kmgtp";
	const char *letter;
	double bytes = 1;

	*is_decimal = false;
	if (!length)
		return 0;
	if ((length == 1 && (*unit == 'b' || *unit == 'B')) ||
	    (length == 4 && !strncasecmp(unit, "byte", 4)) || (length == 5 && !strncasecmp(unit, "bytes", 5)))
		return 1;
	letter = strchr(letters, tolower((unsigned char)*unit));
	if (!letter || !*letter)
		return 0;
	if (length == 2 && tolower((unsigned char)unit[1]) == 'b')
		*is_decimal = !is_binary;
	else if (length != 1 && !(length == 2 && !strncasecmp(unit + 1, "i", 1)) &&
		 !(length == 3 && !strncasecmp(unit + 1, "ib", 2)))
		return 0;
	for (const char *l = letters; l <= letter; l++)
		bytes *= *is_decimal ? 1000 : 1024;
	return bytes;
}

/* ---- words and numbers of a line ------------------------------------------------------------- */

struct number {
	double value;
	int decimals;
	const char *end;
};

/* "18.2", "18,432" (not in CSV), "1.8e10", "-3", "nan". */
static bool take_number(const char *p, bool has_commas, struct number *n)
{
	char digits[64];
	size_t nr = 0;
	const char *at = p;
	char *end;

	n->decimals = 0;
	if (*at == '-' || *at == '+')
		digits[nr++] = *at++;
	if (!strncasecmp(at, "nan", 3) || !strncasecmp(at, "inf", 3)) {
		n->value = NAN;
		n->end = at + 3 + (strncasecmp(at, "infinity", 8) ? 0 : 5);
		return !isalnum((unsigned char)*n->end);
	}
	if (!isdigit((unsigned char)*at) && !(*at == '.' && isdigit((unsigned char)at[1])))
		return false;
	for (bool is_fraction = false; nr < sizeof(digits) - 1; at++) {
		if (isdigit((unsigned char)*at)) {
			n->decimals += is_fraction;
		} else if (*at == '.' && !is_fraction && isdigit((unsigned char)at[1])) {
			is_fraction = true;
		} else if (*at == ',' && has_commas && !is_fraction && strspn(at + 1, "0123456789") == 3) {
			continue;
		} else if ((*at == 'e' || *at == 'E') &&
			   isdigit((unsigned char)at[1 + (at[1] == '+' || at[1] == '-')])) {
			digits[nr++] = *at++;
			if (nr < sizeof(digits) - 1 && !isdigit((unsigned char)*at))
				digits[nr++] = *at++;
			is_fraction = true;
			n->decimals = 0;
			while (isdigit((unsigned char)*at) && nr < sizeof(digits) - 1)
				digits[nr++] = *at++;
			break;
		} else {
			break;
		}
		digits[nr++] = *at;
	}
	digits[nr] = 0;
	n->value = strtod(digits, &end);
	n->end = at;
	return !isdigit((unsigned char)*at);
}

/* A word with what it says of the number after it. */
struct word {
	const char *start;
	size_t length;
};

static bool is_word_byte(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '/' || c == '.';
}

/* Does the word contain the text, whatever the case? */
static bool has(const struct word *w, const char *text)
{
	size_t n = strlen(text);

	for (size_t i = 0; i + n <= w->length; i++)
		if (!strncasecmp(w->start + i, text, n))
			return true;
	return false;
}

static bool ends_in(const struct word *w, const char *text)
{
	size_t n = strlen(text);

	return w->length >= n && !strncasecmp(w->start + w->length - n, text, n);
}

static bool is_step_word(const struct word *w)
{
	static const char *const words[] = { "step", "steps", "iter", "iteration", "it", "global_step" };

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (w->length == strlen(words[i]) && !strncasecmp(w->start, words[i], w->length))
			return true;
	return ends_in(w, "/step") || ends_in(w, "/global_step") || ends_in(w, "_step");
}

/* 0: no memory word; 2: a peak, which never falls; 3: what PyTorch's allocator or the device holds now. */
static int rank_memory_word(const struct word *w, const char *key)
{
	bool is_memory = has(w, "mem") || has(w, "vram") || has(w, "alloc") || has(w, "reserved");

	if (key)
		return w->length == strlen(key) && !strncasecmp(w->start, key, w->length) ? 3 : 0;
	if (!is_memory)
		return 0;
	return has(w, "max") || has(w, "peak") ? 2 : 3;
}

/* "gpu_mem_gb", "memory_MiB": the unit that a word ends in. */
static double unit_of_word(const struct word *w, const struct seriestext_rules *rules, bool *is_decimal)
{
	const char *end = w->start + w->length, *start = end;

	while (start > w->start && isalpha((unsigned char)start[-1]))
		start--;
	if (start == w->start || (size_t)(end - start) < 2)
		return 0;
	return seriestext_unit(start, (size_t)(end - start), rules->is_binary, is_decimal);
}

/* "(GB)", "[MiB]" between a word and its number. */
static double take_bracketed_unit(const char **p, const struct seriestext_rules *rules, bool *is_decimal)
{
	size_t n;
	double unit;

	if (**p != '(' && **p != '[')
		return 0;
	n = strcspn(*p + 1, ")]");
	unit = seriestext_unit(*p + 1, n, rules->is_binary, is_decimal);
	if (unit > 0 && (*p)[n + 1])
		*p += n + 2;
	return unit;
}

/* ---- a line ---------------------------------------------------------------------------------- */

struct found {
	bool has_step, has_memory, has_unit;
	int rank; /* of the memory word */
	double step, memory, unit;
	bool is_decimal;
	int decimals;
};

/* Units that stand directly after a number, as in "18.2GB" and "18.2 GiB,". */
static double take_unit(const char *p, const struct seriestext_rules *rules, bool *is_decimal)
{
	size_t n = 0;

	while (*p == ' ')
		p++;
	while (isalpha((unsigned char)p[n]))
		n++;
	return seriestext_unit(p, n, rules->is_binary, is_decimal);
}

static void read_memory(struct found *f, const struct word *w, const char *p, int rank,
			const struct seriestext_rules *rules)
{
	bool is_decimal = false;
	double unit, after;
	struct number n;

	p += strspn(p, " ");
	unit = take_bracketed_unit(&p, rules, &is_decimal);
	p += strspn(p, " :=\"'\t");
	/* "Memory usage: 18.2GB", "GPU memory in use 18.2GB". */
	for (int words = 0; words < 2 && isalpha((unsigned char)*p); words++) {
		while (isalpha((unsigned char)*p))
			p++;
		p += strspn(p, " :=\"'\t");
	}
	if (rank <= f->rank || !take_number(p, true, &n))
		return;
	after = take_unit(n.end, rules, &is_decimal);
	if (after > 0)
		unit = after;
	else if (!(unit > 0))
		unit = unit_of_word(w, rules, &is_decimal);
	f->has_memory = true;
	f->rank = rank;
	f->memory = n.value;
	f->decimals = n.decimals;
	f->has_unit = unit > 0;
	f->unit = unit;
	f->is_decimal = is_decimal;
}

static void read_log_line(struct found *f, const char *line, const struct seriestext_rules *rules)
{
	for (const char *p = line; *p;) {
		struct word w = { p, 0 };
		struct number n;
		int rank;

		while (is_word_byte(p[w.length]))
			w.length++;
		if (!w.length || isdigit((unsigned char)*p)) {
			p += w.length ? w.length : 1;
			continue;
		}
		p += w.length;
		if (!f->has_step && is_step_word(&w) && take_number(p + strspn(p, " :=\"'[#\t"), true, &n)) {
			f->has_step = true;
			f->step = n.value;
		}
		rank = rank_memory_word(&w, rules->key);
		if (rank)
			read_memory(f, &w, p, rank, rules);
	}
}

/* "100,19541594112", "100 18.2GiB", "100;18.2 GB": two numbers and nothing else. */
static bool read_pair(struct found *f, const char *line, const struct seriestext_rules *rules)
{
	struct number step, memory;
	const char *p = line + strspn(line, " \t\"");
	bool is_decimal;
	double unit;
	size_t n = 0;

	if (!take_number(p, false, &step))
		return false;
	p = step.end + strspn(step.end, " \t\"");
	if (p == step.end && !strchr(",;", *p))
		return false;
	p += *p == ',' || *p == ';';
	p += strspn(p, " \t\"");
	if (!take_number(p, false, &memory))
		return false;
	p = memory.end + strspn(memory.end, " \t");
	while (isalpha((unsigned char)p[n]))
		n++;
	unit = seriestext_unit(p, n, rules->is_binary, &is_decimal);
	if (p[n + strspn(p + n, " \t\"\r")] || (n && !(unit > 0)))
		return false;
	*f =
		(struct found){ true, true,       true,           3, step.value, memory.value,
				unit, is_decimal, memory.decimals };
	f->has_unit = n > 0;
	return true;
}

/* ---- the series ------------------------------------------------------------------------------ */

/* What is kept while reading: neighbours are merged when there is no room, so each stands for as many
 * readings. */
struct reader {
	struct seriestext *s;
	const struct seriestext_rules *rules;
	double step_sum, bytes_sum; /* of the readings that the next one to keep stands for */
	uint64_t nr_pending, nr_counted;
	double last_step;
	double header_unit; /* of a table's column: 1 where its header says none */
	bool header_is_decimal, has_first;
	bool has_risen; /* some step of this run was more than the one before: the text does not go backwards */
};

static void flush_pending(struct reader *r)
{
	struct seriestext *s = r->s;

	if (!r->nr_pending)
		return;
	s->reading[s->nr++] = (struct growth_reading){ r->step_sum / (double)r->nr_pending,
						       r->bytes_sum / (double)r->nr_pending };
	r->step_sum = r->bytes_sum = 0;
	r->nr_pending = 0;
	if (s->nr < GROWTH_READINGS_MAX)
		return;
	for (size_t i = 0; i < s->nr / 2; i++)
		s->reading[i] =
			(struct growth_reading){ (s->reading[2 * i].step + s->reading[2 * i + 1].step) / 2,
						 (s->reading[2 * i].bytes + s->reading[2 * i + 1].bytes) /
							 2 };
	s->nr /= 2;
	s->thinned *= 2;
}

static void begin_again(struct reader *r)
{
	r->s->nr = 0;
	r->s->nr_readings = 0;
	r->s->nr_unordered = 0;
	r->has_risen = false;
	r->s->thinned = 1;
	r->nr_pending = 0;
	r->step_sum = r->bytes_sum = 0;
}

static void keep_reading(struct reader *r, const struct found *f)
{
	struct seriestext *s = r->s;
	double step = f->has_step ? f->step : (double)++r->nr_counted;

	if (!r->has_first) {
		s->is_counted = !f->has_step;
		s->is_decimal = f->is_decimal;
		r->has_first = true;
	} else if (s->is_counted && f->has_step) {
		/* Some lines name a step, some do not: those that do are the series. */
		s->trouble[SERIESTEXT_NO_NUMBER] += s->nr_readings;
		s->is_counted = false;
		begin_again(r);
		r->last_step = 0;
	} else if (!s->is_counted && !f->has_step) {
		s->trouble[SERIESTEXT_NO_NUMBER]++;
		return;
	}
	if (step < r->last_step / RESTART_PART && r->has_risen) {
		s->nr_restarts++;
		begin_again(r);
	} else if (s->nr_readings) {
		s->nr_unordered += step < r->last_step;
		r->has_risen |= step > r->last_step;
	}
	r->last_step = step;
	s->nr_readings++;
	if (f->decimals > s->decimals)
		s->decimals = f->decimals < 6 ? f->decimals : 6;
	r->step_sum += step;
	r->bytes_sum += f->memory * f->unit;
	if (++r->nr_pending == s->thinned)
		flush_pending(r);
}

/* "step,memory_gb", "step,memory (GiB)": the unit of a table's second column. */
static void read_header(struct reader *r, const char *line)
{
	struct word w = { line + strcspn(line, ",;\t"), 0 };
	const char *p;
	double unit;

	w.start += *w.start != 0;
	w.start += strspn(w.start, " \"");
	while (is_word_byte(w.start[w.length]))
		w.length++;
	p = w.start + w.length;
	p += strspn(p, " ");
	unit = take_bracketed_unit(&p, r->rules, &r->header_is_decimal);
	r->header_unit = unit > 0 ? unit : unit_of_word(&w, r->rules, &r->header_is_decimal);
}

/* Where neither the number nor its word has a unit: the user's; in a table, its header's, or bytes. */
static void supply_unit(const struct reader *r, struct found *f, bool is_pair)
{
	f->has_unit = true;
	if (r->rules->unit_bytes > 0) {
		f->unit = r->rules->unit_bytes;
		f->is_decimal = r->rules->unit_is_decimal;
	} else if (is_pair && r->header_unit > 0) {
		f->unit = r->header_unit;
		f->is_decimal = r->header_is_decimal;
	} else {
		f->unit = 1;
		f->has_unit = is_pair;
	}
}

static void read_line(struct reader *r, const char *line)
{
	struct found f = { 0 };
	struct seriestext *s = r->s;
	bool is_pair = read_pair(&f, line, r->rules);
	double bytes;

	s->nr_lines++;
	if (!is_pair)
		read_log_line(&f, line, r->rules);
	if (!f.has_memory && !s->nr_readings)
		read_header(r, line);
	if (f.has_memory && !f.has_unit)
		supply_unit(r, &f, is_pair);
	bytes = f.memory * f.unit;
	if (!f.has_memory)
		s->trouble[SERIESTEXT_NO_NUMBER]++;
	else if (isnan(f.memory) || (f.has_step && isnan(f.step)))
		s->trouble[SERIESTEXT_NOT_FINITE]++;
	else if (!f.has_unit)
		s->trouble[SERIESTEXT_NO_UNIT]++;
	else if (bytes < 0 || (f.has_step && f.step < 0))
		s->trouble[SERIESTEXT_NEGATIVE]++;
	else if (!(bytes < LARGEST) || (f.has_step && !(f.step < LARGEST)))
		s->trouble[SERIESTEXT_NOT_FINITE]++;
	else
		keep_reading(r, &f);
}

static int compare_readings(const void *a, const void *b)
{
	const struct growth_reading *x = a, *y = b;

	return (x->step > y->step) - (x->step < y->step);
}

int seriestext_read(struct seriestext *s, const struct seriestext_rules *rules, FILE *in)
{
	char line[LINE_MAX_BYTES + 1];
	struct reader r = { .s = s, .rules = rules };
	size_t nr = 0;
	int c;

	*s = (struct seriestext){ .thinned = 1 };
	errno = 0;
	while ((c = getc_unlocked(in)) != EOF) {
		if (c != '\n' && c != '\r') {
			if (nr < LINE_MAX_BYTES)
				line[nr++] = c ? (char)c : '?';
			continue;
		}
		line[nr] = 0;
		if (nr)
			read_line(&r, line);
		nr = 0;
	}
	line[nr] = 0;
	if (nr)
		read_line(&r, line);
	if (ferror(in))
		return errno ? -errno : -EIO;
	flush_pending(&r);
	qsort(s->reading, s->nr, sizeof(s->reading[0]), compare_readings);
	return 0;
}
