/* SPDX-License-Identifier: MIT */
/* The ways out of a process that run no destructors, and exec, which replaces the image. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "interpose.h"
#include "lifecycle.h"
#include "resolve.h"

enum { EXIT_NOW, QUICK_EXIT, ABORT, EXECVE, EXECV, EXECVP, EXECVPE, FEXECVE, NR_REAL };

static const char *const real_name[NR_REAL] = {
	"_exit", "quick_exit", "abort", "execve", "execv", "execvp", "execvpe", "fexecve",
};
static void *_Atomic real_function[NR_REAL];

static void *real_of(unsigned which)
{
	void *real = atomic_load_explicit(&real_function[which], memory_order_relaxed);

	if (!real) {
		real = ip_real_libc(real_name[which]);
		atomic_store_explicit(&real_function[which], real, memory_order_relaxed);
	}
	return real;
}

void ip_process_init(void)
{
	for (unsigned i = 0; i < NR_REAL; i++)
		real_of(i);
}

IP_EXPORT void _exit(int status)
{
	void (*real)(int) = (void (*)(int))real_of(EXIT_NOW);

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
	void (*real)(int) = (void (*)(int))real_of(QUICK_EXIT);

	ip_finish(TFMT_END_EXIT, status & 0xff);
	real(status);
	__builtin_unreachable();
}

/* Only noted: a handler of SIGABRT may yet go on. */
IP_EXPORT void abort(void)
{
	void (*real)(void) = (void (*)(void))real_of(ABORT);

	ip_note_end(TFMT_END_SIGNAL, SIGABRT);
	real();
	__builtin_unreachable();
}

/* A replaced image ends its trace; where exec fails the process goes on recording. */
#define EXEC(which, name, params, args)                                                                     \
	IP_EXPORT int name params                                                                           \
	{                                                                                                   \
		int(*real) params = (int(*) params)real_of(which);                                          \
		int result;                                                                                 \
                                                                                                            \
		ip_note_end(TFMT_END_EXEC, 0);                                                              \
		result = real args;                                                                         \
		ip_note_end(TFMT_END_OPEN, 0);                                                              \
		return result;                                                                              \
	}

EXEC(EXECVE, execve, (const char *path, char *const argv[], char *const envp[]), (path, argv, envp))
EXEC(EXECV, execv, (const char *path, char *const argv[]), (path, argv))
EXEC(EXECVP, execvp, (const char *file, char *const argv[]), (file, argv))
EXEC(EXECVPE, execvpe, (const char *file, char *const argv[], char *const envp[]), (file, argv, envp))
EXEC(FEXECVE, fexecve, (int fd, char *const argv[], char *const envp[]), (fd, argv, envp))
