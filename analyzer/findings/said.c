/* SPDX-License-Identifier: MIT */
/* Sentences with their facts; see said.h. */
#include "analyzer/findings/said.h"

#include <string.h>

struct said said_of(enum sentence sentence, const struct fact *facts, size_t nr_facts)
{
	struct said s = { .sentence = sentence };

	for (size_t i = 0; i < nr_facts && s.nr_facts < SAID_FACTS_MAX; i++)
		if (facts[i].unit != FACT_ABSENT)
			s.fact[s.nr_facts++] = facts[i];
	return s;
}

const struct fact *said_fact(const struct said *s, const char *key)
{
	for (unsigned i = 0; i < s->nr_facts; i++)
		if (!strcmp(s->fact[i].key, key))
			return &s->fact[i];
	return NULL;
}
