/* SPDX-License-Identifier: MIT */
/* What `max-fit` has found: the largest value of each GPU, or what each value takes. */
#ifndef VT_PRINT_FIT_H
#define VT_PRINT_FIT_H

#include "analyzer/maxfit/fittry.h"
#include "analyzer/ui/emit.h"

/* Of one GPU. */
struct fit_answer {
	const struct fit_try *best; /* the largest value that fits; NULL: not even the smallest */
	const struct fit_try *next; /* the next one, which does not; NULL: there is none to try */
};

struct fit_page {
	const struct fit_plan *plan;
	struct fit_try *const *tries;
	size_t nr_tries;
	const struct fit_answer *answer; /* one for each GPU; NULL: nothing was searched */
	uint64_t min, max, multiple_of;
	bool verbose; /* of a search: also all tries */
};

/* "oom" of 96 in words: "out of memory after 2 steps"; returns buf. */
const char *print_fit_outcome(char *buf, size_t size, const struct fit_result *r);

/* What --simulate calls the GPU of a try, else the device's own name. */
const char *print_fit_gpu(const struct fit_plan *plan, const struct fit_try *t);

/* The page; JSON when e is. The caller opens and closes. */
void print_fit(struct emit *e, const struct fit_page *page);

#endif
