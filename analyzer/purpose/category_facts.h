/* SPDX-License-Identifier: MIT */
/* What blocks are for, as a census tells: of those that it has seen, and of those that are like them. */
#ifndef VT_CATEGORY_FACTS_H
#define VT_CATEGORY_FACTS_H

#include "analyzer/names/names.h"
#include "analyzer/purpose/category.h"

/*
 * What a census tells of some blocks holds for those that none has seen and that are like them: made by the same stack in the
 * same shape (a group), with the same fate.
 */
struct category_facts {
	const struct names *names; /* NULL: there was no census */
	uint8_t *told;             /* by group and fate. private */
};

void category_facts_init(struct category_facts *f, const struct replay_process *process);
void category_facts_release(struct category_facts *f);

/* As the functions of names.h want a block. */
struct names_block category_facts_block(const struct life *life);

/* Has a census seen it? */
bool category_facts_saw(const struct category_facts *f, const struct life *life);

/* What a census says that a block is for; NR_CATEGORIES: none does. `fate`: of a life so far. */
enum category category_facts_learn(struct category_facts *f, const struct life *life, enum lives_fate fate);

/* The same by blocks that are like it, once all have been learnt; NR_CATEGORIES: nothing, or of one this, of another that. */
enum category category_facts_by_likes(const struct category_facts *f, const struct life *life, enum lives_fate fate);

#endif
