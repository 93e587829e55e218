/* SPDX-License-Identifier: MIT */
/* Times cuInit and 4000 allocations of the driver, and prints as JSON how long the usual and the slowest ones took, and
 * which one the slowest was. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { NR = 4000, BYTES = 2 << 20, KEPT = 64 };

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

int main(void)
{
	static int64_t took[NR];
	static uint64_t kept[KEPT];
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
	int (*init)(unsigned), (*retain)(void **, int), (*set)(void *), (*alloc)(uint64_t *, size_t), (*release)(uint64_t);
	int64_t begin, init_ns;
	int error, slowest = 0;

	if (!driver)
		return 2;
	*(void **)&init = dlsym(driver, "cuInit");
	*(void **)&retain = dlsym(driver, "cuDevicePrimaryCtxRetain");
	*(void **)&set = dlsym(driver, "cuCtxSetCurrent");
	*(void **)&alloc = dlsym(driver, "cuMemAlloc_v2");
	*(void **)&release = dlsym(driver, "cuMemFree_v2");
	begin = now_ns();
	error = init(0);
	init_ns = now_ns() - begin;
	if (error || (error = retain(&context, 0)) || (error = set(context)))
		return 3;
	for (int i = 0; i < NR; i++) {
		if (kept[i % KEPT] && (error = release(kept[i % KEPT])))
			return 4;
		begin = now_ns();
		error = alloc(&kept[i % KEPT], BYTES);
		took[i] = now_ns() - begin;
		if (error)
			return 5;
		slowest = took[i] > took[slowest] ? i : slowest;
	}
	qsort(took, NR, sizeof(*took), compare);
	printf("{\"p50_ns\": %lld, \"p999_ns\": %lld, \"max_ns\": %lld, \"init_ns\": %lld, \"slowest\": %d}\n",
	       (long long)took[NR / 2], (long long)took[NR - NR / 1000], (long long)took[NR - 1], (long long)init_ns, slowest);
	return 0;
}
