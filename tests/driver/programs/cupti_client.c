/* SPDX-License-Identifier: MIT */
/* cupti_client LIBCUPTI: subscribes to CUPTI, before cuInit and after it, and leaves; prints what each call returns. */
#include <dlfcn.h>
#include <stdio.h>

static void *cupti;

static void on_call(void *user, int domain, unsigned id, const void *data)
{
	(void)user;
	(void)domain;
	(void)id;
	(void)data;
}

static void *function(const char *name)
{
	void *f = dlsym(cupti, name);

	if (!f)
		printf("%s: not there\n", name);
	return f;
}

static void subscribe_and_leave(void)
{
	int (*subscribe)(void **, void *, void *) = function("cuptiSubscribe");
	int (*enable)(unsigned, void *, int) = function("cuptiEnableDomain");
	int (*unsubscribe)(void *) = function("cuptiUnsubscribe");
	void *handle = NULL;

	printf("cuptiSubscribe: %d\n", subscribe(&handle, (void *)on_call, NULL));
	printf("cuptiEnableDomain: %d\n", enable(1, handle, 1));
	printf("cuptiUnsubscribe: %d\n", unsubscribe(handle));
}

int main(int argc, char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*version)(unsigned *), (*finalize)(void);
	unsigned number = 0;

	cupti = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	if (!cupti || !driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	version = function("cuptiGetVersion");
	finalize = function("cuptiFinalize");
	printf("cuptiGetVersion: %d", version(&number));
	printf(" %u\n", number);
	subscribe_and_leave();
	printf("cuInit: %d\n", ((int (*)(unsigned))dlsym(driver, "cuInit"))(0));
	subscribe_and_leave();
	printf("cuptiFinalize: %d\n", finalize());
	return 0;
}
