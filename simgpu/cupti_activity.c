/* SPDX-License-Identifier: MIT */
/*
 * CUPTI's activity API: records of memory operations and of memory pools (MEMORY2, MEMORY_POOL). Other kinds
 * can be enabled and never come: nothing runs on the device. Records wait here and are handed over when the
 * client flushes, and at a call's return once there are many.
 */
#include "simgpu/callback.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MANY_RECORDS 4096

/* Room for any record; 8-byte aligned, as clients' buffers are filled. */
union record {
	CUpti_Activity any;
	CUpti_ActivityMemory4 memory;
	CUpti_ActivityMemoryPool3 pool;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
	CUpti_BuffersCallbackRequestFunc request;
	CUpti_BuffersCallbackCompleteFunc complete;
	CUpti_TimestampCallbackFunc timestamp;
	bool memory, pools;
	union record *records;
	size_t nr, room, dropped;
} activity;

/* ---- records --------------------------------------------------------------------------------- */

bool sim_records_wanted(void)
{
	return __atomic_load_n(&activity.memory, __ATOMIC_RELAXED) ||
	       __atomic_load_n(&activity.pools, __ATOMIC_RELAXED);
}

static void keep(const union record *record)
{
	pthread_mutex_lock(&lock);
	/* Nobody to hand them to: they must not fill the memory. */
	if (!activity.complete && activity.nr >= MANY_RECORDS) {
		__atomic_add_fetch(&activity.dropped, 1, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lock);
		return;
	}
	if (activity.nr == activity.room) {
		activity.room = 2 * activity.room + 64;
		activity.records = sim_realloc(activity.records, activity.room * sizeof(*record));
	}
	activity.records[activity.nr++] = *record;
	pthread_mutex_unlock(&lock);
}

static CUpti_ActivityMemoryKind memory_kind(enum sim_kind kind)
{
	switch (kind) {
	case SIM_PINNED:
		return CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
	case SIM_MANAGED:
		return CUPTI_ACTIVITY_MEMORY_KIND_MANAGED;
	default:
		return CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
	}
}

void sim_record_memory(CUpti_ActivityMemoryOperationType what, const struct sim_block *block,
		       const struct sim_pool_state *pool, uint32_t stream)
{
	struct sim_context *ctx = sim_context_current();
	union record r = { 0 };

	if (!__atomic_load_n(&activity.memory, __ATOMIC_RELAXED))
		return;
	r.memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
	r.memory.memoryOperationType = what;
	r.memory.memoryKind = memory_kind(block->kind);
	r.memory.correlationId = sim_call_correlation();
	r.memory.address = block->start;
	r.memory.bytes = block->requested_bytes;
	r.memory.timestamp = sim_call_timestamp();
	r.memory.processId = (uint32_t)getpid();
	r.memory.deviceId = (uint32_t)block->device;
	r.memory.contextId = ctx ? (uint32_t)ctx->id : CUPTI_INVALID_CONTEXT_ID;
	r.memory.streamId = pool ? stream : CUPTI_INVALID_STREAM_ID;
	r.memory.isAsync = pool != NULL;
	if (pool) {
		r.memory.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
		r.memory.memoryPoolConfig.address = pool->address;
		r.memory.memoryPoolConfig.releaseThreshold = pool->threshold;
		r.memory.memoryPoolConfig.pool.size = pool->reserved;
		r.memory.memoryPoolConfig.utilizedSize = pool->used;
	}
	keep(&r);
}

void sim_record_pool(CUpti_ActivityMemoryPoolOperationType what, int device, const struct sim_pool_state *pool,
		     size_t keep_bytes)
{
	union record r = { 0 };

	if (!__atomic_load_n(&activity.pools, __ATOMIC_RELAXED))
		return;
	r.pool.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
	r.pool.memoryPoolOperationType = what;
	r.pool.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
	r.pool.correlationId = sim_call_correlation();
	r.pool.processId = (uint32_t)getpid();
	r.pool.deviceId = (uint32_t)device;
	r.pool.minBytesToKeep = keep_bytes;
	r.pool.address = pool->address;
	r.pool.size = pool->reserved;
	r.pool.releaseThreshold = pool->threshold;
	r.pool.timestamp = sim_call_timestamp();
	r.pool.utilizedSize = pool->used;
	keep(&r);
}

/* ---- handing them over ----------------------------------------------------------------------- */

static size_t record_bytes(const CUpti_Activity *record)
{
	switch (record->kind) {
	case CUPTI_ACTIVITY_KIND_MEMORY2:
		return sizeof(CUpti_ActivityMemory4);
	case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
		return sizeof(CUpti_ActivityMemoryPool3);
	default:
		return 0;
	}
}

/* Put records from FIRST on, NR in all, into one buffer of the client's. Returns how many it took. */
static size_t fill_buffer(const union record *records, size_t first, size_t nr)
{
	size_t size = 0, most = 0, used = 0, at = first;
	uint8_t *buffer = NULL;

	activity.request(&buffer, &size, &most);
	if (!buffer)
		return 0;
	for (; at < nr && (!most || at - first < most); at++) {
		size_t bytes = record_bytes(&records[at].any);

		if (used + bytes > size)
			break;
		memcpy(buffer + used, &records[at], bytes);
		used += bytes;
	}
	activity.complete(NULL, 0, buffer, size, used);
	return at - first;
}

static void deliver(void)
{
	union record *records;
	size_t nr, at = 0, taken = 1;

	pthread_mutex_lock(&lock);
	records = activity.records;
	nr = activity.nr;
	activity.records = NULL;
	activity.nr = activity.room = 0;
	pthread_mutex_unlock(&lock);
	for (; at < nr && taken; at += taken)
		taken = fill_buffer(records, at, nr);
	__atomic_add_fetch(&activity.dropped, nr - at, __ATOMIC_RELAXED);
	free(records);
}

void sim_records_deliver_some(void)
{
	if (activity.complete && __atomic_load_n(&activity.nr, __ATOMIC_RELAXED) >= MANY_RECORDS)
		deliver();
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
					   CUpti_BuffersCallbackCompleteFunc complete)
{
	if (!request || !complete)
		return CUPTI_ERROR_INVALID_PARAMETER;
	activity.request = request;
	activity.complete = complete;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	(void)flag;
	if (!activity.complete)
		return CUPTI_ERROR_INVALID_OPERATION;
	deliver();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlush(CUcontext context, uint32_t stream, uint32_t flag)
{
	(void)context, (void)stream;
	return cuptiActivityFlushAll(flag);
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	uint8_t *next;
	size_t bytes;

	if (!buffer || !record)
		return CUPTI_ERROR_INVALID_PARAMETER;
	next = *record ? (uint8_t *)*record + record_bytes(*record) : buffer;
	if (next >= buffer + valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	bytes = record_bytes((CUpti_Activity *)next);
	if (!bytes || bytes > (size_t)(buffer + valid_bytes - next))
		return CUPTI_ERROR_INVALID_KIND;
	*record = (CUpti_Activity *)next;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
	(void)context, (void)stream;
	if (!dropped)
		return CUPTI_ERROR_INVALID_PARAMETER;
	*dropped = __atomic_exchange_n(&activity.dropped, 0, __ATOMIC_RELAXED);
	return CUPTI_SUCCESS;
}

/* ---- which records --------------------------------------------------------------------------- */

static CUptiResult enable(CUpti_ActivityKind kind, bool on)
{
	if (kind <= CUPTI_ACTIVITY_KIND_INVALID || kind >= CUPTI_ACTIVITY_KIND_COUNT)
		return CUPTI_ERROR_INVALID_KIND;
	if (kind == CUPTI_ACTIVITY_KIND_MEMORY2)
		__atomic_store_n(&activity.memory, on, __ATOMIC_RELAXED);
	else if (kind == CUPTI_ACTIVITY_KIND_MEMORY_POOL)
		__atomic_store_n(&activity.pools, on, __ATOMIC_RELAXED);
	sim_cupti_update();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	return enable(kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	return enable(kind, false);
}

CUptiResult cuptiActivityEnableContext(CUcontext context, CUpti_ActivityKind kind)
{
	(void)context;
	return enable(kind, true);
}

CUptiResult cuptiActivityDisableContext(CUcontext context, CUpti_ActivityKind kind)
{
	(void)context;
	return enable(kind, false);
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now)
{
	if (!now)
		return CUPTI_ERROR_INVALID_PARAMETER;
	activity.timestamp = now;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
	struct timespec now;

	if (!timestamp)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (activity.timestamp) {
		*timestamp = activity.timestamp();
		return CUPTI_SUCCESS;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	*timestamp = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return CUPTI_SUCCESS;
}
