/* SPDX-License-Identifier: MIT */
/*
 * The window: the cycle of training (steps.h) that a device's peak lies in, or the request that failed. What it is, is
 * known from the model that the caller has; its blocks, from a second reading of the same trace, which fills the
 * window's lives.
 */
#ifndef VT_ADVICE_WINDOW_H
#define VT_ADVICE_WINDOW_H

#include "analyzer/advice/advice_job.h"

/* The failure that the program did not survive; NULL: none. `failures` may be NULL. */
const struct failure *advice_window_failure(const struct failures *failures, const struct replay_device *d);

/* From the first reading: *w, and of *j what it says of the peak. false: the peak is not known block by block. */
bool advice_window_find(struct lives_window *w, struct jobpart *j, const struct replay_device *d,
			const struct failures *failures);

/*
 * From the second reading, of which j->device is: the blocks of the window, and all else that kinds look at. false: the
 * window has more blocks than are kept (LIVES_WINDOW_MAX). jobpart_release() is needed either way; *w is the
 * caller's.
 */
bool advice_window_fill(struct jobpart *j, struct lives_window *w);

#endif
