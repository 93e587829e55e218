/* SPDX-License-Identifier: MIT */
/*
 * The names of one process's blocks, from the censuses beside its trace.
 *
 * A census is of one moment, at which the trace's events lie before or after it. What it says of an address it says of the
 * block that was live there then, and of no other: so a name is an exact fact, or there is none.
 */
#ifndef VT_NAMES_H
#define VT_NAMES_H

#include "analyzer/names/objectname.h"
#include "tracefmt/tracefmt.h"

/* A tensor of a census, by its place in memory. */
struct names_tensor {
	uint64_t address;
	uint32_t object;
	uint32_t holders; /* references to it that were met; 0: not counted */
	uint32_t nodes;   /* as struct tfmt_tensor has it */
	uint64_t own_bytes; /* likewise */
	uint8_t device;
	uint8_t flags; /* enum tfmt_tensor_flags */
	bool is_number; /* its storage has no more than one number takes, of any type but complex128 */
};

/* An nn.Module of a census, by its object's address. */
struct names_module {
	uint64_t address;
	uint32_t object;
};

struct names_census {
	const struct names *all; /* those that it is one of */
	struct tfmt_census *census;
	uint64_t time_ns; /* CLOCK_MONOTONIC */
	uint64_t after;   /* ordinal of the first event after it; TFMT_NO_ORDINAL: there was none yet; 0: it is of no use */
	struct names_tensor *tensor; /* by device and address */
	uint32_t nr_tensors;
	struct names_module *module; /* by address */
	uint32_t nr_modules;
};

struct names {
	struct names_census *census; /* by time */
	size_t nr_censuses;
	size_t nr_passed;  /* censuses of moments before the latest event */
	uint64_t next_ns;  /* of the next, UINT64_MAX: there is none */
	bool has_past;     /* the trace begins with what was live where a flight recorder's kept part begins */
	bool past_is_over;
};

/*
 * The censuses beside a trace whose header this is, NULL if there are none. Files that cannot be read, or are of another
 * process, are said in one warning on stderr, and left out; those
 * that were not begun when the program ended are left out.
 */
struct names *names_open(const char *trace, const struct tfmt_header *header);
void names_close(struct names *n); /* NULL is allowed */

/* What names_pass() does when a census's moment may have come. */
void names_pass_moment(struct names *n, const struct tfmt_event *ev, int nr);

/* The trace goes on, but nobody will tell of it: what later censuses have seen is of nothing that is live now. */
void names_cut(struct names *n);

/* The next events of the trace: all of them are to be told, in their order. */
static inline void names_pass(struct names *n, const struct tfmt_event *ev, int nr)
{
	if (!n->past_is_over || n->next_ns != UINT64_MAX)
		names_pass_moment(n, ev, nr);
}

/* A block and its life, by ordinals of events; death TFMT_NO_ORDINAL: it has not ended. */
struct names_block {
	uint64_t address, size;
	uint64_t birth, death;
	uint8_t device;
};

/* What a census says of a block. */
struct named {
	const struct names_census *census;
	uint32_t object;
	uint32_t nr_others; /* other names of the same block */
	bool is_all_hooked; /* it has such, and on the way to each name there is a hook */
	uint32_t holders;   /* as names_tensor has it */
	enum objectname_use use;
	bool is_in_graph; /* a graph begins with it, and a gradient will be summed up in it */
	bool has_node; /* it has a grad_fn, and keeps all that it was computed of */
	uint32_t nodes; /* as struct tfmt_tensor has it */
	uint64_t own_bytes; /* what tensors of the block have of their own at most, together: of views the rest is kept in vain; 0: not known of all */
	bool is_number; /* as names_tensor has it */
	struct objectname name;
};

/*
 * The name that a block had about the event `moment` (TFMT_NO_ORDINAL: at the end), by the nearest census of its life that
 * knows it. Of several the one that tells what the block is for, then
 * the shortest; one that waits for the collector last. false: nothing is known.
 */
bool names_find(struct named *out, const struct names *n, const struct names_block *block, uint64_t moment);

/*
 * How many entries the container of this name had in each census that knows it, the oldest first: how it grew. Returns how
 * many censuses that are, at most `max`, which are then the latest.
 */
uint32_t names_lengths(const struct names *n, const struct keeper *k, uint64_t *length, uint32_t max);

/* The same of the first census that knows it, the latest, and the one before that; returns how many censuses that are. */
struct names_course {
	uint64_t first, before, last;
};
uint32_t names_course(struct names_course *c, const struct names *n, const struct keeper *k);

/* Of the censuses after an event (0: of all): has it more entries in the latest that knows it than in the first? Fewer than two tell nothing. */
enum names_growth { NAMES_UNKNOWN, NAMES_GREW, NAMES_STAYED };
enum names_growth names_growth_of(const struct names *n, const struct keeper *k, uint64_t ordinal);

/* Has any census seen it? */
bool names_saw(const struct names *n, const struct names_block *block);

/* What a block is for, without its name; USE_UNKNOWN: no census tells. */
enum objectname_use names_use(const struct names *n, const struct names_block *block);

#endif
