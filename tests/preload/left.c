/* SPDX-License-Identifier: MIT */
/*
 * Jumps out of calls into the CUDA runtime, NCCL and the driver, and then goes on calling them, in the same frame and in
 * deeper ones. usage: left runtime|unreached|nccl|free
 * Compiled with -rdynamic: the stand-ins are its own functions and those of fake_driver.c. Prints a line for each allocation
 * that worked: its size and the function by which it is to be told. unreached: of a runtime whose calls to the driver
 * cannot be hooked.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemFree_v2(uint64_t address);
int cudaMalloc(void **out, size_t bytes);
int cudaMallocManaged(void **out, size_t bytes, unsigned flags);
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);

#define ROUNDS 20
#define SAME_BYTES 4242 /* fake_driver.c has the same memory for them */

static sigjmp_buf jump;
static int is_to_jump;
static size_t last;

static void jump_by_signal(int number)
{
	(void)number;
	siglongjmp(jump, 1);
}

/* The stand-ins call it inside. */
void standin_inside(void);
void standin_inside(void)
{
	if (is_to_jump)
		raise(SIGUSR1);
}

void fake_inside(void);
void fake_inside(void)
{
	standin_inside();
}

/* The stack below, overwritten. */
static __attribute__((noinline)) void smash(void)
{
	volatile uint64_t b[1024];

	for (unsigned i = 0; i < 1024; i++)
		b[i] = i;
	__asm__ volatile("" : : "r"(b) : "memory");
}

#define LEAVE(call)                             \
	do {                                    \
		is_to_jump = 1;                 \
		if (!sigsetjmp(jump, 1))        \
			(void)(call);           \
		is_to_jump = 0;                 \
	} while (0)

static void say(const char *function)
{
	printf("%zu %s\n", last, function);
}

static __attribute__((noinline)) void allocate(unsigned round)
{
	void *p = NULL;
	uint64_t address = 0;

	last += 512;
	if (round % 2) {
		cudaMalloc(&p, last);
		say("cudaMalloc");
	} else {
		cuMemAlloc_v2(&address, last);
		say("cuMemAlloc_v2");
	}
}

static __attribute__((noinline)) void allocate_below(unsigned round)
{
	char *hole = __builtin_alloca(64 * round + 16);

	__asm__ volatile("" : : "r"(hole) : "memory");
	allocate(round);
	__asm__ volatile("" : : "r"(hole) : "memory");
}

static void do_runtime(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		void *p = NULL;

		LEAVE(cudaMallocManaged(&p, 64, 1));
		smash();
		allocate_below(round);
		allocate(round / 2);
		last += 512;
		cudaMallocManaged(&p, last, 1);
		say("cudaMallocManaged");
	}
}

static __attribute__((noinline)) void allocate_managed(void)
{
	void *p = NULL;

	last += 512;
	cudaMallocManaged(&p, last, 1);
	say("cudaMallocManaged");
}

static void do_unreached(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		void *p = NULL;

		LEAVE(cudaMalloc(&p, 64));
		if (round % 2)
			smash();
		allocate_managed();
		LEAVE(cudaMalloc(&p, 64));
		last += 512;
		cudaMalloc(&p, last);
		say("cudaMalloc");
	}
}

static void do_nccl(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		LEAVE(ncclAllReduce(NULL, NULL, 64, 0, 0, NULL, NULL));
		smash();
		allocate_below(round);
		last += 512;
		ncclAllReduce(NULL, NULL, last, 0, 0, NULL, NULL);
		say("ncclAllReduce");
		allocate(round);
	}
}

static void *take_again(void *address)
{
	cuMemAlloc_v2(address, SAME_BYTES);
	return NULL;
}

/* Another thread gets the memory whose free was left, and this one frees it. */
static void do_free(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint64_t address = 0;
		pthread_t thread;

		cuMemAlloc_v2(&address, SAME_BYTES);
		LEAVE(cuMemFree_v2(address));
		pthread_create(&thread, NULL, take_again, &address);
		pthread_join(thread, NULL);
		cuMemFree_v2(address);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} what[] = {
		{ "runtime", do_runtime }, { "unreached", do_unreached }, { "nccl", do_nccl }, { "free", do_free },
	};

	signal(SIGUSR1, jump_by_signal);
	cuInit(0);
	for (size_t i = 0; argc > 1 && i < sizeof(what) / sizeof(*what); i++)
		if (!strcmp(argv[1], what[i].name)) {
			what[i].run();
			return 0;
		}
	return 2;
}
