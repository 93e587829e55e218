/* SPDX-License-Identifier: MIT */
/*
 * pyframes: the calling thread's Python frames, read from the interpreter's structures without the GIL.
 *
 * Only the thread itself pushes and pops its frames, so its own chain is stable while a hook runs on it,
 * whether it holds the GIL or not. The only calls into Python are PyGILState_GetThisThreadState, which reads
 * a thread-local, and Py_IsInitialized; nothing here locks, allocates or writes to memory of the program.
 */
#ifndef IP_PYFRAMES_H
#define IP_PYFRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "interpose.h"
#include "pylayout.h"

#define PYFRAMES_NEWEST 1024 /* frames kept of a deep stack: these many at its leaf */
#define PYFRAMES_OLDEST 16   /* and these at its root, where the program's own script is */
#define PYFRAMES_MAX (PYFRAMES_NEWEST + PYFRAMES_OLDEST)

struct pyframe {
	const void *code; /* PyCodeObject; alive for as long as the frame is */
	int32_t position; /* code units of two bytes; -1 = not started */
	bool entry;       /* native code has entered the interpreter here: newer frames run in the same native one */
};

/* A captured chain, innermost frame first. */
struct pyframes {
	uint32_t nr;
	uint32_t nr_cut; /* frames left out between the newest and the last PYFRAMES_OLDEST ones */
	bool apart;      /* the chain has ended without the frame until which it was to be followed */
	struct pyframe frame[PYFRAMES_MAX];
};

/*
 * Look for an interpreter that the program is linked with; `retry` also for one that an embedder has loaded
 * since. Takes the loader's lock, so never from a hook. May be called again: what was found stays.
 */
void pyframes_init(bool retry);

/* Of the interpreter, stored once when it is found. */
struct pyframes_known {
	const struct pylayout *layout;
	const int *initialized; /* what Py_IsInitialized() returns, where that can be read: Python 3.11 and later */
	bool was_initialized;   /* atomic: it has been seen so */
	bool changes_interpreters; /* a thread's state is that of the interpreter it runs, from Python 3.12 on; else always of one */
	const void *const *interpreters; /* atomic: where Python has the newest one of all and, after it, the main one */
};
extern struct pyframes_known pyframes_known;

/* The layout in use, NULL if Python frames cannot be read in this process. */
static inline const struct pylayout *pyframes_layout(void)
{
	return __atomic_load_n(&pyframes_known.layout, __ATOMIC_ACQUIRE);
}

/* PyCode_Type of the interpreter in use. */
void *pyframes_code_type(void);

/*
 * Whether the native frame of the calling thread that returns to ip, and lies on the stack from `low` to
 * below `high`, is one that runs Python frames.
 */
bool pyframes_run_in(uint64_t ip, uint64_t low, uint64_t high);

/*
 * Python's state of the calling thread is asked for anew each time, because it may not last: a call from native code
 * may make one and remove it at its end. ip_tls.python_state keeps only a state that lasts: the interpreter's first
 * thread has its own in memory that is never freed, and inside a call the state belongs to somebody further up the
 * stack.
 *
 * Between pyframes_hold() and pyframes_release() with what it returned, both in one function, the state that is there
 * at the beginning lasts, and is kept.
 */
const void *pyframes_hold(void);

static inline void pyframes_release(const void *held_before)
{
	ip_tls.python_state = held_before;
}

/*
 * The calling thread's newest frame (an object of the interpreter's), NULL where pyframes_capture() finds
 * none.
 */
const void *pyframes_newest_asked(void);
static inline const void *pyframes_newest(void);

/* There are sub-interpreters. As long as there are none, the newest interpreter is the main one. */
bool pyframes_are_several_asked(void);
static inline bool pyframes_are_several(void)
{
	const void *const *i = __atomic_load_n(&pyframes_known.interpreters, __ATOMIC_RELAXED);

	return i ? __atomic_load_n(&i[0], __ATOMIC_RELAXED) != i[1] : pyframes_are_several_asked();
}

/* There are, and a thread may change between them: what was known of its state need not hold. */
static inline bool pyframes_in_several(void)
{
	return pyframes_known.changes_interpreters && pyframes_are_several();
}

/*
 * Fill *out with the calling thread's frames, from `from` (NULL: the newest) to the one before `until`
 * (NULL: the oldest), both met by pyframes_newest() further up this thread's stack. False, and nr = 0, if
 * there is none, or the thread runs no Python, or there is no (supported) interpreter, or it is not
 * initialised or no longer so.
 */
bool pyframes_capture(struct pyframes *out, const void *from, const void *until);

/* How many frames of a stack of `total` are cut out, between the newest ones and the last PYFRAMES_OLDEST. */
uint32_t pyframes_nr_cut(uint32_t total);

/*
 * Whether what a walk has just read can be believed: the interpreter is still initialised. Threads that finalisation
 * does not wait for may be inside a walk when it begins, and then frees what they read.
 */
bool pyframes_still_there_asked(void);
static inline bool pyframes_still_there(void)
{
	const int *known = pyframes_known.initialized;

	return known ? __atomic_load_n(known, __ATOMIC_RELAXED) : pyframes_still_there_asked();
}

/*
 * The calling thread may be running a sub-interpreter, whose frames are not seen: those seen are of the code that has
 * entered it. Until Python 3.11 nothing that can be read without the GIL tells; false in a process that has none, and
 * where the thread holds the GIL in the interpreter that is seen.
 */
bool pyframes_may_be_inside(void);
static inline bool pyframes_may_be_inside_another(void)
{
	return !pyframes_known.changes_interpreters && pyframes_are_several() && pyframes_may_be_inside();
}

/* The interpreter is finalising, or was initialised and is so no more: what happens is not the program's own doing. */
bool pyframes_finalizing_asked(void);
static inline bool pyframes_finalizing(void)
{
	const struct pyframes_known *k = &pyframes_known;

	if (k->initialized && __atomic_load_n(k->initialized, __ATOMIC_RELAXED) &&
	    __atomic_load_n(&k->was_initialized, __ATOMIC_RELAXED))
		return false;
	return pyframes_finalizing_asked();
}

/* "supported: 3.11.7", "unsupported: Python 3.7.1 ...", "no Python". Static storage. */
const char *pyframes_support(void);

/* ---- a frame's parts, for walks ------------------------------------------------------------------ */

#define PYFRAME_OWNER_GENERATOR 1

static inline const void *pyframe_code(const struct pylayout *l, const void *frame)
{
	return (const void *)((uintptr_t)py_pointer(frame, l->frame_code) & ~(uintptr_t)l->tag);
}

static inline uint8_t pyframe_owner(const struct pylayout *l, const void *frame)
{
	return l->frame_owner < 0 ? 0 : *((const uint8_t *)frame + l->frame_owner);
}

/* Runs no Python code: it stands on the C stack where native code has entered the interpreter. */
static inline bool pyframe_is_shim(const struct pylayout *l, uint8_t owner)
{
	return l->frame_owner >= 0 && owner >= l->frame_shim;
}

/* Native code has entered the interpreter here, as far as the frame itself says so. */
static inline bool pyframe_is_entry(const struct pylayout *l, const void *frame)
{
	return l->frame_owner < 0 || (l->frame_entry >= 0 && *((const uint8_t *)frame + l->frame_entry));
}

static inline const void *pyframe_newest_of(const struct pylayout *l, const void *state)
{
	const void *frame = py_pointer(state, l->state_frame);

	if (frame && l->cframe_frame >= 0)
		frame = py_pointer(frame, l->cframe_frame);
	return frame;
}

static inline const void *pyframes_newest(void)
{
	const void *state = ip_tls.python_state;

	if (!state || pyframes_in_several())
		return pyframes_newest_asked();
	/* Thread states are freed during finalisation, which this announces before it begins. */
	if (!__atomic_load_n(pyframes_known.initialized, __ATOMIC_RELAXED))
		return NULL;
	return pyframe_newest_of(pyframes_known.layout, state);
}

static inline int32_t pyframe_position(const struct pylayout *l, const void *frame, const void *code)
{
	int32_t at;

	if (l->position == PYPOSITION_POINTER) {
		const char *body = (const char *)code + l->code_body;

		return (int32_t)(((const char *)py_pointer(frame, l->frame_position) - body) >> 1);
	}
	at = py_int(frame, l->frame_position);
	return l->position == PYPOSITION_UNITS || at < 0 ? at : at >> 1;
}

#endif
