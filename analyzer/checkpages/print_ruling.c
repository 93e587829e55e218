/* SPDX-License-Identifier: MIT */
/* Rulings and stacks in words. */
#include "analyzer/checkpages/print_ruling.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
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

const char *print_ruling(char buf[static RULING_TEXT_MAX], const struct ruling *r)
{
	char device[64], actual[HUMAN_MAX], allowed[HUMAN_MAX], over[HUMAN_MAX];

	footprint_device_name(device, sizeof(device), r->device);
	print_amount(actual, r, r->actual, false);
	print_amount(allowed, r, r->allowed, false);
	if (r->unit == UNIT_COUNT && !r->is_broken)
		snprintf(buf, RULING_TEXT_MAX, "%s did not run out of memory (%.128s)", device, r->origin);
	else if (r->unit == UNIT_COUNT && r->actual == 1)
		snprintf(buf, RULING_TEXT_MAX, "%s ran out of memory (%.128s)", device, r->origin);
	else if (r->unit == UNIT_COUNT)
		snprintf(buf, RULING_TEXT_MAX, "%s ran out of memory %s times (%.128s)", device, actual, r->origin);
	else if (r->is_broken)
		snprintf(buf, RULING_TEXT_MAX, "%s of %s is %s, %s above the %s of %.128s", r->of, device, actual,
			 print_amount(over, r, r->actual - r->allowed, false), allowed, r->origin);
	else
		snprintf(buf, RULING_TEXT_MAX, "%s of %s is %s, within the %s of %.128s", r->of, device, actual, allowed,
			 r->origin);
	return buf;
}

const char *print_rulings_line(char buf[static RULING_TEXT_MAX], const struct rulings *all, const char *recording)
{
	const char *s = all->nr_rulings == 1 ? "" : "s";
	char zeros[ZERO_TEXT_MAX];

	print_zeros(zeros, "; ", all->zero_answers);
	if (all->status == RULINGS_UNKNOWN)
		snprintf(buf, RULING_TEXT_MAX, "could not tell: %.480s", all->reason);
	else if (all->status == RULINGS_BROKEN)
		snprintf(buf, RULING_TEXT_MAX, "fail: %.300s breaks %zu of %zu limit%s%s", recording, all->nr_broken,
			 all->nr_rulings, s, zeros);
	else
		snprintf(buf, RULING_TEXT_MAX, "pass: %.300s keeps within %zu limit%s%s", recording, all->nr_rulings, s, zeros);
	return buf;
}

const char *print_blame_title(char buf[static RULING_TEXT_MAX], const struct rulings *all,
			      const struct footprint_device *d)
{
	static const char *const titles[] = { [BLAME_GREW] = "what grew at the peak of",
					      [BLAME_LEAVES] = "what each step leaves on",
					      [BLAME_HOLDS] = "largest holders at the peak of" };
	char name[64];

	snprintf(buf, RULING_TEXT_MAX, "%s %s", titles[rulings_blame_kind(all, d)],
		 footprint_device_name(name, sizeof(name), d));
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
