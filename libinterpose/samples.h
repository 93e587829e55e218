/* SPDX-License-Identifier: MIT */
/*
 * Samples of what the driver itself says is in use: what no allocation call shows (context, code, other processes)
 * is the difference to what the hooks have counted.
 *
 * A sample is taken on the program's own thread, with t->busy set, for the device of its current context only. It is
 * due after VRAMTRACE_SAMPLE_MIB MiB (64) of allocations on a device, a second after the last one at the next
 * allocation, and whenever a hook says that something else has changed. Its own cost, measured each time, decides
 * how soon the next may follow: samples take a thousandth of the time at most. While a stream is captured, none is
 * taken (captures.h says for how long).
 *
 * One sample is PROCESS_INFO (where NVML tells it, at a pace of its own), POOL_INFO (where the device's pools have
 * been used) and, last, MEMORY_INFO.
 */
#ifndef IP_SAMPLES_H
#define IP_SAMPLES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct ip_thread;

/*
 * All below: after the event that gives rise to it has been recorded, with t->busy false, none of our locks held and
 * errno saved by the caller. Any thread; nothing happens where another thread is taking a sample.
 */

/* `bytes` have been allocated on a device. */
void ip_sample_grown(struct ip_thread *t, unsigned device, uint64_t bytes);

/* Something beside the ledger has changed, or is about to go: a context, a module, a limit. */
void ip_sample_now(struct ip_thread *t, unsigned device);

/* The driver has refused memory: what it has left, since others may have taken it. */
void ip_sample_refused(struct ip_thread *t, unsigned device);

/*
 * `bytes` have been allocated from a pool of the device (NULL: the one that cuMemAllocAsync takes from), or
 * it has been trimmed (bytes 0). Where the device is not the current one, only the pool is asked.
 */
void ip_sample_pool(struct ip_thread *t, unsigned device, void *pool, uint64_t bytes);

/*
 * Before the process ends, while the driver is still there: a last sample of the calling thread's device. Registered
 * with atexit() by ip_samples_prepare(), which is called once, after the first successful cuInit.
 */
void ip_samples_prepare(void);

/*
 * A question to the driver that began then has cost so much: sets when the next may begin, so that such
 * questions take a thousandth of the time. Returns the time now.
 */
uint64_t ip_sample_pace(_Atomic uint64_t *next_ns, uint64_t began_ns);

/* ---- hooks_capture.c ---- */

/* How many stream captures are open in this process, abandoned ones among them. */
uint32_t ip_captures_open(void);

/*
 * May the driver not be asked, because that could invalidate a capture? May itself ask whether streams are still being
 * captured (captures.h), so only the driver's hooks ask this. Keeps errno.
 */
bool ip_captures_forbid_questions(void);

#endif
