/* SPDX-License-Identifier: MIT */
/* Advice about the allocator's settings: what fragmentation cost. */
#include "analyzer/analysis/advice.h"
#include "analyzer/ui/human.h"

bool advice_expandable(const struct advice_job *j, struct advice *a)
{
	const struct frag_device *d = frag_of(j->frag, j->device);
	char stuck[HUMAN_MAX];

	if (!d || frag_is_expandable(d) || d->expandable.failed || !d->expandable.peak_bytes)
		return false;
	a->of_reserved = true;
	a->peak_bytes = j->device->books->reserved_peak_bytes;
	a->after_bytes = d->expandable.peak_bytes;
	advice_title(a, "expandable_segments:True");
	advice_action(a, "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
	advice_evidence(a, "%s of what was reserved at its peak were stuck between live blocks",
			human_bytes(stuck, d->moment[FRAG_PEAK].figures.stuck));
	advice_cost(a, "none in memory; other processes cannot open such memory (CUDA IPC)");
	return true;
}
