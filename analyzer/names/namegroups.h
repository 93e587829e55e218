/* SPDX-License-Identifier: MIT */
/* Blocks whose names are alike: model.layers.*.mlp.weight, history[*]. */
#ifndef VT_NAMEGROUPS_H
#define VT_NAMEGROUPS_H

#include "analyzer/names/names.h"
#include "analyzer/recording/textset.h"

#define NAMEGROUPS_KINDS 16 /* of what blocks are for, as the caller numbers it */

struct namegroup {
	bool is_named;
	struct named named; /* of the largest of the blocks; keepers are its */
	uint64_t largest_bytes;
	uint64_t bytes, blocks;
	uint64_t shared; /* blocks that something else holds as well */
	uint64_t renamed; /* blocks that have another name as well */
	uint64_t nodes; /* of autograd's that each of them leads to, all added up */
	uint64_t unseen_bytes; /* of blocks of which all tensors are views: what none of them looks at */
	uint64_t by_kind[NAMEGROUPS_KINDS]; /* the bytes */
	uint32_t nr_others; /* names that a block of the group has besides, at most */
	bool has_unhooked;  /* a block that has others is not kept by hooks alone */
};

/* Zeroed: empty. */
struct namegroups {
	struct namegroup *group;
	size_t nr_groups, room;
	uint64_t named_bytes;
	struct textset keys; /* private */
};

/* Blocks of one name, mostly one; `named` NULL: they have none, and are put with others of their kind. */
void namegroups_add(struct namegroups *g, const struct named *named, unsigned kind, uint64_t bytes, uint64_t blocks);

/* Largest first; ties by name. Nothing is added afterwards. */
void namegroups_sort(struct namegroups *g);
void namegroups_release(struct namegroups *g);

/* The named group that has more than half of all the bytes; NULL: there is none. Valid as long as the groups. */
const struct namegroup *namegroups_most(const struct namegroups *g);

/* Are its tensors views, of less than half of what they keep? */
bool namegroup_is_of_views(const struct namegroup *g);

/* Does something else hold most of its blocks as well, or have most of them another name? One may be what a function works with just then. */
bool namegroup_is_shared(const struct namegroup *g);
bool namegroup_has_others(const struct namegroup *g);

/* What a group is called: its block's name, of several their pattern. NULL: it has none. Valid as long as the groups. */
const char *namegroup_text(const struct namegroup *g);

/* What most of its bytes are for. */
unsigned namegroup_kind(const struct namegroup *g);

#endif
