/* SPDX-License-Identifier: MIT */
/*
 * Allocates and frees, notes each call when it has returned, and ends in a chosen way at a chosen moment.
 * usage: victim NOTES MOMENT ENDING
 *   MOMENT  busy    its threads allocate and free
 *           idle    they have done so, and wait
 *           halted  one is halted where HALT_AT says (halt.c), the others were busy a moment ago
 *   ENDING  sigkill sigsegv abort _exit sigterm
 *           wait    prints its process id, and is ended by somebody else; its fork child, too (which notes in NOTES.child)
 *           eat     takes host memory until somebody ends it
 * NOTES is a file of one struct notes a thread: the addresses, times two, plus one if it was freed.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "halt.h"

enum { NR_THREADS = 4, NR_NOTES = 1 << 15, NR_SLOTS = 8, ENOUGH = 1000, AT_FULL_SPEED = 4 * ENOUGH };

struct notes {
	_Atomic uint64_t nr;
	uint64_t note[NR_NOTES - 1];
};

static struct notes *notes;
static _Atomic int is_halted, nr_ready;
static const char *moment;

int cuInit(unsigned flags);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemFree_v2(uint64_t address);
#pragma weak halt_here

void halted(void)
{
	is_halted = 1;
}

static void put(struct notes *n, uint64_t note)
{
	n->note[n->nr] = note;
	n->nr++;
}

/* An allocation, and the free of an older one. */
static void step(struct notes *n, uint64_t *slots, unsigned i)
{
	uint64_t *slot = &slots[i % NR_SLOTS];

	if (*slot) {
		cuMemFree_v2(*slot);
		put(n, *slot * 2 + 1);
	}
	cuMemAlloc_v2(slot, 512 * (1 + i % 64));
	put(n, *slot * 2);
}

static void *work(void *arg)
{
	struct notes *n = arg;
	uint64_t slots[NR_SLOTS] = { 0 };

	for (unsigned i = 0; n->nr + 2 < NR_NOTES && !(is_halted && i > ENOUGH); i++) {
		step(n, slots, i);
		if (i == ENOUGH) {
			nr_ready++;
			if (!strcmp(moment, "idle"))
				break;
		}
		/* Whoever ends us from outside needs longer than that. */
		if (i > AT_FULL_SPEED && i % 64 == 0)
			usleep(5000);
	}
	for (;;)
		pause();
}

static void *work_and_halt(void *arg)
{
	uint64_t slots[NR_SLOTS] = { 0 };

	for (unsigned i = 0; i < ENOUGH; i++)
		step(arg, slots, i);
	nr_ready++;
	if (halt_here)
		halt_here();
	cuMemAlloc_v2(slots, HALT_BYTES);
	for (;;)
		pause();
}

static void start(const char *path)
{
	size_t bytes = NR_THREADS * sizeof(struct notes);
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	pthread_t thread;

	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		exit(2);
	notes = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	cuInit(0);
	for (int i = 0; i < NR_THREADS; i++) {
		int halts = !i && !strcmp(moment, "halted");

		pthread_create(&thread, NULL, halts ? work_and_halt : work, &notes[i]);
	}
	while (nr_ready < NR_THREADS || (!strcmp(moment, "halted") && !is_halted))
		sched_yield();
}

static void end(const char *how)
{
	if (!strcmp(how, "sigkill"))
		kill(getpid(), SIGKILL);
	else if (!strcmp(how, "sigterm"))
		kill(getpid(), SIGTERM);
	else if (!strcmp(how, "sigsegv"))
		*(volatile int *)8 = 0;
	else if (!strcmp(how, "abort"))
		abort();
	else if (!strcmp(how, "_exit"))
		_exit(3);
	else if (!strcmp(how, "eat"))
		for (;;)
			memset(malloc(1 << 20), 1, 1 << 20);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	char child[PATH_MAX];

	if (argc < 4)
		return 2;
	moment = argv[2];
	snprintf(child, sizeof(child), "%s.child", argv[1]);
	start(!strcmp(argv[3], "wait") && !fork() ? child : argv[1]);
	end(argv[3]);
	return 2;
}
