/* SPDX-License-Identifier: MIT */
/*
 * The objects of a pickle that is being read: made, held by references, named by the memo.
 *
 * An object ends with its last reference. Objects that hold each other stay until all of them are released.
 */
#ifndef VT_PICKLEOBJECTS_H
#define VT_PICKLEOBJECTS_H

#include "analyzer/imports/pickle.h"

struct pickleobject {
	uint8_t type; /* enum pickle_type */
	uint8_t word; /* of a text */
	uint32_t references;
	uint32_t memo; /* the memo's latest number for it + 1; 0 = none */
	uint32_t tag;
	uint32_t nr, room; /* items; of a text, bytes */
	union {
		struct pickle_value *item;
		char *text;
		uint32_t next; /* of one that is free: the next such one, 0 = none */
	};
};

struct pickleobjects {
	struct pickleobject *object; /* [0] is none */
	size_t nr, room;
	uint32_t free; /* the first of those to be used again */
	uint32_t dead; /* the first of those that have no references any more, but items */
	uint32_t *memo; /* by number: object, 0 = none */
	size_t nr_memo, memo_room;
	uint64_t bytes; /* of all that */
};

static inline bool pickleobjects_is_object(struct pickle_value v)
{
	return v.type >= PICKLE_TEXT;
}

void pickleobjects_release(struct pickleobjects *o);

/* A new one without items, with one reference: the caller's. */
struct pickle_value pickleobjects_new(struct pickleobjects *o, enum pickle_type type);

/* A new text of these bytes. */
struct pickle_value pickleobjects_text(struct pickleobjects *o, const char *text, uint32_t len);

static inline void pickleobjects_hold(struct pickleobjects *o, struct pickle_value v)
{
	if (pickleobjects_is_object(v))
		o->object[v.object].references++;
}

/* One reference less. */
void pickleobjects_drop(struct pickleobjects *o, struct pickle_value v);

/* Add an item; the caller's reference to it becomes the container's. */
void pickleobjects_add(struct pickleobjects *o, uint32_t container, struct pickle_value item);

/* Drop all items, in one piece with what only they hold. */
void pickleobjects_clear(struct pickleobjects *o, uint32_t container);

/* The memo has an object under a number from now on. */
void pickleobjects_memoize(struct pickleobjects *o, uint32_t number, struct pickle_value v);

/* The memo forgets an object. */
void pickleobjects_forget(struct pickleobjects *o, struct pickle_value v);

/* What the memo has under a number: NONE if nothing. The reference is the memo's. */
static inline struct pickle_value pickleobjects_recall(const struct pickleobjects *o, uint64_t number)
{
	uint32_t n = number < o->nr_memo ? o->memo[number] : 0;

	return (struct pickle_value){ .type = n ? o->object[n].type : PICKLE_NONE, .object = n };
}

#endif
