/* SPDX-License-Identifier: MIT */
/*
 * pycode: an id for each distinct Python code object, by content.
 *
 * A code object's address says nothing by itself: programs that generate code reuse addresses nearly
 * always. Where code objects are watched (pywatch.h), an address stands for the object that was seen there
 * as long as none has died in its place; a file name that is changed meanwhile (_imp._fix_co_filename)
 * stays the one that was seen. Elsewhere a thread believes what it saw at an address only as long as the
 * object still looks the same. Else name, file and line table are read again and looked up by content. What
 * is needed to show a line later is copied into the trace, nothing of Python is referred to afterwards.
 *
 * Threading: a cache belongs to one thread; the content table that it looks things up in is shared and has a lock.
 */
#ifndef IP_PYCODE_H
#define IP_PYCODE_H

#include <stdbool.h>
#include <stdint.h>

#include "pylayout.h"

#define PYCODE_SETS 1024u
#define PYCODE_MAX (1u << 20)            /* distinct code objects */
#define PYCODE_MAX_BYTES (256u << 20)    /* of their copies; more are not captured */

struct pycode;

struct pycode_entry {
	const void *code;
	const struct pycode *known;
	uint64_t fixed[PYLAYOUT_FIXED_WORDS]; /* the object's words when it was read */
};

/* A watched code object. */
struct pycode_seen {
	const void *code;
	uint32_t deaths;   /* pywatch_deaths_at() then */
	uint32_t id;       /* 0 = could not be had */
	int32_t traceable; /* frames that stand before it are still being set up */
	bool has_module;   /* it calls or moves the nn.Module that is its first argument: PyTorch's Module._wrapped_call_impl and _apply */
};

/* Two ways of each set; way 0 is the one used last. */
struct pycode_cache {
	struct pycode_seen seen[PYCODE_SETS][2];
	struct pycode_entry set[PYCODE_SETS][2];
};

/* Begin with an empty content table, dropping an inherited one untouched (fork child). One thread only. */
void pycode_init(void);

/*
 * The id of a code object that is alive, 1 or more; its definition is committed. 0 if there is no room or
 * the definition was not committed.
 */
uint32_t pycode_id(struct pycode_cache *cache, const struct pylayout *l, const void *code);

/* As pycode_id() for a watched object that a frame names as its code. False if it is no code object. */
bool pycode_see(struct pycode_cache *cache, const struct pylayout *l, const void *code, struct pycode_seen *out);

#endif
