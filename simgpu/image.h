/* SPDX-License-Identifier: MIT */
/*
 * image: which of the architectures that a program's kernels were compiled for a device would run, and its
 * size.
 */
#ifndef SIMGPU_IMAGE_H
#define SIMGPU_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The architecture (10 x major + minor) of the code in IMAGE that a device of compute capability CC runs: the
 * newest binary of its major version that is not newer than CC, else the newest PTX not newer. *COMPILED says
 * what runs: the same, or CC where PTX is compiled by the driver. An image that is no fat binary, or of an
 * unknown layout, counts as made for CC. One that has nothing for CC counts as its oldest code: a GPU would
 * refuse it, but what a program takes there can be simulated all the same. Pure; any thread.
 */
int sim_image_architecture(const void *image, int cc, int *compiled);

/*
 * Bytes of that code, uncompressed: of the cubin, or of the PTX with its NUL. 0 when that cannot be told,
 * as of the images of link-time optimisation.
 */
size_t sim_image_bytes(const void *image, int cc);

/*
 * The same if that is a binary; 0 if it is PTX, of which what the driver makes has a size that is not
 * known.
 */
size_t sim_image_binary_bytes(const void *image, int cc);

/*
 * That code as it lies in IMAGE, *BYTES of it; NULL when it is compressed there, or neither a binary nor PTX. Images
 * that programs link themselves have several: NULL then, too.
 */
const char *sim_image_code(const void *image, int cc, size_t *bytes);

/*
 * An image that the driver's linker made here: a head, then for each input its size, a multiple of 8, as 8 bytes, and
 * the input, with at least one NUL after it.
 */
#define SIM_LINKED_HEAD 16
#define SIM_LINKED_PART 8
void sim_image_set_linked(void *image, size_t bytes);

/* The input after PART of such an image (NULL: the first), or NULL; also when IMAGE is none. */
const void *sim_image_next_linked(const void *image, const void *part);

/* Is it a collection of code for several architectures, as nvcc puts into programs? */
bool sim_image_is_collection(const void *image);

/* Is it one binary by itself, not a collection of them for several architectures? */
bool sim_image_is_cubin(const void *image);

#endif
