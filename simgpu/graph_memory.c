/* SPDX-License-Identifier: MIT */
/*
 * Memory of graphs' allocation nodes. An address belongs to its node from the start; it has memory from
 * a launch of the graph until a free node, cuMemFree or cuMemFreeAsync takes it. A device keeps what it had
 * to reserve for all graphs together until it is trimmed. How the real driver packs them is not documented:
 * reserved is the most that was in use at once, in granules.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "simgpu/internal.h"

#define UNIT 512

struct allocation {
	unsigned refs; /* graphs and executable graphs that have the node */
	bool live;
};

static struct {
	uint64_t used, used_high, reserved, reserved_high;
} memory[SIM_MAX_DEVICES];

CUdeviceptr sim_graph_memory_new(int device, size_t bytes)
{
	struct sim_block block = { .kind = SIM_GRAPH_MEMORY,
				   .device = device,
				   .requested_bytes = bytes,
				   .bytes = sim_round_up(bytes, UNIT) };
	struct allocation *a = sim_zalloc(sizeof(*a));

	a->refs = 1;
	block.owner = a;
	block.start = (uintptr_t)sim_map(block.bytes, 4096, PROT_READ | PROT_WRITE);
	sim_lock();
	sim_blocks_add(&sim_blocks, &block);
	sim_unlock();
	return block.start;
}

/* The block that begins at P, if it is a node's; NULL otherwise. Locked. */
static struct sim_block *block_of(CUdeviceptr p)
{
	struct sim_block *b = sim_blocks_find(&sim_blocks, p);

	return b && b->kind == SIM_GRAPH_MEMORY && b->start == p ? b : NULL;
}

bool sim_graph_memory_is(CUdeviceptr p)
{
	return block_of(p);
}

void sim_graph_memory_hold(CUdeviceptr p)
{
	struct sim_block *b = block_of(p);

	if (b)
		((struct allocation *)b->owner)->refs++;
}

/* Nobody can launch it any more, and it has no memory: the address goes. */
static void forget_unused(struct sim_block *b)
{
	struct allocation *a = b->owner;
	struct sim_block removed;

	if (a->refs || a->live || !sim_blocks_remove(&sim_blocks, b->start, &removed))
		return;
	sim_graph_memory_release(&removed);
}

void sim_graph_memory_put(CUdeviceptr p)
{
	struct sim_block *b = block_of(p);

	if (!b)
		return;
	((struct allocation *)b->owner)->refs--;
	forget_unused(b);
}

static void take_back(struct sim_block *b)
{
	((struct allocation *)b->owner)->live = false;
	memory[b->device].used -= b->bytes;
}

void sim_graph_memory_release(const struct sim_block *block)
{
	struct allocation *a = block->owner;

	if (a->live)
		memory[block->device].used -= block->bytes;
	sim_forget((void *)block->start, block->bytes);
	sim_unmap((void *)block->start, block->bytes);
	free(a);
}

CUresult sim_graph_memory_free(CUdeviceptr p)
{
	struct sim_block *b = block_of(p);

	if (!b || !((struct allocation *)b->owner)->live)
		return CUDA_ERROR_INVALID_VALUE;
	take_back(b);
	forget_unused(b);
	return CUDA_SUCCESS;
}

static CUresult give(struct sim_block *b)
{
	uint64_t used = memory[b->device].used + b->bytes, need = sim_round_up(used, SIM_GRANULE);

	if (need > memory[b->device].reserved) {
		if (!sim_charge(b->device, need - memory[b->device].reserved))
			return CUDA_ERROR_OUT_OF_MEMORY;
		memory[b->device].reserved = need;
	}
	if (need > memory[b->device].reserved_high)
		memory[b->device].reserved_high = need;
	if (used > memory[b->device].used_high)
		memory[b->device].used_high = used;
	memory[b->device].used = used;
	((struct allocation *)b->owner)->live = true;
	return CUDA_SUCCESS;
}

static CUresult run(const struct sim_graph_step *step)
{
	struct sim_block *b = block_of(step->address);

	if (!b)
		return CUDA_ERROR_INVALID_VALUE;
	if (!step->is_free)
		return give(b);
	if (((struct allocation *)b->owner)->live)
		take_back(b);
	return CUDA_SUCCESS;
}

/* Is something still allocated that this launch would allocate? Freed first if that is what was asked for. */
static bool unfreed(const struct sim_graph_step *steps, size_t nr, bool auto_free)
{
	for (size_t i = 0; i < nr; i++) {
		struct sim_block *b = steps[i].is_free ? NULL : block_of(steps[i].address);

		if (!b || !((struct allocation *)b->owner)->live)
			continue;
		if (!auto_free)
			return true;
		take_back(b);
	}
	return false;
}

CUresult sim_graph_memory_launch(const struct sim_graph_step *steps, size_t nr, bool auto_free)
{
	CUresult ret = CUDA_SUCCESS;

	sim_lock();
	if (unfreed(steps, nr, auto_free))
		ret = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !ret && i < nr; i++)
		ret = run(&steps[i]);
	sim_unlock();
	return ret;
}

void sim_graph_memory_trim(int device)
{
	uint64_t keep = sim_round_up(memory[device].used, SIM_GRANULE);

	if (memory[device].reserved > keep) {
		sim_uncharge(device, memory[device].reserved - keep);
		memory[device].reserved = keep;
	}
}

static bool valid(CUdevice device)
{
	return device >= 0 && device < sim_nr_devices();
}

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	if (!valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	sim_graph_memory_trim(device);
	sim_unlock();
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	CUresult ret = CUDA_SUCCESS;

	if (!valid(device) || !value)
		return valid(device) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
	sim_lock();
	switch (attribute) {
	case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
		*(cuuint64_t *)value = memory[device].used;
		break;
	case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
		*(cuuint64_t *)value = memory[device].used_high;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
		*(cuuint64_t *)value = memory[device].reserved;
		break;
	case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
		*(cuuint64_t *)value = memory[device].reserved_high;
		break;
	default:
		ret = CUDA_ERROR_INVALID_VALUE;
	}
	sim_unlock();
	return ret;
}

/* The high marks can be set to 0, which makes them begin again. */
CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute, void *value)
{
	CUresult ret = CUDA_SUCCESS;

	if (!valid(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || *(cuuint64_t *)value)
		return CUDA_ERROR_INVALID_VALUE;
	sim_lock();
	if (attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH)
		memory[device].used_high = memory[device].used;
	else if (attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
		memory[device].reserved_high = memory[device].reserved;
	else
		ret = CUDA_ERROR_INVALID_VALUE;
	sim_unlock();
	return ret;
}
