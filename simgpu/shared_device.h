/* SPDX-License-Identifier: MIT */
/*
 * What is taken of the devices' memory, by all processes that share them.
 *
 * SIMGPU_SHARE names a file; the processes that were started with the same name see one set of devices, as
 * the processes of one machine do. Without it a process has devices of its own. Devices go by physical index:
 * CUDA_VISIBLE_DEVICES may number them differently in each process.
 *
 * The file is a table of processes and of the bytes that each holds on each device. What a process held is
 * given back when it ends, also when it is killed: others find its row and clear it before they are refused
 * memory or told how much there is. The file is made by whoever comes first, removed by whoever leaves last,
 * and what killed jobs have left behind is removed when a later one makes its own.
 *
 * Every function may be called from any thread, with sim_lock() held or not.
 */
#ifndef SIMGPU_SHARED_DEVICE_H
#define SIMGPU_SHARED_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_SHARED_PROCESSES 512	/* that hold device memory at the same time */

struct sim_holder {
	uint32_t pid;
	size_t bytes;
};

/* Take BYTES of device INDEX for this process, unless all processes' bytes would then exceed CAPACITY. */
bool sim_shared_take(int index, size_t bytes, size_t capacity);

/* Give BYTES back. In a fork child this does nothing: what it inherited stays its parent's. */
void sim_shared_give(int index, size_t bytes);

/* Bytes that all processes together hold on device INDEX. */
size_t sim_shared_used(int index);

/* Around fork(), with sim_lock() held: the child holds nothing. */
void sim_shared_before_fork(void);
void sim_shared_after_fork(bool is_child);

/* Who holds memory of device INDEX: up to ROOM of them in HOLDERS; returns how many there are. */
int sim_shared_holders(int index, struct sim_holder *holders, int room);

#endif
