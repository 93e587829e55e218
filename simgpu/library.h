/* SPDX-License-Identifier: MIT */
/*
 * What the simulated compute libraries (cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE ...) share.
 *
 * Their kernels compute nothing, but their objects are real: a *library object* remembers what the program
 * stored in it, because the program reads it back and sizes its allocations by it. Every library object
 * starts with a struct sim_library, so that code knowing only "a handle" can find the stream its work goes
 * to.
 */
#ifndef SIMGPU_LIBRARY_H
#define SIMGPU_LIBRARY_H

#include "simgpu/simgpu.h"

#include <library_types.h>

struct sim_library {
	cudaStream_t stream;
	uint64_t taken;				/* by the handle itself: sim_library_handle() */
	void (*before_launch)(void *handle);	/* called once, at the next launch, when set */
};

/* What a library reports as scratch memory where the real figure is unknown (docs/simulated-libraries.md). */
#define SIM_WORKSPACE_ELEMENTS 1024
#define SIM_WORKSPACE_BYTES 4096

/*
 * A zeroed library object of BYTES, which include its struct sim_library; the caller frees it with free().
 * Never NULL. sim_library_opaque() makes one for an object whose content nobody asks for.
 */
void *sim_library_new(size_t bytes);
void *sim_library_opaque(void);

/*
 * A handle of BYTES whose library would take TAKEN bytes of the current device with it, told as OWNER's; NULL
 * when they do not fit. sim_library_handle_free() gives all back; NULL is ignored.
 */
void *sim_library_handle(size_t bytes, const char *owner, size_t taken);
void sim_library_handle_free(void *handle);

/*
 * A routine of HANDLE's library was called that launches kernels on the handle's stream. NULL: default
 * stream.
 */
void sim_library_launch(const void *handle);

/*
 * RESULT points to BYTES that a kernel would have written. In device memory they read 0 already; in host
 * memory this writes the 0 that the program would have read there. NULL is ignored.
 */
void sim_library_result(void *result, size_t bytes);

/* Bytes of one element of TYPE; 1 for types narrower than a byte. */
size_t sim_library_type_bytes(cudaDataType type);

/* Part TYPE of VERSION, encoded as major * MAJOR + minor * MINOR + patch, into *value. */
void sim_library_property(libraryPropertyType type, int version, int major, int minor, int *value);

#endif
