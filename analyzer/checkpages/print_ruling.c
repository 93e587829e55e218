/* SPDX-License-Identifier: MIT */
/* Rulings and stacks in words. */
#include "analyzer/checkpages/print_ruling.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/findings/sentence.h"
#include "analyzer/pages/print_recording.h"

const char *print_place(char buf[static RULING_TEXT_MAX], const struct footprint_stack *s)
{
	char site[RULING_TEXT_MAX];

	if (*s->file && s->line)
		snprintf(site, sizeof(site), "%s:%" PRIu32 "%s%s", s->file, s->line, *s->function ? " in " : "",
			 s->function);
	else if (*s->file)
		snprintf(site, sizeof(site), "%s%s%s", s->file, *s->function ? " in " : "", s->function);
	else
		snprintf(site, sizeof(site), "%s", s->function);
	if (*s->node && *site)
		snprintf(buf, RULING_TEXT_MAX, "%.160s, %s%.300s", s->node, s->from_forward ? "from forward " : "at ", site);
	else
		snprintf(buf, RULING_TEXT_MAX, "%s", *s->node ? s->node : site);
	return buf;
}

const char *print_callers(char buf[static RULING_TEXT_MAX], const struct footprint_stack *s, size_t width)
{
	size_t n = 0;

	buf[0] = 0;
	for (uint32_t i = 0; i < s->nr_callers; i++) {
		if (n && n + strlen(" < ") + strlen(s->caller[i]) > width)
			break;
		n += (size_t)snprintf(buf + n, RULING_TEXT_MAX - n, "%s%.*s", i ? " < " : "", (int)width,
				      s->caller[i]);
	}
	return buf;
}

const char *print_what(char buf[static RULING_TEXT_MAX], const struct footprint_stack *s)
{
	snprintf(buf, RULING_TEXT_MAX, "%s", *s->shape ? s->shape : *s->call ? s->call : "without a shape");
	return buf;
}

const char *print_amount(char buf[static HUMAN_MAX], const struct ruling *r, uint64_t amount, bool raw)
{
	if (r->unit == UNIT_HUNDREDTHS)
		snprintf(buf, HUMAN_MAX, "%.2f%%", (double)amount / 100);
	else if (r->unit == UNIT_COUNT || raw)
		snprintf(buf, HUMAN_MAX, "%" PRIu64, amount);
	else
		human_bytes(buf, amount);
	return buf;
}

const char *print_excess(char buf[static HUMAN_MAX], const struct ruling *r, bool raw)
{
	char amount[HUMAN_MAX];

	buf[0] = 0;
	if (r->is_broken)
		snprintf(buf, HUMAN_MAX, "+%.*s", HUMAN_MAX - 2, print_amount(amount, r, r->actual - r->allowed, raw));
	return buf;
}

static struct said ruling_said(const struct ruling *r)
{
	char device_text[64], actual_text[HUMAN_MAX], allowed_text[HUMAN_MAX], over_text[HUMAN_MAX], origin_text[129];
	struct fact device = fact_name("device", footprint_device_name(device_text, sizeof(device_text), r->device));
	struct fact origin, of = fact_name("of", r->of);
	struct fact actual = fact_name("actual", print_amount(actual_text, r, r->actual, false));
	struct fact allowed = fact_name("allowed", print_amount(allowed_text, r, r->allowed, false));

	snprintf(origin_text, sizeof(origin_text), "%s", r->origin);
	origin = fact_name("origin", origin_text);
	if (r->unit == UNIT_COUNT && !r->is_broken)
		return SAID(ruling_no_failure, device, origin);
	if (r->unit == UNIT_COUNT)
		return r->actual == 1 ? SAID(ruling_failure, device, origin) : SAID(ruling_failures, device, actual, origin);
	if (!r->is_broken)
		return SAID(ruling_kept, of, device, actual, allowed, origin);
	return SAID(ruling_broken, of, device, actual, fact_name("over", print_amount(over_text, r, r->actual - r->allowed, false)), allowed,
		    origin);
}

const char *print_ruling(char buf[static RULING_TEXT_MAX], const struct ruling *r)
{
	struct said said = ruling_said(r);
	char sentence[SENTENCE_MAX];

	snprintf(buf, RULING_TEXT_MAX, "%s", sentence_text(sentence, &said));
	return buf;
}

static struct said rulings_said(const struct rulings *all, const char *recording)
{
	char zero_text[ZERO_TEXT_MAX], file_text[301]; /* so that what it breaks has room after it */
	struct fact file, limits = fact_count("limits", all->nr_rulings);
	struct fact zeros = fact_name("zeros", print_zeros(zero_text, "; ", all->zero_answers));

	snprintf(file_text, sizeof(file_text), "%s", recording);
	file = fact_name("file", file_text);
	if (all->status == RULINGS_UNKNOWN)
		return SAID(rulings_not_told, fact_name("reason", all->reason));
	if (all->status == RULINGS_BROKEN)
		return SAID(rulings_fail, file, fact_count("broken", all->nr_broken), limits, zeros);
	return SAID(rulings_pass, file, limits, zeros);
}

const char *print_rulings_line(char buf[static RULING_TEXT_MAX], const struct rulings *all, const char *recording)
{
	struct said said = rulings_said(all, recording);
	char sentence[SENTENCE_MAX];

	snprintf(buf, RULING_TEXT_MAX, "%s", sentence_text(sentence, &said));
	return buf;
}

const char *print_blame_title(char buf[static RULING_TEXT_MAX], const struct rulings *all,
			      const struct footprint_device *d)
{
	static const enum sentence titles[] = { [BLAME_GREW] = SAY_blame_grew,
						[BLAME_LEAVES] = SAY_blame_leaves,
						[BLAME_HOLDS] = SAY_blame_holds };
	char name[64], sentence[SENTENCE_MAX];
	struct fact device = fact_name("device", footprint_device_name(name, sizeof(name), d));
	struct said said = said_of(titles[rulings_blame_kind(all, d)], &device, 1);

	snprintf(buf, RULING_TEXT_MAX, "%s", sentence_text(sentence, &said));
	return buf;
}

const char *print_blame(char buf[static RULING_TEXT_MAX], const struct compare_stack *s)
{
	const struct footprint_stack *stack = s->after ? s->after : s->before;
	char place[RULING_TEXT_MAX], what[RULING_TEXT_MAX], size[HUMAN_MAX];

	if (s->before)
		human_bytes_delta(size, s->grown_bytes);
	else
		human_bytes(size, stack->bytes);
	snprintf(buf, RULING_TEXT_MAX, "%s at %.300s (%.100s)", size, print_place(place, stack), print_what(what, stack));
	return buf;
}
