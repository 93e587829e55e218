/* SPDX-License-Identifier: MIT */
/* Device memory that a real library would have taken: charged, and told to who listens (report.h). */
#ifndef SIMGPU_TAKEN_H
#define SIMGPU_TAKEN_H

#include "simgpu/simgpu.h"

/*
 * Take BYTES of DEV for OWNER, a constant string. Returns what sim_give() wants, or 0 when they do not fit
 * and nothing was taken; taking 0 bytes succeeds and is not told. The listener hears of it when this thread
 * next leaves sim_unlock().
 */
uint64_t sim_take(int dev, const char *owner, size_t bytes);
uint64_t sim_take_locked(int dev, const char *owner, size_t bytes);

/* Give back what sim_take() returned; 0 is ignored. */
void sim_give(uint64_t address);
void sim_give_locked(uint64_t address);

/* DEV is reset: all that is taken of it is given back. Locked. */
void sim_taken_reset(int dev);

/* For listener.c: tell the listener, at the next sim_unlock(), of all that is taken. Locked. */
void sim_taken_repeat(void);

/* For sim_unlock() alone, which has just let go of the lock: tell what this thread has to tell. */
void sim_taken_tell(void);

#endif
