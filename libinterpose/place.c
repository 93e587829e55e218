/* SPDX-License-Identifier: MIT */
/* By the system calls themselves: the C library's masks have a fixed size, which large machines exceed. */
#include "place.h"

#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool is_empty(const uint64_t *mask)
{
	for (unsigned i = 0; i < PLACE_WORDS; i++)
		if (mask[i])
			return false;
	return true;
}

/* What holds now. Where that is not what was set here, somebody has moved this thread on purpose. */
static bool learn(struct place *p)
{
	uint64_t now[PLACE_WORDS] = { 0 };

	if (syscall(SYS_sched_getaffinity, 0, sizeof(now), now) < 0)
		return false;
	if (!p->moved || memcmp(now, p->taken, sizeof(now)) != 0)
		memcpy(p->given, now, sizeof(now));
	return true;
}

void place_avoid(struct place *p, uint32_t processor)
{
	if (processor >= PLACE_PROCESSORS || (uint32_t)sched_getcpu() != processor || !learn(p))
		return;
	memcpy(p->taken, p->given, sizeof(p->taken));
	p->taken[processor / 64] &= ~(1ull << processor % 64);
	p->moved = !is_empty(p->taken) && !syscall(SYS_sched_setaffinity, 0, sizeof(p->taken), p->taken);
}
