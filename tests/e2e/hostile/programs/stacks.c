/* SPDX-License-Identifier: MIT */
/*
 * Stacks that are switched and left inside PyTorch's calls (stand-ins: torch_standin.c).
 * usage: stacks MODE
 *   fibers        two fibers change places with main inside autograd nodes, and inside operators
 *   jump          siglongjmp out of an operator, then allocations at the same and at deeper places of the stack
 *   jump_node     the same out of a node, whose memory is gone then
 *   abandon       a fiber is given up inside a node, and a smaller stack mapped in its place
 *   handler       a signal handler on a stack of its own allocates inside a node
 *   threads       a node begins on one thread and ends on another
 *   jump_pass     siglongjmp out of backward passes, also nested, of which others follow that end
 * Each allocation has a size of its own; prints one line for each: its size, the node in which it is ("-" none; "A?" A,
 * or none if that is not known), and the first size of its tensor ("-", "7", "7?"). jump_pass prints one more: its size, and "in" or "out" of backward.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "torch_standin.h"

int cuInit(unsigned flags);
/* A driver that needs no context may have neither. */
int cuDevicePrimaryCtxRetain(void **context, int device) __attribute__((weak));
int cuCtxSetCurrent(void *context) __attribute__((weak));
int cuMemAlloc_v2(uint64_t *out, size_t bytes);

#define STACK_BYTES (256u << 10)
#define ROUNDS 50

static ucontext_t main_context, context[2];
static size_t last;

/* ---- nodes, as far as their class's name is read -------------------------------------------------- */

static const struct {
	const void *virtual_table;
	const char *name;
} type_a = { NULL, "1A" }, type_b = { NULL, "1B" };
static const void *const table_a[] = { &type_a, NULL }, *const table_b[] = { &type_b, NULL };
struct node {
	const void *virtual_table;
	uint64_t word[15];
} node_a = { &table_a[1], { 0 } }, node_b = { &table_b[1], { 0 } };

/* ---- allocations ------------------------------------------------------------------------------------ */

static __attribute__((noinline)) void allocate(const char *node, const char *first_size)
{
	static uintptr_t address = 0x7000000000;

	last += 512;
	printf("%zu %s %s\n", last, node, first_size);
	torch_report((void *)(address += 1 << 20), (int64_t)last, last, last, (struct torch_device){ 1, 0 });
}

/* A frame that leaves whatever is on the stack where it is. */
static __attribute__((noinline)) void allocate_below(size_t bytes, const char *node, const char *first_size)
{
	char *hole = __builtin_alloca(bytes);

	__asm__ volatile("" : : "r"(hole) : "memory");
	allocate(node, first_size);
	__asm__ volatile("" : : "r"(hole) : "memory");
}

/* The stack below, filled with numbers that would pass for those of a tensor or of a pointer to nowhere. */
static __attribute__((noinline, no_sanitize("address"))) void smash(unsigned shift)
{
	static const uint64_t pattern[6] = { 16, 8, 2, 2, 0, 0x10 };
	volatile uint64_t b[2048];

	for (unsigned i = 0; i < 2048; i++)
		b[i] = pattern[(i + shift) % 6];
	__asm__ volatile("" : : "r"(b) : "memory");
}

/* ---- fibers ------------------------------------------------------------------------------------------ */

static void to_main(unsigned from)
{
	swapcontext(&context[from], &main_context);
}

static void in_node_a(void *argument)
{
	allocate("A", "-");
	to_main(0);
	allocate("A?", "-");
	(void)argument;
}

static void in_operator(void *argument)
{
	allocate("B?", "7");
	to_main(1);
	allocate("B?", "7?");
	(void)argument;
}

static void in_node_b(void *argument)
{
	const int64_t sizes[2] = { 7, 3 };
	char place[64];

	allocate("B", "-");
	torch_empty(place, sizes, 2, in_operator, NULL, 6, 0);
	to_main(1);
	allocate("B?", "-");
	(void)argument;
}

static void fiber_a(void)
{
	torch_evaluate(in_node_a, NULL, &node_a, NULL, NULL);
	allocate("-", "-");
}

static void fiber_b(void)
{
	allocate("-", "-");
	torch_evaluate(in_node_b, NULL, &node_b, NULL, NULL);
	allocate("-", "-");
}

static void *make_fiber(unsigned i, void (*run)(void), void *stack, size_t bytes)
{
	getcontext(&context[i]);
	context[i].uc_stack.ss_sp = stack;
	context[i].uc_stack.ss_size = bytes;
	context[i].uc_link = &main_context;
	makecontext(&context[i], run, 0);
	return stack;
}

static void go_on(unsigned i)
{
	swapcontext(&main_context, &context[i]);
	smash(i);
	allocate("-", "-");
	allocate_below(4096, "-", "-");
}

static void do_fibers(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		void *a = make_fiber(0, fiber_a, malloc(STACK_BYTES), STACK_BYTES);
		void *b = make_fiber(1, fiber_b, malloc(STACK_BYTES), STACK_BYTES);

		go_on(0);
		go_on(1);
		go_on(round % 2); /* ends A, or leaves B's operator */
		go_on(1);
		if (round % 2) {
			go_on(0);
		} else {
			go_on(1);
		}
		free(a);
		free(b);
	}
}

/* ---- jumps --------------------------------------------------------------------------------------------- */

static sigjmp_buf jump;

static void jump_out(void *argument)
{
	if (argument)
		allocate("-", "9");
	siglongjmp(jump, 1);
}

static __attribute__((noinline)) void operator_left(void *argument)
{
	const int64_t sizes[3] = { 9, 4, 2 };
	char place[64];

	if (!sigsetjmp(jump, 1))
		torch_empty(place, sizes, 3, jump_out, argument, 6, 0);
}

static void do_jump(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		operator_left(round % 3 ? &jump : NULL);
		if (round % 2)
			smash(round);
		allocate("-", "-");
		operator_left(NULL);
		smash(round);
		allocate_below(64 * round, "-", "-");
	}
}

static __attribute__((noinline)) void node_left(struct node *node)
{
	if (!sigsetjmp(jump, 1))
		torch_evaluate(jump_out, NULL, node, NULL, NULL);
}

static void do_jump_node(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct node *node = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		*node = node_a;
		node_left(node);
		munmap(node, 4096);
		if (round % 2)
			smash(round);
		allocate_below(128 * (round % 17), round % 2 ? "-" : "A?", "-");
		allocate("-", "-");
	}
}

/* ---- backward passes that are left ------------------------------------------------------------------- */

static __attribute__((noinline)) void allocate_in(const char *where, const char *node)
{
	allocate(node, "-");
	printf("%zu %s\n", last, where);
}

static void leave_pass(void *argument)
{
	allocate_in("in", argument ? "A?" : "-");
	siglongjmp(jump, 1);
}

static void end_pass(void *argument)
{
	allocate_in("in", argument ? "A?" : "-");
}

static void leave_inner_pass(void *argument)
{
	char place[64];

	torch_execute(place, end_pass, argument, NULL, 0, 0, 0, NULL);
	allocate_in("in", "A");
	torch_execute(place, leave_pass, argument, NULL, 0, 0, 0, NULL);
}

static void leave_both_passes(void *argument)
{
	torch_evaluate(leave_inner_pass, argument, &node_a, NULL, NULL);
}

static __attribute__((noinline)) void pass_left(torch_inside inside, void *argument)
{
	char place[64];

	if (!sigsetjmp(jump, 1))
		torch_execute(place, inside, argument, NULL, 0, 0, 0, NULL);
}

/* The inner pass is left, the outer one goes on: what is between is in backward. */
static void leave_and_go_on(void *argument)
{
	pass_left(leave_pass, argument);
	allocate_in("in", "-");
}

static void do_jump_pass(void)
{
	char place[64];

	for (unsigned round = 0; round < ROUNDS; round++) {
		pass_left(round % 2 ? leave_pass : leave_both_passes, round % 2 ? NULL : &jump);
		smash(round);
		allocate_below(64 * round, "-", "-");
		printf("%zu out\n", last);
		torch_execute(place, round % 3 ? end_pass : leave_and_go_on, NULL, NULL, 0, 0, 0, NULL);
		allocate_in("out", "-");
		pass_left(leave_pass, NULL); /* the next round begins with another */
	}
}

/* ---- a stack that is gone -------------------------------------------------------------------------------- */

static void fiber_for_ever(void)
{
	torch_evaluate(in_node_a, NULL, &node_a, NULL, NULL);
}

static void fiber_short(void)
{
	allocate("-", "-");
}

static void do_abandon(void)
{
	char *at = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	for (unsigned round = 0; round < ROUNDS; round++) {
		make_fiber(0, fiber_for_ever, mmap(at, STACK_BYTES, protection, flags, -1, 0), STACK_BYTES);
		swapcontext(&main_context, &context[0]);
		mmap(at, STACK_BYTES, PROT_NONE, flags, -1, 0);
		make_fiber(1, fiber_short, mmap(at, STACK_BYTES / 2, protection, flags, -1, 0), STACK_BYTES / 2);
		swapcontext(&main_context, &context[1]);
		allocate("-", "-");
	}
}

/* ---- a handler's own stack --------------------------------------------------------------------------------- */

static void handler(int number)
{
	allocate("A?", "-");
	(void)number;
}

static void in_interrupted(void *argument)
{
	allocate("A", "-");
	raise(SIGUSR1);
	allocate("A", "-");
	(void)argument;
}

static void do_handler(void)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = malloc(STACK_BYTES), .ss_size = STACK_BYTES };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (unsigned round = 0; round < ROUNDS; round++) {
		torch_evaluate(in_interrupted, NULL, &node_a, NULL, NULL);
		allocate("-", "-");
	}
}

/* ---- a fiber that changes threads ---------------------------------------------------------------------------- */

static void *end_elsewhere(void *argument)
{
	allocate("-", "-");
	swapcontext(&main_context, &context[0]);
	allocate("-", "-");
	return argument;
}

static void do_threads(void)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		void *a = make_fiber(0, fiber_a, malloc(STACK_BYTES), STACK_BYTES);
		pthread_t thread;

		go_on(0);
		pthread_create(&thread, NULL, end_elsewhere, NULL);
		pthread_join(thread, NULL);
		allocate("-", "-");
		free(a);
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} what[] = {
		{ "fibers", do_fibers }, { "jump", do_jump }, { "jump_node", do_jump_node }, { "abandon", do_abandon },
		{ "handler", do_handler }, { "threads", do_threads },
		{ "jump_pass", do_jump_pass },
	};
	uint64_t address;
	void *primary = NULL;

	cuInit(0);
	if (cuDevicePrimaryCtxRetain && !cuDevicePrimaryCtxRetain(&primary, 0))
		cuCtxSetCurrent(primary);
	if (cuMemAlloc_v2(&address, 1 << 20))
		return 1;
	for (size_t i = 0; argc > 1 && i < sizeof(what) / sizeof(*what); i++)
		if (!strcmp(argv[1], what[i].name)) {
			what[i].run();
			puts("done");
			return 0;
		}
	return 2;
}
