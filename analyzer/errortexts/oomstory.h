/* SPDX-License-Identifier: MIT */
/*
 * Why an allocation failed, by the figures of PyTorch's message alone.
 *
 * *lacking* is what the driver had too little of, *unused* what PyTorch had reserved but not given to
 * tensors, *outside* what the device lacks beside both. The figures are rounded: a conclusion is *firm* when
 * it holds wherever in their intervals the true values lie. Pure and allocation-free; threads may share the
 * input.
 */
#ifndef VT_OOMSTORY_H
#define VT_OOMSTORY_H

#include "analyzer/errortexts/oomtext.h"
#include "analyzer/findings/verdict.h"

enum oom_absurdity {
	OOM_ABSURD_NEGATIVE,  /* near 2^64: a negative number printed as an unsigned one */
	OOM_ABSURD_BEYOND,    /* more than 2^64: no number of bytes that a program can print */
	OOM_ABSURD_REQUEST,   /* more than any machine has */
	OOM_ABSURD_FREE,      /* more free than there is */
	OOM_ABSURD_ALLOCATED, /* more allocated than reserved */
	OOM_PAGED, /* more reserved than the device has: possible where the driver pages to the host */
};

#define OOM_ABSURD_MAX 8
#define OOM_REASONS_MAX 3

struct oom_reason {
	enum verdict verdict;
	double bytes; /* what it is about: lacking, stuck, held by others */
	bool is_firm;
};

#define OOM_MISSING_MAX 4
#define OOM_OUTCOMES_MAX 8

/* A figure that the text lacks, or that cannot be true, and what it would decide. */
struct oom_missing {
	const char *figure; /* "capacity", "free", "allocated" or "reserved" */
	/*
	 * With this figure from so many bytes on, up to those of the next, the likeliest reason is this one
	 * (VERDICT_NONE: no usual one). The first begins at the least that it can be. None where another
	 * figure is missing as well.
	 */
	size_t nr_outcomes;
	struct {
		double from_bytes;
		enum verdict verdict;
	} outcome[OOM_OUTCOMES_MAX];
};

struct oom_story {
	/* As in the message, or from the others; unknown where they cannot be true. */
	struct oom_figure requested, free, allocated, reserved, unused;
	struct oom_figure lacking, outside;
	struct oom_figure least_lacking;       /* if nobody else held anything; for texts without "free" */
	struct oom_figure limit_lacking;       /* what is asked beyond the limit that the user set */
	struct oom_figure own_outside, others; /* of outside: this process's libraries; other processes */
	struct oom_figure unlisted;            /* of outside: what no process of the list accounts for */
	const struct oom_process *self;        /* listed as another, but by its size this one (a container) */
	bool is_no_limit;                      /* "allowed" is 2^64: none was set */
	double unused_share;                   /* of reserved; NaN where unknown */
	bool is_full;                          /* what is unused is too little for fragmentation, whatever was asked for */
	double largest_fit;              /* bytes that a new segment could have had; NaN where unknown */
	uint64_t tensor_min, tensor_max; /* the tensor's size, where the request is a segment's; else 0 */
	size_t nr_absurd, nr_reasons;
	struct oom_absurd {
		const char *figure;
		enum oom_absurdity why;
		struct oom_figure value, truth; /* as printed; of OOM_ABSURD_NEGATIVE, the number meant */
	} absurd[OOM_ABSURD_MAX];
	/*
	 * The likeliest first; none where nothing is known, or where a missing figure decides. That one is
	 * firm, and no other, which holds whatever the missing figures are.
	 */
	struct oom_reason reason[OOM_REASONS_MAX];
	size_t nr_missing;
	struct oom_missing missing[OOM_MISSING_MAX];
};

/* *s points into *m. */
void oom_story_tell(struct oom_story *s, const struct oom_message *m);

/* The same without looking for missing figures: reasons by those that are known. */
void oom_story_judge(struct oom_story *s, const struct oom_message *m);

/* Find the figures that *s lacks and what each would decide; take back reasons that stand on their absence. */
void oom_story_miss(struct oom_story *s, const struct oom_message *m);

/* Is a > b (a >= 0 lacking, say) wherever the true values lie; can it be? Unknown figures: false. */
bool oom_surely_above(struct oom_figure a, struct oom_figure b);
bool oom_maybe_above(struct oom_figure a, struct oom_figure b);

#endif
