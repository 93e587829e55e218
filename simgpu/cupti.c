/* SPDX-License-Identifier: MIT */
/*
 * CUPTI: profilers may subscribe and enable what they like (gen_stubs.py answers that); no record is ever
 * delivered and no callback called, because there is no device activity to tell of.
 */
#include "simgpu/library.h"

#include <stdlib.h>
#include <time.h>

#pragma GCC visibility push(default)
#include <cupti_result.h>
#include <cupti_version.h>
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#pragma GCC visibility pop

/* External correlation ids are a stack for each thread and kind; programs check what they pop. */
#define CORRELATION_DEPTH 64

static __thread struct {
	unsigned depth;
	uint64_t ids[CORRELATION_DEPTH];
} correlation[CUPTI_EXTERNAL_CORRELATION_KIND_SIZE];

CUptiResult cuptiGetVersion(uint32_t *version)
{
	*version = CUPTI_API_VERSION;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	*timestamp = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **str)
{
	switch (result) {
	case CUPTI_SUCCESS:
		*str = "CUPTI_SUCCESS";
		break;
	case CUPTI_ERROR_INVALID_PARAMETER:
		*str = "CUPTI_ERROR_INVALID_PARAMETER";
		break;
	case CUPTI_ERROR_MAX_LIMIT_REACHED:
		*str = "CUPTI_ERROR_MAX_LIMIT_REACHED";
		break;
	case CUPTI_ERROR_QUEUE_EMPTY:
		*str = "CUPTI_ERROR_QUEUE_EMPTY";
		break;
	case CUPTI_ERROR_NOT_SUPPORTED:
		*str = "CUPTI_ERROR_NOT_SUPPORTED";
		break;
	default:
		*str = "<unknown CUptiResult>";
		break;
	}
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

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback, void *userdata)
{
	(void)callback, (void)userdata;
	if (!subscriber)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*subscriber = sim_library_opaque();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber)
{
	free(subscriber);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t validBufferSizeBytes, CUpti_Activity **record)
{
	(void)buffer, (void)validBufferSizeBytes;
	if (record)
		*record = NULL;
	return CUPTI_ERROR_MAX_LIMIT_REACHED;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t streamId, size_t *dropped)
{
	(void)context, (void)streamId;
	*dropped = 0;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	if (kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (correlation[kind].depth < CORRELATION_DEPTH)
		correlation[kind].ids[correlation[kind].depth] = id;
	correlation[kind].depth++;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *lastId)
{
	if (kind >= CUPTI_EXTERNAL_CORRELATION_KIND_SIZE)
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
