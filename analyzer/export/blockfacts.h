/* SPDX-License-Identifier: MIT */
/*
 * What is known of the blocks of one process, by the event that made each: category, module and name of those that were live
 * at the peak or at the end; of others the category and module that all of those have that the same stack made of the same
 * shape. Memory follows the number of live blocks.
 */
#ifndef VT_BLOCKFACTS_H
#define VT_BLOCKFACTS_H

#include "analyzer/base/keyset.h"
#include "analyzer/purpose/category.h"
#include "analyzer/recording/textset.h"

struct blockfact {
	enum category category; /* CATEGORY_UNKNOWN: not known, or not alike */
	uint32_t text;          /* number of a text of blockfacts.texts: "module=model.h.0.mlp name=h"; 0 = nothing */
	uint32_t module;        /* path, 0 = not known, or not alike */
	bool is_any;            /* private: it is of some block */
};

/* Zero before first use. */
struct blockfacts {
	struct textset texts;

	/* private */
	struct keyset events, groups;
	struct blockfact *of_event, *of_group;
	size_t events_room, groups_room;
};

/* Add the blocks of a device that has tensors; the recording must have been loaded with lives, names and modules. */
void blockfacts_add(struct blockfacts *f, const struct replay_device *d);

/* What is known of the block that this event has made; its stacks are plain (tfmt_reader_plain_stacks()). */
struct blockfact blockfacts_find(struct blockfacts *f, const struct tfmt_event *ev);
void blockfacts_release(struct blockfacts *f);

#endif
