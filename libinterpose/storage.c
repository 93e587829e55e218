/* SPDX-License-Identifier: MIT */
/* Where a recording lies; see storage.h. */
#include "storage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "env.h"
#include "interpose.h"

#define FIRST_RINGS 4u
#define GENERATION_MAX 10000
#define UNPUBLISHED ".new"

/* Does the directory belong to this job? Writes the job id into a directory that has none. */
static bool directory_is_ours(const char *dir, const char *job)
{
	char path[PATH_MAX], temporary[PATH_MAX], found[256] = "";
	int fd;
	ssize_t n;

	/* The id is complete before it gets its name: another rank never reads half of it. */
	snprintf(path, sizeof(path), "%s/job", dir);
	snprintf(temporary, sizeof(temporary), "%s/job.%d", dir, (int)getpid());
	fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0) {
		bool whole = dprintf(fd, "%s\n", job) == (int)strlen(job) + 1;

		close(fd);
		if (whole)
			(void)!link(temporary, path);
		unlink(temporary);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return false;
	n = read(fd, found, sizeof(found) - 1);
	close(fd);
	found[n > 0 ? n : 0] = 0;
	found[strcspn(found, "\n")] = 0;
	return !strcmp(found, job);
}

/* The generation of the recording that is this job's, made if need be; false if none can be had. */
static bool directory_open(char *dir, size_t size, const char *output, const char *job)
{
	snprintf(dir, size, "%s", output);
	for (int generation = 2; generation < GENERATION_MAX; generation++) {
		if (mkdir(dir, 0700) && errno != EEXIST)
			return false;
		if (directory_is_ours(dir, job))
			return true;
		if (access(dir, W_OK))
			return false;
		snprintf(dir, size, "%s/g%d", output, generation);
	}
	return false;
}

static bool lock_trace(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	return !fcntl(fd, F_OFD_SETLK, &lock);
}

/* File systems on which a shared mapping is not dependable: network and user-space ones. */
static bool keeps_shared_mappings(const char *dir)
{
	static const unsigned long bad[] = { 0x6969 /* nfs */, 0x65735546 /* fuse */, 0xff534d42 /* cifs */,
					     0xfe534d42 /* smb2 */, 0x01021997 /* 9p */, 0x0bd00bd0 /* lustre */ };
	struct statfs fs;

	if (statfs(dir, &fs))
		return false;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (((unsigned long)fs.f_type & 0xffffffff) == bad[i])
			return false;
	return true;
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
static int ring_file_create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -1;
	if (allocate(fd, 0, ring_file_bytes(FIRST_RINGS)))
		return fd;
	close(fd);
	unlink(path);
	return -1;
}

static void choose_ring_file(struct storage *s, const char *dir, const char *name)
{
	s->kind = TFMT_STORAGE_BESIDE;
	snprintf(s->ring_path, sizeof(s->ring_path), "%s/%s.ring", dir, name);
	s->ring_fd = keeps_shared_mappings(dir) ? ring_file_create(s->ring_path) : -1;
	if (s->ring_fd >= 0)
		return;
	s->kind = TFMT_STORAGE_TEMPORARY;
	snprintf(s->ring_path, sizeof(s->ring_path), "%s/vramtrace-%s.ring", ip_env.temporary, name);
	s->ring_fd = keeps_shared_mappings(ip_env.temporary) ? ring_file_create(s->ring_path) : -1;
	if (s->ring_fd >= 0)
		return;
	s->kind = TFMT_STORAGE_ANONYMOUS;
	s->ring_path[0] = 0;
}

/* Map [from, to) of the ring file into the reserved range. */
static bool map_part(struct storage *s, size_t from, size_t to)
{
	int flags = MAP_FIXED | MAP_POPULATE | (s->ring_fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	void *p = mmap(s->base + from, to - from, PROT_READ | PROT_WRITE, flags, s->ring_fd, (off_t)from);

	if (p == MAP_FAILED)
		return false;
	madvise(p, to - from, MADV_DONTFORK);
	return true;
}

static bool map_rings(struct storage *s)
{
	s->base = mmap(NULL, ring_file_bytes(IP_RING_MAX), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (s->base == MAP_FAILED)
		return false;
	madvise(s->base, ring_file_bytes(IP_RING_MAX), MADV_DONTFORK);
	return map_part(s, 0, ring_file_bytes(FIRST_RINGS));
}

static void status_init(struct tfmt_status *st, uint64_t start_ns)
{
	st->version = TFMT_VERSION;
	st->pid = (uint32_t)getpid();
	st->image_start_ns = start_ns;
	st->definition_offset = sizeof(*st);
	st->definition_bytes = IP_DEFINITION_BYTES;
	st->ring_offset = sizeof(*st) + IP_DEFINITION_BYTES;
	st->ring_stride = IP_RING_STRIDE;
	st->ring_capacity = IP_RING_CAPACITY;
	st->nr_rings = FIRST_RINGS;
	__atomic_store_n(&st->magic, TFMT_RING_MAGIC, __ATOMIC_RELEASE);
}

bool storage_open(struct storage *s, const char *output, const char *job, const char *host, uint64_t start_ns)
{
	char dir[PATH_MAX - 512], name[400];

	memset(s, 0, sizeof(*s));
	s->trace_fd = s->ring_fd = -1;
	if (!directory_open(dir, sizeof(dir), output, job))
		return false;
	snprintf(name, sizeof(name), "%s.%d.%llu", host, (int)getpid(), (unsigned long long)start_ns);
	snprintf(s->trace_path, sizeof(s->trace_path), "%s/%s.vtr" UNPUBLISHED, dir, name);
	s->trace_fd = open(s->trace_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->trace_fd < 0)
		return false;
	lock_trace(s->trace_fd);
	choose_ring_file(s, dir, name);
	if (!map_rings(s)) {
		storage_discard(s);
		return false;
	}
	status_init((struct tfmt_status *)s->base, start_ns);
	return true;
}

bool storage_add_rings(struct storage *s, unsigned nr)
{
	struct tfmt_status *st = (struct tfmt_status *)s->base;
	size_t from = ring_file_bytes(st->nr_rings), to = ring_file_bytes(st->nr_rings + nr);

	if (nr > IP_RING_MAX - st->nr_rings || (s->ring_fd >= 0 && !allocate(s->ring_fd, from, to)) || !map_part(s, from, to))
		return false;
	__atomic_store_n(&st->nr_rings, st->nr_rings + nr, __ATOMIC_RELEASE);
	return true;
}

bool storage_publish(struct storage *s)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%.*s", (int)(strlen(s->trace_path) - strlen(UNPUBLISHED)), s->trace_path);
	if (rename(s->trace_path, name))
		return false;
	snprintf(s->trace_path, sizeof(s->trace_path), "%s", name);
	return true;
}

void storage_discard(struct storage *s)
{
	unlink(s->trace_path);
	storage_drop_ring_file(s);
	storage_close(s);
}

void storage_drop_ring_file(struct storage *s)
{
	if (s->ring_path[0])
		unlink(s->ring_path);
	s->ring_path[0] = 0;
}

void storage_close(struct storage *s)
{
	if (s->ring_fd >= 0)
		close(s->ring_fd);
	if (s->trace_fd >= 0)
		close(s->trace_fd);
	s->ring_fd = s->trace_fd = -1;
}
