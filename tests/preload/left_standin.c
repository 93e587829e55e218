/* SPDX-License-Identifier: MIT */
/*
 * A runtime and an NCCL for left.c: each call runs standin_inside(), then takes memory of the driver. With -DUNREACHED the
 * runtime has memory of its own: its calls to the driver are none that anybody could hook.
 */
#include <stddef.h>
#include <stdint.h>

int cuMemAlloc_v2(uint64_t *out, size_t bytes);
void standin_inside(void);
int cudaMalloc(void **out, size_t bytes);
int cudaMallocManaged(void **out, size_t bytes, unsigned flags);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);

static int take(void **out, size_t bytes)
{
#ifdef UNREACHED
	static uintptr_t next = 0x30000000;

	standin_inside();
	*out = (void *)(next += bytes);
	return 0;
#else
	uint64_t address = 0;
	int result;

	standin_inside();
	result = cuMemAlloc_v2(&address, bytes);
	*out = (void *)(uintptr_t)address;
	return result;
#endif
}

int cudaMalloc(void **out, size_t bytes)
{
	return take(out, bytes);
}

int cudaMallocManaged(void **out, size_t bytes, unsigned flags)
{
	(void)flags;
	return take(out, bytes);
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
	void *p = NULL;

	(void)from, (void)to, (void)type, (void)op, (void)comm, (void)stream;
	return take(&p, count);
}
