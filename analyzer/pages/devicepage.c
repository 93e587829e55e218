/* SPDX-License-Identifier: MIT */
/* The analyses of one device that a report has need of. */
#include "analyzer/pages/devicepage.h"

void devicepage_find(struct devicepage *p, const struct replay *m, const struct replay_device *d)
{
	*p = (struct devicepage){ .device = d, .limits = STEPGROWTH_LIMITS_USUAL };
	outside_find(&p->outside, d);
	phasetable_find(&p->phases, d);
	stepgrowth_find(&p->growth, m, d, &p->limits);
}

void devicepage_find_host(struct devicepage *p, const struct replay *m)
{
	p->host = stepgrowth_host(p->device->process);
	stepgrowth_find(&p->on_host, m, &p->host, &p->limits);
}

void devicepage_release(struct devicepage *p)
{
	stepgrowth_release(&p->on_host);
	outside_release(&p->outside);
	stepgrowth_release(&p->growth);
}
