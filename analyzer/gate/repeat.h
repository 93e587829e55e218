/* SPDX-License-Identifier: MIT */
/*
 * The runs of a job that was run several times (run --repeat): between which values its peaks lie.
 *
 * A device of one run is that of another by its process's rank, by the order in which the processes of one rank
 * (or without ranks) began, and by its ordinal.
 */
#ifndef VT_REPEAT_H
#define VT_REPEAT_H

#include "analyzer/replay/replay.h"

struct repeat_range {
	uint64_t min, max;
};

struct repeat_device {
	int64_t rank;     /* -1 = none */
	uint32_t process; /* of those with this rank, in the order in which they began: 0 is the first */
	uint32_t ordinal;
	unsigned nr_runs; /* that used it; the others count as 0 */
	bool has_tensors;
	uint64_t zero_answers; /* replay_zero_answers() of the run that has the most */
	struct repeat_range allocated, reserved, driver;
};

struct repeat {
	struct repeat_device *device; /* by rank, process and ordinal */
	size_t nr_devices;
	unsigned nr_runs;
	unsigned largest; /* the number of the run that ran out of memory, else of that with the highest peak */
	bool exact;       /* no run lost events */
	/* of the largest */
	bool oom;
	uint64_t filled_bytes;
};
#define REPEAT_INIT { .exact = true }

/* Enter a run by its number, 1 for the first. */
void repeat_add(struct repeat *r, const struct replay *m, unsigned number);

/*
 * Enter all runs of a repeated recording. A run that cannot be read is said and left out.
 */
void repeat_load(struct repeat *r, const struct recording *recording);
void repeat_release(struct repeat *r);

/* Was it the same in every run? */
bool repeat_is_stable(const struct repeat *r, const struct repeat_device *d);

#define REPEAT_TEXT_MAX 256

/*
 * The device's peaks in words: "4.12 GiB allocated, 5.00 GiB reserved in 3 of 3 runs", or "3.10 to 4.10 GiB
 * allocated, 5.00 GiB reserved over 3 runs". Returns buf.
 */
const char *repeat_text(char buf[static REPEAT_TEXT_MAX], const struct repeat *r,
			const struct repeat_device *d);

/* The device of a replay's run in it; NULL if there is none. */
const struct repeat_device *repeat_device_of(const struct repeat *r, const struct replay *m,
					     const struct replay_device *d);

/* "rank 1, GPU 0"; returns buf. */
const char *repeat_device_name(char *buf, size_t size, const struct repeat *r,
			       const struct repeat_device *d);

#endif
