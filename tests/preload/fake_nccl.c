/* SPDX-License-Identifier: MIT */
/* A libnccl.so.2 of a few functions; ncclAllReduce() returns -DANSWER, so that one copy is told from another. */
#include <stddef.h>
#include <stdint.h>

extern int cuMemAlloc_v2(uint64_t *, size_t) __attribute__((weak));

int ncclGetVersion(int *version)
{
	*version = 22700;
	return 0;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
	(void)from, (void)to, (void)count, (void)type, (void)op, (void)comm, (void)stream;
	return ANSWER;
}

int ncclMemAlloc(void **address, size_t bytes)
{
	uint64_t found = 0;
	int result = cuMemAlloc_v2 ? cuMemAlloc_v2(&found, bytes) : 1;

	*address = (void *)(uintptr_t)found;
	return result;
}

int ncclCommShrink(void *comm, int *excluded, int nr_excluded, void **shrunk, void *config, int flags)
{
	(void)comm, (void)excluded, (void)nr_excluded, (void)config, (void)flags;
	*shrunk = (void *)(uintptr_t)0x5eed0;
	return 0;
}

int ncclCommWindowRegister(void *comm, void *address, size_t bytes, void **window, int flags)
{
	(void)comm, (void)flags;
	*window = NULL;
	return ncclMemAlloc(address ? &address : window, bytes);
}
