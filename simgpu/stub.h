/* SPDX-License-Identifier: MIT */
/* The tables that gen_stubs.py writes at build time. All are sorted by name. */
#ifndef SIMGPU_STUB_H
#define SIMGPU_STUB_H

#include "simgpu/report.h"
#include "simgpu/simgpu.h"

extern struct sim_stub sim_stubs[];
extern const size_t sim_nr_stubs;

/* Room for simgpu_report(): one row for each of sim_stubs, and this many for sim_refuse(). */
#define SIM_REFUSALS 64
extern struct simgpu_unsupported sim_stub_report[];

struct sim_symbol {
	const char *name;
	void (*address)(void);
};

extern const struct sim_symbol sim_symbols[];
extern const size_t sim_nr_symbols;

struct sim_symbol_version {
	const char *plain;
	int since;		/* as CUDA_VERSION: 12080; ascending among equal names */
	const char *symbol;
};

extern const struct sim_symbol_version sim_symbol_versions[];
extern const size_t sim_nr_symbol_versions;

#endif
