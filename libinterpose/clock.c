/* SPDX-License-Identifier: MIT */
/* The rate of the processor's counter; see clock.h. */
#include "clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "interpose.h"

_Atomic uint64_t clock_rate;

bool clock_has_counter(void)
{
	static const char *const made_of_it[] = { "tsc\n", "kvm-clock\n", "hyperv_clocksource_tsc_page\n",
						  "arch_sys_counter\n" };
	int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource", O_RDONLY | O_CLOEXEC);
	char name[64] = "";

	if (fd < 0)
		return false;
	if (read(fd, name, sizeof(name) - 1) < 0)
		name[0] = '\0';
	close(fd);
	for (size_t i = 0; i < sizeof(made_of_it) / sizeof(*made_of_it); i++)
		if (!strcmp(name, made_of_it[i]))
			return true;
	return false;
}

/*
 * A thread that was interrupted between its readings has two that do not belong together: its events would be told as
 * earlier or later than those of others that they follow. The next event reads again.
 */
uint64_t clock_read(struct clock_thread *c)
{
	uint64_t rate = atomic_load_explicit(&clock_rate, memory_order_relaxed), before = arch_ticks();
	uint64_t ns = ip_now_ns(), after = arch_ticks(), apart = after - before;

	c->ns = ns;
	c->ticks = rate && apart < CLOCK_TRUST_TICKS && (apart * rate >> 32) <= CLOCK_APART_NS ? after : 0;
	if (ns > c->latest_ns)
		c->latest_ns = ns;
	return c->latest_ns;
}

static bool agree(uint64_t a, uint64_t b)
{
	uint64_t apart = a > b ? a - b : b - a;

	return apart <= a >> 13;
}

void clock_measure(struct clock_measure *m)
{
	uint64_t before = arch_ticks(), ns = ip_now_ns(), after = arch_ticks(), rate;
	uint64_t past_ns = ns - m->ns, past_ticks = after - m->ticks;

	if (m->ns && past_ns < CLOCK_MEASURE_NS)
		return;
	/* Interrupted between the readings: they do not belong together. */
	if (after - before > past_ticks >> 14)
		return;
	rate = m->ns && past_ticks ? (uint64_t)(((unsigned __int128)past_ns << 32) / past_ticks) : 0;
	if (rate >= CLOCK_RATE_MAX)
		rate = 0;
	atomic_store_explicit(&clock_rate, rate && agree(rate, m->rate) ? rate : 0, memory_order_relaxed);
	m->rate = rate;
	m->ticks = after;
	m->ns = ns;
}
