/* SPDX-License-Identifier: MIT */
/*
 * What a call in Python source calls a module: `self.down_proj(x)` is "down_proj", `layer(x)` in
 * `for layer in self.layers` is one of "layers", `self.qkv = nn.Linear(...)` makes "qkv".
 */
#ifndef VT_CALLSITE_H
#define VT_CALLSITE_H

#include <stdbool.h>

#include "analyzer/pysource/sourcetext.h"
#include "tracefmt/tracefmt.h"

#define CALLSITE_NAME_MAX 64
#define CALLSITE_LISTED_MAX 6

struct callsite {
	char name[CALLSITE_NAME_MAX];   /* "" for what iterates over itself (nn.Sequential) */
	char behind[CALLSITE_NAME_MAX]; /* of `layer.attn(x)`: "attn"; "" = none */
	bool indexed; /* one of several: its number is that of the call */
	uint32_t loop_line; /* ... of a loop that begins on this line; 0 = not known */
	uint32_t first;     /* ... the first call's */
	uint32_t branch;    /* ... the line of an `if`, each arm of which calls members of it; 0 = none does */
	bool may_skip;      /* ... which may pass members over */
	bool skips;         /* ... some of them rather than others */
	bool is_any;     /* which one is not known: the order is not the list's */
	bool is_unbound; /* nothing in the function gives the index; of a single call it tells nothing */
	bool by_key;     /* one of an nn.ModuleDict: the number is that of the call, its key is not known */
	uint32_t nr_listed; /* "for f in (self.q, self.k)": the names of those gone through, in place of a list's */
	char listed[CALLSITE_LISTED_MAX][CALLSITE_NAME_MAX];
	int parameter; /* the function gets what it calls: as which argument, 1 the first; 0 = it does not */
	char parameter_name[CALLSITE_NAME_MAX];
	char maker[CALLSITE_NAME_MAX]; /* ... or the function that made it does, of this name; "" = it is its own */
	bool is_variable; /* the name is a local variable's, that says nothing of the model's own names */
	char within[CALLSITE_NAME_MAX]; /* modulestacks.c: the member of the caller's module in a method of which this is */
	bool is_super; /* `super().__init__()`: no call of another module */
};

/*
 * The module that is called, or (makes) made, at this position of the code. false: the source cannot be read, or does
 * not say.
 */
bool callsite_find(struct callsite *c, struct sourcetext *sources, const struct tfmt_code *code, int32_t position,
		   bool makes);

/*
 * Of a call whose module is a parameter of its function (`callee`): what is given for it at this position of
 * the code that calls the function. false as above.
 */
bool callsite_find_argument(struct callsite *c, struct sourcetext *sources, const struct tfmt_code *code,
			    int32_t position, const struct tfmt_code *callee, const struct callsite *of);

#endif
