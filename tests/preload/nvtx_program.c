/* SPDX-License-Identifier: MIT */
/*
 * A program that names what it does through NVTX, by the real headers; what the functions return goes to stdout.
 * Built as a library, too (-DLIBRARY), which has then a copy of NVTX of its own. usage: nvtx_program WHAT [ARGUMENT]
 *   all        every function, in both modules, after the first allocation
 *   before     ranges that are open when the first allocation is made; others that have ended by then
 *   nothing    ranges, but no allocation
 *   handlers   ranges in a signal handler, in the middle of anything
 *   enabled    asks whether anybody listens
 *   threads    threads of which each has its own ranges
 *   fork       a child that allocates inside a range that its parent began
 *   many       more names than are kept, and deeper than is kept
 *   wrong      attributes and handles that cannot be right
 *   library F  the library F does the same with its own copy of NVTX
 *   v2 F       the same through libnvToolsExt, the library F
 *   exec F     starts F
 *   speed N    N pairs of ranges on each of two threads; prints nothing
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

#ifdef LIBRARY

void in_library(void);
void in_library(void)
{
	nvtxRangePushA("in the library");
	nvtxMarkA("library mark");
	nvtxRangePop();
}

#else

int cuInit(unsigned flags);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemFree_v2(uint64_t address);

/* A block of a size that tells the events apart. */
static uint64_t allocate(size_t bytes)
{
	uint64_t address = 0;

	cuMemAlloc_v2(&address, bytes);
	return address;
}

static nvtxEventAttributes_t attributes(int type, const void *message, uint32_t category)
{
	nvtxEventAttributes_t a = { .version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE };

	a.category = category;
	a.messageType = type;
	a.message.ascii = message;
	return a;
}

static void do_core(void)
{
	nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_ASCII, "attributes", 7);
	nvtxEventAttributes_t w = attributes(NVTX_MESSAGE_TYPE_UNICODE, L"wide \u00e9\u4e16\U0001f600", 0);
	nvtxRangeId_t id[3];

	printf("push %d %d %d\n", nvtxRangePushA("plain"), nvtxRangePushW(L"wide push"), nvtxRangePushEx(&a));
	allocate(1 << 10);
	nvtxMarkA("mark");
	nvtxMarkW(L"wide mark");
	nvtxMarkEx(&w);
	printf("pop %d %d %d\n", nvtxRangePop(), nvtxRangePop(), nvtxRangePop());
	id[0] = nvtxRangeStartA("start");
	id[1] = nvtxRangeStartW(L"wide start");
	id[2] = nvtxRangeStartEx(&a);
	allocate(2 << 10);
	nvtxRangeEnd(id[1]);
	nvtxRangeEnd(id[0]);
	nvtxRangeEnd(id[2]);
	nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), "the named thread");
}

static void do_domains(void)
{
	nvtxDomainHandle_t d = nvtxDomainCreateA("my domain"), wide = nvtxDomainCreateW(L"wide domain");
	nvtxStringHandle_t s = nvtxDomainRegisterStringA(d, "registered"), t = nvtxDomainRegisterStringW(wide, L"wide r.");
	nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_REGISTERED, s, 3);
	nvtxEventAttributes_t b = attributes(NVTX_MESSAGE_TYPE_REGISTERED, t, 0);
	nvtxEventAttributes_t c = attributes(NVTX_MESSAGE_TYPE_ASCII, "crossing", 0);
	nvtxRangeId_t id;

	printf("domain push %d %d\n", nvtxDomainRangePushEx(d, &a), nvtxDomainRangePushEx(wide, &c));
	allocate(4 << 10);
	printf("domain pop %d\n", nvtxDomainRangePop(d)); /* not the innermost of all */
	allocate(8 << 10);
	printf("domain pop %d\n", nvtxDomainRangePop(wide));
	id = nvtxDomainRangeStartEx(wide, &b);
	nvtxDomainMarkEx(d, &a);
	nvtxDomainRangeEnd(wide, id);
	nvtxDomainNameCategoryA(d, 3, "category");
	nvtxDomainDestroy(d);
}

static void do_all(void)
{
	allocate(512);
	do_core();
	do_domains();
}

static void do_before(void)
{
	nvtxDomainHandle_t d = nvtxDomainCreateA("early");
	nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_ASCII, "in a domain", 5);
	nvtxRangeId_t open = nvtxRangeStartA("still open"), over = nvtxRangeStartA("over");

	nvtxRangePushA("outer");
	nvtxDomainRangePushEx(d, &a);
	nvtxRangePushA("ended");
	nvtxRangePop();
	nvtxRangePushA("inner");
	nvtxRangeEnd(over);
	nvtxMarkA("before anything");
	allocate(1 << 10);
	nvtxRangePop();
	nvtxDomainRangePop(d);
	allocate(2 << 10);
	nvtxRangePop();
	nvtxRangeEnd(open);
	allocate(4 << 10);
}

static void do_nothing(void)
{
	for (int i = 0; i < 100; i++) {
		nvtxRangePushA("nothing");
		nvtxRangeEnd(nvtxRangeStartA("at all"));
		nvtxRangePop();
	}
	nvtxRangePushA("open");
}

static void on_alarm(int signal)
{
	int saved = errno;

	(void)signal;
	nvtxRangePushA("in a handler");
	nvtxRangeEnd(nvtxRangeStartA("started in a handler"));
	nvtxRangePop();
	errno = saved;
}

/* The timer runs before and after the first allocation. */
static void do_handlers(void)
{
	struct itimerval often = { { 0, 200 }, { 0, 200 } };

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 20000; i++) {
		nvtxRangePushA("round");
		nvtxRangeEnd(nvtxRangeStartA("inner"));
		nvtxRangePop();
		if (i == 10000)
			allocate(1 << 10);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	nvtxRangePushA("last");
	allocate(2 << 10);
}

static void *in_thread(void *arg)
{
	uintptr_t number = (uintptr_t)arg;
	char name[32];

	snprintf(name, sizeof(name), "thread %u", (unsigned)number);
	nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), name);
	nvtxRangePushA(name);
	for (int i = 0; i < 100; i++) {
		nvtxRangePushA("turn");
		cuMemFree_v2(allocate((number + 1) << 10));
		nvtxRangePop();
	}
	nvtxRangePop();
	return NULL;
}

static void run_threads(unsigned nr, void *(*body)(void *))
{
	pthread_t thread[16];

	for (uintptr_t i = 0; i < nr; i++)
		pthread_create(&thread[i], NULL, body, (void *)i);
	for (unsigned i = 0; i < nr; i++)
		pthread_join(thread[i], NULL);
}

static void do_fork(void)
{
	nvtxRangePushA("of the parent");
	if (!fork()) {
		nvtxRangePushA("of the child");
		allocate(1 << 10);
		exit(0);
	}
	wait(NULL);
	allocate(2 << 10);
}

static void do_many(void)
{
	char name[64];

	allocate(512);
	for (int i = 0; i < 10000; i++) {
		snprintf(name, sizeof(name), "step %d", i);
		nvtxRangePushA(name);
		nvtxRangePop();
	}
	for (int i = 0; i < 200; i++)
		nvtxRangePushA("deep");
	allocate(1 << 10);
	for (int i = 0; i < 200; i++)
		nvtxRangePop();
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	nvtxRangePushA("step 9999");
	allocate(2 << 10);
	nvtxRangePop();
}

static void do_wrong(void)
{
	nvtxEventAttributes_t small = attributes(NVTX_MESSAGE_TYPE_ASCII, (void *)1, 0);
	nvtxEventAttributes_t unknown = attributes(99, (void *)1, 0);
	nvtxEventAttributes_t stale = attributes(NVTX_MESSAGE_TYPE_REGISTERED, (void *)0x1234567, 0);
	nvtxEventAttributes_t null = attributes(NVTX_MESSAGE_TYPE_ASCII, NULL, 0);

	small.size = 8;
	for (int i = 0; i < 2; i++) {
		nvtxRangePop();
		nvtxRangePushEx(NULL);
		nvtxRangePushEx(&small);
		nvtxRangePushEx(&unknown);
		nvtxRangePushEx(&stale);
		nvtxRangePushEx(&null);
		nvtxRangePushA(NULL);
		nvtxRangePushW(NULL);
		nvtxDomainRangePushEx((nvtxDomainHandle_t)0x777, &null);
		nvtxDomainRangePop((nvtxDomainHandle_t)0x777);
		nvtxRangeEnd(123456789);
		nvtxRangeEnd(0);
		for (int k = 0; k < 20; k++)
			nvtxRangePop();
		allocate(1 << 10);
	}
	puts("fine");
}

static void do_library(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	void (*in_library)(void) = library ? (void (*)(void))dlsym(library, "in_library") : NULL;

	allocate(512);
	nvtxRangePushA("around");
	if (in_library)
		in_library();
	nvtxRangePop();
}

static void do_v2(const char *path)
{
	void *library = dlopen(path, RTLD_NOW);
	int (*push)(const char *) = (int (*)(const char *))dlsym(library, "nvtxRangePushA");
	int (*pop)(void) = (int (*)(void))dlsym(library, "nvtxRangePop");
	int (*push_ex)(const nvtxEventAttributes_t *) =
		(int (*)(const nvtxEventAttributes_t *))dlsym(library, "nvtxRangePushEx");
	void *(*create)(const char *) = (void *(*)(const char *))dlsym(library, "nvtxDomainCreateA");
	void (*mark)(void *, const nvtxEventAttributes_t *) =
		(void (*)(void *, const nvtxEventAttributes_t *))dlsym(library, "nvtxDomainMarkEx");
	nvtxEventAttributes_t a = attributes(NVTX_MESSAGE_TYPE_ASCII, "v2 attributes", 4);

	a.version = 2;
	printf("push %d\n", push("v2 early"));
	allocate(512);
	printf("push %d\n", push_ex(&a));
	allocate(1 << 10);
	mark(create("v2 domain"), &a);
	printf("pop %d %d\n", pop(), pop());
}

static unsigned long nr_pairs;

static void *at_speed(void *arg)
{
	(void)arg;
	for (unsigned long i = 0; i < nr_pairs; i++) {
		nvtxRangePushA("a range of usual length");
		nvtxRangePop();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all";

	setvbuf(stdout, NULL, _IOLBF, 0);
	cuInit(0);
	if (!strcmp(what, "all"))
		do_all();
	else if (!strcmp(what, "before"))
		do_before();
	else if (!strcmp(what, "nothing"))
		do_nothing();
	else if (!strcmp(what, "handlers"))
		do_handlers();
	else if (!strcmp(what, "enabled"))
		printf("%d\n", nvtxDomainIsEnabled(NULL));
	else if (!strcmp(what, "threads"))
		run_threads(8, in_thread);
	else if (!strcmp(what, "fork"))
		do_fork();
	else if (!strcmp(what, "many"))
		do_many();
	else if (!strcmp(what, "wrong"))
		do_wrong();
	else if (!strcmp(what, "library"))
		do_library(argv[2]);
	else if (!strcmp(what, "v2"))
		do_v2(argv[2]);
	else if (!strcmp(what, "exec"))
		execv(argv[2], argv + 2);
	else if (!strcmp(what, "speed")) {
		nr_pairs = strtoul(argv[2], NULL, 10);
		allocate(512);
		run_threads(argc > 3 ? (unsigned)atoi(argv[3]) : 2, at_speed);
	}
	return 0;
}

#endif
