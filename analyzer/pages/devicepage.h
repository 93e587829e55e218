/* SPDX-License-Identifier: MIT */
/* What a report says of one device, found once for all that print it; needs a replay that was loaded with lives. */
#ifndef VT_DEVICEPAGE_H
#define VT_DEVICEPAGE_H

#include "analyzer/growth/stepgrowth.h"
#include "analyzer/holders/outside.h"
#include "analyzer/purpose/phasetable.h"

struct devicepage {
	const struct replay_device *device;
	struct outside outside;
	struct phasetable phases;
	struct stepgrowth_limits limits; /* the usual ones */
	struct stepgrowth growth;
	struct replay_device host; /* its process's host memory for the GPU, and what of it grows: devicepage_find_host() */
	struct stepgrowth on_host;
};

/* To be released with devicepage_release(). */
void devicepage_find(struct devicepage *p, const struct replay *m, const struct replay_device *d);

/* What of the host's memory grows as well; after devicepage_find(). */
void devicepage_find_host(struct devicepage *p, const struct replay *m);
void devicepage_release(struct devicepage *p);

#endif
