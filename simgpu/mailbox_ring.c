/* SPDX-License-Identifier: MIT */
/* Rings in shared memory between the ranks of a simulated NCCL communicator (mailbox_ring.h). */
#include "simgpu/mailbox_ring.h"
#include "simgpu/file_limit.h"
#include "simgpu/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23		/* Linux 5.14 */
#endif

#define NAME_PREFIX "simgpu-nccl-"
#define STALE_SECONDS 3600		/* a name that not all ranks took by then is a crashed job's */

/* Written by one rank, read by another. Positions count bytes and never wrap. */
struct ring {
	_Atomic uint64_t head;
	char pad0[56];
	_Atomic uint64_t tail;
	char pad1[56];
	char data[2 * SIM_MESSAGE_MAX - 128];
};

enum presence { AWAITED, ATTACHED, DETACHED };

struct member {
	struct sim_process process;	/* once ATTACHED */
	_Atomic uint32_t presence;
};

/* Followed, on the next page, by the rings: [from * nr_ranks + to]. */
struct mailbox_shared {
	_Atomic uint32_t nr_joined;
	uint32_t nr_ranks;
	struct member members[];	/* by rank */
};

static size_t rings_offset(const struct sim_mailbox *box)
{
	size_t bytes = sizeof(struct mailbox_shared) + sizeof(struct member) * (size_t)box->nr_ranks;

	return (bytes + 4095) & ~(size_t)4095;
}

static struct ring *ring_of(const struct sim_mailbox *box, int from, int to)
{
	struct ring *rings = (struct ring *)((char *)box->shared + rings_offset(box));

	return &rings[(size_t)from * (size_t)box->nr_ranks + (size_t)to];
}

static void ring_copy(struct ring *ring, uint64_t at, void *data, size_t bytes, bool in)
{
	size_t offset = at % sizeof(ring->data);
	size_t first = sizeof(ring->data) - offset < bytes ? sizeof(ring->data) - offset : bytes;
	char *p = data;

	if (in) {
		memcpy(ring->data + offset, p, first);
		memcpy(ring->data, p + first, bytes - first);
	} else {
		memcpy(p, ring->data + offset, first);
		memcpy(p + first, ring->data, bytes - first);
	}
}

/* Give the ring its memory now: on a full /dev/shm a store into it would be a SIGBUS. */
static void ring_populate(struct sim_mailbox *box, int peer)
{
	struct ring *ring = ring_of(box, box->rank, peer);
	uintptr_t start = (uintptr_t)ring & ~(uintptr_t)4095;

	if (box->is_populated[peer])
		return;
	box->is_populated[peer] = true;
	if (madvise((void *)start, (uintptr_t)(ring + 1) - start, MADV_POPULATE_WRITE) && errno != EINVAL)
		sim_host_limit("shared memory (/dev/shm)",
			       "make it larger: docker run --shm-size, or mount -o size=");
}

bool mailbox_push(struct sim_mailbox *box, int peer, const void *data, size_t bytes)
{
	struct ring *ring = ring_of(box, box->rank, peer);
	uint64_t length = bytes, head, tail;

	ring_populate(box, peer);
	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
	if (sizeof(ring->data) - (head - tail) < sizeof(length) + bytes)
		return false;
	ring_copy(ring, head, &length, sizeof(length), true);
	ring_copy(ring, head + sizeof(length), (void *)(uintptr_t)data, bytes, true);
	atomic_store_explicit(&ring->head, head + sizeof(length) + bytes, memory_order_release);
	return true;
}

bool mailbox_pull(struct sim_mailbox *box, int peer, void *data, size_t bytes)
{
	struct ring *ring = ring_of(box, peer, box->rank);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed), length;

	if (atomic_load_explicit(&ring->head, memory_order_acquire) == tail)
		return false;
	ring_copy(ring, tail, &length, sizeof(length), false);
	if (data)
		ring_copy(ring, tail + sizeof(length), data, length < bytes ? length : bytes, false);
	atomic_store_explicit(&ring->tail, tail + sizeof(length) + length, memory_order_release);
	return true;
}

/* Whether mailbox NAME can never be complete: one of the ranks that joined has ended. */
static bool lacks_a_rank(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct mailbox_shared head;
	struct member member;
	bool lacks = false;

	if (fd < 0)
		return false;
	if (pread(fd, &head, sizeof(head), 0) != sizeof(head))
		head.nr_ranks = 0;
	for (uint32_t i = 0; i < head.nr_ranks && !lacks; i++) {
		off_t at = (off_t)(sizeof(head) + i * sizeof(member));

		lacks = pread(fd, &member, sizeof(member), at) == sizeof(member) &&
			member.presence == ATTACHED && sim_process_ended(&member.process);
	}
	close(fd);
	return lacks;
}

/* Unlink what crashed jobs of this user left while they were starting. */
static void reap(void)
{
	DIR *dir = opendir("/dev/shm");
	struct dirent *entry;
	struct stat st;

	if (!dir)
		return;
	while ((entry = readdir(dir)))
		if (!strncmp(entry->d_name, NAME_PREFIX, strlen(NAME_PREFIX)) &&
		    !fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) && st.st_uid == geteuid() &&
		    (time(NULL) - st.st_mtime > STALE_SECONDS || lacks_a_rank(dirfd(dir), entry->d_name)))
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

void mailbox_attach(struct sim_mailbox *box)
{
	size_t nr_rings = (size_t)box->nr_ranks * (size_t)box->nr_ranks;
	struct mailbox_shared *map;
	int fd;

	box->is_populated = sim_zalloc((size_t)box->nr_ranks * sizeof(*box->is_populated));
	box->shared_bytes = rings_offset(box) + sizeof(struct ring) * nr_rings;
	snprintf(box->name, sizeof(box->name), "/" NAME_PREFIX "%016llx", (unsigned long long)box->id);
	reap();
	/* Both steps do nothing when another rank was first: no rendezvous is needed. */
	fd = shm_open(box->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd >= 0 && (file_limit_grow(fd, (off_t)box->shared_bytes) ||
			file_limit_allocate(fd, (off_t)rings_offset(box))))
		file_limit_end("making the ranks' shared memory failed");
	if (fd < 0)
		sim_host_limit("shared memory (/dev/shm)", "check that /dev/shm is mounted and writable");
	map = mmap(NULL, box->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		sim_host_limit("address space", "raise ulimit -v");
	box->shared = map;
	map->nr_ranks = (uint32_t)box->nr_ranks;
	map->members[box->rank].process = sim_process_self();
	atomic_store(&map->members[box->rank].presence, ATTACHED);
	if (atomic_fetch_add(&box->shared->nr_joined, 1) + 1 == (uint32_t)box->nr_ranks)
		shm_unlink(box->name);
}

void mailbox_detach(struct sim_mailbox *box)
{
	atomic_store(&box->shared->members[box->rank].presence, DETACHED);
	munmap(box->shared, box->shared_bytes);
	free(box->is_populated);
}

int mailbox_nr_joined(const struct sim_mailbox *box)
{
	return (int)atomic_load(&box->shared->nr_joined);
}

bool mailbox_has_ended(const struct sim_mailbox *box, int peer)
{
	const struct member *member = &box->shared->members[peer];

	switch (atomic_load(&member->presence)) {
	case ATTACHED:
		return sim_process_ended(&member->process);
	case DETACHED:
		return true;
	default:
		return false;
	}
}

void mailbox_unlink(struct sim_mailbox *box)
{
	if (mailbox_nr_joined(box) < box->nr_ranks)
		shm_unlink(box->name);
}
