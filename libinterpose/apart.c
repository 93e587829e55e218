/* SPDX-License-Identifier: MIT */
/* A thread with a descriptor table of its own; see apart.h. */
#include "apart.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "interpose.h"

#define STACK_BYTES (1u << 20)
#define GROUPS_MAX 256
#define CLOSED_MAX 65536 /* one by one, where the kernel cannot close a range */

/* All that a process is told to be. */
struct user {
	uid_t uid[3];
	gid_t gid[3];
	gid_t group[GROUPS_MAX];
	int nr_groups;
};

static struct {
	_Atomic uint32_t runs; /* futex: the kernel clears it when the thread has ended */
	_Atomic bool has_changed;
	struct user user; /* complete before has_changed */
} apart;

/* No trace file may ever be descriptor 0, 1 or 2. */
static void fill_first_descriptors(void)
{
	for (int fd = 0; fd < 3; fd++)
		(void)!open("/dev/null", O_RDWR | O_CLOEXEC);
}

static void close_all(void)
{
	int max = (int)sysconf(_SC_OPEN_MAX);

	for (int fd = 0; fd < max && fd < CLOSED_MAX; fd++)
		close(fd);
}

static bool unshare_descriptors(void)
{
	if (!syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE))
		return true;
	if (unshare(CLONE_FILES))
		return false;
	close_all();
	return true;
}

/* ---- a thread that the C library does not know ---------------------------------------------------- */

static int serve_apart(void *serve)
{
	close_all();
	fill_first_descriptors();
	((void (*)(void))serve)();
	syscall(SYS_exit, 0); /* of the thread: older C libraries end the process after a return */
	return 0;
}

static void read_user(struct user *u)
{
	syscall(SYS_getresuid, &u->uid[0], &u->uid[1], &u->uid[2]);
	syscall(SYS_getresgid, &u->gid[0], &u->gid[1], &u->gid[2]);
	u->nr_groups = (int)syscall(SYS_getgroups, GROUPS_MAX, u->group);
}

/*
 * The kernel keeps a user for each thread, and setuid() tells all threads by a signal, which is what ends a wait here.
 * The two threads have one errno: that of a call that fails here is what the other one would read.
 */
static void await(void)
{
	static const struct timespec long_time = { 1000000, 0 }; /* without one, a wait goes on after a signal */
	static struct user known;

	read_user(&known);
	while (atomic_load(&apart.runs)) {
		struct user now = { 0 };

		syscall(SYS_futex, &apart.runs, FUTEX_WAIT, 1, &long_time, NULL, 0);
		read_user(&now);
		if (now.uid[1] == known.uid[1] && now.gid[1] == known.gid[1])
			continue;
		apart.user = known = now;
		atomic_store(&apart.has_changed, true);
		ip_drain_wake();
	}
}

void apart_follow_user(void)
{
	const struct user *u = &apart.user;

	if (!atomic_exchange(&apart.has_changed, false))
		return;
	if (u->nr_groups >= 0)
		syscall(SYS_setgroups, u->nr_groups, u->group);
	syscall(SYS_setresgid, u->gid[0], u->gid[1], u->gid[2]);
	syscall(SYS_setresuid, u->uid[0], u->uid[1], u->uid[2]);
}

/* It has this thread's thread-local memory, which this thread does not use meanwhile. */
static bool run_apart(void (*serve)(void))
{
	static const int shared = CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
	uint8_t *stack = ip_map(STACK_BYTES);
	int err;

	if (!stack)
		return false;
	atomic_store(&apart.runs, 1);
	atomic_store(&apart.has_changed, false);
	atomic_store(&ip_recorder->nr_threads, 2);
	if (clone(serve_apart, stack + STACK_BYTES, shared | CLONE_CHILD_CLEARTID, (void *)serve, NULL, NULL,
		  &apart.runs) < 0) {
		err = errno;
		ip_unmap(stack, STACK_BYTES);
		errno = err;
		return false;
	}
	await();
	ip_unmap(stack, STACK_BYTES);
	return true;
}

bool apart_serve(void (*serve)(void))
{
	if (!unshare_descriptors())
		return run_apart(serve);
	fill_first_descriptors();
	serve();
	return true;
}
