/* SPDX-License-Identifier: MIT */
/* A library whose call takes and gives back GPU memory for ever, as a thread of some other language's would. */
#include <stddef.h>

int cudaMalloc(void **out, size_t bytes);
int cudaFree(void *address);
void spin(void);

void spin(void)
{
	void *address;

	for (;;) {
		cudaMalloc(&address, 4096);
		cudaFree(address);
	}
}
