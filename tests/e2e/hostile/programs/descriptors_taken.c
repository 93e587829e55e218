/* SPDX-License-Identifier: MIT */
/*
 * Allocates, closes all descriptors as daemons do, opens files, which get the numbers that have come free, and allocates
 * again. Fails if anybody else has written into them. usage: descriptors_taken FILE
 */
#include <cuda.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NR_FILES 16

/* Ever deeper stacks: what walks them meets new memory. */
__attribute__((noinline)) static int allocate(int depth)
{
	volatile char room[5000] = { 0 };
	CUdeviceptr p;

	if (depth)
		return allocate(depth - 1) + room[depth];
	return cuMemAlloc(&p, 4096) || cuMemFree(p);
}

int main(int argc, char **argv)
{
	CUcontext context;
	int fd[NR_FILES];
	struct stat st;

	if (argc < 2 || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context))
		return 1;
	for (int i = 0; i < 20; i++)
		if (allocate(i))
			return 1;
	for (int i = 3; i < 1024; i++)
		close(i);
	for (int i = 0; i < NR_FILES; i++) {
		fd[i] = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
		if (fd[i] < 0)
			return 1;
	}
	for (int i = 0; i < 200; i++)
		if (allocate(i))
			return 1;
	for (int i = 0; i < NR_FILES; i++)
		if (fstat(fd[i], &st) || st.st_size || lseek(fd[i], 0, SEEK_CUR))
			return 2;
	puts("nobody else has touched them");
	return 0;
}
