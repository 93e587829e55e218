/* SPDX-License-Identifier: MIT */
/* One way to serve a device's requests, tried: settings and a GPU, the model that serves them, and how it went. */
#ifndef VT_TRIED_H
#define VT_TRIED_H

#include "analyzer/allocator/cachingmodel.h"
#include "analyzer/allocator/plainmodel.h"

struct tried {
	struct allocconf conf; /* in effect */
	uint64_t capacity; /* bytes of the GPU, 0 = endless */
	bool is_least;     /* of requests whose size is not known, the least that they may have been */
	bool is_refused;   /* PyTorch of the version that ran does not take the settings: nothing is served */
	bool is_over;      /* a request failed that the program was served: what it did next is not recorded */

	uint64_t ooms; /* requests that failed */
	uint64_t oom_event, oom_bytes, oom_ns; /* the first of them: its event's ordinal, what it asked for, when */
	uint64_t oom_taking; /* ordinal of the event by which memory for it came in the recording */
	uint64_t oom_reserved, oom_allocated, oom_others;
	uint64_t oom_refused; /* that the driver was asked for then; 0: it was not, because of per_process_memory_fraction */
	uint64_t saved; /* requests that failed in the recording, and are served */

	/* private */
	uint64_t others;
	struct cachingmodel *caching;
	struct plainmodel *plain;
	struct cachingmodel_figures before; /* until the device was reset */
};

/* Zero it but for conf, capacity and is_least. */
void tried_open(struct tried *t);
void tried_close(struct tried *t);

/* The program gives its allocator other settings (allocconf_change()), of which wrong ones change nothing. */
void tried_give(struct tried *t, const char *settings);

/* As cachingmodel_*(). Once it is over nothing changes any more. */
void tried_set_others(struct tried *t, uint64_t bytes);
bool tried_alloc(struct tried *t, const struct cachingmodel_request *r);
void tried_free(struct tried *t, uint32_t slot, bool pending);
void tried_complete(struct tried *t, uint32_t slot);
void tried_empty_cache(struct tried *t);
void tried_end_private(struct tried *t, uint32_t private_id);

/* The device was reset: all of its memory is gone. */
void tried_reset(struct tried *t);

/* What the driver would be asked for to serve a request now; 0: it would not be. */
uint64_t tried_driver_bytes(const struct tried *t, uint64_t bytes);

/* Its figures, peaks of the time before a reset among them. */
struct cachingmodel_figures tried_figures(const struct tried *t);

#endif
