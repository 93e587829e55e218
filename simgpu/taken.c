/* SPDX-License-Identifier: MIT */
/* What libraries have taken of the devices, and the news of it that a thread has yet to tell. */
#include "simgpu/taken.h"

#include <stdlib.h>

enum news_kind { NEWS_TAKEN, NEWS_GIVEN, NEWS_REFUSED };

struct taken {
	struct taken *next;
	uint64_t address;
	size_t bytes;
	int dev;
	const char *owner;
	enum news_kind kind; /* in news */
};

static struct taken *live;
/* No address of a process on this architecture: ranges of modelled memory never meet real ones. */
static uint64_t next_address = 1ULL << 62;

/*
 * News waits until the lock is free: the listener walks stacks and writes events. A list a thread, in order.
 */
static __thread struct taken *news, **news_end;

static void add_news(const struct taken *t, enum news_kind kind)
{
	struct taken *copy;

	if (!sim_is_listening())
		return;
	copy = sim_alloc(sizeof(*copy));
	*copy = *t;
	copy->next = NULL;
	copy->kind = kind;
	if (!news)
		news_end = &news;
	*news_end = copy;
	news_end = &copy->next;
}

uint64_t sim_take_locked(int dev, const char *owner, size_t bytes)
{
	struct taken *t;

	if (!sim_charge(dev, bytes)) {
		add_news(&(struct taken){ .bytes = bytes, .dev = dev, .owner = owner }, NEWS_REFUSED);
		return 0;
	}
	t = sim_zalloc(sizeof(*t));
	*t = (struct taken){
		.next = live, .address = next_address, .bytes = bytes, .dev = dev, .owner = owner
	};
	next_address += (bytes | 511) + 1;
	live = t;
	if (bytes)
		add_news(t, NEWS_TAKEN);
	return t->address;
}

/* Give back *LINK, which becomes the next one. */
static void give(struct taken **link)
{
	struct taken *t = *link;

	*link = t->next;
	sim_uncharge(t->dev, t->bytes);
	if (t->bytes)
		add_news(t, NEWS_GIVEN);
	free(t);
}

void sim_give_locked(uint64_t address)
{
	struct taken **link = &live;

	while (*link && (*link)->address != address)
		link = &(*link)->next;
	if (*link)
		give(link);
}

void sim_taken_reset(int dev)
{
	struct taken **link = &live;

	while (*link) {
		if ((*link)->dev == dev)
			give(link);
		else
			link = &(*link)->next;
	}
}

uint64_t sim_take(int dev, const char *owner, size_t bytes)
{
	uint64_t address;

	sim_lock();
	address = sim_take_locked(dev, owner, bytes);
	sim_unlock();
	return address;
}

void sim_give(uint64_t address)
{
	sim_lock();
	sim_give_locked(address);
	sim_unlock();
}

/* Oldest first, as it happened: the list has the youngest in front. */
static void repeat(const struct taken *t)
{
	if (!t)
		return;
	repeat(t->next);
	if (t->bytes)
		add_news(t, NEWS_TAKEN);
}

void sim_taken_repeat(void)
{
	repeat(live);
}

void sim_taken_tell(void)
{
	while (news) {
		struct taken *t = news;

		news = t->next;
		if (t->kind == NEWS_REFUSED)
			sim_tell_modelled_refusal(t->dev, t->owner, t->bytes);
		else if (t->kind == NEWS_GIVEN)
			sim_tell_modelled_free(t->dev, t->owner, t->address, t->bytes);
		else
			sim_tell_modelled_alloc(t->dev, t->owner, t->address, t->bytes);
		free(t);
	}
}
