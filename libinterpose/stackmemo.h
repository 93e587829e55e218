/* SPDX-License-Identifier: MIT */
/*
 * stackmemo: stack ids by the keys that they were found by once.
 *
 * A training step asks for some thousand stacks, in the order in which the step before asked for them. Between two questions
 * for the same one lie milliseconds, after which no cache of the processor has its entry any more. So each entry says which
 * one was asked for after it, and that one is fetched while the program goes on: mostly it is the next one asked for.
 *
 * Threading: a struct stackmemo belongs to one thread at a time.
 */
#ifndef IP_STACKMEMO_H
#define IP_STACKMEMO_H

#include <stdint.h>

#define STACKMEMO_MAX (1u << 14) /* entries; a full memo begins anew */
#define STACKMEMO_SLOT_BITS 15

struct stackmemo_entry {
	uint64_t key;
	uint32_t id;   /* 0 = nobody has stored one */
	uint32_t next; /* the entry that was asked for after this one, 0 = none yet */
};

/* All zero: empty. Entries lie in the order of their first question, so that few pages and lines are touched. */
struct stackmemo {
	uint32_t nr, latest;
	uint16_t slot[1 << STACKMEMO_SLOT_BITS]; /* hash of a key -> its entry, 0 = none */
	struct stackmemo_entry entry[STACKMEMO_MAX]; /* 0 is no key's */
};

/* As stackmemo_find(), without a guess: the entry's number. */
uint32_t stackmemo_look_up(struct stackmemo *m, uint64_t key);

/* The entry of a key, made where there is none; valid until the next call. The caller stores the id. */
static inline struct stackmemo_entry *stackmemo_find(struct stackmemo *m, uint64_t key)
{
	uint32_t at = m->entry[m->latest].next;

	if (!at || m->entry[at].key != key) {
		at = stackmemo_look_up(m, key);
		m->entry[m->latest].next = at;
	}
	m->latest = at;
	__builtin_prefetch(&m->entry[m->entry[at].next]);
	return &m->entry[at];
}

#endif
