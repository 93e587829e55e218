/* SPDX-License-Identifier: MIT */
/* Waiting for another process by looking again and again (patience.h). */
#include "simgpu/patience.h"

#include <time.h>

#define PAUSE_NS 50000
#define PAUSE_MAX_NS 1000000
#define CHECK_SECONDS 1

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

bool patience_pause(struct patience *p)
{
	double now = seconds();

	if (!p->start) {
		p->start = p->checked = now;
		p->pause_ns = PAUSE_NS;
	}
	nanosleep(&(struct timespec){ .tv_nsec = p->pause_ns }, NULL);
	if (p->pause_ns < PAUSE_MAX_NS)
		p->pause_ns *= 2;
	if (now - p->checked < CHECK_SECONDS)
		return false;
	p->checked = now;
	return true;
}

bool patience_over(const struct patience *p, double limit)
{
	return p->start && seconds() - p->start >= limit;
}

bool patience_mention(struct patience *p)
{
	if (p->is_mentioned || !patience_over(p, PATIENCE_MENTION_SECONDS))
		return false;
	p->is_mentioned = true;
	return true;
}
