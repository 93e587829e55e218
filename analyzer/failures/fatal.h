/* SPDX-License-Identifier: MIT */
/*
 * Was a request that failed for want of memory fatal? There are two questions, which may have two answers:
 *
 * What is there to explain (fatal_request(), fatal_device()): a request after which nothing shows that the program went
 * on. How it ended is not asked where a framework's allocator gave up: a notebook's last cell, or a rank that others
 * wait for, did run out of memory.
 *
 * Has it failed the program (fatal_to_program()): its process failed, and the thread that asked was given no memory of
 * the device again. A limit is broken by this only: who got over it, or ended well, is not blamed. Of a run whose events
 * nobody follows, fatal_last_device() is the nearest to it.
 */
#ifndef VT_FATAL_H
#define VT_FATAL_H

#include "analyzer/failures/failures.h"
#include "analyzer/failures/oomwatch.h"

/* failures_last() if it was not handled, else NULL; `d` may be NULL. */
const struct failure *fatal_request(const struct failures_of_device *d);

/* The device to explain: that of the last request that was fatal; NULL: there is none. */
const struct replay_device *fatal_device(const struct failures *f, const struct replay *m);

/*
 * The same, and where there is none, the last request for a tensor that failed of a program that ended with an error of its own
 * accord: it went on after that, as another thread does, or to tell of it, and it is what there is to explain.
 */
const struct failure *fatal_or_last(const struct failures_of_device *d);
const struct replay_device *fatal_device_or_last(const struct failures *f, const struct replay *m);

bool fatal_to_program(const struct oomwatch *w, const struct replay_device *d);

/* Of a run that is known to have failed: the device that a framework's allocator gave up on last; NULL: there is none. */
const struct replay_device *fatal_last_device(const struct replay *m);

#endif
