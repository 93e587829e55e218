/* SPDX-License-Identifier: MIT */
/* A library that takes 50 ms to end, as large ones do: preloaded, it shows what an interpreter does in that time. */
#include <unistd.h>

__attribute__((destructor)) static void end_slowly(void)
{
	usleep(50000);
}
