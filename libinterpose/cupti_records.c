/* SPDX-License-Identifier: MIT */
/*
 * CUPTI's records of memory and of memory pools (kinds MEMORY2 and MEMORY_POOL), as sums: the third view,
 * and the only one of memory that no call asks for, such as a module's global variables. Buffers come from
 * a fixed set; when none is free CUPTI drops the records and counts them.
 *
 * CUPTI calls from threads of its own, with locks of its own held: nothing here waits for anything.
 */
#include "cupti_state.h"

/*
 * Only the newest structure of the CUPTI in use is filled in, and later ones have been longer, with the same
 * beginning. What is read here is in all from 11.2 to 13.2 (cupti_version.h); about others nothing is known.
 */
#define OLDEST_VERSION 15
#define NEWEST_VERSION 130299

static void CUPTIAPI buffer_requested(uint8_t **buffer, size_t *size, size_t *max_records)
{
	struct ip_cupti *c = ip_recorder->cupti;
	uint32_t taken = c ? atomic_load(&c->buffers_taken) : 0;
	unsigned i = 0;

	*buffer = NULL;
	*size = *max_records = 0;
	while (c && i < CUPTI_NR_BUFFERS) {
		if (taken & 1u << i) {
			i++;
		} else if (atomic_compare_exchange_weak(&c->buffers_taken, &taken, taken | 1u << i)) {
			*buffer = c->buffers + (size_t)i * CUPTI_BUFFER_BYTES;
			*size = CUPTI_BUFFER_BYTES;
			return;
		}
	}
}

static void add(_Atomic uint64_t *sum, uint64_t value)
{
	atomic_fetch_add_explicit(sum, value, memory_order_relaxed);
}

static void raise(_Atomic uint64_t *peak, uint64_t value)
{
	uint64_t old = atomic_load_explicit(peak, memory_order_relaxed);

	while (value > old && !atomic_compare_exchange_weak(peak, &old, value))
		;
}

static void memory_record(struct ip_cupti *c, const CUpti_ActivityMemory4 *r)
{
	unsigned kind = (unsigned)r->memoryKind < CUPTI_NR_KINDS ? (unsigned)r->memoryKind : 0;

	if (r->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION) {
		add(&c->memory[kind].allocs, 1);
		add(&c->memory[kind].alloc_bytes, r->bytes);
	} else if (r->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE) {
		add(&c->memory[kind].frees, 1);
		add(&c->memory[kind].free_bytes, r->bytes);
	}
	if (r->isAsync && r->memoryPoolConfig.memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL) {
		raise(&c->pool_peak_bytes, r->memoryPoolConfig.pool.size);
		raise(&c->pool_used_peak_bytes, r->memoryPoolConfig.utilizedSize);
	}
}

static void pool_record(struct ip_cupti *c, const CUpti_ActivityMemoryPool3 *r)
{
	if (r->memoryPoolOperationType == CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED)
		add(&c->pools, 1);
	if (r->memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL)
		raise(&c->pool_peak_bytes, r->size);
}

static void CUPTIAPI buffer_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				      size_t valid)
{
	struct ip_cupti *c = ip_recorder->cupti;
	CUpti_Activity *record = NULL;
	size_t index;

	(void)context, (void)stream, (void)size;
	if (!c || !buffer)
		return;
	while (!c->api.cuptiActivityGetNextRecord(buffer, valid, &record)) {
		add(&c->records, 1);
		if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY2)
			memory_record(c, (const CUpti_ActivityMemory4 *)record);
		else if (record->kind == CUPTI_ACTIVITY_KIND_MEMORY_POOL)
			pool_record(c, (const CUpti_ActivityMemoryPool3 *)record);
	}
	index = (size_t)(buffer - c->buffers) / CUPTI_BUFFER_BYTES;
	atomic_fetch_and(&c->buffers_taken, ~(1u << index));
}

static bool has_functions(const struct cupti_functions *api)
{
	return api->cuptiActivityRegisterCallbacks && api->cuptiActivityEnable && api->cuptiActivityDisable &&
	       api->cuptiActivityFlushAll && api->cuptiActivityGetNextRecord;
}

void cupti_activity_start(struct ip_cupti *c)
{
	if (!has_functions(&c->api) || c->version < OLDEST_VERSION || c->version > NEWEST_VERSION) {
		cupti_status(c, "on (CUPTI %u, whose records are not known: none are asked for)", c->version);
		return;
	}
	c->buffers = ip_map((size_t)CUPTI_NR_BUFFERS * CUPTI_BUFFER_BYTES);
	if (!c->buffers || c->api.cuptiActivityRegisterCallbacks(buffer_requested, buffer_completed)) {
		cupti_status(c, "on (CUPTI %u, without its records)", c->version);
		return;
	}
	/* The worker's period, in ms: full buffers do not wait for the end. */
	if (c->api.cuptiActivityFlushPeriod)
		c->api.cuptiActivityFlushPeriod(1000);
	c->api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY2);
	c->api.cuptiActivityEnable(CUPTI_ACTIVITY_KIND_MEMORY_POOL);
	atomic_store(&c->has_activities, true);
}

void cupti_activity_stop(struct ip_cupti *c)
{
	size_t dropped = 0;

	if (!atomic_exchange(&c->has_activities, false))
		return;
	c->api.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY2);
	c->api.cuptiActivityDisable(CUPTI_ACTIVITY_KIND_MEMORY_POOL);
	/* By force: the next client must not be handed a buffer of ours. */
	c->api.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	if (c->api.cuptiActivityFlushPeriod)
		c->api.cuptiActivityFlushPeriod(0);
	if (c->api.cuptiActivityGetNumDroppedRecords &&
	    !c->api.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped))
		add(&c->records_lost, dropped);
}
