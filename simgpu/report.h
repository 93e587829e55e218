/* SPDX-License-Identifier: MIT */
/*
 * What a simulated run could not do, for whoever looks simgpu_report up by name (dlsym): the recorder, a
 * test.
 *
 * The struct is read across a library boundary by code that may be older or newer: fields are only ever added
 * at its end, and struct_bytes says how much of it is there.
 */
#ifndef SIMGPU_REPORT_H
#define SIMGPU_REPORT_H

#include <stdint.h>

struct simgpu_unsupported {
	const char *name;		/* of the CUDA function */
	uint64_t calls;
};

struct simgpu_report {
	uint32_t struct_bytes;
	uint32_t nr_names;		/* functions called that are not supported, in order of name */
	const struct simgpu_unsupported *names;
	uint64_t calls;			/* sum over names */
};

/*
 * The state of this moment. The result belongs to simgpu and is overwritten by the next call. Allocates
 * nothing and takes no lock but its own; any thread may call it.
 */
__attribute__((visibility("default"))) const struct simgpu_report *simgpu_report(void);

#endif
