/* SPDX-License-Identifier: MIT */
/*
 * Values that streams write to memory and wait for. A write happens at once, as all work. A wait whose
 * condition does not hold would be ended by work of another stream or processor; nothing here could write it
 * later than now, so the stream goes on.
 */
#include <string.h>

#include "simgpu/internal.h"

enum { OPERATIONS_MAX = 256 };

_Static_assert(offsetof(CUstreamBatchMemOpParams, waitValue.flags) ==
		       offsetof(CUstreamBatchMemOpParams, writeValue.flags),
	       "the same fields");

/* Whether BYTES at ADDRESS are memory that streams reach, and a whole value of it. */
static bool is_reachable(CUdeviceptr address, size_t bytes)
{
	struct sim_block *block;
	bool is_inside;

	sim_lock();
	block = sim_blocks_find(&sim_blocks, address);
	is_inside = block && address + bytes <= block->start + block->bytes;
	sim_unlock();
	return is_inside && address % bytes == 0;
}

/* How many bytes OPERATION is about; 0: about none. */
static size_t value_bytes(CUstreamBatchMemOpType operation)
{
	switch (operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return 4;
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return 8;
	default:
		return 0;
	}
}

static bool is_wait(CUstreamBatchMemOpType operation)
{
	return operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 || operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static CUresult check(const CUstreamBatchMemOpParams *p)
{
	const unsigned wait_flags = CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH;
	size_t bytes = value_bytes(p->operation);

	if (p->operation == CU_STREAM_MEM_OP_BARRIER || p->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES)
		return CUDA_SUCCESS;
	if (!bytes || !is_reachable(p->writeValue.address, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	if (is_wait(p->operation))
		return p->waitValue.flags & ~wait_flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	return p->writeValue.flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER
		       ? CUDA_ERROR_INVALID_VALUE
		       : CUDA_SUCCESS;
}

static void run(const CUstreamBatchMemOpParams *p)
{
	size_t bytes = value_bytes(p->operation);
	void *at = (void *)p->writeValue.address;

	if (!bytes || is_wait(p->operation))
		return;
	if (sim_before_overwrite)
		sim_before_overwrite(at, bytes);
	if (bytes == 4)
		__atomic_store_n((uint32_t *)at, p->writeValue.value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((uint64_t *)at, p->writeValue.value64, __ATOMIC_RELEASE);
	if (sim_pointer_device(at) >= 0)
		sim_dirty(at, bytes);
}

CUresult sim_stream_operations(CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations)
{
	CUgraphNodeParams node = { .type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP };
	int device;
	CUresult ret = stream ? CUDA_SUCCESS : sim_context_need(&device);

	if (!ret && (count > OPERATIONS_MAX || (count && !operations)))
		ret = CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !ret; i++)
		ret = check(&operations[i]);
	if (ret)
		return ret;
	node.memOp.count = count;
	node.memOp.paramArray = operations;
	if (sim_capture_node(stream, &node))
		return CUDA_SUCCESS;
	for (unsigned i = 0; i < count; i++)
		run(&operations[i]);
	return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
			       unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : sim_stream_operations(stream, count, operations);
}

/* One operation with a value: those that write and those that wait have the same fields. */
static CUresult operate(CUstream stream, CUstreamBatchMemOpType operation, CUdeviceptr address, cuuint64_t value,
			unsigned flags)
{
	CUstreamBatchMemOpParams p = { 0 };

	p.writeValue.operation = operation;
	p.writeValue.address = address;
	p.writeValue.flags = flags;
	if (value_bytes(operation) == 4)
		p.writeValue.value = (cuuint32_t)value;
	else
		p.writeValue.value64 = value;
	return sim_stream_operations(stream, 1, &p);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return operate(stream, CU_STREAM_MEM_OP_WRITE_VALUE_32, address, value, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return operate(stream, CU_STREAM_MEM_OP_WRITE_VALUE_64, address, value, flags);
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return operate(stream, CU_STREAM_MEM_OP_WAIT_VALUE_32, address, value, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return operate(stream, CU_STREAM_MEM_OP_WAIT_VALUE_64, address, value, flags);
}

/* The first versions, which a driver had to be told to allow: they do the same. */
CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *operations,
			    unsigned int flags)
{
	return cuStreamBatchMemOp_v2(stream, count, operations, flags);
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWriteValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return cuStreamWriteValue64_v2(stream, address, value, flags);
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags)
{
	return cuStreamWaitValue32_v2(stream, address, value, flags);
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned int flags)
{
	return cuStreamWaitValue64_v2(stream, address, value, flags);
}
