/* SPDX-License-Identifier: MIT */
/* Objects by number, with references; those that end are taken apart without recursion. */
#include "analyzer/imports/pickleobjects.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define FIRST_ROOM 2 /* items of a container: most are pairs */

static void release_content(struct pickleobject *b)
{
	if (b->type == PICKLE_TEXT)
		free(b->text);
	else if (b->type)
		free(b->item);
}

void pickleobjects_release(struct pickleobjects *o)
{
	for (size_t i = 1; i < o->nr; i++)
		release_content(&o->object[i]);
	free(o->object);
	free(o->memo);
	*o = (struct pickleobjects){ 0 };
}

struct pickle_value pickleobjects_new(struct pickleobjects *o, enum pickle_type type)
{
	uint32_t n = o->free;

	if (n) {
		o->free = o->object[n].next;
	} else {
		if (!o->nr)
			o->nr = 1;
		o->object = heap_grow(o->object, &o->room, o->nr + 1, sizeof(*o->object));
		o->object[0] = (struct pickleobject){ 0 };
		n = (uint32_t)o->nr++;
		o->bytes += sizeof(*o->object);
	}
	o->object[n] = (struct pickleobject){ .type = (uint8_t)type, .references = 1 };
	return (struct pickle_value){ .type = type, .object = n };
}

struct pickle_value pickleobjects_text(struct pickleobjects *o, const char *text, uint32_t len)
{
	struct pickle_value v = pickleobjects_new(o, PICKLE_TEXT);
	struct pickleobject *b = &o->object[v.object];

	b->text = heap_need(malloc((size_t)len + 1));
	memcpy(b->text, text, len);
	b->text[len] = 0;
	b->nr = b->room = len;
	o->bytes += len;
	return v;
}

static void bury(struct pickleobjects *o, uint32_t n)
{
	struct pickleobject *b = &o->object[n];

	o->bytes -= b->type == PICKLE_TEXT ? b->room : b->room * sizeof(*b->item);
	release_content(b);
	*b = (struct pickleobject){ .next = o->free };
	o->free = n;
}

/* One reference less; a container that ends waits, its tag linking it, until its items are dropped. */
static void drop(struct pickleobjects *o, struct pickle_value v)
{
	struct pickleobject *b;

	if (!pickleobjects_is_object(v))
		return;
	b = &o->object[v.object];
	if (--b->references)
		return;
	if (b->type == PICKLE_TEXT || !b->nr) {
		bury(o, v.object);
		return;
	}
	b->tag = o->dead;
	o->dead = v.object;
}

static void drop_dead(struct pickleobjects *o)
{
	while (o->dead) {
		uint32_t n = o->dead;

		o->dead = o->object[n].tag;
		for (uint32_t i = 0; i < o->object[n].nr; i++)
			drop(o, o->object[n].item[i]);
		bury(o, n);
	}
}

void pickleobjects_drop(struct pickleobjects *o, struct pickle_value v)
{
	drop(o, v);
	drop_dead(o);
}

void pickleobjects_add(struct pickleobjects *o, uint32_t container, struct pickle_value item)
{
	struct pickleobject *b = &o->object[container];
	uint32_t room = b->room ? 2 * b->room : FIRST_ROOM;

	if (b->nr == b->room) {
		b->item = heap_need(realloc(b->item, room * sizeof(*b->item)));
		o->bytes += (room - b->room) * sizeof(*b->item);
		b->room = room;
	}
	b->item[b->nr++] = item;
}

void pickleobjects_clear(struct pickleobjects *o, uint32_t container)
{
	struct pickleobject *b = &o->object[container];
	struct pickle_value *item = b->item;
	uint32_t nr = b->nr;

	o->bytes -= b->room * sizeof(*b->item);
	b->item = NULL;
	b->nr = b->room = 0;
	for (uint32_t i = 0; i < nr; i++)
		drop(o, item[i]);
	free(item);
	drop_dead(o);
}

void pickleobjects_memoize(struct pickleobjects *o, uint32_t number, struct pickle_value v)
{
	struct pickle_value before = pickleobjects_recall(o, number);

	if (o->nr_memo <= number) {
		o->memo = heap_grow(o->memo, &o->memo_room, (size_t)number + 1, sizeof(*o->memo));
		memset(o->memo + o->nr_memo, 0, (number + 1 - o->nr_memo) * sizeof(*o->memo));
		o->bytes += (number + 1 - o->nr_memo) * sizeof(*o->memo);
		o->nr_memo = (size_t)number + 1;
	}
	o->memo[number] = pickleobjects_is_object(v) ? v.object : 0;
	if (o->memo[number]) {
		pickleobjects_hold(o, v);
		o->object[v.object].memo = number + 1;
	}
	pickleobjects_drop(o, before);
}

void pickleobjects_forget(struct pickleobjects *o, struct pickle_value v)
{
	uint32_t number = o->object[v.object].memo;

	if (!number || number > o->nr_memo || o->memo[number - 1] != v.object)
		return;
	o->memo[number - 1] = 0;
	o->object[v.object].memo = 0;
	pickleobjects_drop(o, v);
}
