/* SPDX-License-Identifier: MIT */
/*
 * Processes that were killed by SIGKILL: by the kernel, because the host's memory ran out, or from outside.
 *
 * As many as the kernel says it killed for want of memory (hostmemory.h) are its own: those that held most of the host's
 * memory through CUDA. Where that is not known, `is_told` is false.
 */
#ifndef VT_KILLING_H
#define VT_KILLING_H

#include "analyzer/oom/autopsy.h"

struct killing {
	const struct replay_process *process;
	bool is_told;    /* it is known whether the host's memory ran out */
	bool is_by_host; /* the host's memory ran out, as far as that is known */
	uint64_t nr_candidates; /* not 0: it did for one or some of so many processes, and which does not show */
};

struct killings {
	struct killing *killing;
	size_t nr_killings;
	const struct killing *by_host; /* the largest of those, or of candidates; NULL: none */
	/* A process of the job that is not recorded (a data loader's worker) was killed so, and the program failed. */
	const struct replay_process *of_unrecorded;
};
#define KILLINGS_INIT { 0 }

/* For killings_release(). */
void killings_find(struct killings *k, const struct replay *m);
void killings_release(struct killings *k);

/*
 * What ended the program: the host's memory, then the autopsy has no device and one finding; else the last failure of
 * `failures` that was not handled; else nothing. To be released with autopsy_release().
 */
void killings_autopsy(struct autopsy *a, const struct killings *k, const struct replay *m,
		     const struct failures *failures);

/* What the driver had free at the end; false: not known. */
bool killing_free(const struct replay_device *d, int64_t *bytes);

#endif
