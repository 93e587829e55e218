/* SPDX-License-Identifier: MIT */
/* The ways out of a process that run no destructors, and exec, which replaces the image. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "interpose.h"
#include "lifecycle.h"
#include "resolve.h"

extern char **environ;

IP_EXPORT void _exit(int status)
{
	void (*real)(int) = (void (*)(int))ip_real_libc("_exit");

	ip_finish(TFMT_END_EXIT, status & 0xff);
	real(status);
	__builtin_unreachable();
}

IP_EXPORT void _Exit(int status)
{
	_exit(status);
}

IP_EXPORT void quick_exit(int status)
{
	void (*real)(int) = (void (*)(int))ip_real_libc("quick_exit");

	ip_finish(TFMT_END_EXIT, status & 0xff);
	real(status);
	__builtin_unreachable();
}

/* Only noted: a handler of SIGABRT may yet go on. */
IP_EXPORT void abort(void)
{
	void (*real)(void) = (void (*)(void))ip_real_libc("abort");

	ip_note_end(TFMT_END_SIGNAL, SIGABRT);
	real();
	__builtin_unreachable();
}

/* A replaced image ends its trace; where exec fails the process goes on recording. */
#define EXEC(name, params, args)                                                                            \
	IP_EXPORT int name params                                                                           \
	{                                                                                                   \
		int(*real) params = (int(*) params)ip_real_libc(#name);                                     \
		int result;                                                                                 \
                                                                                                            \
		ip_note_end(TFMT_END_EXEC, 0);                                                              \
		result = real args;                                                                         \
		ip_note_end(TFMT_END_OPEN, 0);                                                              \
		return result;                                                                              \
	}

EXEC(execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(execv, (const char *path, char *const argv[]), (path, argv))
EXEC(execvp, (const char *file, char *const argv[]), (file, argv))
EXEC(execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
