/* SPDX-License-Identifier: MIT */
/* Rings that `run` holds for the processes it has started; see keeper.h. */
#include "analyzer/launch/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tracefmt/tracefmt.h"

struct kept {
	int fd;
	const struct tfmt_status *status; /* mapped; it cannot get shorter: its memory is sealed */
};

static struct {
	int fd;
	char name[64];
	struct kept *kept;
	size_t nr_kept;
} keeper = { .fd = -1 };

const char *keeper_open(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct timespec now;
	int on = 1, len;

	if (keeper.fd >= 0)
		return keeper.name;
	clock_gettime(CLOCK_MONOTONIC, &now);
	len = snprintf(keeper.name, sizeof(keeper.name), "vramtrace-keeper-%d-%lld%09ld", (int)getpid(),
		       (long long)now.tv_sec, now.tv_nsec);
	memcpy(name.sun_path + 1, keeper.name, (size_t)len); /* abstract: no file of it can be left */
	keeper.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (keeper.fd >= 0 && !setsockopt(keeper.fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) &&
	    !bind(keeper.fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)))
		return keeper.name;
	if (keeper.fd >= 0)
		close(keeper.fd);
	keeper.fd = -1;
	return NULL;
}

/*
 * Whoever may send us something: only what cannot be cut short while it is looked at is kept. Nor is it where memory
 * runs out: that does not end us while we look after the user's program.
 */
static bool keep(int fd)
{
	const struct tfmt_status *status;
	struct kept *grown;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) || (size_t)st.st_size < sizeof(*status))
		return false;
	status = mmap(NULL, sizeof(*status), PROT_READ, MAP_SHARED, fd, 0);
	if (status == MAP_FAILED)
		return false;
	grown = realloc(keeper.kept, (keeper.nr_kept + 1) * sizeof(*grown));
	if (!grown) {
		munmap((void *)(uintptr_t)status, sizeof(*status));
		return false;
	}
	keeper.kept = grown;
	keeper.kept[keeper.nr_kept++] = (struct kept){ fd, status };
	return true;
}

/* One message: the descriptor in it, if it comes from a process of ours. -1: none; *more tells whether to go on. */
static int receive(bool *more)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} control;
	char word;
	struct iovec to = { &word, 1 };
	struct msghdr message = {
		.msg_iov = &to,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.bytes),
	};
	struct ucred sender = { .uid = (uid_t)-1 };
	int fd = -1;

	*more = recvmsg(keeper.fd, &message, MSG_CMSG_CLOEXEC) >= 0;
	if (!*more)
		return -1;
	for (struct cmsghdr *part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS)
			memcpy(&sender, CMSG_DATA(part), sizeof(sender));
		if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS)
			memcpy(&fd, CMSG_DATA(part), sizeof(fd));
	}
	if (fd >= 0 && sender.uid != geteuid() && geteuid()) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void take(void)
{
	bool more = keeper.fd >= 0;

	while (more) {
		int fd = receive(&more);

		if (fd >= 0 && !keep(fd))
			close(fd);
	}
}

static void let_go(struct kept *k)
{
	munmap((void *)(uintptr_t)k->status, sizeof(*k->status));
	close(k->fd);
	*k = keeper.kept[--keeper.nr_kept];
}

/* Are these rings needed no more? Those of a process that was killed go into its trace first. */
static bool is_done(const struct kept *k)
{
	char path[sizeof(k->status->trace_path) + 1];

	if (__atomic_load_n(&k->status->is_complete, __ATOMIC_ACQUIRE))
		return true;
	if (!kill((pid_t)k->status->pid, 0) || errno != ESRCH)
		return false;
	snprintf(path, sizeof(path), "%.*s", (int)sizeof(k->status->trace_path), k->status->trace_path);
	return !tfmt_seal_kept(path, TFMT_END_OPEN, 0, k->fd);
}

void keeper_tick(void)
{
	take();
	for (size_t i = keeper.nr_kept; i-- > 0;) {
		if (is_done(&keeper.kept[i]))
			let_go(&keeper.kept[i]);
	}
}

int keeper_find(const char *path)
{
	char end[64];

	take();
	for (size_t i = 0; i < keeper.nr_kept; i++) {
		const struct tfmt_status *s = keeper.kept[i].status;
		int len = snprintf(end, sizeof(end), ".%" PRIu32 ".%" PRIu64 ".vtr", s->pid, s->image_start_ns);

		if ((int)strlen(path) > len && !strcmp(path + strlen(path) - len, end))
			return keeper.kept[i].fd;
	}
	return -1;
}
