/* SPDX-License-Identifier: MIT */
/*
 * captures: the stream captures that are open in this process, as a set of the streams that began them.
 *
 * While a capture is open, the recorder asks the driver nothing that could invalidate it. Not every capture ends by
 * cuStreamEndCapture: its stream or its context may be destroyed, an error may invalidate it, the program may abandon
 * it. So what is kept is which streams capture, not how many: a stream that goes takes its capture along, and one that
 * has captured for longer than a second is asked whether it still does (cuStreamIsCapturing, which disturbs none). One
 * that captures for longer than a minute forbids questions no longer: they are asked in relaxed capture mode, which
 * CUDA documents to be allowed; only PyTorch's and stream-ordered allocations go on being told to be captured.
 *
 * A stream may be asked only while its handle is sure to be good. Whoever ends streams holds their captures before
 * (which waits for a question that is just being asked: a microsecond, on a loaded machine longer, at most IP_STUCK_NS) and lets them go after.
 *
 * Threading: anywhere, no lock, no allocation. A handler that jumps out of a question costs that wait, once.
 */
#ifndef IP_CAPTURES_H
#define IP_CAPTURES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define IP_CAPTURES_MAX 64u /* at one time; more are not known to be open */
#define IP_CAPTURE_RECHECK_NS 1000000000ull
#define IP_CAPTURE_ABANDONED_NS 60000000000ull

struct ip_captures {
	_Atomic uint32_t nr; /* open */
	struct ip_capture {
		_Atomic uint32_t state; /* captures.c; 0 = free */
		_Atomic uint32_t device;
		_Atomic uintptr_t stream, thread, context;
		_Atomic uint64_t begun_ns, asked_ns;
	} capture[IP_CAPTURES_MAX];
};

/*
 * A stream: its handle, and of the per-thread default stream, which is another one in each thread, the thread it
 * belongs to (an address of its own); else 0.
 */
struct ip_capture_key {
	uintptr_t stream, thread;
};

/* What a stream belongs to: its context, 0 = a primary one, of that device (TFMT_DEVICE_NONE: not known which). */
struct ip_capture_home {
	uintptr_t context;
	uint32_t device;
};

/* How many captures are open. */
static inline uint32_t ip_captures_nr(const struct ip_captures *c)
{
	return atomic_load_explicit(&c->nr, memory_order_relaxed);
}

/* A capture has begun in a stream. */
void ip_captures_add(struct ip_captures *c, struct ip_capture_key key, struct ip_capture_home home,
		     uint64_t now_ns);

/* It has ended. Waits as ip_captures_hold() does. */
void ip_captures_drop(struct ip_captures *c, struct ip_capture_key key);

/*
 * Streams are about to go: one, or all of a context (home). Nobody asks them until ip_captures_let_go(); returns which
 * captures that concerns, a bit each.
 */
uint64_t ip_captures_hold(struct ip_captures *c, struct ip_capture_key key);
uint64_t ip_captures_hold_home(struct ip_captures *c, struct ip_capture_home home);
void ip_captures_let_go(struct ip_captures *c, uint64_t held, bool gone);

/*
 * Is there a capture that a question to the driver could invalidate? is_capturing() is asked about streams that have
 * not been asked for a second. `thread`: the caller's own, for its per-thread default stream.
 */
bool ip_captures_forbid(struct ip_captures *c, uintptr_t thread, uint64_t now_ns,
			bool (*is_capturing)(uintptr_t stream));

#endif
