/* SPDX-License-Identifier: MIT */
/* Asks NVML what a program asks first, before cuInit, after it and after NVML's end, and prints each answer. */
#include <dlfcn.h>
#include <stdio.h>

static void *nvml;

static void say(const char *name, int result)
{
	const char *(*text)(int) = (const char *(*)(int))dlsym(nvml, "nvmlErrorString");

	printf("%s: %d %s\n", name, result, text(result));
}

static void ask(const char *name, void *out)
{
	int (*f)(void *, unsigned) = (int (*)(void *, unsigned))dlsym(nvml, name);

	say(name, f ? f(out, 80) : -1);
}

static void ask_all(void)
{
	unsigned count = 0;
	char text[80] = "";
	int version = 0;

	ask("nvmlInit_v2", NULL);
	ask("nvmlDeviceGetCount_v2", &count);
	ask("nvmlSystemGetDriverVersion", text);
	ask("nvmlSystemGetCudaDriverVersion", &version);
	ask("nvmlShutdown", NULL);
	ask("nvmlDeviceGetCount_v2", &count);
	printf("%u GPUs, driver '%s', CUDA %d\n", count, text, version);
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
	if (!nvml || !driver)
		return 2;
	ask_all();
	printf("cuInit: %d\n", ((int (*)(unsigned))dlsym(driver, "cuInit"))(0));
	ask_all();
	return 0;
}
