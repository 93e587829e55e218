/* SPDX-License-Identifier: MIT */
/* The ways out of a process that run no destructors, and exec, which replaces the image. */
#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "exectarget.h"
#include "interpose.h"
#include "lifecycle.h"
#include "resolve.h"

enum { EXIT_NOW, QUICK_EXIT, PTHREAD_EXIT, THRD_EXIT, ABORT, EXECVE, EXECV, EXECVP, EXECVPE, FEXECVE, EXECVEAT, DAEMON,
       SPAWN, SPAWNP, NR_REAL };

static const char *const real_name[NR_REAL] = {
	"_exit", "quick_exit", "pthread_exit", "thrd_exit", "abort", "execve", "execv", "execvp", "execvpe", "fexecve",
	"execveat", "daemon", "posix_spawn", "posix_spawnp",
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

static int quick_status;

/* Registered first, so that it runs last. */
static void at_quick_end(void)
{
	ip_finish(TFMT_END_EXIT, quick_status & 0xff);
}

void ip_process_init(void)
{
	for (unsigned i = 0; i < NR_REAL; i++)
		real_of(i);
	at_quick_exit(at_quick_end);
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

	quick_status = status;
	real(status);
	__builtin_unreachable();
}

/* ---- main() left by pthread_exit() ------------------------------------------------------------- */

#define LAST_PAUSE_NS 5000000u

/* Waits until there are only main's remains, this thread, and the drain. */
static void *be_last_thread(void *arg)
{
	const sigset_t *signals = arg;

	while (!ip_has_main_ended(1u + atomic_load(&ip_recorder->nr_threads)))
		ip_pause(LAST_PAUSE_NS);
	pthread_sigmask(SIG_SETMASK, signals, NULL);
	exit(0);
}

/*
 * When a program's last thread ends, be it main's, glibc calls exit(0); but it counts the drain's, which does not end
 * before that. So there is one more thread once main has left, which sees that it would be the last, and does it.
 */
void ip_process_end_last(void)
{
	static sigset_t signals;
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &signals);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_create(&thread, &attr, be_last_thread, &signals);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &signals, NULL);
}

/* Main's thread ends before the process does. Where the recorder has no thread yet, its drain will see to that. */
static void main_leaves(void)
{
	if (syscall(SYS_gettid) != getpid())
		return;
	atomic_store(&ip_recorder->main_has_left, true);
	if (atomic_load(&ip_recorder->nr_threads))
		ip_process_end_last();
}

IP_EXPORT void pthread_exit(void *result)
{
	void (*real)(void *) = (void (*)(void *))real_of(PTHREAD_EXIT);

	main_leaves();
	real(result);
	__builtin_unreachable();
}

IP_EXPORT void thrd_exit(int result)
{
	void (*real)(int) = (void (*)(int))real_of(THRD_EXIT);

	main_leaves();
	real(result);
	__builtin_unreachable();
}

/* ---- the others ---------------------------------------------------------------------------------- */

/* Only noted: a handler of SIGABRT may yet go on. */
IP_EXPORT void abort(void)
{
	void (*real)(void) = (void (*)(void))real_of(ABORT);

	ip_note_end(TFMT_END_SIGNAL, SIGABRT);
	real();
	__builtin_unreachable();
}

/* The parent ends in there, past our _exit(); the child is another process, of which nothing is recorded yet. */
IP_EXPORT int daemon(int keep_folder, int keep_output)
{
	int (*real)(int, int) = (int (*)(int, int))real_of(DAEMON);
	int result;

	ip_note_end(TFMT_END_EXIT, 0);
	result = real(keep_folder, keep_output);
	ip_note_end(TFMT_END_OPEN, 0);
	return result;
}

/*
 * envp as the new program gets it: without us if it cannot use us. The room is on the caller's stack: a vfork child may
 * use nothing else.
 */
#define ENVIRONMENT(envp, refuses)                                                                          \
	({                                                                                                  \
		char *const *given = (envp);                                                                \
		size_t bytes = ip_target_room(given);                                                       \
                                                                                                            \
		bytes && (refuses) ? ip_target_strip(alloca(bytes), given) : (char **)given;                \
	})

/* A replaced image ends its trace; where exec fails the process goes on recording. */
#define EXEC(which, name, params, environment, call)                                                        \
	IP_EXPORT int name params                                                                           \
	{                                                                                                   \
		int(*real) params = (int(*) params)real_of(which);                                          \
		char *const *env;                                                                           \
		int result;                                                                                 \
                                                                                                            \
		if (!real) {                                                                                \
			errno = ENOSYS;                                                                     \
			return -1;                                                                          \
		}                                                                                           \
		env = environment;                                                                          \
		ip_note_end(TFMT_END_EXEC, 0);                                                              \
		result = call;                                                                              \
		ip_note_end(TFMT_END_OPEN, 0);                                                              \
		return result;                                                                              \
	}

typedef int (*with_environment)(const char *, char *const[], char *const[]);

/* execv and execvp have no environment among their arguments: where it stays as it is, they are called themselves. */
EXEC(EXECV, execv, (const char *path, char *const argv[]),
     ENVIRONMENT(environ, ip_target_refuses(AT_FDCWD, path)),
     env == environ ? real(path, argv) : ((with_environment)real_of(EXECVE))(path, argv, env))
EXEC(EXECVP, execvp, (const char *file, char *const argv[]), ENVIRONMENT(environ, ip_target_named_refuses(file)),
     env == environ ? real(file, argv) : ((with_environment)real_of(EXECVPE))(file, argv, env))
EXEC(EXECVE, execve, (const char *path, char *const argv[], char *const envp[]),
     ENVIRONMENT(envp, ip_target_refuses(AT_FDCWD, path)), real(path, argv, env))
EXEC(EXECVPE, execvpe, (const char *file, char *const argv[], char *const envp[]),
     ENVIRONMENT(envp, ip_target_named_refuses(file)), real(file, argv, env))
EXEC(FEXECVE, fexecve, (int fd, char *const argv[], char *const envp[]),
     ENVIRONMENT(envp, ip_target_refuses(fd, NULL)), real(fd, argv, env))
EXEC(EXECVEAT, execveat, (int fd, const char *path, char *const argv[], char *const envp[], int flags),
     ENVIRONMENT(envp, ip_target_refuses(fd, *path ? path : NULL)), real(fd, path, argv, env, flags))

/* The C library's own exec, in there, goes past the wrappers. */
#define SPAWN(which, name, refuses)                                                                         \
	IP_EXPORT int name(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,         \
			   const posix_spawnattr_t *attributes, char *const argv[], char *const envp[])     \
	{                                                                                                   \
		__typeof__(&name) real = (__typeof__(&name))real_of(which);                                 \
                                                                                                            \
		return real ? real(pid, file, actions, attributes, argv, ENVIRONMENT(envp, refuses)) : ENOSYS; \
	}

SPAWN(SPAWN, posix_spawn, ip_target_refuses(AT_FDCWD, file))
SPAWN(SPAWNP, posix_spawnp, ip_target_named_refuses(file))

/* The arguments of execl() and its like, as an array on the caller's stack: a vfork child may use nothing else. */
#define COLLECT(argv, list, first)                                                                          \
	do {                                                                                                \
		size_t nr = 1;                                                                              \
		va_list counted;                                                                            \
                                                                                                            \
		va_copy(counted, list);                                                                     \
		while (va_arg(counted, char *))                                                             \
			nr++;                                                                               \
		va_end(counted);                                                                            \
		argv = alloca((nr + 1) * sizeof(char *));                                                   \
		argv[0] = (char *)(uintptr_t)(first);                                                       \
		for (size_t i = 1; i <= nr; i++)                                                            \
			argv[i] = va_arg(list, char *);                                                     \
	} while (0)

IP_EXPORT int execl(const char *path, const char *arg, ...)
{
	char **argv;
	va_list list;

	va_start(list, arg);
	COLLECT(argv, list, arg);
	va_end(list);
	return execv(path, argv);
}

IP_EXPORT int execlp(const char *file, const char *arg, ...)
{
	char **argv;
	va_list list;

	va_start(list, arg);
	COLLECT(argv, list, arg);
	va_end(list);
	return execvp(file, argv);
}

IP_EXPORT int execle(const char *path, const char *arg, ...)
{
	char **argv, **envp;
	va_list list;

	va_start(list, arg);
	COLLECT(argv, list, arg);
	envp = va_arg(list, char **);
	va_end(list);
	return execve(path, argv, envp);
}
