/* SPDX-License-Identifier: MIT */
/* Where a recording lies; see storage.h. */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "env.h"
#include "folder.h"
#include "interpose.h"
#include "ringmemory.h"

#define FIRST_RINGS 4u
#define RING_GROUP 16u /* mapped at once, beyond the first ones */
#define UNPUBLISHED ".new"
#define NAME_BYTES (NAME_MAX - 16) /* of a process's files; .vtr.new must fit after it */
#define COPY_BYTES (64u << 10)
#define POPULATE_BYTES (64u << 10) /* in one go: the kernel locks the address space meanwhile */

static bool lock_trace(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_SETLK, &lock);
}

/*
 * File systems that keep what fallocate() promises for every store into a shared mapping: they write in place. Others
 * copy on write, and may find no room for the copy (btrfs, zfs, f2fs, bcachefs), or lie on another machine. What lies
 * under an overlay (ext4 or xfs, mostly) cannot be asked: only who asks for the folder gets it there.
 */
static bool keeps_shared_mappings(int folder)
{
	static const unsigned long sound[] = { 0xef53 /* ext2, 3, 4 */, 0x58465342 /* xfs */, 0x01021994 /* tmpfs */ };
	struct statfs fs;

	if (fstatfs(folder, &fs))
		return false;
	for (unsigned i = 0; i < sizeof(sound) / sizeof(*sound); i++)
		if (((unsigned long)fs.f_type & 0xffffffff) == sound[i])
			return true;
	return ip_env.rings == IP_RINGS_FOLDER && ((unsigned long)fs.f_type & 0xffffffff) == 0x794c7630 /* overlay */;
}

static size_t ring_file_bytes(unsigned nr_rings)
{
	return sizeof(struct tfmt_status) + IP_DEFINITION_BYTES + nr_rings * IP_RING_STRIDE;
}

/* Allocate [from, to) in full, so that a store into the mapping can never find the disk full. */
static bool allocate(int fd, size_t from, size_t to)
{
	int rc;

	do
		rc = fallocate(fd, 0, (off_t)from, (off_t)(to - from));
	while (rc && errno == EINTR);
	return !rc;
}

/* Create the ring file under this name with its first rings; -1 if it cannot be had in full. */
static int ring_file_create(int folder, const char *name)
{
	int fd = folder_make_file(folder, name, O_RDWR);

	if (fd < 0)
		return -1;
	if (allocate(fd, 0, ring_file_bytes(FIRST_RINGS))) {
		fchmod(fd, 0400); /* who may not write cannot cut it short by mistake */
		return fd;
	}
	close(fd);
	unlinkat(folder, name, 0);
	return -1;
}

/* Give up the ring file, so that another can be taken. */
static void leave_ring_file(struct storage *s)
{
	storage_drop_ring_file(s);
	if (s->ring_fd >= 0)
		close(s->ring_fd);
	if (s->ring_folder_fd >= 0)
		close(s->ring_folder_fd);
	s->ring_fd = s->ring_folder_fd = -1;
}

/* These bytes of the ring file, or as much plain memory; NULL if they cannot be had. Pages need not be whole. */
static uint8_t *map_part(const struct storage *s, size_t from, size_t to)
{
	size_t before = from % (size_t)sysconf(_SC_PAGESIZE);
	int flags = s->ring_fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
	uint8_t *p = ip_map_file(to - from + before, flags, s->ring_fd, s->ring_fd < 0 ? 0 : (off_t)(from - before));

	return p ? p + before : NULL;
}

/* The next `nr` rings. */
static bool map_group(struct storage *s, unsigned nr)
{
	uint8_t *p = map_part(s, ring_file_bytes(s->nr_mapped), ring_file_bytes(s->nr_mapped + nr));

	for (unsigned i = 0; p && i < nr; i++)
		ip_recorder->ring[s->nr_mapped + i] = (struct tfmt_ring *)(p + i * IP_RING_STRIDE);
	s->nr_mapped += p ? nr : 0;
	return p != NULL;
}

/*
 * Map at least so many rings. More are mapped at once, also some that the file has yet to grow by: with many threads
 * the kernel's lock on the address space is what takes time, and threads that wait for a ring wait for us. Nobody
 * touches a ring that status->nr_rings does not count. Pages come when they are touched, or before, by
 * storage_populate().
 */
static bool map_more_rings(struct storage *s, unsigned nr)
{
	unsigned missing = nr > s->nr_mapped ? nr - s->nr_mapped : 0;
	unsigned left = IP_RING_MAX - s->nr_mapped, group = left < RING_GROUP ? left : RING_GROUP;

	if (!missing || (missing <= group && map_group(s, group)))
		return true;
	return map_group(s, missing);
}

/* The first ones; in a crowded address space a single one. */
static bool map_rings(struct storage *s)
{
	s->nr_mapped = 0;
	s->base = map_part(s, 0, ring_file_bytes(0));
	if (s->base && (map_group(s, FIRST_RINGS) || map_group(s, 1)))
		return true;
	if (s->base)
		munmap(s->base, ring_file_bytes(0));
	return false;
}

/*
 * A ring file in this folder, open as s->ring_folder_fd, under this name, mapped; false if it cannot be had there. The
 * folder's path is for the trace's header alone.
 */
static bool take_ring_file(struct storage *s, const char *path, const char *prefix, const char *name)
{
	if (s->ring_folder_fd >= 0 && keeps_shared_mappings(s->ring_folder_fd)) {
		snprintf(s->ring_path, sizeof(s->ring_path), "%s/%s%s.ring", path, prefix, name);
		s->ring_fd = ring_file_create(s->ring_folder_fd, strrchr(s->ring_path, '/') + 1);
		if (s->ring_fd < 0)
			s->ring_path[0] = 0; /* if there is a file of this name, it is not ours to remove */
		else if (map_rings(s))
			return true;
	}
	leave_ring_file(s);
	return false;
}

/* A file beside the trace, else in the node's temporary folder. */
static bool take_folder(struct storage *s, const char *dir, const char *name)
{
	s->kind = TFMT_STORAGE_BESIDE;
	s->ring_folder_fd = fcntl(s->folder_fd, F_DUPFD_CLOEXEC, 0);
	if (take_ring_file(s, dir, "", name))
		return true;
	s->kind = TFMT_STORAGE_TEMPORARY;
	s->ring_folder_fd = open(ip_env.temporary, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return take_ring_file(s, ip_env.temporary, "vramtrace-", name);
}

/* Are pages locked, and so taken, as soon as they are mapped (mlockall with MCL_FUTURE)? All rings' would be. */
static bool locks_new_pages(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char present = 0;

	if (p == MAP_FAILED)
		return false;
	if (mincore(p, page, &present))
		present = 0;
	munmap(p, page);
	return present & 1;
}

/* All rings at once, of which those are used that threads ask for; only the first ones where each page is taken. */
static bool take_shared(struct storage *s)
{
	unsigned nr = locks_new_pages() ? FIRST_RINGS : IP_RING_MAX;
	void *base;

	s->kind = TFMT_STORAGE_SHARED;
	s->shared_id = ringmemory_share(ring_file_bytes(nr), &base);
	if (s->shared_id < 0)
		return false;
	s->base = base;
	s->nr_mapped = nr;
	for (unsigned i = 0; i < nr; i++)
		ip_recorder->ring[i] = (struct tfmt_ring *)(s->base + ring_file_bytes(i));
	munlock(s->base, ring_file_bytes(nr));
	madvise(s->base, ring_file_bytes(nr), MADV_DONTFORK);
	madvise(s->base, ring_file_bytes(nr), MADV_DONTDUMP);
	snprintf(s->ring_path, sizeof(s->ring_path), "shm:%d", s->shared_id);
	return true;
}

/* Memory that `run` keeps, too; must_be_kept: or none. */
static bool take_sealed(struct storage *s, bool must_be_kept)
{
	bool is_kept;

	if (must_be_kept && !ip_env.keeper[0])
		return false;
	s->ring_fd = ringmemory_seal(ring_file_bytes(IP_RING_MAX));
	if (s->ring_fd < 0)
		return false;
	if (allocate(s->ring_fd, 0, ring_file_bytes(FIRST_RINGS))) {
		is_kept = ringmemory_hand_over(s->ring_fd);
		s->kind = is_kept ? TFMT_STORAGE_SEALED : TFMT_STORAGE_ANONYMOUS;
		if (is_kept)
			snprintf(s->ring_path, sizeof(s->ring_path), "/proc/%d/task/%d/fd/%d", (int)getpid(),
				 (int)syscall(SYS_gettid), s->ring_fd);
		if ((is_kept || !must_be_kept) && map_rings(s))
			return true;
	}
	close(s->ring_fd);
	s->ring_fd = -1;
	s->ring_path[0] = 0;
	return false;
}

/*
 * Where the rings can be had; false without memory. First what was asked for; then what nobody can cut short and what
 * survives the most. A file can be cut short by anybody who may write it; it comes before memory that nobody keeps.
 */
static bool take_rings(struct storage *s, const char *dir, const char *name)
{
	if (ip_env.rings == IP_RINGS_MEMORY && take_sealed(s, false))
		return true;
	if (ip_env.rings == IP_RINGS_FOLDER && take_folder(s, dir, name))
		return true;
	if (take_shared(s) || take_sealed(s, true) || take_folder(s, dir, name) || take_sealed(s, false))
		return true;
	s->kind = TFMT_STORAGE_ANONYMOUS;
	return map_rings(s);
}

static void status_init(struct tfmt_status *st, unsigned nr_rings, uint64_t start_ns, const char *dir, const char *name)
{
	int len = snprintf(st->trace_path, sizeof(st->trace_path), "%s/%s.vtr", dir, name);

	if (len < 0 || len >= (int)sizeof(st->trace_path))
		st->trace_path[0] = 0;
	st->version = TFMT_RING_VERSION;
	st->pid = (uint32_t)getpid();
	st->image_start_ns = start_ns;
	st->definition_offset = sizeof(*st);
	st->definition_bytes = IP_DEFINITION_BYTES;
	st->ring_offset = sizeof(*st) + IP_DEFINITION_BYTES;
	st->ring_stride = IP_RING_STRIDE;
	st->ring_capacity = IP_RING_CAPACITY;
	st->nr_rings = nr_rings;
	st->check = tfmt_status_check(st);
	__atomic_store_n(&st->magic, TFMT_RING_MAGIC, __ATOMIC_RELEASE);
}

int storage_folder(const char *output, const char *job)
{
	char path[PATH_MAX];

	return folder_open(path, sizeof(path), output, job);
}

enum tfmt_why storage_open(struct storage *s, const char *output, const char *job, const char *host, uint64_t start_ns)
{
	char dir[PATH_MAX - 512], name[NAME_BYTES];
	int err;

	memset(s, 0, sizeof(*s));
	s->trace_fd = s->next_fd = s->folder_fd = s->ring_fd = s->ring_folder_fd = s->shared_id = -1;
	s->folder_fd = folder_open(dir, sizeof(dir), output, job);
	if (s->folder_fd < 0 && errno == FOLDER_NOT_OURS) {
		errno = 0;
		return TFMT_WHY_NOT_OURS;
	}
	if (s->folder_fd < 0)
		return TFMT_WHY_FOLDER;
	snprintf(name, sizeof(name), "%s.%d.%llu", host, (int)getpid(), (unsigned long long)start_ns);
	snprintf(s->trace_name, sizeof(s->trace_name), "%s.vtr" UNPUBLISHED, name);
	s->trace_fd = folder_make_file(s->folder_fd, s->trace_name, O_RDWR);
	if (s->trace_fd < 0) {
		err = errno;
		storage_close(s);
		errno = err;
		return TFMT_WHY_TRACE;
	}
	s->is_locked = lock_trace(s->trace_fd);
	if (!take_rings(s, dir, name)) {
		storage_discard(s);
		errno = ENOMEM;
		return TFMT_WHY_MEMORY;
	}
	status_init((struct tfmt_status *)s->base, s->nr_mapped < FIRST_RINGS ? s->nr_mapped : FIRST_RINGS, start_ns, dir, name);
	return TFMT_WHY_NONE;
}

bool storage_add_rings(struct storage *s, unsigned nr)
{
	struct tfmt_status *st = (struct tfmt_status *)s->base;
	size_t from = ring_file_bytes(st->nr_rings), to = ring_file_bytes(st->nr_rings + nr);

	if (nr > IP_RING_MAX - st->nr_rings || !map_more_rings(s, st->nr_rings + nr) ||
	    (s->ring_fd >= 0 && !allocate(s->ring_fd, from, to)))
		return false;
	__atomic_store_n(&st->nr_rings, st->nr_rings + nr, __ATOMIC_RELEASE);
	return true;
}

bool storage_populate(struct storage *s)
{
	size_t end = ring_file_bytes(s->nr_mapped < FIRST_RINGS ? s->nr_mapped : FIRST_RINGS), head = ring_file_bytes(0);
	size_t at = s->populated_bytes, ring = at < head ? 0 : (at - head) / IP_RING_STRIDE;
	size_t from = at < head ? 0 : ring_file_bytes((unsigned)ring);
	size_t left = (at < head ? head : from + IP_RING_STRIDE) - at;

	if (at >= end)
		return false;
	left = left < POPULATE_BYTES ? left : POPULATE_BYTES;
	madvise((at < head ? s->base : (uint8_t *)ip_recorder->ring[ring]) + (at - from), left, MADV_POPULATE_WRITE);
	s->populated_bytes += left;
	return true;
}

bool storage_publish(struct storage *s)
{
	char name[NAME_MAX + 1];

	snprintf(name, sizeof(name), "%.*s", (int)(strlen(s->trace_name) - strlen(UNPUBLISHED)), s->trace_name);
	if (renameat(s->folder_fd, s->trace_name, s->folder_fd, name))
		return false;
	snprintf(s->trace_name, sizeof(s->trace_name), "%s", name);
	return true;
}

bool storage_is_removed(const struct storage *s)
{
	struct stat st;

	return !fstat(s->trace_fd, &st) && !st.st_nlink;
}

static bool copy_all(int from, int to)
{
	static char piece[COPY_BYTES]; /* the drain's */
	off_t at = 0;
	ssize_t n, done;

	while ((n = pread(from, piece, sizeof(piece), at)) > 0)
		for (ssize_t i = 0; i < n; i += done, at += done)
			if ((done = pwrite(to, piece + i, (size_t)(n - i), at)) <= 0)
				return false;
	return !n;
}

bool storage_restore(struct storage *s)
{
	int folder = storage_folder(ip_env.output, ip_env.job), fd, err;
	char name[NAME_MAX + 1];

	if (folder < 0)
		return false;
	snprintf(name, sizeof(name), "%.*s" UNPUBLISHED, (int)(NAME_MAX - strlen(UNPUBLISHED)), s->trace_name);
	fd = folder_make_file(folder, name, O_RDWR);
	if (fd >= 0 && (lock_trace(fd) || !s->is_locked) && copy_all(s->trace_fd, fd) &&
	    !renameat(folder, name, folder, s->trace_name) && dup3(fd, s->trace_fd, O_CLOEXEC) >= 0) {
		close(fd);
		close(s->folder_fd);
		s->folder_fd = folder;
		return true;
	}
	err = errno;
	if (fd >= 0) {
		unlinkat(folder, name, 0);
		close(fd);
	}
	close(folder);
	errno = err;
	return false;
}

static void next_name(char name[NAME_MAX + 1], const struct storage *s)
{
	snprintf(name, NAME_MAX + 1, "%.*s" UNPUBLISHED, (int)(NAME_MAX - strlen(UNPUBLISHED)), s->trace_name);
}

int storage_open_next(struct storage *s)
{
	char name[NAME_MAX + 1];

	next_name(name, s);
	s->next_fd = folder_make_file(s->folder_fd, name, O_RDWR);
	if (s->next_fd >= 0 && !lock_trace(s->next_fd) && s->is_locked)
		storage_drop_next(s);
	return s->next_fd;
}

bool storage_publish_next(struct storage *s)
{
	char name[NAME_MAX + 1];

	next_name(name, s);
	return !renameat(s->folder_fd, name, s->folder_fd, s->trace_name);
}

void storage_take_next(struct storage *s)
{
	close(s->trace_fd);
	s->trace_fd = s->next_fd;
	s->next_fd = -1;
}

void storage_drop_next(struct storage *s)
{
	char name[NAME_MAX + 1];
	int reason = errno;

	if (s->next_fd < 0)
		return;
	next_name(name, s);
	unlinkat(s->folder_fd, name, 0);
	/* Its space is wanted now, and the kernel may still be busy with the file. */
	while (ftruncate(s->next_fd, 0) && errno == EINTR)
		continue;
	close(s->next_fd);
	errno = reason;
	s->next_fd = -1;
}

bool storage_is_asked(const struct storage *s)
{
	char name[NAME_MAX + 1];
	int len = (int)strlen(s->trace_name) - 4; /* without .vtr */

	snprintf(name, sizeof(name), "%.*s.ask", len > 0 ? len : 0, s->trace_name);
	return !faccessat(s->folder_fd, name, F_OK, 0) && !unlinkat(s->folder_fd, name, 0);
}

void storage_discard(struct storage *s)
{
	unlinkat(s->folder_fd, s->trace_name, 0);
	storage_drop_ring_file(s);
	storage_close(s);
}

void storage_drop_ring_file(struct storage *s)
{
	if (s->ring_folder_fd >= 0 && s->ring_path[0])
		unlinkat(s->ring_folder_fd, strrchr(s->ring_path, '/') + 1, 0);
	if (s->shared_id >= 0)
		ringmemory_unshare(s->shared_id);
	s->shared_id = -1;
	s->ring_path[0] = 0;
}

void storage_close(struct storage *s)
{
	if (s->ring_fd >= 0)
		close(s->ring_fd);
	if (s->trace_fd >= 0)
		close(s->trace_fd);
	if (s->folder_fd >= 0)
		close(s->folder_fd);
	if (s->ring_folder_fd >= 0)
		close(s->ring_folder_fd);
	s->ring_fd = s->trace_fd = s->folder_fd = s->ring_folder_fd = -1;
}
