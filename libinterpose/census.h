/* SPDX-License-Identifier: MIT */
/*
 * census: by which names does the program hold its tensors? A copy of the process answers, while the program goes on.
 *
 * The copy is made by clone(2) without an exit signal, and only by the thread that calls: the program waits for nothing
 * else, gets no SIGCHLD, and no wait() of its finds the copy; no handler of pthread_atfork() runs. The copy is frozen
 * memory that nobody changes. It takes no lock, calls neither Python code nor malloc nor CUDA, closes all descriptors,
 * writes a file of its own (census_copy.h) and ends. If it crashes, hangs or finds objects half changed, names are missing,
 * and that is counted. The drain reaps it by its number.
 *
 * One is taken when the framework's allocator gives up (the first 8 times, then at most every 10 s), and when more is
 * allocated on a device than ever before: by a quarter than at the last census of it, and by 64 MiB. But for the former, the
 * next is due when all of them together have stopped the program for less than 1% of its time. It is then taken as the next
 * event comes, or after a while without one: what has just been allocated has no name before the allocation returns.
 */
#ifndef IP_CENSUS_H
#define IP_CENSUS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "interpose.h"
#include "tracefmt/tracefmt.h"

/* So much is allocated on the device after an allocation. On a thread of the program, with nothing of ours locked. */
IP_COLD void census_high(unsigned device, uint64_t allocated);

static inline void census_note_allocated(unsigned device, uint64_t allocated)
{
	if (allocated > atomic_load_explicit(&ip_recorder->census.next_high[device], memory_order_relaxed))
		census_high(device, allocated);
}

/* An event is about to be recorded: one that is due is taken as things are before it. */
IP_COLD void census_take_due(void);

static inline void census_before_event(void)
{
	if (atomic_load_explicit(&ip_recorder->census.due, memory_order_relaxed))
		census_take_due();
}

/* The allocator has given up; the exception is still to be thrown. */
IP_COLD void census_out_of_memory(unsigned device, uint64_t allocated);

/* Page-locked memory of the program's own: old kernels cannot copy such a process without harm. */
void census_note_registered(void);

/*
 * Somebody asks for one: taken by the next hook of an allocation, whose thread then stands still in it; by the drain itself
 * if none comes within half a second.
 */
void census_ask(void);

/* For the drain, before the process records: find the limits that it is kept to. */
void census_open(void);

/* For the drain, in each round: reap copies that have ended, and tell the trace. True if something was written. */
bool census_tend(struct tfmt_writer *w);

/* The process ends: wait for the copies until then (ip_now_ns()), then end them, and tell the trace. */
void census_end(struct tfmt_writer *w, uint64_t until_ns);

/* After census_end(): wait for the end of those that it ended. Where all processors are busy they take long even for that. */
void census_see_end(void);

#endif
