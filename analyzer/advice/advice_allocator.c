/* SPDX-License-Identifier: MIT */
/* Advice about the allocator's settings: what fragmentation cost. */
#include "analyzer/advice/advice_kinds.h"
#include "analyzer/base/human.h"

/* Behind a failure what counts is what is kept from its request, not how much more was reserved once. */
static bool of_failure(const struct advice_job *j, struct advice *a, const struct frag_device *d)
{
	uint64_t reserved = j->peak - j->asked + j->cached;
	char kept[HUMAN_MAX], after[HUMAN_MAX];

	if (d->failed_ns != j->asked_ns)
		return false;
	a->peak_bytes = reserved + j->asked;
	a->after_bytes = d->failed_kept + j->asked;
	advice_evidence(a, "%s reserved could not be given back for the request; of segments that grow %s",
			human_bytes(kept, reserved), human_bytes(after, d->failed_kept));
	return true;
}

static bool of_peak(const struct advice_job *j, struct advice *a, const struct frag_device *d)
{
	const struct frag_figures *p = &d->moment[FRAG_PEAK].figures;
	char cached[HUMAN_MAX], reserved[HUMAN_MAX], stuck[HUMAN_MAX], after[HUMAN_MAX];

	a->peak_bytes = j->device->books->reserved_peak_bytes;
	a->after_bytes = d->expandable.peak_bytes;
	advice_evidence(a,
			"of %s reserved at its peak %s were cached, unused (%s of it stuck between live blocks); "
			"replayed on segments that grow, the peak is %s",
			human_bytes(reserved, p->reserved), human_bytes(cached, p->cached),
			human_bytes(stuck, p->stuck), human_bytes(after, d->expandable.peak_bytes));
	return true;
}

bool advice_expandable(const struct advice_job *j, struct advice *a)
{
	const struct frag_device *d = frag_of(j->frag, j->device);

	if (!d || frag_is_expandable(d) || d->expandable.is_full || !d->expandable.peak_bytes)
		return false;
	a->of_reserved = true;
	if (!(j->asked ? of_failure : of_peak)(j, a, d))
		return false;
	advice_title(a, "expandable_segments:True");
	advice_action(a, "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
	advice_cost(a, "none in memory; other processes cannot open such memory (CUDA IPC)");
	return true;
}
