/* SPDX-License-Identifier: MIT */
/* What is counted and recorded of what CUPTI tells: calls past the hooks, modules, records of memory; by threads. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libinterpose/cupti_objects.c"
#include "libinterpose/cupti_records.c"
#include "libinterpose/cupti_crosscheck.c"

#define DRIVER_ID(function) CUPTI_DRIVER_TRACE_CBID_##function
#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 + (n)))
#define MOST 100000
#define THREADS 8
#define ROUNDS 2000

/* ---- the recorder, as far as it is needed ----------------------------------------------------- */

const struct ip_hook ip_hooks[FN_NR] = {
#define DRIVER(symbol, base, version, stream, records) \
	[FN_##symbol] = { #symbol, base, version, STREAM_##stream, NULL },
#define RUNTIME(symbol, records) [FN_##symbol] = { #symbol, #symbol, 0, STREAM_RUNTIME, NULL },
#include "libinterpose/hooks.def"
};

static struct ip_recorder recorder;
struct ip_recorder *ip_recorder = &recorder;
__thread struct ip_tls ip_tls;

static struct ip_cupti *cupti;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tfmt_record recorded[MOST];
static bool elsewhere[MOST];
static unsigned nr_recorded, current_device, used_devices;
static uint32_t device_of_context;

void ip_record(struct ip_thread *t, const struct tfmt_record *ev)
{
	assert_true(t->busy);
	pthread_mutex_lock(&lock);
	elsewhere[nr_recorded] = t->is_elsewhere;
	recorded[nr_recorded++] = *ev;
	pthread_mutex_unlock(&lock);
}

struct ip_thread *ip_event_thread(void)
{
	static __thread struct ip_thread thread;

	return ip_state() == IP_RECORDING && !thread.busy ? &thread : NULL;
}

/* The calls that these tests speak of stand. */
bool open_entry_stands(struct ip_thread *t, const struct open_call *c)
{
	(void)t;
	(void)c;
	return true;
}

bool ip_begin(void)
{
	return true;
}

void ip_lock(_Atomic uint32_t *word)
{
	uint32_t open = 0;

	while (!atomic_compare_exchange_weak(word, &open, 1))
		open = 0;
}

void ip_unlock(_Atomic uint32_t *word)
{
	atomic_store(word, 0);
}

void *ip_map(size_t bytes)
{
	return calloc(1, bytes);
}

unsigned ip_driver_device(void)
{
	return current_device;
}

uint16_t ip_function_named(const char *name)
{
	assert_non_null(name);
	return UINT16_MAX;
}

void ip_context_used(uint16_t function, unsigned device)
{
	assert_int_equal(function, FN_NONE);
	used_devices |= 1u << device;
}

void cupti_status(struct ip_cupti *c, const char *format, ...)
{
	(void)format;
	c->status = "changed";
}

/* ---- CUPTI ------------------------------------------------------------------------------------ */

static CUptiResult enable_callback(uint32_t on, CUpti_SubscriberHandle s, CUpti_CallbackDomain d, CUpti_CallbackId id)
{
	(void)on, (void)s, (void)d;
	/* Too old for some. */
	return id == DRIVER_ID(cuMulticastCreate) ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

static CUptiResult get_device_id(CUcontext context, uint32_t *device)
{
	(void)context;
	*device = device_of_context;
	return CUPTI_SUCCESS;
}

/* A buffer of the test's is a sequence of the largest record. */
union any_record {
	CUpti_Activity any;
	CUpti_ActivityMemory4 memory;
	CUpti_ActivityMemoryPool3 pool;
};

static CUptiResult next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
	uint8_t *next = *record ? (uint8_t *)*record + sizeof(union any_record) : buffer;

	if (next >= buffer + valid)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	*record = (CUpti_Activity *)next;
	return CUPTI_SUCCESS;
}

static int begin(void **state)
{
	(void)state;
	memset(&recorder, 0, sizeof(recorder));
	memset(&ip_tls, 0, sizeof(ip_tls));
	recorder.state = IP_RECORDING;
	recorder.driver_hooked = true;
	recorder.cupti = cupti = calloc(1, sizeof(*cupti));
	cupti->api.cuptiEnableCallback = enable_callback;
	cupti->api.cuptiGetDeviceId = get_device_id;
	cupti->api.cuptiActivityGetNextRecord = next_record;
	cupti_crosscheck_start(cupti);
	cupti_objects_start(cupti);
	nr_recorded = current_device = used_devices = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	free(cupti->buffers);
	free(cupti);
	return 0;
}

static void returns(CUpti_CallbackId id, const void *params, CUresult result, CUcontext context)
{
	CUpti_CallbackData data = { .callbackSite = CUPTI_API_ENTER, .functionParams = params, .context = context,
				    .functionReturnValue = &result };

	cupti_crosscheck(cupti, id, &data);
	data.callbackSite = CUPTI_API_EXIT;
	cupti_crosscheck(cupti, id, &data);
}

static void module_event(CUpti_CallbackIdResource what, CUcontext context, uint32_t id, size_t bytes)
{
	CUpti_ModuleResourceData module = { .moduleId = id, .cubinSize = bytes };
	CUpti_ResourceData data = { .context = context, .resourceDescriptor = &module };

	cupti_object(cupti, what, &data);
}

static void context_event(CUpti_CallbackIdResource what, CUcontext context)
{
	CUpti_ResourceData data = { .context = context };

	cupti_object(cupti, what, &data);
}

/* ---- calls ------------------------------------------------------------------------------------ */

static void calls_past_the_hooks(void **state)
{
	CUdeviceptr address = 0x7000;
	cuMemAlloc_v2_params alloc = { &address, 4096 };
	cuMemFree_v2_params release = { address };

	(void)state;
	current_device = 3;
	ip_cupti_calling(FN_cuMemAlloc_v2);
	returns(DRIVER_ID(cuMemAlloc_v2), &alloc, CUDA_SUCCESS, CONTEXT(1));
	assert_int_equal(nr_recorded, 0);

	returns(DRIVER_ID(cuMemAlloc_v2), &alloc, CUDA_SUCCESS, CONTEXT(1));
	returns(DRIVER_ID(cuMemAlloc_v2), &alloc, CUDA_ERROR_OUT_OF_MEMORY, CONTEXT(1));
	returns(DRIVER_ID(cuMemFree_v2), &release, CUDA_SUCCESS, CONTEXT(1));
	assert_int_equal(nr_recorded, 2);
	assert_int_equal(recorded[0].kind, TFMT_UNHOOKED);
	assert_int_equal(recorded[0].address, 0x7000);
	assert_int_equal(recorded[0].size, 4096);
	assert_int_equal(recorded[0].function, FN_cuMemAlloc_v2);
	assert_int_equal(recorded[0].aux, TFMT_UNHOOKED_ALLOC);
	assert_int_equal(recorded[0].device, 3);
	assert_int_equal(recorded[1].aux, TFMT_UNHOOKED_FREE);
	assert_int_equal(cupti->calls, 4);
	assert_int_equal(cupti->unhooked, 2);
	assert_int_equal(cupti->untold, 0);
}

/* Another ABI of a call is the same call, another call is not, whatever hook was under way last. */
static void hooks_and_calls_belong_together(void **state)
{
	CUdeviceptr address = 0x7000;
	cuMemAlloc_v2_params alloc = { &address, 4096 };
	void *pinned = &address;
	cuMemHostAlloc_params host = { &pinned, 512, 0 };

	(void)state;
	ip_cupti_calling(FN_cuMemHostAlloc);
	returns(DRIVER_ID(cuMemHostAlloc_v2), &host, CUDA_SUCCESS, NULL);
	assert_int_equal(nr_recorded, 0);
	ip_cupti_calling(FN_cuMemFree_v2);
	returns(DRIVER_ID(cuMemAlloc_v2), &alloc, CUDA_SUCCESS, NULL);
	assert_int_equal(nr_recorded, 1);
	/* The end of a call that loads modules is looked at, too: it ends what was under way. */
	ip_cupti_calling(FN_cuModuleLoadData);
	returns(DRIVER_ID(cuModuleLoadData), NULL, CUDA_SUCCESS, NULL);
	assert_int_equal(ip_tls.calling, 0);
	/* A hook was there, CUPTI said nothing. */
	ip_cupti_calling(FN_cuMemAlloc_v2);
	ip_cupti_calling(FN_cuMemAlloc_v2);
	assert_int_equal(cupti->untold, 1);
}

/* A runtime out of the hooks' reach is recorded by its own wrappers. */
static void runtimes_that_record_themselves(void **state)
{
	CUdeviceptr address = 0x7000;
	cuMemAlloc_v2_params alloc = { &address, 4096 };

	(void)state;
	recorder.driver_hooked = false;
	ip_tls.origin = FN_cudaMalloc;
	returns(DRIVER_ID(cuMemAlloc_v2), &alloc, CUDA_SUCCESS, NULL);
	assert_int_equal(cupti->unhooked, 0);
	ip_tls.origin = 0;
	returns(DRIVER_ID(cuMemAlloc_v2), &alloc, CUDA_SUCCESS, NULL);
	assert_int_equal(cupti->unhooked, 1);
}

/* ---- objects ---------------------------------------------------------------------------------- */

static void a_memory_call_in(CUcontext context, unsigned device)
{
	cuMemFree_v2_params release = { 0 };

	current_device = device;
	ip_cupti_calling(FN_cuMemFree_v2);
	returns(DRIVER_ID(cuMemFree_v2), &release, CUDA_SUCCESS, context);
}

static void modules_wait_for_their_device(void **state)
{
	(void)state;
	context_event(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CONTEXT(1));
	module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, CONTEXT(1), 1, 100);
	module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, CONTEXT(2), 2, 200);
	assert_int_equal(nr_recorded, 0);
	a_memory_call_in(CONTEXT(2), 5);
	assert_int_equal(nr_recorded, 1);
	assert_int_equal(recorded[0].device, 5);
	assert_int_equal(recorded[0].address, 2);
	assert_true(elsewhere[0]);
	/* Where the device is known nothing waits, and the stack is the right one. */
	module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, CONTEXT(2), 3, 300);
	assert_int_equal(nr_recorded, 2);
	assert_int_equal(recorded[1].kind, TFMT_OBJECT_NEW);
	assert_int_equal(recorded[1].flags, TFMT_OBJECT_MODULE);
	assert_int_equal(recorded[1].size, 300);
	assert_false(elsewhere[1]);
	module_event(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, CONTEXT(2), 3, 0);
	module_event(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, CONTEXT(2), 3, 0);
	assert_int_equal(nr_recorded, 3);
	assert_int_equal(recorded[2].kind, TFMT_OBJECT_GONE);
	a_memory_call_in(CONTEXT(1), 1);
	assert_int_equal(nr_recorded, 4);
	assert_int_equal(recorded[3].device, 1);
	assert_int_equal(cupti->modules, 3);
	assert_int_equal(cupti->module_bytes, 600);
}

static void modules_wait_for_the_recording(void **state)
{
	(void)state;
	recorder.state = IP_PREPARED;
	a_memory_call_in(CONTEXT(1), 0);
	for (uint32_t id = 1; id <= CUPTI_NR_PENDING + 3; id++)
		module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, CONTEXT(1), id, 1);
	assert_int_equal(nr_recorded, 0);
	assert_int_equal(cupti->objects_lost, 3);
	recorder.state = IP_RECORDING;
	module_event(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, CONTEXT(1), 1, 0);
	assert_int_equal(nr_recorded, CUPTI_NR_PENDING + 1);
	for (unsigned i = 0; i < CUPTI_NR_PENDING; i++)
		assert_int_equal(recorded[i].address, i + 1);
	assert_int_equal(recorded[CUPTI_NR_PENDING].kind, TFMT_OBJECT_GONE);
}

/* What a hook records itself is left to it, with the size that CUPTI tells. */
static void modules_of_hooks(void **state)
{
	(void)state;
	ip_cupti_calling(FN_cuLibraryLoadData);
	module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, CONTEXT(1), 1, 100);
	module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, CONTEXT(1), 2, 20);
	assert_int_equal(ip_cupti_module_bytes(), 120);
	module_event(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, CONTEXT(1), 1, 0);
	ip_cupti_calling(FN_cuModuleLoadData);
	assert_int_equal(ip_cupti_module_bytes(), 0);
	assert_int_equal(nr_recorded, 0);
	assert_false(cupti->has_pending);
}

static void contexts_are_asked_for_at_the_end(void **state)
{
	(void)state;
	context_event(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CONTEXT(1));
	context_event(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CONTEXT(2));
	context_event(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, CONTEXT(2));
	ip_cupti_calling(FN_cuCtxCreate_v2);
	context_event(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CONTEXT(3));
	module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, CONTEXT(1), 1, 100);
	device_of_context = 4;
	cupti_objects_end(cupti);
	assert_int_equal(used_devices, 1u << 4);
	assert_int_equal(nr_recorded, 1);
	assert_int_equal(recorded[0].device, 4);
	assert_int_equal(cupti->contexts, 3);
}

/* ---- records ---------------------------------------------------------------------------------- */

static void records_are_summed(void **state)
{
	uint8_t *buffer[CUPTI_NR_BUFFERS + 1];
	size_t size, most;
	union any_record *r;

	(void)state;
	cupti->buffers = ip_map((size_t)CUPTI_NR_BUFFERS * CUPTI_BUFFER_BYTES);
	for (unsigned i = 0; i <= CUPTI_NR_BUFFERS; i++)
		buffer_requested(&buffer[i], &size, &most);
	assert_null(buffer[CUPTI_NR_BUFFERS]);
	assert_int_equal(size, 0);
	for (unsigned i = 1; i < CUPTI_NR_BUFFERS; i++)
		assert_ptr_not_equal(buffer[i], buffer[i - 1]);

	r = (union any_record *)(void *)buffer[1];
	r[0].memory = (CUpti_ActivityMemory4){ .kind = CUPTI_ACTIVITY_KIND_MEMORY2, .bytes = 100,
					       .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC,
					       .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION };
	r[1].memory = (CUpti_ActivityMemory4){ .kind = CUPTI_ACTIVITY_KIND_MEMORY2, .bytes = 50, .isAsync = 1,
					       .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
					       .memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE };
	r[1].memory.memoryPoolConfig.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
	r[1].memory.memoryPoolConfig.pool.size = 4096;
	r[1].memory.memoryPoolConfig.utilizedSize = 1024;
	r[2].pool = (CUpti_ActivityMemoryPool3){ .kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL, .size = 512,
						 .memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL,
						 .memoryPoolOperationType =
							 CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED };
	buffer_completed(NULL, 0, buffer[1], CUPTI_BUFFER_BYTES, 3 * sizeof(*r));
	assert_int_equal(cupti->records, 3);
	assert_int_equal(cupti->memory[CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC].alloc_bytes, 100);
	assert_int_equal(cupti->memory[CUPTI_ACTIVITY_MEMORY_KIND_DEVICE].frees, 1);
	assert_int_equal(cupti->pools, 1);
	assert_int_equal(cupti->pool_peak_bytes, 4096);
	assert_int_equal(cupti->pool_used_peak_bytes, 1024);
	buffer_requested(&buffer[0], &size, &most);
	assert_ptr_equal(buffer[0], buffer[1]);
}

/* ---- threads ---------------------------------------------------------------------------------- */

static void *work(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	cuMemFree_v2_params release = { 0x9000 };
	uint8_t *buffer;
	size_t size, most;

	for (uint32_t i = 0; i < ROUNDS; i++) {
		CUcontext context = CONTEXT(me % 4);

		if (i % 100 == 0)
			context_event(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, CONTEXT(100 + me));
		module_event(CUPTI_CBID_RESOURCE_MODULE_LOADED, context, 1 + me * ROUNDS + i, 1);
		ip_cupti_calling(FN_cuMemFree_v2);
		returns(DRIVER_ID(cuMemFree_v2), &release, CUDA_SUCCESS, context);
		returns(DRIVER_ID(cuMemFree_v2), &release, CUDA_SUCCESS, context);
		module_event(CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING, context, 1 + me * ROUNDS + i, 0);
		if (i % 100 == 50)
			context_event(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, CONTEXT(100 + me));
		buffer_requested(&buffer, &size, &most);
		if (buffer)
			buffer_completed(NULL, 0, buffer, size, 0);
	}
	return NULL;
}

static void threads_lose_nothing(void **state)
{
	pthread_t thread[THREADS];
	unsigned made = 0, gone = 0, past = 0;

	(void)state;
	cupti->buffers = ip_map((size_t)CUPTI_NR_BUFFERS * CUPTI_BUFFER_BYTES);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, work, (void *)i), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	cupti_objects_end(cupti);
	for (unsigned i = 0; i < nr_recorded; i++) {
		made += recorded[i].kind == TFMT_OBJECT_NEW;
		gone += recorded[i].kind == TFMT_OBJECT_GONE;
		past += recorded[i].kind == TFMT_UNHOOKED;
	}
	assert_int_equal(cupti->objects_lost, 0);
	assert_int_equal(made, THREADS * ROUNDS);
	assert_int_equal(gone, THREADS * ROUNDS);
	assert_int_equal(past, THREADS * ROUNDS);
	assert_int_equal(cupti->unhooked, THREADS * ROUNDS);
	assert_int_equal(cupti->calls, 2 * THREADS * ROUNDS);
	assert_int_equal(cupti->buffers_taken, 0);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(calls_past_the_hooks),
		TEST(hooks_and_calls_belong_together),
		TEST(runtimes_that_record_themselves),
		TEST(modules_wait_for_their_device),
		TEST(modules_wait_for_the_recording),
		TEST(modules_of_hooks),
		TEST(contexts_are_asked_for_at_the_end),
		TEST(records_are_summed),
		TEST(threads_lose_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
