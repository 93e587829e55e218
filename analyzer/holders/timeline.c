/* SPDX-License-Identifier: MIT */
/* Entering each event's figures into a series. */
#include "analyzer/holders/timeline.h"

#include "analyzer/recording/kept.h"

void timeline_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev,
		      uint64_t time_ns)
{
	const struct books *books = process->books;
	const struct device_books *b = books_device(books, ev->device < TFMT_NR_DEVICES ? ev->device : 0);
	struct series_values now = {
		.value = {
			[TIMELINE_ALLOCATED] = b->allocated_bytes,
			[TIMELINE_RESERVED] = b->reserved_bytes,
			[TIMELINE_DRIVER] = b->driver_bytes,
		},
	};
	uint64_t kept_ns;

	if (ev->device >= TFMT_NR_DEVICES)
		return;
	/* What was held where the kept part of a recording begins, but for its first event. */
	if (!series_find(ctx, books, ev->device) && kept_from(process->reader, &kept_ns) &&
	    replay_time(process, kept_ns) < time_ns)
		series_enter(ctx, books, ev->device, replay_time(process, kept_ns), &now);
	series_enter(ctx, books, ev->device, time_ns, &now);
}
