/* SPDX-License-Identifier: MIT */
/* What a finding says. */
#include "analyzer/oom/autopsy_facts.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"

void autopsy_set_aside(struct autopsy *a, struct said said)
{
	a->aside = heap_need(realloc(a->aside, (a->nr_aside + 1) * sizeof(*a->aside)));
	a->aside[a->nr_aside++] = said;
}

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
