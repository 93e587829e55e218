/* SPDX-License-Identifier: MIT */
/* NCCL: reductions of small messages, and the operations that programs define. */
#include "simgpu/nccl_state.h"

#include <string.h>

size_t nccl_type_bytes(ncclDataType_t type)
{
	switch (type) {
	case ncclInt64:
	case ncclUint64:
	case ncclFloat64:
		return 8;
	case ncclInt32:
	case ncclUint32:
	case ncclFloat32:
		return 4;
	case ncclFloat16:
	case ncclBfloat16:
		return 2;
	default:
		return 1;
	}
}

bool nccl_type_is_reduced(ncclDataType_t type)
{
	return type != ncclFloat16 && type != ncclBfloat16 && type != ncclFloat8e4m3 &&
	       type != ncclFloat8e5m2;
}

/*
 * How to combine, in one word for the mailbox: element type, operation, and a factor for every contribution.
 */
static uint64_t how_of(ncclDataType_t type, ncclRedOp_t op, float scale)
{
	uint32_t bits;

	memcpy(&bits, &scale, sizeof(bits));
	return (uint64_t)bits << 32 | (uint64_t)op << 8 | (uint64_t)type;
}

#define COMBINE(element_t)                                                                 \
	do {                                                                               \
		element_t *out = dst;                                                      \
		for (size_t i = 0; i < bytes / sizeof(element_t); i++) {                   \
			const element_t *in = (const element_t *)all + i;                  \
			size_t step = bytes / sizeof(element_t);                           \
			element_t value = scale == 1 ? *in : (element_t)(*in * scale);     \
			for (int rank = 1; rank < nr_ranks; rank++) {                      \
				element_t other = in[step * (size_t)rank];                 \
				if (scale != 1)                                            \
					other = (element_t)(other * scale);                \
				value = op == ncclMax    ? (value > other ? value : other) \
					: op == ncclMin  ? (value < other ? value : other) \
					: op == ncclProd ? (element_t)(value * other)      \
							 : (element_t)(value + other);     \
			}                                                                  \
			out[i] = op == ncclAvg ? (element_t)(value / nr_ranks) : value;    \
		}                                                                          \
	} while (0)

static void combine(void *dst, const void *all, size_t bytes, int nr_ranks, uint64_t how)
{
	uint32_t bits = (uint32_t)(how >> 32);
	ncclRedOp_t op = (ncclRedOp_t)(how >> 8 & 0xff);
	float scale;

	memcpy(&scale, &bits, sizeof(scale));
	switch ((ncclDataType_t)(how & 0xff)) {
	case ncclInt8:
		COMBINE(int8_t);
		break;
	case ncclUint8:
		COMBINE(uint8_t);
		break;
	case ncclInt32:
		COMBINE(int32_t);
		break;
	case ncclUint32:
		COMBINE(uint32_t);
		break;
	case ncclInt64:
		COMBINE(int64_t);
		break;
	case ncclUint64:
		COMBINE(uint64_t);
		break;
	case ncclFloat32:
		COMBINE(float);
		break;
	case ncclFloat64:
		COMBINE(double);
		break;
	default:
		break;
	}
}

/* OP as a built-in operation and the factor that precedes it. */
static ncclRedOp_t resolve(ncclComm_t comm, ncclRedOp_t op, float *scale)
{
	int custom = (int)op - (int)ncclNumOps;

	*scale = 1;
	if (custom < 0)
		return op;
	if (custom < comm->nr_scales)
		*scale = (float)comm->scales[custom];
	return ncclSum;
}

void nccl_reduce_into(ncclComm_t comm, void *dst, const void *own, size_t bytes, ncclDataType_t type,
		      ncclRedOp_t op)
{
	float scale;

	op = resolve(comm, op, &scale);
	sim_mailbox_reduce(comm->box, dst, own, bytes, combine, how_of(type, op, scale));
}

/* A factor in device memory is a kernel's result and reads 0 there: such a sum is taken unscaled. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	double scale = 1;

	if (!op || !scalar || !comm)
		return ncclInvalidArgument;
	if (residence == ncclScalarHostImmediate && datatype == ncclFloat32)
		scale = *(const float *)scalar;
	else if (residence == ncclScalarHostImmediate && datatype == ncclFloat64)
		scale = *(const double *)scalar;
	comm->scales = sim_realloc(comm->scales, sizeof(*comm->scales) * (size_t)(comm->nr_scales + 1));
	comm->scales[comm->nr_scales] = scale;
	*op = (ncclRedOp_t)((int)ncclNumOps + comm->nr_scales++);
	return ncclSuccess;
}

/* Numbers are not reused, and a program makes few. */
ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
	return comm && (int)op >= (int)ncclNumOps ? ncclSuccess : ncclInvalidArgument;
}
