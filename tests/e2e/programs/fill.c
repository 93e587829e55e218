/* SPDX-License-Identifier: MIT */
/* Takes device memory in pieces until there is no more: fill STATUS [GO_ON], GO_ON: after a smaller one. */
#include <stdio.h>
#include <stdlib.h>

#include <cuda_runtime_api.h>

#define MIB ((size_t)1 << 20)

int main(int argc, char **argv)
{
	void *piece;

	while (!cudaMalloc(&piece, 300 * MIB)) /* planted: fill */
		;
	if (argc > 2 && cudaMalloc(&piece, MIB))
		return 2;
	return atoi(argv[1]);
}
