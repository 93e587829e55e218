/* SPDX-License-Identifier: MIT */
/* Memory for the rings that nobody can cut short; see ringmemory.h. */
#include "ringmemory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "env.h"
#include "interpose.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u /* some systems refuse a memfd without it, older ones one with it */
#endif

#define KEYS_TRIED 64u
#define LEFT_MAX 64 /* segments of dead recorders: memory that nobody has claimed */
#define HAND_OVER_TRIES 40u
#define HAND_OVER_PAUSE_NS 20000000u

/* Where the kernel removes what no process has attached, shared memory ends with the process. */
static bool outlives_processes(void)
{
	char forced = '0';
	int fd = open("/proc/sys/kernel/shm_rmid_forced", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return true;
	if (read(fd, &forced, 1) != 1)
		forced = '0';
	close(fd);
	return forced == '0';
}

/* How many segments there are that recorders made and no process has attached. */
static int count_left(void)
{
	struct shm_info info;
	struct shmid_ds ds;
	int nr = 0, last = shmctl(0, SHM_INFO, (struct shmid_ds *)(void *)&info);

	for (int i = 0; i <= last; i++)
		if (shmctl(i, SHM_STAT, &ds) >= 0 && !ds.shm_nattch &&
		    ((uint32_t)ds.shm_perm.__key & TFMT_SHARED_KEY_MASK) == TFMT_SHARED_KEY)
			nr++;
	return nr;
}

int ringmemory_share(size_t bytes, void **base)
{
	uint64_t seed = ip_now_ns() ^ (uint64_t)getpid() << 7;
	int id = -1;

	if (!outlives_processes() || count_left() >= LEFT_MAX)
		return -1;
	for (unsigned i = 0; i < KEYS_TRIED && id < 0; i++) {
		id = shmget((key_t)(TFMT_SHARED_KEY | ((seed + i) & 0xffff)), bytes, IPC_CREAT | IPC_EXCL | 0600);
		if (id < 0 && errno != EEXIST)
			return -1;
	}
	*base = id < 0 ? MAP_FAILED : shmat(id, NULL, 0);
	if (*base != MAP_FAILED)
		return id;
	if (id >= 0)
		ringmemory_unshare(id);
	return -1;
}

void ringmemory_unshare(int id)
{
	shmctl(id, IPC_RMID, NULL);
}

int ringmemory_seal(size_t bytes)
{
	int fd = memfd_create("vramtrace-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create("vramtrace-rings", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -1;
	if (!ftruncate(fd, (off_t)bytes) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return fd;
	close(fd);
	return -1;
}

/* The queue of `run` is short; `run` empties it four times a second. */
static bool send_patiently(int to, const struct msghdr *message)
{
	for (unsigned i = 0; i < HAND_OVER_TRIES; i++) {
		if (sendmsg(to, message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
			return true;
		if (errno != EAGAIN && errno != EINTR && errno != ETOOMANYREFS)
			return false;
		ip_pause(HAND_OVER_PAUSE_NS);
	}
	return false;
}

bool ringmemory_hand_over(int fd)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct iovec word = { (void *)"r", 1 };
	struct msghdr message = {
		.msg_name = &name,
		.msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(ip_env.keeper)),
		.msg_iov = &word,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.bytes),
	};
	struct cmsghdr *part = CMSG_FIRSTHDR(&message);
	bool sent;
	int to;

	if (!ip_env.keeper[0] || strlen(ip_env.keeper) + 1 > sizeof(name.sun_path))
		return false;
	to = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (to < 0)
		return false;
	memcpy(name.sun_path + 1, ip_env.keeper, strlen(ip_env.keeper));
	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	sent = send_patiently(to, &message);
	close(to);
	return sent;
}
