/* SPDX-License-Identifier: MIT */
/* Shared-memory messages between the ranks of a simulated NCCL communicator (mailbox.h). */
#include "simgpu/mailbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
#define STALE_SECONDS 3600		/* an object that nobody completed for so long belongs to a crashed job */
#define POLL_NS 50000
#define PATIENCE_SECONDS 60		/* before a wait is mentioned */
#define FLUSH_SECONDS 5

/* Written by one rank, read by another. Positions count bytes and never wrap. */
struct ring {
	_Atomic uint64_t head;
	char pad0[56];
	_Atomic uint64_t tail;
	char pad1[56];
	char data[2 * SIM_MESSAGE_MAX - 128];
};

struct shared {
	_Atomic uint32_t nr_joined;
	char pad[4092];
	struct ring rings[];		/* [from * nr_ranks + to] */
};

struct sim_mailbox {
	uint64_t id;
	int nr_ranks, rank;
	struct shared *shared;
	size_t shared_bytes;
	char name[48];
	pid_t pid;			/* a fork child inherits the mailbox but is no rank */
	bool *is_populated;		/* by peer: the ring to it has its memory */
	struct sim_mailbox *next;
};

struct reduction {
	int nr_missing;
	void *dst;
	size_t bytes;
	int nr_ranks;
	sim_combine_fn *combine;
	uint64_t how;
	char all[];
};

/* A message under way: still to be put into a ring, or still to be taken out of one. */
struct message {
	struct message *next;
	struct sim_mailbox *box;
	int peer;
	size_t bytes;
	char *data;			/* send: a copy we own; receive: where to; NULL: nobody wants it any more */
	bool is_device;			/* receive into device memory */
	bool is_late;			/* waited for in vain: no longer waited for */
	struct reduction *reduction;
	unsigned group;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct sim_mailbox *boxes;
static struct message *sends, *receives;	/* oldest first */
static unsigned last_group;
static __thread unsigned group;			/* 0: not in a group */

static struct message **list_end(struct message **list)
{
	while (*list)
		list = &(*list)->next;
	return list;
}

static struct ring *ring_of(const struct sim_mailbox *box, int from, int to)
{
	return &box->shared->rings[(size_t)from * (size_t)box->nr_ranks + (size_t)to];
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
		sim_host_limit("shared memory (/dev/shm)", "make it larger: docker run --shm-size, or mount -o size=");
}

/* Put MESSAGE into its ring if there is room: its length, then its bytes. */
static bool push(struct message *message)
{
	struct ring *ring = ring_of(message->box, message->box->rank, message->peer);
	uint64_t length = message->bytes, head;

	ring_populate(message->box, message->peer);
	head = atomic_load_explicit(&ring->head, memory_order_relaxed);
	if (sizeof(ring->data) - (head - atomic_load_explicit(&ring->tail, memory_order_acquire)) <
	    sizeof(length) + message->bytes)
		return false;
	ring_copy(ring, head, &length, sizeof(length), true);
	ring_copy(ring, head + sizeof(length), message->data, message->bytes, true);
	atomic_store_explicit(&ring->head, head + sizeof(length) + message->bytes, memory_order_release);
	return true;
}

static void reduction_finish(struct reduction *reduction)
{
	if (reduction->dst) {
		reduction->combine(reduction->dst, reduction->all, reduction->bytes, reduction->nr_ranks,
				   reduction->how);
		sim_dirty(reduction->dst, reduction->bytes);
	}
	free(reduction);
}

/* Take the message that MESSAGE waits for out of its ring if it is there; what does not fit is cut off. */
static bool pull(struct message *message)
{
	struct ring *ring = ring_of(message->box, message->peer, message->box->rank);
	uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed), length;
	size_t bytes;

	if (atomic_load_explicit(&ring->head, memory_order_acquire) == tail)
		return false;
	ring_copy(ring, tail, &length, sizeof(length), false);
	bytes = length < message->bytes ? length : message->bytes;
	if (message->data)
		ring_copy(ring, tail + sizeof(length), message->data, bytes, false);
	atomic_store_explicit(&ring->tail, tail + sizeof(length) + length, memory_order_release);

	if (message->data && message->is_device)
		sim_dirty(message->data, message->bytes);
	if (message->reduction && !--message->reduction->nr_missing)
		reduction_finish(message->reduction);
	return true;
}

static bool overlaps(const void *p, size_t p_bytes, const void *q, size_t q_bytes)
{
	return (const char *)p < (const char *)q + q_bytes && (const char *)q < (const char *)p + p_bytes;
}

/* Whether an older message of LIST goes first: one of the same pair, or one into the same memory. */
static bool is_behind(struct message *list, const struct message *message)
{
	for (struct message *m = list; m != message; m = m->next)
		if ((m->box == message->box && m->peer == message->peer) ||
		    (m->is_device && message->is_device && m->data && message->data &&
		     overlaps(m->data, m->bytes, message->data, message->bytes)))
			return true;
	return false;
}

/* Move what can move, once over LIST; returns whether anything did. */
static bool advance(struct message **list, bool (*step)(struct message *))
{
	struct message **link = list;
	bool moved = false;

	while (*link) {
		struct message *message = *link;

		if (is_behind(*list, message) || !step(message)) {
			link = &message->next;
			continue;
		}
		*link = message->next;
		if (step == push)
			free(message->data);
		free(message);
		moved = true;
	}
	return moved;
}

static bool progress(void)
{
	bool sent = advance(&sends, push);

	return advance(&receives, pull) || sent;
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Where a receive's result goes, for somebody who reads memory. */
static bool writes_to(const struct message *m, const void *p, size_t bytes)
{
	if (m->reduction)
		return m->reduction->dst && overlaps(m->reduction->dst, m->reduction->bytes, p, bytes);
	return m->data && m->is_device && overlaps(m->data, m->bytes, p, bytes);
}

/* What a wait is for. */
struct wanted {
	const struct sim_mailbox *box;	/* receives of one mailbox; NULL: of all */
	bool sends;			/* its sends too */
	const void *p;			/* only receives into this memory, if not NULL */
	size_t bytes;
	unsigned not_group;		/* but none of this group */
};

static bool is_wanted(const struct message *m, const struct wanted *w)
{
	return !m->is_late && (!w->box || m->box == w->box) && (!w->p || writes_to(m, w->p, w->bytes)) &&
	       (!w->not_group || m->group != w->not_group);
}

static struct message *find_wanted(struct message *list, const struct wanted *w)
{
	while (list && !is_wanted(list, w))
		list = list->next;
	return list;
}

/*
 * Wait, with the mutex held, until nothing that W wants is under way. A peer that lets us wait for PATIENCE is
 * mentioned once and its messages no longer waited for: the program could have gone on without them on a GPU, where
 * a synchronisation waits for less than all that is posted here.
 */
static void wait_for(const struct wanted *w, double patience)
{
	static const struct timespec pause = { .tv_nsec = POLL_NS };
	double start = 0;

	for (;;) {
		struct message *m;

		while (progress())
			start = 0;
		m = find_wanted(receives, w);
		if (!m && w->sends)
			m = find_wanted(sends, w);
		if (!m)
			return;
		if (!start)
			start = seconds();
		if (seconds() - start > patience) {
			if (patience >= PATIENCE_SECONDS)
				fprintf(stderr, "simgpu: rank %d of %d: nothing came from rank %d for %d s, going on\n",
					m->box->rank, m->box->nr_ranks, m->peer, PATIENCE_SECONDS);
			for (m = receives; m; m = m->next)
				m->is_late |= is_wanted(m, w);
			if (w->sends)
				return;
			continue;
		}
		pthread_mutex_unlock(&mutex);
		nanosleep(&pause, NULL);
		pthread_mutex_lock(&mutex);
	}
}

static void on_progress(bool wait)
{
	const struct wanted all = { .box = NULL };

	if (!__atomic_load_n(&receives, __ATOMIC_RELAXED) && !__atomic_load_n(&sends, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&mutex);
	if (wait)
		wait_for(&all, PATIENCE_SECONDS);
	else
		progress();
	pthread_mutex_unlock(&mutex);
}

void sim_mailbox_settle(const void *p, size_t bytes)
{
	const struct wanted into = { .p = p, .bytes = bytes, .not_group = group };

	if (!__atomic_load_n(&receives, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&mutex);
	wait_for(&into, PATIENCE_SECONDS);
	pthread_mutex_unlock(&mutex);
}

/*
 * [P, P + BYTES) gets other contents or goes away: a receive posted into it earlier still takes its message, but
 * must not write there any more.
 */
static void on_overwrite(const void *p, size_t bytes)
{
	if (!__atomic_load_n(&receives, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&mutex);
	for (struct message *m = receives; m; m = m->next) {
		if (!writes_to(m, p, bytes))
			continue;
		if (m->reduction)
			m->reduction->dst = NULL;
		else
			m->data = NULL;
	}
	pthread_mutex_unlock(&mutex);
}

void sim_mailbox_group_begin(void)
{
	group = __atomic_add_fetch(&last_group, 1, __ATOMIC_RELAXED);
}

void sim_mailbox_group_end(void)
{
	group = 0;
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
		    time(NULL) - st.st_mtime > STALE_SECONDS)
			unlinkat(dirfd(dir), entry->d_name, 0);
	closedir(dir);
}

struct sim_mailbox *sim_mailbox_open(uint64_t id, int nr_ranks, int rank)
{
	struct sim_mailbox *box = sim_zalloc(sizeof(*box));
	void *map;
	int fd;

	box->id = id;
	box->nr_ranks = nr_ranks;
	box->rank = rank;
	box->pid = getpid();
	box->is_populated = sim_zalloc((size_t)nr_ranks * sizeof(*box->is_populated));
	box->shared_bytes = sizeof(struct shared) + sizeof(struct ring) * (size_t)nr_ranks * (size_t)nr_ranks;
	snprintf(box->name, sizeof(box->name), "/" NAME_PREFIX "%016llx", (unsigned long long)id);
	reap();
	/* Both steps do nothing when another rank was first: no rendezvous is needed. */
	fd = shm_open(box->name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, (off_t)box->shared_bytes))
		sim_host_limit("shared memory (/dev/shm)", "check that /dev/shm is mounted and writable");
	map = mmap(NULL, box->shared_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	if (map == MAP_FAILED)
		sim_host_limit("address space", "raise ulimit -v");
	box->shared = map;

	pthread_mutex_lock(&mutex);
	sim_progress = on_progress;
	sim_before_read = sim_mailbox_settle;
	sim_before_overwrite = on_overwrite;
	box->next = boxes;
	boxes = box;
	pthread_mutex_unlock(&mutex);
	if (atomic_fetch_add(&box->shared->nr_joined, 1) + 1 == (uint32_t)nr_ranks)
		shm_unlink(box->name);
	return box;
}

void sim_mailbox_join(struct sim_mailbox *box)
{
	static const struct timespec pause = { .tv_nsec = POLL_NS };
	double start = seconds();

	while (atomic_load(&box->shared->nr_joined) < (uint32_t)box->nr_ranks) {
		if (start && seconds() - start > PATIENCE_SECONDS) {
			fprintf(stderr, "simgpu: rank %d: %u of %d ranks have joined a communicator after %d s, waiting\n",
				box->rank, atomic_load(&box->shared->nr_joined), box->nr_ranks, PATIENCE_SECONDS);
			start = 0;
		}
		nanosleep(&pause, NULL);
	}
}

/* Forget the messages of BOX in LIST. */
static void drop(struct message **list, const struct sim_mailbox *box, bool owns_data)
{
	while (*list) {
		struct message *m = *list;

		if (m->box != box) {
			list = &m->next;
			continue;
		}
		*list = m->next;
		if (owns_data)
			free(m->data);
		if (m->reduction && !--m->reduction->nr_missing)
			free(m->reduction);
		free(m);
	}
}

void sim_mailbox_close(struct sim_mailbox *box, bool flush)
{
	const struct wanted own = { .box = box, .sends = true };

	pthread_mutex_lock(&mutex);
	if (flush)
		wait_for(&own, FLUSH_SECONDS);
	drop(&sends, box, true);
	drop(&receives, box, false);
	for (struct sim_mailbox **link = &boxes; *link; link = &(*link)->next)
		if (*link == box) {
			*link = box->next;
			break;
		}
	pthread_mutex_unlock(&mutex);
	munmap(box->shared, box->shared_bytes);
	free(box->is_populated);
	free(box);
}

int sim_mailbox_rank(const struct sim_mailbox *box)
{
	return box->rank;
}

int sim_mailbox_nr_ranks(const struct sim_mailbox *box)
{
	return box->nr_ranks;
}

uint64_t sim_mailbox_id(const struct sim_mailbox *box)
{
	return box->id;
}

static struct message *message_new(struct sim_mailbox *box, int peer, size_t bytes)
{
	struct message *m = sim_zalloc(sizeof(*m));

	m->box = box;
	m->peer = peer;
	m->bytes = bytes;
	m->group = group;
	return m;
}

void sim_mailbox_send(struct sim_mailbox *box, int peer, const void *src, size_t bytes)
{
	struct message *m = message_new(box, peer, bytes);

	m->data = sim_alloc(bytes ? bytes : 1);
	memcpy(m->data, src, bytes);
	pthread_mutex_lock(&mutex);
	*list_end(&sends) = m;
	progress();
	pthread_mutex_unlock(&mutex);
}

static struct message *post(struct sim_mailbox *box, int peer, void *dst, size_t bytes, bool is_device)
{
	struct message *m = message_new(box, peer, bytes);

	m->data = dst;
	m->is_device = is_device;
	*list_end(&receives) = m;
	return m;
}

void sim_mailbox_receive(struct sim_mailbox *box, int peer, void *dst, size_t bytes)
{
	pthread_mutex_lock(&mutex);
	post(box, peer, dst, bytes, true);
	progress();
	pthread_mutex_unlock(&mutex);
}

/* The caller's memory is only ours until we return, so this waits as long as it takes. */
void sim_mailbox_receive_now(struct sim_mailbox *box, int peer, void *dst, size_t bytes)
{
	const struct wanted own = { .box = box };
	struct message *mine, *m;

	pthread_mutex_lock(&mutex);
	mine = post(box, peer, dst, bytes, false);
	do {
		mine->is_late = false;
		wait_for(&own, PATIENCE_SECONDS);
		for (m = receives; m && m != mine; m = m->next)
			;
	} while (m);
	pthread_mutex_unlock(&mutex);
}

void sim_mailbox_reduce(struct sim_mailbox *box, void *dst, const void *own, size_t bytes, sim_combine_fn *combine,
			uint64_t how)
{
	struct reduction *r = sim_alloc(sizeof(*r) + bytes * (size_t)box->nr_ranks);

	*r = (struct reduction){
		.nr_missing = box->nr_ranks - 1,
		.dst = dst,
		.bytes = bytes,
		.nr_ranks = box->nr_ranks,
		.combine = combine,
		.how = how,
	};
	memcpy(r->all + bytes * (size_t)box->rank, own, bytes);
	pthread_mutex_lock(&mutex);
	if (!r->nr_missing)
		reduction_finish(r);
	for (int peer = 0; peer < box->nr_ranks; peer++)
		if (peer != box->rank)
			post(box, peer, r->all + bytes * (size_t)peer, bytes, false)->reduction = r;
	progress();
	pthread_mutex_unlock(&mutex);
}

/* A rank that ends without destroying its communicators still delivers what it sent, and leaves no name behind. */
__attribute__((destructor)) static void finish(void)
{
	if (pthread_mutex_trylock(&mutex))
		return;
	for (struct sim_mailbox *box = boxes; box; box = box->next) {
		const struct wanted own = { .box = box, .sends = true };

		if (box->pid != getpid())
			continue;
		drop(&receives, box, false);
		wait_for(&own, FLUSH_SECONDS);
		if (atomic_load(&box->shared->nr_joined) < (uint32_t)box->nr_ranks)
			shm_unlink(box->name);
	}
	pthread_mutex_unlock(&mutex);
}
