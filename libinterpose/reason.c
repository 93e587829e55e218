/* SPDX-License-Identifier: MIT */
/* Why a process does not record; see reason.h. */
#include "reason.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "env.h"
#include "interpose.h"
#include "lifecycle.h"
#include "storage.h"

#ifndef F_GET_SEALS
#define F_GET_SEALS 1034
#define F_SEAL_SHRINK 2
#endif

static struct tfmt_witnesses *page;

void ip_reason_init(const char *path)
{
	struct tfmt_witnesses *p;
	struct stat st;
	int fd, seals;

	if (strncmp(path, "/proc/", 6))
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	seals = fcntl(fd, F_GET_SEALS);
	/* Nobody can cut it short while it is mapped here. */
	if (!fstat(fd, &st) && st.st_size == sizeof(*p) && seals >= 0 && seals & F_SEAL_SHRINK) {
		p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED && p->magic == TFMT_WITNESS_MAGIC)
			page = p;
		else if (p != MAP_FAILED)
			munmap(p, sizeof(*p));
	}
	close(fd);
}

void ip_reason_see(void)
{
	struct ip_reason *r = &ip_recorder->reason;
	struct tfmt_witness *w;
	uint32_t nr;

	if (!page || atomic_load_explicit(&r->is_seen, memory_order_relaxed) || atomic_exchange(&r->is_seen, true))
		return;
	nr = atomic_fetch_add(&page->nr, 1);
	if (nr >= TFMT_WITNESS_MAX)
		return;
	w = &page->entry[nr];
	snprintf(w->program, sizeof(w->program), "%.39s", ip_env.script[0] ? ip_env.script : ip_env.program);
	/* First, so that a reason which another thread tells now comes into the entry from there or from here. */
	atomic_store(&r->witness, w);
	atomic_store(&w->error, r->error);
	atomic_store(&w->why, atomic_load(&r->why));
	atomic_store(&w->pid, (uint32_t)getpid());
}

void ip_reason_tell(enum tfmt_why why, int error)
{
	struct ip_reason *r = &ip_recorder->reason;
	uint32_t none = TFMT_WHY_NONE;
	struct tfmt_witness *w;

	ip_reason_see();
	if (!atomic_compare_exchange_strong(&r->why, &none, why))
		return;
	r->error = error;
	w = atomic_load(&r->witness);
	if (!w)
		return;
	atomic_store(&w->error, error);
	atomic_store(&w->why, why);
}

void ip_reason_count(uint64_t nr)
{
	struct ip_reason *r = &ip_recorder->reason;
	struct tfmt_witness *w;

	if (!nr || !atomic_load_explicit(&r->why, memory_order_relaxed))
		return;
	ip_reason_see();
	w = atomic_load_explicit(&r->witness, memory_order_relaxed);
	atomic_fetch_add_explicit(&r->unrecorded, nr, memory_order_relaxed);
	if (w)
		atomic_fetch_add_explicit(&w->unrecorded, nr, memory_order_relaxed);
}

/* True if a file of that name is there now, with this text in it; it is added to what is there if it may not be made. */
static bool write_text(int folder, const char *name, int flags, const char *text, size_t len)
{
	int fd = openat(folder, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	bool done = fd >= 0 && write(fd, text, len) == (ssize_t)len;

	if (fd >= 0)
		close(fd);
	if (fd >= 0 && !done && flags & O_CREAT)
		unlinkat(folder, name, 0);
	return done;
}

/* Where no file can be made, the one with the job's id takes a line more. */
void ip_reason_leave(void)
{
	struct ip_reason *r = &ip_recorder->reason;
	const char *why = tfmt_why_name(atomic_load(&r->why));
	const char *program = ip_env.script[0] ? ip_env.script : ip_env.program;
	unsigned long long nr = atomic_load(&r->unrecorded);
	char name[NAME_MAX + 1], text[768];
	int folder, len;

	folder = *why ? storage_folder(ip_env.output, ip_env.job) : -1;
	if (folder < 0)
		return;
	snprintf(name, sizeof(name), "%.200s.%d.%llu" TFMT_WHY_SUFFIX, ip_env.host, (int)getpid(),
		 (unsigned long long)ip_image_start_ns());
	len = snprintf(text, sizeof(text), "why %s\nerrno %d\nunrecorded %llu\nprogram %s\n", why, r->error, nr, program);
	if (!write_text(folder, name, O_CREAT | O_TRUNC, text, (size_t)len)) {
		len = snprintf(text, sizeof(text), "%d %s %d %llu %s\n", (int)getpid(), why, r->error, nr, program);
		write_text(folder, "job", O_APPEND, text, (size_t)len);
	}
	close(folder);
}
