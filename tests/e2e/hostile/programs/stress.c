/* SPDX-License-Identifier: MIT */
/*
 * stress loop|threads|forks FOLDER ROUNDS: allocates and frees on the GPU without end but ROUNDS, alone, in waves of
 * threads, or in children, some of which are killed. Keeps an account of each process in FOLDER (account.h).
 */
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "account.h"

#define BLOCKS 32
#define WAVE 48

static struct account *account;

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* Some allocations and frees in random order; nothing is left live. */
static void some_events(uint32_t seed, int nr)
{
	struct {
		void *p;
		uint64_t bytes;
	} block[BLOCKS] = { 0 };

	for (int i = 0; i < nr + BLOCKS; i++) {
		uint32_t r = next_random(&seed), at = i < nr ? r % BLOCKS : (uint32_t)(i - nr);

		if (block[at].p) {
			account_begin(account);
			if (cudaFree(block[at].p))
				exit(4);
			account_free(account, block[at].bytes);
			block[at].p = NULL;
		} else if (i < nr) {
			block[at].bytes = (r % 64 + 1) << 16;
			account_begin(account);
			if (cudaMalloc(&block[at].p, block[at].bytes))
				exit(3);
			account_alloc(account, block[at].bytes);
		}
	}
}

static void *short_thread(void *seed)
{
	some_events((uint32_t)(uintptr_t)seed, 40);
	return NULL;
}

static void wave(uint32_t seed)
{
	pthread_t thread[WAVE];

	for (uintptr_t i = 0; i < WAVE; i++)
		if (pthread_create(&thread[i], NULL, short_thread, (void *)(seed * WAVE + i)))
			exit(5);
	for (int i = 0; i < WAVE; i++)
		pthread_join(thread[i], NULL);
}

/* A child that allocates for itself; every third one is killed while it does. */
static void family(const char *folder, uint32_t seed)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		exit(6);
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* it would go on for ever without a parent that kills it */
		account = account_open(folder);
		for (uint32_t i = 0; i < 20 || seed % 3 == 0; i++)
			some_events(seed + i, 100);
		exit(0);
	}
	usleep(seed % 3 ? 0 : 60000);
	if (seed % 3 == 0)
		kill(child, SIGKILL);
	if (waitpid(child, &status, 0) != child || (seed % 3 && status))
		exit(7);
}

int main(int argc, char **argv)
{
	if (argc != 4)
		return 2;
	account = account_open(argv[2]);
	for (uint32_t i = 0, rounds = (uint32_t)atoi(argv[3]); i < rounds; i++) {
		if (!strcmp(argv[1], "threads"))
			wave(i);
		else if (!strcmp(argv[1], "forks"))
			family(argv[2], i); /* the parent itself uses no GPU: children of one that does may not */
		else
			some_events(i, 200);
	}
	puts("done");
	return 0;
}
