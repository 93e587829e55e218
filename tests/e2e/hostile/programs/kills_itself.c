/* SPDX-License-Identifier: MIT */
/*
 * usage: kills_itself program|both PAIRS [PROCESSES]
 *
 * Closes all descriptors, allocates and frees PAIRS times, and dies of SIGKILL at once; with "both" its parent dies
 * first. With PROCESSES it has so many children do that, one after the other, and ends well.
 */
#include <cuda_runtime_api.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int allocate_and_die(int with_parent, int pairs)
{
	void *p;

	for (int i = 0; i < pairs; i++) {
		if (cudaMalloc(&p, 4096) || cudaFree(p))
			return 3;
		if (!i) {
			for (int fd = 3; fd < 1024; fd++)
				close(fd);
		}
	}
	if (with_parent)
		kill(getppid(), SIGKILL);
	kill(getpid(), SIGKILL);
	return 4;
}

int main(int argc, char **argv)
{
	int with_parent = argc > 1 && !strcmp(argv[1], "both"), pairs = argc > 2 ? atoi(argv[2]) : 0, status;

	if (argc < 4)
		return allocate_and_die(with_parent, pairs);
	for (int i = atoi(argv[3]); i > 0; i--) {
		pid_t child = fork();

		if (!child)
			_exit(allocate_and_die(0, pairs));
		if (child < 0 || waitpid(child, &status, 0) != child || !WIFSIGNALED(status))
			return 5;
	}
	return 0;
}
