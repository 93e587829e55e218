/* SPDX-License-Identifier: MIT */
/* Advice about the allocator's settings: what fragmentation cost. */
#include "analyzer/advice/advice_kinds.h"

/* After a failure what counts is what is kept from its request, not how much more was reserved once. */
static bool of_failure(const struct jobpart *j, struct advice *a, const struct frag_device *d)
{
	uint64_t reserved = j->peak - j->asked + j->cached;

	if (d->failed_ns != j->asked_ns)
		return false;
	a->peak_bytes = reserved + j->asked;
	a->after_bytes = d->failed_kept + j->asked;
	a->evidence = SAID(expandable_not_given_back, fact_bytes("reserved", reserved), fact_bytes("after", d->failed_kept));
	return true;
}

static bool of_peak(const struct jobpart *j, struct advice *a, const struct frag_device *d)
{
	const struct frag_figures *p = &d->moment[FRAG_PEAK].figures;

	a->peak_bytes = j->device->books->reserved_peak_bytes;
	a->after_bytes = expandable_peak(&d->expandable);
	a->evidence = SAID(expandable_unused, fact_bytes("reserved", p->reserved), fact_bytes("cached", p->cached),
			   fact_bytes("stuck", p->stuck), fact_bytes("after", expandable_peak(&d->expandable)));
	return true;
}

bool advice_expandable(const struct jobpart *j, struct advice *a)
{
	const struct frag_device *d = j->frag;

	if (!d || frag_is_expandable(d) || !expandable_peak(&d->expandable))
		return false;
	a->of_reserved = true;
	if (!(j->asked ? of_failure : of_peak)(j, a, d))
		return false;
	a->title = SAID(expandable_setting, NO_FACTS);
	a->action = SAID(expandable_set, NO_FACTS);
	a->cost = SAID(expandable_opens_no_ipc, NO_FACTS);
	return true;
}
