/* SPDX-License-Identifier: MIT */
/*
 * The memory model: how much of the device the libraries would have taken for themselves.
 *
 * Its figures come from memory_model.def, or from the file that SIMGPU_MODEL names, which can also describe
 * the device itself. That file has one setting a line, a name and its values separated by blanks:
 *
 *	product NVIDIA H100 80GB HBM3		a property of the device, or a quantity of memory_model.def
 *	context_bytes 524288000
 *	nccl RANKS INIT_BYTES FIRST_BYTES	a communicator of so many ranks, or more up to the next row
 *	answer BYTES KIND QUESTION		what a library answers (answers.h)
 *
 * A line that is not understood ends the process with status 125 and a message that names it.
 */
#ifndef SIMGPU_MEMORY_MODEL_H
#define SIMGPU_MEMORY_MODEL_H

#include "simgpu/simgpu.h"

struct sim_model {
#define QUANTITY(name, owner, value, source) size_t name;
#include "simgpu/memory_model.def"
#undef QUANTITY
};

/* The model of this process. Never NULL; any thread. */
const struct sim_model *sim_model(void);

/* Bytes that each rank's device gives to a communicator of NR_RANKS when it is made. */
size_t sim_model_nccl_init(int nr_ranks);

/* Bytes that each rank's device gives to a communicator of NR_RANKS when it is first used. */
size_t sim_model_nccl_first(int nr_ranks);

/*
 * Called once by device.c when PROFILE is chosen, before anything else here: reads SIMGPU_MODEL, which may
 * change PROFILE, and settles the model.
 */
void sim_model_load(struct sim_profile *profile);

#endif
