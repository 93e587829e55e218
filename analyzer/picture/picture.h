/* SPDX-License-Identifier: MIT */
/*
 * A recording as data to be drawn: of each device its totals over time, its blocks and how long they lived, and what the
 * driver gave it. It is opened before the replay, which it follows; asked after it.
 */
#ifndef VT_PICTURE_H
#define VT_PICTURE_H

#include "analyzer/picture/driverspans.h"
#include "analyzer/picture/liverows.h"
#include "analyzer/picture/moments.h"

/* A request that failed. */
struct picture_failure {
	uint64_t time_ns, asked_bytes;
	uint32_t device;
};

#define PICTURE_FAILURES 16 /* of a process, the latest */

struct picture_device {
	uint32_t ordinal;
	struct moments moments;
	struct liverows *rows; /* NULL: no tensors */
};

/* Of one process, all devices alike. */
struct picture_process {
	const struct replay_process *process;
	struct picture_device *device[TFMT_NR_DEVICES]; /* NULL: no event names it */
	struct driverspans spans;
	struct picture_failure failure[PICTURE_FAILURES];
	size_t nr_failures;
};

/* It stays where it is while the replay goes on. */
struct picture {
	struct picture_process *process;
	size_t nr_processes, room;
	struct replay *replay;
	struct lives_follower follower;
};

/* Let the replay that is opened next, with these options, fill the picture; *m is where it is. */
void picture_follow(struct picture *p, struct replay *m, struct replay_options *options);

/* After the last event. */
void picture_settle(struct picture *p);

/* What is known of a device; NULL if it did nothing. */
const struct picture_device *picture_device_of(const struct picture *p, const struct replay_device *d);
const struct picture_process *picture_process_of(const struct picture *p, const struct replay_process *process);
void picture_release(struct picture *p);

/*
 * When each step began, the first with the first event, on the recording's clock: at most `max`, in a new array to be
 * freed; of more, every so-manieth (*every). Between the moments that are known times are estimated.
 */
uint64_t *picture_steps(const struct replay_process *process, const struct moments_point *point, size_t nr_points,
			size_t max, size_t *nr, uint32_t *every);

#endif
