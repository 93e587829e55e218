/* SPDX-License-Identifier: MIT */
/*
 * Messages under way between the ranks of a simulated NCCL communicator (mailbox.h): queues, waiting,
 * reductions.
 */
#include "simgpu/mailbox_ring.h"
#include "simgpu/patience.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_SECONDS 600
#define FLUSH_SECONDS 60

struct reduction {
	int nr_missing;
	void *dst;
	size_t dst_bytes;
	size_t bytes;			/* of each contribution */
	int nr_ranks;
	sim_combine_fn *combine;
	uint64_t how;
	bool is_known;			/* by this rank's contribution: the ranks are taken to be alike */
	char all[];
};

/* A message under way: still to be put into a ring, or still to be taken out of one. */
struct message {
	struct message *next;
	struct sim_mailbox *box;
	int peer;
	size_t bytes;
	char *data;			/* send: a copy we own; receive: where to, NULL if nobody wants it */
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

static int name_of(const struct sim_mailbox *box, int rank)
{
	return box->names ? box->names[rank] : rank;
}

static int nr_named(const struct sim_mailbox *box)
{
	return box->names ? box->nr_named : box->nr_ranks;
}

static struct message **list_end(struct message **list)
{
	while (*list)
		list = &(*list)->next;
	return list;
}

/* Put MESSAGE into its ring, if there is room. */
static bool push(struct message *message)
{
	return mailbox_push(message->box, message->peer, message->data, message->bytes);
}

static void reduction_finish(struct reduction *reduction)
{
	if (reduction->dst) {
		reduction->combine(reduction->dst, reduction->all, reduction->bytes, reduction->nr_ranks,
				   reduction->how);
		sim_dirty(reduction->dst, reduction->dst_bytes);
		sim_known(reduction->dst, reduction->dst_bytes, reduction->is_known);
	}
	free(reduction);
}

/* Take the message that MESSAGE waits for out of its ring, if it is there. */
static bool pull(struct message *message)
{
	if (!mailbox_pull(message->box, message->peer, message->data, message->bytes))
		return false;
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
static bool must_wait(struct message *list, const struct message *message)
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

		if (must_wait(*list, message) || !step(message)) {
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

/* Where a receive's result goes, for somebody who reads memory. */
static bool writes_to(const struct message *m, const void *p, size_t bytes)
{
	if (m->reduction)
		return m->reduction->dst && overlaps(m->reduction->dst, m->reduction->dst_bytes, p, bytes);
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

/* The oldest message that W wants, or NULL. */
static struct message *find_wanted(const struct wanted *w)
{
	for (struct message *m = receives; m; m = m->next)
		if (is_wanted(m, w))
			return m;
	for (struct message *m = w->sends ? sends : NULL; m; m = m->next)
		if (is_wanted(m, w))
			return m;
	return NULL;
}

static double timeout_seconds(void)
{
	const char *text = getenv("SIMGPU_NCCL_TIMEOUT");
	double value = text ? strtod(text, NULL) : 0;

	return value > 0 ? value : TIMEOUT_SECONDS;
}

/* Nobody waits any more for the messages of LIST that W wants; if BOX is given, for those of its rank PEER. */
static void give_up(struct message *list, const struct wanted *w, const struct sim_mailbox *box, int peer)
{
	for (struct message *m = list; m; m = m->next) {
		if (box ? m->box != box || m->peer != peer : !is_wanted(m, w))
			continue;
		m->is_late = true;
		__atomic_store_n(&m->box->is_failed, true, __ATOMIC_RELAXED);
	}
}

/* M, which W no longer waits for, is the first of its mailbox. What is left at the end is no news. */
static void say_given_up(const struct message *m, const struct wanted *w, const char *why)
{
	if (!m->box->is_failed && !w->sends)
		fprintf(stderr, "simgpu: rank %d of %d: rank %d %s: its messages are no longer waited for\n",
			name_of(m->box, m->box->rank), nr_named(m->box), name_of(m->box, m->peer), why);
}

/*
 * Wait, with the mutex held, until nothing that W wants is under way, or LIMIT seconds have passed in which
 * nothing moved. A wait that is given up fails its mailbox.
 */
static void wait_for(const struct wanted *w, double limit)
{
	struct patience patience = { 0 };

	for (;;) {
		struct message *m;
		bool check;

		while (progress())
			patience = (struct patience){ 0 };
		m = find_wanted(w);
		if (!m)
			return;
		pthread_mutex_unlock(&mutex);
		check = patience_pause(&patience);
		pthread_mutex_lock(&mutex);
		/* Another thread may have moved messages meanwhile: look for M only where it still is. */
		if (!check || progress() || find_wanted(w) != m)
			continue;
		if (patience_mention(&patience))
			fprintf(stderr, "simgpu: rank %d of %d: waiting for rank %d since %d s\n",
				name_of(m->box, m->box->rank), nr_named(m->box), name_of(m->box, m->peer),
				PATIENCE_MENTION_SECONDS);
		if (mailbox_has_ended(m->box, m->peer) && !progress()) {
			say_given_up(m, w, "has ended");
			give_up(receives, NULL, m->box, m->peer);
			give_up(sends, NULL, m->box, m->peer);
		} else if (patience_over(&patience, limit)) {
			say_given_up(m, w, "does not answer");
			give_up(receives, w, NULL, 0);
			give_up(sends, w, NULL, 0);
		}
	}
}

bool sim_mailbox_failed(const struct sim_mailbox *box)
{
	return __atomic_load_n(&box->is_failed, __ATOMIC_RELAXED);
}

static void on_progress(bool wait)
{
	const struct wanted all = { .box = NULL };

	if (!__atomic_load_n(&receives, __ATOMIC_RELAXED) && !__atomic_load_n(&sends, __ATOMIC_RELAXED))
		return;
	pthread_mutex_lock(&mutex);
	if (wait)
		wait_for(&all, timeout_seconds());
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
	wait_for(&into, timeout_seconds());
	pthread_mutex_unlock(&mutex);
}

/*
 * [P, P + BYTES) gets other contents or goes away: a receive posted into it earlier still takes its message,
 * but must not write there any more.
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

struct sim_mailbox *sim_mailbox_open(uint64_t id, int nr_ranks, int rank)
{
	struct sim_mailbox *box = sim_zalloc(sizeof(*box));

	box->id = id;
	box->nr_ranks = nr_ranks;
	box->rank = rank;
	box->pid = getpid();
	mailbox_attach(box);

	pthread_mutex_lock(&mutex);
	sim_progress = on_progress;
	sim_before_read = sim_mailbox_settle;
	sim_before_overwrite = on_overwrite;
	box->next = boxes;
	boxes = box;
	pthread_mutex_unlock(&mutex);
	return box;
}

bool sim_mailbox_join(struct sim_mailbox *box)
{
	struct patience patience = { 0 };
	double limit = timeout_seconds();
	int nr_joined;

	while ((nr_joined = mailbox_nr_joined(box)) < box->nr_ranks) {
		if (!patience_pause(&patience))
			continue;
		for (int peer = 0; peer < box->nr_ranks; peer++)
			if (mailbox_has_ended(box, peer))
				return mailbox_nr_joined(box) == box->nr_ranks;
		if (patience_mention(&patience))
			fprintf(stderr, "simgpu: rank %d: %d of %d ranks have joined after %d s\n",
				name_of(box, box->rank), nr_joined, box->nr_ranks, PATIENCE_MENTION_SECONDS);
		if (patience_over(&patience, limit))
			return false;
	}
	return true;
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
	mailbox_detach(box);
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

void sim_mailbox_name(struct sim_mailbox *box, const int *names, int nr)
{
	box->names = names;
	box->nr_named = nr;
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

/* The caller's memory is only ours until we return: what comes later is dropped. */
bool sim_mailbox_receive_now(struct sim_mailbox *box, int peer, void *dst, size_t bytes)
{
	const struct wanted own = { .box = box };
	struct message *mine, *m;

	pthread_mutex_lock(&mutex);
	mine = post(box, peer, dst, bytes, false);
	wait_for(&own, timeout_seconds());
	for (m = receives; m && m != mine; m = m->next)
		;
	if (m)
		m->data = NULL;
	pthread_mutex_unlock(&mutex);
	return !m;
}

void sim_mailbox_reduce(struct sim_mailbox *box, void *dst, size_t dst_bytes, const void *own, size_t bytes,
			sim_combine_fn *combine, uint64_t how)
{
	struct reduction *r = sim_alloc(sizeof(*r) + bytes * (size_t)box->nr_ranks);

	*r = (struct reduction){
		.nr_missing = box->nr_ranks - 1,
		.dst = dst,
		.dst_bytes = dst_bytes,
		.bytes = bytes,
		.nr_ranks = box->nr_ranks,
		.combine = combine,
		.how = how,
		.is_known = sim_is_known(own, bytes),
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

/*
 * A rank that ends without destroying its communicators still delivers what it sent, and leaves no name
 * behind.
 */
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
		mailbox_unlink(box);
	}
	pthread_mutex_unlock(&mutex);
}
