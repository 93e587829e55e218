/* SPDX-License-Identifier: MIT */
/*
 * What a process may become, each in a mode of its own; most allocate ten times and free before and after.
 * usage: lives MODE [ARGUMENT]
 *   ten                ten allocations and frees
 *   execl, execv, ...  ten, then itself by that function, as `ten`
 *   vfork, spawn       ten, then a vfork child's exec and posix_spawn of itself, as `ten`; ten
 *   clone, clone3      ten in a child of the raw system call, too
 *   daemon             two forks, a session of its own, nothing open, another folder: ten there
 *   storm              children are forked while threads are inside hooks
 *   chroot DIR         another root, then many
 *   umask              files may get no permissions
 *   uid                another user from then on, and a child
 *   closefrom          everything is closed, by each way there is
 *   quick_exit         frees in a handler of quick_exit
 *   leave, leave_first ten; main ends by pthread_exit() alone, or before a thread that goes on; prints at its exit
 *   late               frees in an exit handler and in a destructor
 *   exit_group         the raw system call
 *   raw_exit[_first]   the raw call that ends one thread: main's, alone or before a thread that goes on
 *   raw_exit_idle      as raw_exit, with nothing allocated
 *   assert, free       the C library aborts
 */
#define _GNU_SOURCE
#include <assert.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int cuInit(unsigned flags);
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
int cuMemFree_v2(uint64_t address);

extern char **environ;
static char *self;
static uint64_t kept;

static void pairs(unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		uint64_t address = 0;

		cuMemAlloc_v2(&address, 512 * (1 + i % 300));
		cuMemFree_v2(address);
	}
}

static void ten(void)
{
	cuInit(0);
	pairs(10);
}

static void wait_for_all(void)
{
	int status;

	while (wait(&status) > 0)
		if (status)
			printf("child: status %x\n", status);
}

static void become(const char *how)
{
	char *argv[] = { self, "ten", NULL };
	int fd = open(self, O_RDONLY | O_CLOEXEC);

	if (!strcmp(how, "execl"))
		execl(self, self, "ten", NULL);
	else if (!strcmp(how, "execlp"))
		execlp(self, self, "ten", NULL);
	else if (!strcmp(how, "execle"))
		execle(self, self, "ten", NULL, environ);
	else if (!strcmp(how, "execv"))
		execv(self, argv);
	else if (!strcmp(how, "execvp"))
		execvp(self, argv);
	else if (!strcmp(how, "execve"))
		execve(self, argv, environ);
	else if (!strcmp(how, "execvpe"))
		execvpe(self, argv, environ);
	else if (!strcmp(how, "fexecve"))
		fexecve(fd, argv, environ);
	else if (!strcmp(how, "execveat"))
		execveat(AT_FDCWD, self, argv, environ, 0);
	exit(9);
}

static void do_vfork(void)
{
	if (!vfork()) {
		execl(self, self, "ten", NULL);
		_exit(9);
	}
	wait_for_all();
}

static void do_spawn(void)
{
	pid_t pid;

	if (posix_spawn(&pid, self, NULL, NULL, (char *[]){ self, "ten", NULL }, environ))
		printf("cannot spawn\n");
	wait_for_all();
}

static void do_clone(void)
{
	if (!syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)) {
		ten();
		_exit(0);
	}
	wait_for_all();
}

static void do_clone3(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	if (!syscall(SYS_clone3, &args, sizeof(args))) {
		ten();
		_exit(0);
	}
	wait_for_all();
}

/* The C library's own: its parent ends past every _exit() that others could have. */
static void do_library_daemon(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!fork()) {
		ten();
		if (daemon(0, 0))
			abort();
		ten();
		exit(0);
	}
	wait_for_all();
}

static void do_daemon(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (!fork()) {
		setsid();
		if (!fork()) {
			(void)!chdir("/");
			umask(0);
			close_range(0, ~0u, 0);
			ten();
			exit(0);
		}
		_exit(0);
	}
	wait_for_all();
}

static void *for_ever(void *arg)
{
	for (;;)
		pairs(1000);
	return arg;
}

static void do_storm(void)
{
	pthread_t thread;

	for (int i = 0; i < 3; i++)
		pthread_create(&thread, NULL, for_ever, NULL);
	for (int i = 0; i < 20; i++) {
		if (!fork()) {
			ten();
			exit(0);
		}
		pairs(50);
	}
	wait_for_all();
}

static void do_chroot(const char *dir)
{
	if (chroot(dir) || chdir("/"))
		printf("cannot chroot\n");
	pairs(20000);
}

static void do_uid(void)
{
	if (setgroups(0, NULL) || setgid(65534) || setuid(65534))
		printf("cannot change user\n");
	pairs(20000);
	if (!fork()) {
		ten();
		exit(0);
	}
	wait_for_all();
}

static void do_closefrom(void)
{
	pairs(10);
	close_range(3, ~0u, 0);
	pairs(10);
	closefrom(3);
	pairs(10);
	close_range(3, ~0u, CLOSE_RANGE_UNSHARE);
	pairs(10000);
}

static void free_kept(void)
{
	cuMemFree_v2(kept);
}

static __attribute__((destructor)) void destructor(void)
{
	if (kept) {
		pairs(1);
		cuMemFree_v2(kept + 512);
	}
}

static void do_late(void)
{
	uint64_t second;

	cuMemAlloc_v2(&kept, 512);
	cuMemAlloc_v2(&second, 512);
	assert(second == kept + 512);
	atexit(free_kept);
}

static void do_quick_exit(void)
{
	cuMemAlloc_v2(&kept, 512);
	at_quick_exit(free_kept);
	quick_exit(4);
}

static void say_bye(void)
{
	cuMemFree_v2(kept);
	fputs("bye", stdout); /* not yet written when exit() ends the streams */
}

static void do_leave(void)
{
	cuMemAlloc_v2(&kept, 512);
	atexit(say_bye);
	pthread_exit(NULL);
}

static void *go_on(void *arg)
{
	pthread_join(*(pthread_t *)arg, NULL);
	usleep(50000);
	ten();
	fputs("on ", stdout);
	return NULL;
}

/* Nobody can join a thread that ends this way. */
static void *go_on_raw(void *arg)
{
	usleep(700000); /* the drain looks several times meanwhile */
	ten();
	return arg;
}

static void do_leave_first(void)
{
	static pthread_t main_thread;
	pthread_t other;

	main_thread = pthread_self();
	pthread_create(&other, NULL, go_on, &main_thread);
	pthread_detach(other);
	do_leave();
}

static void do_exit_group(void)
{
	syscall(SYS_exit_group, 7);
}

/* Ends main's thread alone, and nobody but the kernel sees it. */
static void do_raw_exit(void)
{
	cuMemAlloc_v2(&kept, 512);
	syscall(SYS_exit, 7);
}

static void do_raw_exit_idle(void)
{
	cuInit(0);
	syscall(SYS_exit, 7);
}

static void do_raw_exit_first(void)
{
	pthread_t other;

	pthread_create(&other, NULL, go_on_raw, NULL);
	do_raw_exit();
}

static void do_assert(void)
{
	assert(!self);
}

static void do_free(void)
{
	char *p = malloc(64);

	free(p + 16);
}

static void do_umask(void)
{
	umask(0777);
}

static void nothing(void)
{
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*before)(void), (*run)(void);
	} what[] = {
		{ "ten", nothing, nothing },          { "vfork", ten, do_vfork },     { "spawn", ten, do_spawn },
		{ "clone", ten, do_clone },           { "clone3", ten, do_clone3 },   { "daemon", ten, do_daemon },
		{ "storm", ten, do_storm },           { "umask", do_umask, nothing }, { "uid", ten, do_uid },
		{ "closefrom", ten, do_closefrom },   { "late", ten, do_late },       { "quick_exit", ten, do_quick_exit },
		{ "exit_group", ten, do_exit_group }, { "assert", ten, do_assert },   { "free", ten, do_free },
		{ "library_daemon", nothing, do_library_daemon },
		{ "leave", ten, do_leave },           { "leave_first", ten, do_leave_first },
		{ "raw_exit", ten, do_raw_exit },     { "raw_exit_first", ten, do_raw_exit_first },
		{ "raw_exit_idle", nothing, do_raw_exit_idle },
	};

	self = argv[0];
	if (argc > 1 && strstr(argv[1], "exec")) {
		ten();
		become(argv[1]);
	}
	if (argc > 2 && !strcmp(argv[1], "chroot")) {
		ten();
		do_chroot(argv[2]);
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(what) / sizeof(*what); i++)
		if (!strcmp(argv[1], what[i].name)) {
			what[i].before();
			what[i].run();
			ten();
			return 0;
		}
	return 2;
}
