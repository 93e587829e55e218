/* SPDX-License-Identifier: MIT */
/* The texts of a finding. */
#include "analyzer/oom/autopsy_facts.h"

#include <stdarg.h>
#include <stdio.h>

void autopsy_say(struct autopsy_finding *f, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(f->sentence, sizeof(f->sentence), format, ap);
	va_end(ap);
}

void autopsy_evidence(struct autopsy_finding *f, const char *format, ...)
{
	va_list ap;

	if (f->nr_evidence == AUTOPSY_LINES_MAX)
		return;
	va_start(ap, format);
	vsnprintf(f->evidence[f->nr_evidence++], AUTOPSY_TEXT_MAX, format, ap);
	va_end(ap);
}

void autopsy_advise(struct autopsy_finding *f, const char *format, ...)
{
	va_list ap;

	if (f->nr_advice == AUTOPSY_LINES_MAX)
		return;
	va_start(ap, format);
	vsnprintf(f->advice[f->nr_advice++], AUTOPSY_TEXT_MAX, format, ap);
	va_end(ap);
}
