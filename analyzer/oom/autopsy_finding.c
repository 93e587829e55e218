/* SPDX-License-Identifier: MIT */
/* What a finding says. */
#include "analyzer/oom/autopsy_facts.h"

void autopsy_say(struct autopsy_finding *f, struct said said)
{
	f->sentence = said;
}

void autopsy_evidence(struct autopsy_finding *f, struct said said)
{
	if (f->nr_evidence < AUTOPSY_LINES_MAX)
		f->evidence[f->nr_evidence++] = said;
}

void autopsy_advise(struct autopsy_finding *f, struct said said)
{
	if (f->nr_advice < AUTOPSY_LINES_MAX)
		f->advice[f->nr_advice++] = said;
}
