/* SPDX-License-Identifier: MIT */
/* Which of the causes that apply is the verdict, what is said beside it, and what is set aside. */
#ifndef VT_AUTOPSY_RANK_H
#define VT_AUTOPSY_RANK_H

#include "analyzer/oom/autopsy_facts.h"

/*
 * Put the findings of an autopsy, all causes that apply in the order of their table, in order: the verdict first, then what
 * is told beside it, AUTOPSY_FINDINGS_MAX in all; the others go to what is set aside.
 *
 * The verdict is of the first kind that there is; within it, what explains most, where what is likely counts twice as much
 * as a hint, and what is proven four times. The first in the table stays first where two are alike. But what is held comes
 * after what is proven to lie unused, or to be others', where that is more than all that is held.
 */
void autopsy_rank(struct autopsy *a);

/* Of a finding with its site and name: does a census make it certain, or what would? */
void autopsy_judge(const struct autopsy *a, struct autopsy_finding *f);

#endif
