/* SPDX-License-Identifier: MIT */
/*
 * certainty: how sure a finding is of what it says. A hint rests on a name or on figures that have other explanations as
 * well, what is likely on how memory was used, what is proven on facts that leave no other: counts that add up, an answer of the
 * driver's, what a census saw.
 */
#ifndef VT_CERTAINTY_H
#define VT_CERTAINTY_H

enum certainty {
	CERTAINTY_HINT,
	CERTAINTY_LIKELY,
	CERTAINTY_PROVEN,
};

/* "hint", "likely", "proven": as JSON has it. Static. */
const char *certainty_name(enum certainty c);

/* What a sentence says before the finding: "perhaps ", "probably ", "". Static. */
const char *certainty_word(enum certainty c);

#endif
