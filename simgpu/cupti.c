/* SPDX-License-Identifier: MIT */
/* CUPTI's identity, error texts, ids of objects and external correlation ids. */
#include "simgpu/callback.h"
#include "simgpu/driver_table.h"

/* External correlation ids are a stack for each thread and kind; programs check what they pop. */
#define CORRELATION_DEPTH 64

static __thread struct {
	unsigned depth;
	uint64_t ids[CORRELATION_DEPTH];
} correlation[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

CUptiResult cuptiGetVersion(uint32_t *version)
{
	if (!version)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*version = CUPTI_API_VERSION;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **str)
{
	static const struct {
		CUptiResult result;
		const char *text;
	} texts[] = {
#define TEXT(result) { result, #result }
		TEXT(CUPTI_SUCCESS),
		TEXT(CUPTI_ERROR_INVALID_PARAMETER),
		TEXT(CUPTI_ERROR_INVALID_DEVICE),
		TEXT(CUPTI_ERROR_INVALID_CONTEXT),
		TEXT(CUPTI_ERROR_INVALID_STREAM),
		TEXT(CUPTI_ERROR_INVALID_OPERATION),
		TEXT(CUPTI_ERROR_INVALID_KIND),
		TEXT(CUPTI_ERROR_MAX_LIMIT_REACHED),
		TEXT(CUPTI_ERROR_QUEUE_EMPTY),
		TEXT(CUPTI_ERROR_NOT_SUPPORTED),
		TEXT(CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED),
#undef TEXT
	};

	if (!str)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*str = "<unknown CUptiResult>";
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		if (texts[i].result == result)
			*str = texts[i].text;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetErrorMessage(CUptiResult result, const char **str)
{
	return cuptiGetResultString(result, str);
}

CUptiResult cuptiGetLastError(void)
{
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (correlation[kind].depth < CORRELATION_DEPTH)
		correlation[kind].ids[correlation[kind].depth] = id;
	correlation[kind].depth++;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *lastId)
{
	if (kind == CUPTI_EXTERNAL_CORRELATION_KIND_INVALID || kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (!correlation[kind].depth)
		return CUPTI_ERROR_QUEUE_EMPTY;
	correlation[kind].depth--;
	if (lastId)
		*lastId = correlation[kind].depth < CORRELATION_DEPTH
				  ? correlation[kind].ids[correlation[kind].depth]
				  : 0;
	return CUPTI_SUCCESS;
}

/* ---- ids of objects -------------------------------------------------------------------------- */

CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	const struct sim_context *ctx = context ? (struct sim_context *)context : sim_context_current();

	if (!ctx)
		return CUPTI_ERROR_INVALID_CONTEXT;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = (uint32_t)ctx->id;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *id)
{
	const struct sim_context *ctx = context ? (struct sim_context *)context : sim_context_current();

	if (!ctx)
		return CUPTI_ERROR_INVALID_CONTEXT;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*id = (uint32_t)ctx->device;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamId(CUcontext context, CUstream stream, uint32_t *id)
{
	unsigned long long stream_id;

	(void)context;
	if (!id)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (sim_driver()->cuStreamGetId(stream, &stream_id))
		return CUPTI_ERROR_INVALID_STREAM;
	*id = (uint32_t)stream_id;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t per_thread, uint32_t *id)
{
	return cuptiGetStreamId(context, stream ? stream : per_thread ? CU_STREAM_PER_THREAD : stream, id);
}
