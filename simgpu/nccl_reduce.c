/* SPDX-License-Identifier: MIT */
/* NCCL: reductions of small messages, and the operations that programs define. */
#include "simgpu/nccl_state.h"
#include "simgpu/small_float.h"

#include <stdlib.h>
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

/* The format of floating point that C does not have, else NULL. */
static const struct small_float *small_format(ncclDataType_t type)
{
	switch (type) {
	case ncclFloat16:
		return &small_float16;
	case ncclBfloat16:
		return &small_bfloat16;
	case ncclFloat8e4m3:
		return &small_e4m3;
	case ncclFloat8e5m2:
		return &small_e5m2;
	default:
		return NULL;
	}
}

static float load_small(const struct small_float *format, const void *p, size_t i, size_t size)
{
	return small_float_widen(format, size == 1 ? ((const uint8_t *)p)[i] : ((const uint16_t *)p)[i]);
}

static void store_small(const struct small_float *format, void *p, size_t i, size_t size, float value)
{
	uint32_t bits = small_float_narrow(format, value);

	if (size == 1)
		((uint8_t *)p)[i] = (uint8_t)bits;
	else
		((uint16_t *)p)[i] = (uint16_t)bits;
}

/*
 * How to combine, in one word for the mailbox: element type, operation, how many ranks are absent, and a factor
 * for every contribution.
 */
static uint64_t how_of(ncclComm_t comm, ncclDataType_t type, ncclRedOp_t op, float scale)
{
	uint16_t nr_absent = (uint16_t)(comm->nr_ranks - comm->presence.nr_present);
	uint32_t bits;

	memcpy(&bits, &scale, sizeof(bits));
	return (uint64_t)bits << 32 | (uint64_t)nr_absent << 16 | (uint64_t)op << 8 | (uint64_t)type;
}

/* Absent ranks contribute what the stand-in does, which is the first of the contributions. */

#define COMBINE(element_t)                                                                 \
	do {                                                                               \
		element_t *out = dst;                                                      \
		for (size_t i = 0; i < bytes / sizeof(element_t); i++) {                   \
			const element_t *in = (const element_t *)all + i;                  \
			size_t step = bytes / sizeof(element_t);                           \
			element_t first = scale == 1 ? *in : (element_t)(*in * scale);     \
			element_t value = first;                                           \
			for (int rank = 1; rank < nr_ranks; rank++) {                      \
				element_t other = in[step * (size_t)rank];                 \
				if (scale != 1)                                            \
					other = (element_t)(other * scale);                \
				value = op == ncclMax    ? (value > other ? value : other) \
					: op == ncclMin  ? (value < other ? value : other) \
					: op == ncclProd ? (element_t)(value * other)      \
							 : (element_t)(value + other);     \
			}                                                                  \
			for (int n = 0; op == ncclProd && n < nr_absent; n++)              \
				value = (element_t)(value * first);                        \
			if (nr_absent && (op == ncclSum || op == ncclAvg))                 \
				value = (element_t)(value + first * (element_t)nr_absent); \
			out[i] = op == ncclAvg ? (element_t)(value / (nr_ranks + nr_absent)) : value; \
		}                                                                          \
	} while (0)

static void combine(void *dst, const void *all, size_t bytes, int nr_ranks, uint64_t how);

/*
 * Numbers of 8 and 16 bits are combined as floats and rounded once. The real library rounds after every step,
 * in an order that depends on the topology.
 */
static void combine_small(void *dst, const void *all, size_t bytes, int nr_ranks, uint64_t how)
{
	ncclDataType_t type = (ncclDataType_t)(how & 0xff);
	const struct small_float *format = small_format(type);
	size_t size = nccl_type_bytes(type), n = bytes / size;
	float *wide = sim_alloc(n * (size_t)(nr_ranks + 1) * sizeof(*wide));

	for (size_t i = 0; i < n * (size_t)nr_ranks; i++)
		wide[n + i] = load_small(format, all, i, size);
	combine(wide, wide + n, n * sizeof(*wide), nr_ranks, (how & ~(uint64_t)0xff) | ncclFloat32);
	for (size_t i = 0; i < n; i++)
		store_small(format, dst, i, size, wide[i]);
	free(wide);
}

static void combine(void *dst, const void *all, size_t bytes, int nr_ranks, uint64_t how)
{
	uint32_t bits = (uint32_t)(how >> 32);
	ncclRedOp_t op = (ncclRedOp_t)(how >> 8 & 0xff);
	int nr_absent = (int)(how >> 16 & 0xffff);
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
		combine_small(dst, all, bytes, nr_ranks, how);
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
	sim_mailbox_reduce(comm->box, dst, bytes, own, bytes, combine, how_of(comm, type, op, scale));
}

/* A factor in device memory is a kernel's result and reads 0 there: such a sum is taken unscaled. */
ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t datatype,
				      ncclScalarResidence_t residence, ncclComm_t comm)
{
	const struct small_float *format = small_format(datatype);
	double scale = 1;

	if (!op || !scalar || !comm)
		return ncclInvalidArgument;
	if (residence == ncclScalarHostImmediate && datatype == ncclFloat32)
		scale = *(const float *)scalar;
	else if (residence == ncclScalarHostImmediate && datatype == ncclFloat64)
		scale = *(const double *)scalar;
	else if (residence == ncclScalarHostImmediate && format)
		scale = load_small(format, scalar, 0, nccl_type_bytes(datatype));
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
