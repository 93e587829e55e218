/* SPDX-License-Identifier: MIT */
/*
 * The driver functions that the runtime half and the libraries use, each found by cuGetProcAddress: a member
 * per row of driver_table.def, named after the symbol whose type it has. sim_driver() looks them up at its
 * first call.
 */
#ifndef SIMGPU_DRIVER_TABLE_H
#define SIMGPU_DRIVER_TABLE_H

#include "simgpu/simgpu.h"

struct sim_driver {
#define DRIVER(name, version, flags, symbol) __typeof__(&symbol) symbol;
#include "simgpu/driver_table.def"
#undef DRIVER
};

#endif
