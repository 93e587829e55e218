/* SPDX-License-Identifier: MIT */
/* Becomes the program that it is given, without any argument: argc is 0 there. */
#include <stdio.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	char *nothing[] = { NULL };

	if (argc > 1)
		execve(argv[1], nothing, environ);
	perror("no_arguments");
	return 2;
}
