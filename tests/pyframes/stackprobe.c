/* SPDX-License-Identifier: MIT */
/*
 * The recorder's stack capture without the rest of the recorder: definitions are kept in memory, and Python
 * programs ask through ctypes for the current stack and what the trace would say of it. Preloaded or loaded.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "libinterpose/callstack.h"
#include "libinterpose/interpose.h"
#include "libinterpose/pyframes.h"
#include "libinterpose/unwind.h"

#define DEFINITIONS_MAX (1u << 20)

struct definition {
	uint32_t len;
	uint8_t payload[];
};

static _Atomic(struct definition *) defined[2][DEFINITIONS_MAX]; /* frames, code objects */
static _Atomic uint32_t nr_defined[2];
static _Atomic bool refusing;
static __thread struct callstack *stacks;
__thread struct ip_tls ip_tls;

bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len)
{
	unsigned which = type == TFMT_DEF_CODE;
	struct definition *d;

	if (id >= DEFINITIONS_MAX || atomic_load(&refusing))
		return false;
	if (type == TFMT_DEF_INSTANCE)
		return true;
	if (atomic_load(&defined[which][id]))
		abort(); /* an id was defined twice */
	d = malloc(sizeof(*d) + len);
	if (!d)
		return false;
	d->len = (uint32_t)len;
	memcpy(d->payload, payload, len);
	atomic_store(&defined[which][id], d);
	atomic_fetch_add(&nr_defined[which], 1);
	return true;
}

__attribute__((constructor)) static void load(void)
{
	callstack_init();
}

IP_EXPORT void probe_start(void);
IP_EXPORT const char *probe_support(void);
IP_EXPORT int probe_finalizing(void);
IP_EXPORT void probe_refuse(int on);
IP_EXPORT uint32_t probe_count(unsigned which);
IP_EXPORT const uint8_t *probe_definition(unsigned which, uint32_t id, uint32_t *len);
IP_EXPORT uint32_t probe_python(void);
IP_EXPORT uint32_t probe_python_later(unsigned usec);
IP_EXPORT uint32_t probe_python_foreign(void);
IP_EXPORT uint32_t probe_native(void);
IP_EXPORT uint32_t probe_native_twice(uint64_t *ip, uint32_t max, uint32_t *nr);
IP_EXPORT uint32_t probe_native_signal(uint64_t *ip, uint32_t max, uint32_t *nr);
IP_EXPORT const char *probe_native_method(void);
IP_EXPORT uint32_t probe_native_compared(void);
IP_EXPORT void probe_call(void (*fn)(void));
IP_EXPORT double probe_bench(int native, unsigned reps);
IP_EXPORT void probe_spin(void);
IP_EXPORT void probe_capsule(void *capsule);
IP_EXPORT uint32_t probe_capsule_stack(void);

/* Begins, and in a fork child forgets what the parent had defined and this thread had cached. */
void probe_start(void)
{
	for (unsigned w = 0; w < 2; w++) {
		for (uint32_t i = 0; i < DEFINITIONS_MAX && atomic_load(&nr_defined[w]); i++)
			atomic_store(&defined[w][i], NULL);
		atomic_store(&nr_defined[w], 0);
	}
	stacks = NULL;
	callstack_start(UNWIND_AUTO);
}

const char *probe_support(void)
{
	return callstack_python_support();
}

int probe_finalizing(void)
{
	return pyframes_finalizing();
}

/* From now on no definition is committed, as with a full definition ring. */
void probe_refuse(int on)
{
	atomic_store(&refusing, on);
}

/* Definitions of frames (0), of code objects (1). */
uint32_t probe_count(unsigned which)
{
	return atomic_load(&nr_defined[which]);
}

const uint8_t *probe_definition(unsigned which, uint32_t id, uint32_t *len)
{
	struct definition *d = id < DEFINITIONS_MAX ? atomic_load(&defined[which][id]) : NULL;

	*len = d ? d->len : 0;
	return d ? d->payload : NULL;
}

static struct callstack *own_stacks(void)
{
	if (!stacks)
		stacks = callstack_thread_new();
	return stacks;
}

uint32_t probe_python(void)
{
	return callstack_python(own_stacks());
}

uint32_t probe_python_later(unsigned usec)
{
	usleep(usec);
	return callstack_python(own_stacks());
}

static void *foreign_thread(void *arg)
{
	*(uint32_t *)arg = callstack_python(own_stacks());
	callstack_thread_free(stacks);
	return NULL;
}

/* On a thread that Python knows nothing of. */
uint32_t probe_python_foreign(void)
{
	pthread_t thread;
	uint32_t id = 0;

	if (!pthread_create(&thread, NULL, foreign_thread, &id))
		pthread_join(thread, NULL);
	return id;
}

uint32_t probe_native(void)
{
	return callstack_native(own_stacks(), NULL);
}

static bool in_this_library(const void *ip)
{
	Dl_info here, there;

	return dladdr((void *)probe_start, &here) && dladdr(ip, &there) && here.dli_fbase == there.dli_fbase;
}

/* The judge: libunwind, which shares no code with ours; the C library's backtrace() where it is not installed. */
static int judge(void **raw, int max)
{
	void *libunwind = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	int (*unw_backtrace)(void **, int) =
		(int (*)(void **, int))(libunwind ? dlsym(libunwind, "unw_backtrace") : NULL);

	return unw_backtrace ? unw_backtrace(raw, max) : backtrace(raw, max);
}

/* The native stack, and for comparison what the judge says of it. */
uint32_t probe_native_twice(uint64_t *ip, uint32_t max, uint32_t *nr)
{
	void *raw[8192];
	uint32_t id = callstack_native(own_stacks(), NULL);
	int n = judge(raw, 8192);

	*nr = 0;
	for (int i = 0; i < n; i++) {
		if (raw[i] && !in_this_library(raw[i]) && *nr < max)
			ip[(*nr)++] = (uintptr_t)raw[i];
	}
	return id;
}

static __thread struct {
	uint64_t *ip;
	uint32_t max, *nr, id;
} signalled;

static void on_signal(int number)
{
	(void)number;
	signalled.id = probe_native_twice(signalled.ip, signalled.max, signalled.nr);
}

/* The same in a signal handler that interrupted raise(). */
uint32_t probe_native_signal(uint64_t *ip, uint32_t max, uint32_t *nr)
{
	struct sigaction action = { .sa_handler = on_signal };

	signalled.ip = ip;
	signalled.max = max;
	signalled.nr = nr;
	sigaction(SIGUSR2, &action, NULL); /* for good: other threads do the same meanwhile */
	raise(SIGUSR2);
	return signalled.id;
}

const char *probe_native_method(void)
{
	return unwind_method();
}

/* Native captures of which libgcc's walk was the second opinion. */
uint32_t probe_native_compared(void)
{
	return unwind_comparison().nr;
}

void probe_call(void (*fn)(void))
{
	fn();
}

/* Nanoseconds per capture. */
double probe_bench(int native, unsigned reps)
{
	struct callstack *cs = own_stacks();
	struct timespec from, to;

	for (unsigned i = 0; i < reps / 10; i++)
		native ? callstack_native(cs, NULL) : callstack_python(cs);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (unsigned i = 0; i < reps; i++)
		native ? callstack_native(cs, NULL) : callstack_python(cs);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / reps;
}

/* Captures for ever, also while the interpreter goes away. */
void probe_spin(void)
{
	for (;;) {
		probe_python();
		pyframes_finalizing();
	}
}

static __thread uint32_t capsule_stack;

/* A PyCapsule's destructor: stands for a tensor that is freed while a Python frame is torn down. */
void probe_capsule(void *capsule)
{
	(void)capsule;
	capsule_stack = probe_python();
}

uint32_t probe_capsule_stack(void)
{
	return capsule_stack;
}
