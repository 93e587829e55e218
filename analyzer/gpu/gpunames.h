/* SPDX-License-Identifier: MIT */
/*
 * The names of the simulated GPUs. Each profile has one; people also write products as nvidia-smi prints them,
 * marketing names ("a100", "h100-80") and other spellings ("RTX 4090", "A100-80GB"). Thread-safe but for the list.
 */
#ifndef VT_GPUNAMES_H
#define VT_GPUNAMES_H

#include <stdint.h>

/* The profile that NAME stands for, NULL if none. What is returned stays. */
const char *gpunames_find(const char *name);

/* Bytes of memory that cudaMemGetInfo() reports on a profile's card; 0 if there is no such profile. */
uint64_t gpunames_capacity(const char *profile);

/* The profile whose names are spelt most like NAME, NULL if none is near. What is returned stays. */
const char *gpunames_nearest(const char *name);

/* The profiles' names, NULL-terminated. What is returned stays. */
const char *const *gpunames_profiles(void);

/* The same, separated by commas, in a buffer that stays. */
const char *gpunames_list(void);

#endif
