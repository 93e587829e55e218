/* SPDX-License-Identifier: MIT */
/* Prints the environment it was started with; for another C library. */
#include <stdio.h>

extern char **environ;

int main(void)
{
	for (char **e = environ; *e; e++)
		puts(*e);
	return 0;
}
