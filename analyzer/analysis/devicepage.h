/* SPDX-License-Identifier: MIT */
/* What a report says of one device, found once for all that print it; needs a model that was loaded with lives. */
#ifndef VT_DEVICEPAGE_H
#define VT_DEVICEPAGE_H

#include "analyzer/analysis/outside.h"
#include "analyzer/analysis/phasetable.h"
#include "analyzer/analysis/stepgrowth.h"

struct devicepage {
	const struct model_device *device;
	struct outside outside;
	struct phasetable phases;
	struct stepgrowth_limits limits; /* the usual ones */
	struct stepgrowth growth;
};

/* Returns 0 or TFMT_E_NOMEM. devicepage_release() is needed either way. */
int devicepage_find(struct devicepage *p, const struct model *m, const struct model_device *d);
void devicepage_release(struct devicepage *p);

#endif
