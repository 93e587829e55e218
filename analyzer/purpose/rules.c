/* SPDX-License-Identifier: MIT */
/* Both files of rules, in the order in which what is wrong with them is said. */
#include "analyzer/purpose/rules.h"

#include "analyzer/command.h"
#include "analyzer/purpose/category_rules.h"
#include "analyzer/stacks/owner_rules.h"

int rules_load(void)
{
	return owner_rules_load() || category_rules_load() ? CMD_TROUBLE : CMD_FINE;
}
