/* SPDX-License-Identifier: MIT */
/*
 * A client of CUPTI: subscribes before or after CUDA is used, and counts what it is told of. "records": does not
 * subscribe, but wants CUPTI's records, before CUDA is used.
 *
 * usage: client before|after|records
 * prints: "RESULT of subscribing, callbacks about cudaMalloc, memory records"; 5 allocations follow it
 */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cupti_result.h>
#include <cupti_callbacks.h>
#include <cupti_activity.h>
#include <cupti_runtime_cbid.h>
#include <dlfcn.h>

#define FUNCTION(name) __typeof__(&name) name##_p = (__typeof__(&name))dlsym(RTLD_DEFAULT, #name)

static unsigned calls, records;

static void CUPTIAPI told(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	(void)userdata, (void)domain, (void)id, (void)data;
	calls++;
}

static void CUPTIAPI requested(uint8_t **buffer, size_t *size, size_t *most)
{
	*size = 1 << 16;
	*buffer = aligned_alloc(8, *size);
	*most = 0;
}

static void CUPTIAPI completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	FUNCTION(cuptiActivityGetNextRecord);
	CUpti_Activity *record = NULL;

	(void)context, (void)stream, (void)size;
	while (!cuptiActivityGetNextRecord_p(buffer, valid, &record))
		records++;
	free(buffer);
}

static void want_records(void)
{
	FUNCTION(cuptiActivityRegisterCallbacks);
	FUNCTION(cuptiActivityEnable);

	cuptiActivityRegisterCallbacks_p(requested, completed);
	cuptiActivityEnable_p(CUPTI_ACTIVITY_KIND_MEMORY2);
}

static int subscribe(void)
{
	CUpti_SubscriberParams params = { .structSize = CUpti_SubscriberParams_STRUCT_SIZE,
					  .subscriberName = "another tool" };
	CUpti_SubscriberHandle handle;
	FUNCTION(cuptiSubscribe_v2);
	FUNCTION(cuptiEnableCallback);
	int result = cuptiSubscribe_v2_p ? (int)cuptiSubscribe_v2_p(&handle, told, NULL, &params) : -1;

	if (!result) {
		cuptiEnableCallback_p(1, handle, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020);
		want_records();
	}
	return result;
}

int main(int argc, char **argv)
{
	FUNCTION(cuptiActivityFlushAll);
	const char *when = argc > 1 ? argv[1] : "after";
	int is_after = !strcmp(when, "after"), result = !strcmp(when, "before") ? subscribe() : 0;
	void *p;

	if (!strcmp(when, "records"))
		want_records();
	if (is_after && (cudaMalloc(&p, 1 << 20) || cudaFree(p)))
		return 2;
	if (is_after)
		result = subscribe();
	for (int i = 0; i < 5; i++)
		if (cudaMalloc(&p, 1 << 20))
			return 3;
	cuptiActivityFlushAll_p(0);
	printf("%d %u %u\n", result, calls, records);
	return 0;
}
