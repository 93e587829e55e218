/* SPDX-License-Identifier: MIT */
/*
 * clock: CLOCK_MONOTONIC for events. The C library's clock_gettime() has the processor finish all it has begun before
 * it looks at the counter, which between a program's own cache misses takes longer than the rest of an event. Here a
 * thread reads the real clock once a millisecond and in between goes on by the processor's counter, whose rate the
 * drain measures again and again.
 *
 * So an event's time is off by what rate and counter can do in a millisecond, a good tenth of a microsecond: they are
 * used only where the kernel's own clock is that counter, and where two measurements in a row agree. A machine that
 * was suspended or moved shows as a counter that jumped: the real clock is read.
 */
#ifndef IP_CLOCK_H
#define IP_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch.h"

#define CLOCK_TRUST_NS 1000000u         /* so long a thread goes by the counter alone */
#define CLOCK_TRUST_TICKS (1u << 24)    /* no counter makes more in that time */
#define CLOCK_APART_NS 500u             /* the most between two readings that belong together */
#define CLOCK_RATE_MAX (1ull << 40)     /* slower ones are not used: 2^24 ticks of this rate are 64 bits */
#define CLOCK_MEASURE_NS 10000000u      /* the least between two readings that tell a rate */

/* A thread's latest reading of the real clock, with the counter. Zeroed: none yet. */
struct clock_thread {
	uint64_t ticks, ns; /* ticks 0: none to go on from */
	uint64_t latest_ns; /* what it was told last: its times never step back */
};

/* Of the drain: the beginning of a measurement, and what the last one gave. Zeroed: none. */
struct clock_measure {
	uint64_t ticks, ns;
	uint64_t rate;
};

/* What a tick takes, in units of 2^-32 ns; 0 = not known, or not to be relied on. */
extern _Atomic uint64_t clock_rate;

/* Is the counter what the kernel's own clock is made of? Reads /sys; without it, no. */
bool clock_has_counter(void);

/*
 * Go on measuring: sets clock_rate when two measurements agree within an eight-thousandth, to 0 when they do not. One
 * thread, every now and then.
 */
void clock_measure(struct clock_measure *m);

/* The real clock, noted with the counter where both could be read at once. */
uint64_t clock_read(struct clock_thread *c);

/* CLOCK_MONOTONIC, ns, for the thread that c belongs to. */
static inline uint64_t clock_now(struct clock_thread *c)
{
	uint64_t rate = atomic_load_explicit(&clock_rate, memory_order_relaxed);
	uint64_t ticks = arch_ticks() - c->ticks, past_ns;

	if (!rate || !c->ticks || ticks > CLOCK_TRUST_TICKS)
		return clock_read(c);
	past_ns = ticks * rate >> 32;
	if (past_ns > CLOCK_TRUST_NS)
		return clock_read(c);
	if (c->ns + past_ns > c->latest_ns)
		c->latest_ns = c->ns + past_ns;
	return c->latest_ns;
}

#endif
