/* SPDX-License-Identifier: MIT */
/* What came out of a try: did its value fit, and what did it take or why not. */
#ifndef VT_FITRESULT_H
#define VT_FITRESULT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "analyzer/oom/autopsy.h"
#include "analyzer/purpose/category.h"

enum fit_outcome {
	FIT_UNKNOWN, /* it has not ended, or was moot */
	FIT_FITS,
	FIT_OOM,    /* memory ran out, and the program did not get over it */
	FIT_TIGHT,  /* it fits, but leaves less free than asked for */
	FIT_FAILED, /* for a reason of its own */
	FIT_IDLE,   /* it took no memory of a GPU */
};
extern const char *const fit_outcome_names[]; /* "fits", "oom", ... */

struct fit_result {
	enum fit_outcome outcome;
	int exit_status, signal; /* of the program, unless we have ended it */
	bool is_stopped;         /* we did, after as many steps as were wanted */
	bool is_simulated;
	uint32_t nr_steps; /* whole ones, or what the program called steps */
	uint64_t ns;       /* from start to end */
	uint64_t nr_ooms;  /* requests that failed */

	/* of the GPU that was fullest */
	char gpu[64];            /* its name; "" = not known */
	uint64_t capacity_bytes; /* 0 = not known */
	uint64_t allocated_peak_bytes, reserved_peak_bytes;
	uint64_t zero_answers; /* so many sizes were taken as 0: figures are lower bounds */
	uint64_t used_bytes; /* of the device at its peak: nvidia-smi's figure for the process */
	uint64_t category_bytes[NR_CATEGORIES]; /* at the peak of what is allocated */

	/* of FIT_OOM, as far as they are known */
	bool has_autopsy;
	uint64_t asked_bytes;
	const char *verdict, *phase;
	struct said said; /* of what filled the device */
	char file[PATH_MAX], function[256]; /* "" = not known */
	uint32_t line;
};

/*
 * Read what a try has left: its recording, which may be missing, and what it printed, the file `output`. Of the result,
 * exit_status, signal and is_stopped are to be set. Returns 0, or CMD_TROUBLE after a message.
 */
int fitresult_read(struct fit_result *r, const char *recording, const char *output, double headroom);

/* Does a search count it as fitting? */
bool fitresult_fits(const struct fit_result *r);

/* Was it a verdict about memory at all? */
bool fitresult_is_verdict(const struct fit_result *r);

#endif
