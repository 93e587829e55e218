/* SPDX-License-Identifier: MIT */
/*
 * Programs that make life hard for a recorder; each prints what it saw. usage: mishaps WHAT
 *   cancel    threads with a cancellation pending call CUDA: they must not end in there
 *   async     threads that can be cancelled at any instruction are, while they call CUDA
 *   jump      a signal handler jumps out of whatever the program is doing, often; then 1000 pairs undisturbed
 *   context   the same by setcontext
 *   coroutine a signal handler switches to another stack, which allocates; what was interrupted goes on
 *   errno     errno is what it was before each call
 *   handler   a signal handler that allocates, in the middle of whatever the program is doing
 *   close     all descriptors are closed and their numbers used again
 *   exec      an exec that fails, then more events
 *   children  fork children that allocate themselves, one of a thread
 *   exit      the process ends while threads allocate
 *   atexit    a thread begun by an exit handler allocates
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemFree_v2(uint64_t address);

static _Atomic uint64_t nr_calls;

static void pairs(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		uint64_t address = 0;

		cuMemAlloc_v2(&address, 512 * (1 + i % 300));
		nr_calls++;
		cuMemFree_v2(address);
		nr_calls++;
	}
}

static void *cancelled(void *arg)
{
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
	pthread_cancel(pthread_self());
	pairs(20000);
	*(int *)arg = 1;
	pthread_testcancel();
	return NULL;
}

static void do_cancel(void)
{
	enum { NR = 16 };
	pthread_t thread[NR];
	int finished[NR] = { 0 }, nr = 0;

	for (int i = 0; i < NR; i++)
		pthread_create(&thread[i], NULL, cancelled, &finished[i]);
	for (int i = 0; i < NR; i++) {
		pthread_join(thread[i], NULL);
		nr += finished[i];
	}
	printf("finished %d of %d\n", nr, NR);
}

static void *cancelled_anywhere(void *arg)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;)
		pairs(1000);
	return arg;
}

static void do_async(void)
{
	for (int i = 0; i < 40; i++) {
		uint64_t before = nr_calls;
		pthread_t thread;

		pthread_create(&thread, NULL, cancelled_anywhere, NULL);
		while (nr_calls < before + 1000 + (uint64_t)i * 7)
			sched_yield();
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	pairs(1000);
}

static void set_alarm(void (*handler)(int), int flags, suseconds_t us)
{
	struct itimerval often = { { 0, us }, { 0, us } };
	struct sigaction sa = { .sa_handler = handler, .sa_flags = flags };

	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
}

static volatile int nr_jumps;
static sigjmp_buf out;
static ucontext_t there, here;

static void jump(int signal)
{
	(void)signal;
	nr_jumps++;
	siglongjmp(out, 1);
}

static void do_jump(void)
{
	sigsetjmp(out, 1);
	if (nr_jumps == 0)
		set_alarm(jump, 0, 1000);
	if (nr_jumps < 60)
		pairs(1000000);
	set_alarm(SIG_IGN, 0, 0);
	pairs(1000);
}

static void change_context(int signal)
{
	(void)signal;
	nr_jumps++;
	setcontext(&there);
}

static void do_context(void)
{
	getcontext(&there);
	if (nr_jumps == 0)
		set_alarm(change_context, 0, 1000);
	if (nr_jumps < 60)
		pairs(1000000);
	set_alarm(SIG_IGN, 0, 0);
	pairs(1000);
}

static void coroutine(void)
{
	for (;;) {
		pairs(1);
		swapcontext(&there, &here);
	}
}

static void change_stack(int signal)
{
	(void)signal;
	nr_jumps++;
	swapcontext(&here, &there);
}

/* One stack above ours, one below: neither order says which of the two has been left. */
static void do_coroutine(void)
{
	static char static_stack[1 << 16];
	char *mapped_stack = malloc(1 << 20);

	for (int i = 0; i < 2; i++) {
		getcontext(&there);
		there.uc_stack.ss_sp = i ? mapped_stack : static_stack;
		there.uc_stack.ss_size = sizeof(static_stack);
		sigaddset(&there.uc_sigmask, SIGALRM);
		makecontext(&there, coroutine, 0);
		nr_jumps = 0;
		set_alarm(change_stack, 0, 1000);
		while (nr_jumps < 40)
			pairs(1);
		set_alarm(SIG_IGN, 0, 0);
	}
	pairs(1000);
}

static void do_errno(void)
{
	uint64_t address;

	errno = 4242;
	cuMemAlloc_v2(&address, 512);
	printf("%d ", errno);
	cuMemAlloc_v2(&(uint64_t){ 0 }, (size_t)2 << 30);
	printf("%d ", errno);
	cuMemFree_v2(address);
	printf("%d\n", errno);
}

static void on_alarm(int signal)
{
	(void)signal;
	pairs(1);
}

static void do_handler(void)
{
	set_alarm(on_alarm, SA_RESTART, 200);
	pairs(100000);
	set_alarm(SIG_IGN, 0, 0);
}

static void do_close(void)
{
	pairs(10);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	for (int i = 0; i < 64; i++)
		(void)!open("/dev/full", O_WRONLY);
	pairs(20000);
	printf("next descriptor %d\n", dup(0));
}

static void do_exec(void)
{
	pairs(10);
	execlp("/nonexistent", "nonexistent", NULL);
	execv("/nonexistent", (char *[]){ "nonexistent", NULL });
	printf("%s\n", strerror(errno));
	pairs(10);
}

static void *forker(void *arg)
{
	pid_t child;
	int status;

	(void)arg;
	pairs(10);
	child = fork();
	if (!child) {
		cuInit(0);
		pairs(25);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		printf("child: status %x\n", status);
	return NULL;
}

static void do_children(void)
{
	pthread_t thread;

	pairs(10);
	pthread_create(&thread, NULL, forker, NULL);
	for (int i = 0; i < 5; i++)
		forker(NULL);
	pthread_join(thread, NULL);
}

static void *for_ever(void *arg)
{
	for (;;)
		pairs(1000);
	return arg;
}

static void do_exit(void)
{
	pthread_t thread;

	for (int i = 0; i < 4; i++)
		pthread_create(&thread, NULL, for_ever, NULL);
	usleep(200000);
	exit(3);
}

static void *ten(void *arg)
{
	pairs(10);
	return arg;
}

static void late(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, ten, NULL);
	pthread_join(thread, NULL);
}

static void do_atexit(void)
{
	atexit(late);
	pairs(10);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} what[] = {
		{ "cancel", do_cancel },     { "errno", do_errno },   { "handler", do_handler }, { "close", do_close },
		{ "exec", do_exec },         { "children", do_children }, { "exit", do_exit },   { "atexit", do_atexit },
		{ "async", do_async },       { "jump", do_jump },     { "context", do_context },
		{ "coroutine", do_coroutine },
	};

	cuInit(0);
	for (size_t i = 0; argc > 1 && i < sizeof(what) / sizeof(*what); i++)
		if (!strcmp(argv[1], what[i].name)) {
			what[i].run();
			printf("calls %llu\n", (unsigned long long)nr_calls);
			return 0;
		}
	return 2;
}
