/* SPDX-License-Identifier: MIT */
/* The tables that gen_callbacks.py writes at build time: function names by callback id, NULL where none is. */
#ifndef SIMGPU_CUPTI_NAMES_H
#define SIMGPU_CUPTI_NAMES_H

#include <stddef.h>

extern const char *const sim_driver_names[];
extern const size_t sim_nr_driver_names;
extern const char *const sim_runtime_names[];
extern const size_t sim_nr_runtime_names;

#endif
