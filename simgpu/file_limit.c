/* SPDX-License-Identifier: MIT */
/* Growing files without the signal of RLIMIT_FSIZE. */
#include "simgpu/file_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "simgpu/internal.h"

/* What the thread had before SIGXFSZ was held back. */
struct held {
	sigset_t mask;
	bool was_pending;	/* one of the program's: it stays */
};

static void only_ours(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGXFSZ);
}

static struct held hold(void)
{
	sigset_t ours, pending;
	struct held h;

	only_ours(&ours);
	pthread_sigmask(SIG_BLOCK, &ours, &h.mask);
	h.was_pending = !sigpending(&pending) && sigismember(&pending, SIGXFSZ) == 1;
	return h;
}

/* The kernel sends the signal to the thread that exceeds the limit: it is taken before that thread could get it. */
static void let_go(const struct held *h)
{
	static const struct timespec at_once = { 0, 0 };
	int error = errno;
	sigset_t ours;

	only_ours(&ours);
	if (!h->was_pending)
		while (sigtimedwait(&ours, NULL, &at_once) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &h->mask, NULL);
	errno = error;
}

int file_limit_grow(int fd, off_t bytes)
{
	struct held h = hold();
	int error = ftruncate(fd, bytes) ? errno : 0;

	let_go(&h);
	errno = error;
	return error;
}

int file_limit_allocate(int fd, off_t bytes)
{
	struct held h = hold();
	int error = posix_fallocate(fd, 0, bytes);

	let_go(&h);
	errno = error;
	return error;
}

bool file_limit_write(int fd, const void *from, size_t bytes)
{
	struct held h = hold();
	ssize_t written = write(fd, from, bytes);

	let_go(&h);
	return written == (ssize_t)bytes;
}

void file_limit_end(const char *what)
{
	sim_host_limit(what, errno == EFBIG ? "raise `ulimit -f` (file size)" : "free some memory on this machine");
}
