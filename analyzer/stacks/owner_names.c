/* SPDX-License-Identifier: MIT */
/* Owners by name. */
#include "analyzer/stacks/owner_names.h"

#include <string.h>

const char *owner_names[NR_OWNERS] = {
	[OWNER_UNKNOWN] = "unknown",   [OWNER_PROGRAM] = "program",   [OWNER_TORCH] = "torch",
	[OWNER_NCCL] = "nccl",         [OWNER_CUBLAS] = "cublas",     [OWNER_CUDNN] = "cudnn",
	[OWNER_CUFFT] = "cufft",       [OWNER_CUSOLVER] = "cusolver", [OWNER_CUSPARSE] = "cusparse",
	[OWNER_CURAND] = "curand",     [OWNER_NVSHMEM] = "nvshmem",   [OWNER_TRITON] = "triton",
	[OWNER_CONTEXT] = "context",   [OWNER_CODE] = "code",
};

const char *owner_titles[NR_OWNERS] = {
	[OWNER_UNKNOWN] = "unknown",   [OWNER_PROGRAM] = "the program", [OWNER_TORCH] = "PyTorch",
	[OWNER_NCCL] = "NCCL",         [OWNER_CUBLAS] = "cuBLAS",       [OWNER_CUDNN] = "cuDNN",
	[OWNER_CUFFT] = "cuFFT",       [OWNER_CUSOLVER] = "cuSOLVER",   [OWNER_CUSPARSE] = "cuSPARSE",
	[OWNER_CURAND] = "cuRAND",     [OWNER_NVSHMEM] = "NVSHMEM",     [OWNER_TRITON] = "Triton",
	[OWNER_CONTEXT] = "context",   [OWNER_CODE] = "code",
};

enum owner owner_named(const char *name)
{
	size_t len = strcspn(name, ",");

	for (int i = 0; i < OWNER_OTHERS; i++)
		if (!strncmp(owner_names[i], name, len) && !owner_names[i][len])
			return (enum owner)i;
	return OWNER_UNKNOWN;
}
