/* SPDX-License-Identifier: MIT */
/* The ranks of a large job that run: their list, places and environment (ranks.h). */
#include "analyzer/launch/ranks.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"

#define GPUS_PER_NODE 8
#define STORE_PATIENCE_MS 1000 /* for the rendezvous store to end */
#define NODE_GPUS_MAX 64 /* of one simulated machine */

/* ---- the list -------------------------------------------------------------------------------- */

static int malformed(const char *list)
{
	message_error("cannot understand '--ranks %s'; expected ranks and ranges, as in 0,17 or 0-3,8", list);
	return RUN_TROUBLE;
}

static int add_rank(struct ranks *r, const char *list, unsigned long rank)
{
	if (rank >= r->world_size) {
		message_error("'--ranks %s': there is no rank %lu; %u GPUs have ranks 0 to %u", list, rank,
			      r->world_size, r->world_size - 1);
		return RUN_TROUBLE;
	}
	for (size_t i = 0; i < r->nr; i++) {
		if (r->rank[i] == rank) {
			message_error("'--ranks %s' names rank %lu twice", list, rank);
			return RUN_TROUBLE;
		}
	}
	r->rank[r->nr++] = (unsigned)rank;
	return 0;
}

/* "17" or "0-3" at *text, which is moved after it. */
static int add_range(struct ranks *r, const char *list, const char **text)
{
	unsigned long first, last;
	int status = 0;
	char *end;

	if (!isdigit((unsigned char)**text))
		return malformed(list);
	first = last = strtoul(*text, &end, 10);
	if (*end == '-') {
		if (!isdigit((unsigned char)end[1]))
			return malformed(list);
		last = strtoul(end + 1, &end, 10);
	}
	*text = end;
	if (last < first)
		return malformed(list);
	for (unsigned long rank = first; rank <= last && !status; rank++)
		status = add_rank(r, list, rank);
	return status;
}

static int ascending(const void *a, const void *b)
{
	unsigned ra = *(const unsigned *)a, rb = *(const unsigned *)b;

	return ra < rb ? -1 : ra > rb;
}

/* r->list, from the numbers. */
static void write_list(struct ranks *r)
{
	size_t size = r->nr * 12 + 1, n = 0;

	r->list = heap_alloc(size, 1);
	for (size_t i = 0; i < r->nr; i++)
		n += (size_t)snprintf(r->list + n, size - n, "%s%u", i ? "," : "", r->rank[i]);
}

int ranks_parse(struct ranks *r, const char *list, unsigned world_size, int64_t gpus_per_node)
{
	const char *text = list;
	int status;

	if (gpus_per_node < 0 || gpus_per_node > NODE_GPUS_MAX) {
		message_error("'--gpus-per-node' takes a number from 1 to %d", NODE_GPUS_MAX);
		return RUN_TROUBLE;
	}
	r->world_size = world_size;
	r->gpus_per_node = gpus_per_node ? (unsigned)gpus_per_node : GPUS_PER_NODE;
	r->rank = heap_alloc(world_size, sizeof(*r->rank));
	status = add_range(r, list, &text);
	while (!status && *text == ',') {
		text++;
		status = add_range(r, list, &text);
	}
	if (!status && *text)
		status = malformed(list);
	if (status)
		return status;
	qsort(r->rank, r->nr, sizeof(*r->rank), ascending);
	write_list(r);
	return 0;
}

void ranks_release(struct ranks *r)
{
	ranks_release_port(r);
	free(r->rank);
	free(r->list);
	free(r->program);
	*r = (struct ranks)RANKS_INIT;
}

/* ---- places ---------------------------------------------------------------------------------- */

static unsigned node_of(const struct ranks *r, unsigned rank)
{
	return rank / r->gpus_per_node;
}

static unsigned nr_nodes(const struct ranks *r)
{
	return node_of(r, r->world_size - 1) + 1;
}

/* GPUs of one node: the last may have fewer. */
static unsigned gpus_of(const struct ranks *r, unsigned node)
{
	unsigned left = r->world_size - node * r->gpus_per_node;

	return left < r->gpus_per_node ? left : r->gpus_per_node;
}

unsigned ranks_node_gpus(const struct ranks *r)
{
	return gpus_of(r, 0);
}

/* The file through which the ranks of a node share its GPUs: base's own with the node's number appended. */
static void name_share(struct gpu_share *share, const struct gpu_share *base, unsigned node)
{
	share->is_inherited = base->is_inherited;
	if ((size_t)snprintf(share->path, sizeof(share->path), "%s.node%u", base->path, node) >=
	    sizeof(share->path))
		*share->path = 0;
}

void ranks_remove_shares(const struct ranks *r, const struct gpu_share *base)
{
	struct gpu_share share;

	for (size_t i = 0; i < r->nr; i++) {
		name_share(&share, base, node_of(r, r->rank[i]));
		gpushare_remove(&share);
	}
}

/*
 * The port is ours as long as the socket is bound; one that does not listen lets another be bound beside it, when both
 * allow it, as PyTorch's store does.
 */
int ranks_reserve_port(struct ranks *r)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t size = sizeof(address);
	int on = 1;

	r->port_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (r->port_fd < 0 || setsockopt(r->port_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(r->port_fd, (struct sockaddr *)&address, size) ||
	    getsockname(r->port_fd, (struct sockaddr *)&address, &size)) {
		message_error("cannot get a port for the ranks' rendezvous: %s", strerror(errno));
		return RUN_TROUBLE;
	}
	r->port = ntohs(address.sin_port);
	return 0;
}

void ranks_release_port(struct ranks *r)
{
	static const struct timespec pause = { .tv_nsec = 1000000 };
	struct sockaddr_un store = { .sun_family = AF_UNIX };
	int fd, len;

	if (r->port_fd < 0)
		return;
	close(r->port_fd);
	r->port_fd = -1;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* An abstract name, which begins with a zero; as simgpu/python/simgpu_ranks/store.py binds it. */
	len = snprintf(store.sun_path + 1, sizeof(store.sun_path) - 1, "vramtrace-store-%u", r->port);
	/* Until nobody has that name any more: then nothing of the job is left when we end. */
	for (int i = 0; i < STORE_PATIENCE_MS; i++) {
		if (sendto(fd, "", 1, MSG_DONTWAIT, (struct sockaddr *)&store,
			   (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) < 0 &&
		    errno == ECONNREFUSED)
			break;
		nanosleep(&pause, NULL);
	}
	close(fd);
}

/* ---- environment ----------------------------------------------------------------------------- */

static bool set_number(const char *name, unsigned long number)
{
	char text[24];

	snprintf(text, sizeof(text), "%lu", number);
	return !setenv(name, text, 1);
}

static bool set_torchrun(const struct ranks *r, unsigned rank, const char *job)
{
	unsigned node = node_of(r, rank);

	return set_number("RANK", rank) && set_number("LOCAL_RANK", rank % r->gpus_per_node) &&
	       set_number("WORLD_SIZE", r->world_size) && set_number("LOCAL_WORLD_SIZE", gpus_of(r, node)) &&
	       set_number("GROUP_RANK", node) && set_number("GROUP_WORLD_SIZE", nr_nodes(r)) &&
	       set_number("ROLE_RANK", rank) && set_number("ROLE_WORLD_SIZE", r->world_size) &&
	       !setenv("ROLE_NAME", "default", 1) && !setenv("MASTER_ADDR", "127.0.0.1", 1) &&
	       set_number("MASTER_PORT", r->port) && !setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1) &&
	       !setenv("TORCHELASTIC_RUN_ID", job ? job : "none", 1) &&
	       set_number("TORCHELASTIC_RESTART_COUNT", 0) && set_number("TORCHELASTIC_MAX_RESTARTS", 0) &&
	       !setenv("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1", 0) && !setenv("OMP_NUM_THREADS", "1", 0);
}

/* Above so many ranks PyTorch takes communicator ids from several ranks, which would all have to be there. */
static bool set_absent(const struct ranks *r, const struct preload *p)
{
	const char *old = getenv("PYTHONPATH");
	char *path;
	bool done;

	if (asprintf(&path, "%s/python%s%s", p->simgpu, old && *old ? ":" : "", old ? old : "") < 0)
		return false;
	done = !setenv("PYTHONPATH", path, 1) && !setenv("SIMGPU_RANKS", r->list, 1) &&
	       set_number("SIMGPU_RANKS_OF", (unsigned long)getppid()) &&
	       set_number("TORCH_NCCL_RANKS_PER_ROOT", RANKS_MAX_WORLD);
	free(path);
	return done;
}

int ranks_enter(const struct ranks *r, unsigned rank, const struct preload *p, struct preload_plan *plan,
		const char *job)
{
	struct gpu_share share;

	plan->nr_gpus = gpus_of(r, node_of(r, rank));
	name_share(&share, &plan->share, node_of(r, rank));
	plan->share = share;
	if (set_torchrun(r, rank, job) && set_absent(r, p))
		return 0;
	message_error("cannot set the environment of rank %u: %s", rank, strerror(errno));
	return RUN_TROUBLE;
}
