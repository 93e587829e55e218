/* SPDX-License-Identifier: MIT */
/* NCCL communicators of which only some ranks run (nccl_absent.h). */
#include "simgpu/nccl_absent.h"
#include "simgpu/nccl_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG "simgpu:"

/* What the configuration of a communicator says. */
struct statement {
	int size;
	const char *present;		/* "0,3" */
	bool peer_is_present;
};

static bool read_statement(const ncclConfig_t *config, struct statement *s)
{
	const char *text = config ? config->netName : NULL, *peer;
	char *end;

	if (!text || strncmp(text, TAG, strlen(TAG)))
		return false;
	s->size = (int)strtol(text + strlen(TAG), &end, 10);
	if (*end != ':')
		return false;
	s->present = end + 1;
	peer = strchr(s->present, ':');
	s->peer_is_present = peer && peer[1] == '1';
	return s->size > 0;
}

int nccl_stated_size(const ncclConfig_t *config)
{
	struct statement s;

	return read_statement(config, &s) ? s.size : 0;
}

/* Mark the ranks of LIST, "0,3" up to its end or a colon, as present. */
static void mark_list(struct nccl_presence *p, const char *list, int nr_ranks)
{
	while (*list >= '0' && *list <= '9') {
		char *end;
		long rank = strtol(list, &end, 10);

		if (rank < nr_ranks)
			p->place[rank] = 0;
		list = *end == ',' ? end + 1 : end;
	}
}

/* Present ranks are numbered in their order. */
static void number_places(struct nccl_presence *p, int nr_ranks)
{
	for (int rank = 0; rank < nr_ranks; rank++) {
		if (p->place[rank] < 0)
			continue;
		if (!p->nr_present)
			p->stand_in = rank;
		p->present[p->nr_present] = rank;
		p->place[rank] = p->nr_present++;
	}
}

static int job_size(void)
{
	const char *size = getenv("WORLD_SIZE");

	return size ? atoi(size) : 0;
}

/* Several ranks are named, and which of them are in this communicator nobody has said. */
static void tell_unknown(int nr_ranks, const char *named)
{
	static bool told;

	if (strchr(named, ',') && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		dprintf(STDERR_FILENO,
			"simgpu: which ranks of a communicator of %d are among %s is not known: the others are "
			"taken as absent\n",
			nr_ranks, named);
}

void nccl_presence_init(struct nccl_presence *p, int nr_ranks, int rank, const ncclConfig_t *config)
{
	const char *named = getenv("SIMGPU_RANKS");
	struct statement s;

	*p = (struct nccl_presence){ .nr_present = nr_ranks };
	if (!named || !*named)
		return;
	p->nr_present = 0;
	p->place = sim_alloc((size_t)nr_ranks * sizeof(*p->place));
	p->present = sim_alloc((size_t)nr_ranks * sizeof(*p->present));
	memset(p->place, -1, (size_t)nr_ranks * sizeof(*p->place));
	p->place[rank] = 0;
	if (read_statement(config, &s) && s.size == nr_ranks)
		mark_list(p, s.present, nr_ranks);
	else if (read_statement(config, &s) && nr_ranks == 2 && s.peer_is_present)
		p->place[!rank] = 0;
	else if (!read_statement(config, &s) && nr_ranks == job_size())
		mark_list(p, named, nr_ranks);
	else if (!read_statement(config, &s) && nr_ranks > 1)
		tell_unknown(nr_ranks, named);
	number_places(p, nr_ranks);
}

void nccl_presence_release(struct nccl_presence *p)
{
	free(p->place);
	free(p->present);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Receives of a thread's group, from absent ranks and from itself, until the group is complete. */
static __thread struct exchange {
	ncclComm_t comm;
	void *dst;
	size_t bytes;
	bool is_own;
} *exchanges;
static __thread int nr_exchanges;

static void put_off(ncclComm_t comm, void *dst, size_t bytes, bool is_own)
{
	exchanges = sim_realloc(exchanges, (size_t)(nr_exchanges + 1) * sizeof(*exchanges));
	exchanges[nr_exchanges++] = (struct exchange){ comm, dst, bytes, is_own };
}

static const struct exchange *own_message(ncclComm_t comm, size_t bytes)
{
	for (int i = 0; i < nr_exchanges; i++)
		if (exchanges[i].is_own && exchanges[i].comm == comm && exchanges[i].bytes == bytes)
			return &exchanges[i];
	return NULL;
}

void nccl_group_complete(void)
{
	for (int i = 0; i < nr_exchanges; i++) {
		const struct exchange *to = &exchanges[i];
		const struct exchange *from = to->is_own ? NULL : own_message(to->comm, to->bytes);

		if (!from)
			continue;
		sim_mailbox_settle(from->dst, from->bytes);
		memcpy(to->dst, from->dst, to->bytes);
		sim_dirty(to->dst, to->bytes);
	}
	free(exchanges);
	exchanges = NULL;
	nr_exchanges = 0;
}

void nccl_send(ncclComm_t comm, int peer, const void *src, size_t bytes)
{
	int place = nccl_place(&comm->presence, peer);

	if (place >= 0)
		sim_mailbox_send(comm->box, place, src, bytes);
}

void nccl_receive(ncclComm_t comm, int peer, void *dst, size_t bytes)
{
	int place = nccl_place(&comm->presence, peer);

	if (comm->presence.place && nccl_in_group() && (place < 0 || peer == comm->rank))
		put_off(comm, dst, bytes, place >= 0);
	if (place >= 0)
		sim_mailbox_receive(comm->box, place, dst, bytes);
}

/* As a combination: put what the present ranks have sent where all ranks belong. HOW is the communicator. */
static void spread(void *dst, const void *all, size_t bytes, int nr_present, uint64_t how)
{
	const struct ncclComm *comm = (const struct ncclComm *)(uintptr_t)how;

	(void)nr_present;
	for (int rank = 0; rank < comm->nr_ranks; rank++) {
		int place = nccl_place(&comm->presence, nccl_root(&comm->presence, rank));

		memcpy((char *)dst + (size_t)rank * bytes, (const char *)all + (size_t)place * bytes, bytes);
	}
}

void nccl_receive_all(ncclComm_t comm, void *dst, const void *own, size_t bytes)
{
	sim_mailbox_reduce(comm->box, dst, bytes * (size_t)comm->nr_ranks, own, bytes, spread,
			   (uint64_t)(uintptr_t)comm);
}
