/* SPDX-License-Identifier: MIT */
/*
 * most_memory PROGRAM ARGUMENT...: run it and print the most memory it had, in KiB, then its exit status. What is waited for
 * also tells of the memory from before exec(): this program's, which is next to nothing, and not that of the tests.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct rusage used;
	int status, out;
	pid_t pid;

	if (argc < 2)
		return 2;
	pid = fork();
	if (!pid) {
		out = open("/dev/null", O_WRONLY);
		dup2(out, 1);
		dup2(out, 2);
		execv(argv[1], argv + 1);
		_exit(127);
	}
	if (pid < 0 || wait4(pid, &status, 0, &used) != pid || !WIFEXITED(status))
		return 2;
	printf("%ld %d\n", used.ru_maxrss, WEXITSTATUS(status));
	return 0;
}
