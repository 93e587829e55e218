/* SPDX-License-Identifier: MIT */
/*
 * What a simulated run can tell about itself, for whoever looks these functions up by name (dlsym): the
 * recorder, a test.
 *
 * The structs cross a library boundary to code that may be older or newer: fields are only ever added at
 * their ends, and struct_bytes says how much of each is there.
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
	uint32_t is_unlimited;		/* SIMGPU_CAPACITY=unlimited: the driver's total means nothing */
	uint64_t zero_answers;		/* so often a library was asked for a size that is not known, and answered 0 */
};

/*
 * The state of this moment. The result belongs to simgpu and is overwritten by the next call. Allocates
 * nothing and takes no lock but its own; any thread may call it.
 */
__attribute__((visibility("default"))) const struct simgpu_report *simgpu_report(void);

/*
 * Told of what happens on the simulated device beside the calls that the program makes, on the thread where
 * it happens and with no lock of simgpu's held: the call stack is the program's. Members may be NULL.
 */
struct simgpu_listener {
	uint32_t struct_bytes;
	/*
	 * Here a real library would have taken BYTES of DEVICE for itself. OWNER is a constant string: "context",
	 * "nccl", "cudnn" ... ADDRESS tells the live ones of a process apart and is no memory.
	 */
	void (*modelled_alloc)(int device, const char *owner, uint64_t address, uint64_t bytes);
	void (*modelled_free)(int device, const char *owner, uint64_t address, uint64_t bytes);
	/*
	 * The host read a value that, on a GPU, a kernel would have computed: BYTES at the device address P.
	 * What the program decides by it may differ from a real run.
	 */
	void (*value_read)(int device, const void *p, uint64_t bytes);
	/* OWNER would have taken BYTES, and the device had no room for them. */
	void (*modelled_refusal)(int device, const char *owner, uint64_t bytes);
};

/*
 * LISTENER, which must stay valid for the life of the process, is told from now on, and at once of the
 * modelled allocations that are live. One listener: a second one replaces the first; NULL ends it.
 */
__attribute__((visibility("default"))) void simgpu_listen(const struct simgpu_listener *listener);

#endif
