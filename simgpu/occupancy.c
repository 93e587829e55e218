/* SPDX-License-Identifier: MIT */
/* Occupancy: how many blocks of a kernel fit on a multiprocessor, and what they leave. */
#include "simgpu/callback.h"
#include "simgpu/internal.h"

/* Threads, blocks and dynamic shared memory bound it; registers and static shared memory are not known. */
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int block_size,
						     size_t shared)
{
	const struct sim_profile *p = sim_profile();
	size_t by_shared = (size_t)p->smem_sm_bytes / (shared + 1024);
	int n;

	if (!blocks || block_size <= 0 || !sim_function_name(function))
		return CUDA_ERROR_INVALID_VALUE;
	n = p->threads_per_sm / (int)sim_round_up((size_t)block_size, 32);
	if (n > p->blocks_per_sm)
		n = p->blocks_per_sm;
	if (shared && by_shared < (size_t)n)
		n = (int)by_shared;
	*blocks = n;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, CUfunction function,
							      int block_size, size_t shared,
							      unsigned int flags)
{
	(void)flags;
	return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, shared);
}

/* What BLOCKS blocks on one SM leave for each: an even share, less the 1 KiB that the system takes of a block. */
CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function, int blocks, int block_size)
{
	const struct sim_profile *p = sim_profile();
	size_t share;

	if (!bytes || blocks <= 0 || block_size <= 0 || block_size > 1024 || !sim_function_name(function))
		return CUDA_ERROR_INVALID_VALUE;
	share = (size_t)p->smem_sm_bytes / (size_t)blocks;
	share = share > 1024 ? (share - 1024) / 128 * 128 : 0;
	*bytes = share < (size_t)p->smem_optin_bytes ? share : (size_t)p->smem_optin_bytes;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction function,
						   CUoccupancyB2DSize shared_of, size_t shared, int limit,
						   unsigned int flags)
{
	(void)flags;
	return cuOccupancyMaxPotentialBlockSize(grid, block, function, shared_of, shared, limit);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
					  CUoccupancyB2DSize shared_of, size_t shared, int limit)
{
	int size = limit > 0 && limit < 1024 ? limit : 1024, per_sm;
	CUresult ret = cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, function, size,
								   shared_of ? shared_of(size) : shared);

	if (ret || !grid || !block)
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	*block = size;
	*grid = (per_sm ? per_sm : 1) * sim_profile()->sms;
	return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function, const CUlaunchConfig *config)
{
	unsigned size = 1;

	if (!clusters || !config || !sim_function_name(function))
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < config->numAttrs; i++)
		if (config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
			size = config->attrs[i].value.clusterDim.x * config->attrs[i].value.clusterDim.y *
			       config->attrs[i].value.clusterDim.z;
	*clusters = sim_profile()->sms / (int)(size ? size : 1);
	return CUDA_SUCCESS;
}
