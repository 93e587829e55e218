/* SPDX-License-Identifier: MIT */
/* The set of streams that are being captured; see captures.h. */
#include "captures.h"

#include "interpose.h"

/*
 * A state is a phase and, above it, how often the place has been taken or asked: who has read the fields of one capture
 * cannot change the state of another that has come to its place.
 */
enum phase { FREE = 0, FILLING, OPEN, ASKING, HELD };
#define PHASE_MASK 7u
#define TURN 8u

static enum phase phase_of(uint32_t state)
{
	return (enum phase)(state & PHASE_MASK);
}

static bool move(struct ip_capture *p, uint32_t *state, enum phase to)
{
	uint32_t next = (*state & ~PHASE_MASK) + (to == ASKING || to == FREE ? TURN : 0) + (uint32_t)to;

	if (!atomic_compare_exchange_strong(&p->state, state, next))
		return false;
	*state = next;
	return true;
}

/* A capture has left the set, unless another thread was first. */
static void remove_capture(struct ip_captures *c, struct ip_capture *p, uint32_t state)
{
	if (move(p, &state, FREE))
		atomic_fetch_sub(&c->nr, 1);
}

static bool is_of(const struct ip_capture *p, struct ip_capture_key key)
{
	return atomic_load_explicit(&p->stream, memory_order_relaxed) == key.stream &&
	       atomic_load_explicit(&p->thread, memory_order_relaxed) == key.thread;
}

static bool is_at(const struct ip_capture *p, struct ip_capture_home home)
{
	uint32_t device = atomic_load_explicit(&p->device, memory_order_relaxed);

	if (atomic_load_explicit(&p->context, memory_order_relaxed) != home.context)
		return false;
	return home.context || device == home.device || device == TFMT_DEVICE_NONE;
}

void ip_captures_add(struct ip_captures *c, struct ip_capture_key key, struct ip_capture_home home,
		     uint64_t now_ns)
{
	/* One that is still there ended unseen: a stream is captured once at a time. */
	ip_captures_drop(c, key);
	for (unsigned i = 0; i < IP_CAPTURES_MAX; i++) {
		struct ip_capture *p = &c->capture[i];
		uint32_t state = atomic_load(&p->state);

		if (phase_of(state) != FREE || !move(p, &state, FILLING))
			continue;
		atomic_fetch_add(&c->nr, 1);
		atomic_store_explicit(&p->stream, key.stream, memory_order_relaxed);
		atomic_store_explicit(&p->thread, key.thread, memory_order_relaxed);
		atomic_store_explicit(&p->context, home.context, memory_order_relaxed);
		atomic_store_explicit(&p->device, home.device, memory_order_relaxed);
		atomic_store_explicit(&p->begun_ns, now_ns, memory_order_relaxed);
		atomic_store_explicit(&p->asked_ns, now_ns, memory_order_relaxed);
		move(p, &state, OPEN);
		return;
	}
}

/* ---- streams that go ------------------------------------------------------------------------------- */

/* Is it of this home, or else (NULL) of that key? */
static bool is_meant(const struct ip_capture *p, struct ip_capture_key key, const struct ip_capture_home *home)
{
	return home ? is_at(p, *home) : is_of(p, key);
}

/* Waits until nobody asks the stream; but not for somebody who never comes back. True if it is held then. */
static bool hold(struct ip_capture *p, uint32_t state, struct ip_capture_key key, const struct ip_capture_home *home)
{
	uint64_t until = ip_now_ns() + IP_STUCK_NS;

	/* Another capture may come to its place; of the one that is held, the state was read before the rest. */
	while (is_meant(p, key, home)) {
		if (phase_of(state) == OPEN || (phase_of(state) == ASKING && ip_now_ns() > until)) {
			if (move(p, &state, HELD))
				return true;
		} else if (phase_of(state) == ASKING) {
			ip_pause(IP_WAIT_NS / 1000);
			state = atomic_load(&p->state);
		} else {
			return false; /* ended meanwhile, or held by another */
		}
	}
	return false;
}

static uint64_t hold_all(struct ip_captures *c, struct ip_capture_key key, const struct ip_capture_home *home)
{
	uint64_t held = 0;

	for (unsigned i = 0; ip_captures_nr(c) && i < IP_CAPTURES_MAX; i++) {
		struct ip_capture *p = &c->capture[i];
		uint32_t state = atomic_load(&p->state);

		if (phase_of(state) > FILLING && hold(p, state, key, home))
			held |= 1ull << i;
	}
	return held;
}

uint64_t ip_captures_hold(struct ip_captures *c, struct ip_capture_key key)
{
	return hold_all(c, key, NULL);
}

uint64_t ip_captures_hold_home(struct ip_captures *c, struct ip_capture_home home)
{
	return hold_all(c, (struct ip_capture_key){ 0 }, &home);
}

void ip_captures_let_go(struct ip_captures *c, uint64_t held, bool gone)
{
	for (; held; held &= held - 1) {
		struct ip_capture *p = &c->capture[__builtin_ctzll(held)];
		uint32_t state = atomic_load(&p->state);

		if (phase_of(state) != HELD)
			continue;
		if (gone)
			remove_capture(c, p, state);
		else
			move(p, &state, OPEN);
	}
}

/* The stream may go next: so this waits for who asks it, too. */
void ip_captures_drop(struct ip_captures *c, struct ip_capture_key key)
{
	if (ip_captures_nr(c))
		ip_captures_let_go(c, ip_captures_hold(c, key), true);
}

/* ---- questions ------------------------------------------------------------------------------------- */

/* May the stream be asked, and is it time? A question that somebody jumped out of is asked again. */
static bool is_due(const struct ip_capture *p, uint32_t state, uintptr_t thread, uint64_t now_ns)
{
	uintptr_t own = atomic_load_explicit(&p->thread, memory_order_relaxed);
	uint64_t asked = atomic_load_explicit(&p->asked_ns, memory_order_relaxed);

	return (phase_of(state) == OPEN || phase_of(state) == ASKING) && (!own || own == thread) &&
	       now_ns > asked && now_ns - asked >= IP_CAPTURE_RECHECK_NS;
}

static bool is_abandoned(const struct ip_capture *p, uint64_t now_ns)
{
	return now_ns - atomic_load_explicit(&p->begun_ns, memory_order_relaxed) >= IP_CAPTURE_ABANDONED_NS;
}

static void ask(struct ip_captures *c, struct ip_capture *p, uint32_t state, uint64_t now_ns,
		bool (*is_capturing)(uintptr_t stream))
{
	uintptr_t stream = atomic_load_explicit(&p->stream, memory_order_relaxed);

	if (!move(p, &state, ASKING))
		return;
	atomic_store_explicit(&p->asked_ns, now_ns, memory_order_relaxed);
	if (is_capturing(stream))
		move(p, &state, OPEN);
	else
		remove_capture(c, p, state);
}

bool ip_captures_forbid(struct ip_captures *c, uintptr_t thread, uint64_t now_ns,
			bool (*is_capturing)(uintptr_t stream))
{
	bool forbidden = false;

	for (unsigned i = 0; ip_captures_nr(c) && i < IP_CAPTURES_MAX; i++) {
		struct ip_capture *p = &c->capture[i];
		uint32_t state = atomic_load(&p->state);

		if (phase_of(state) > FILLING && is_due(p, state, thread, now_ns)) {
			ask(c, p, state, now_ns, is_capturing);
			state = atomic_load(&p->state);
		}
		if (phase_of(state) != FREE)
			forbidden |= phase_of(state) == FILLING || !is_abandoned(p, now_ns);
	}
	return forbidden;
}
