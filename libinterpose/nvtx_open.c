/* SPDX-License-Identifier: MIT */
/*
 * NVTX ranges that are open before there is a trace, by thread and, where they may end on another one, by process;
 * and what threads are called.
 *
 * A thread's own are in plain memory: a fork child is inside them, too. The process's have a lock and hang on
 * the recorder, which a fork child finds empty: they would never end there.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interpose.h"
#include "nvtx.h"

#define OPEN_MAX 64u      /* ranges open at one time; of deeper ones only the number is kept */
#define OPEN_TEXT 224u    /* bytes of a name that is kept */
#define THREADS_MAX 256u

struct open_range {
	uint64_t id, domain; /* id: of a range that may end elsewhere; 0 = free */
	uint32_t category, len;
	struct nvtx_name *registered;
	char text[OPEN_TEXT];
};

struct nvtx_thread {
	uint32_t nr, nr_deeper;
	struct open_range range[OPEN_MAX];
};

struct nvtx_process {
	_Atomic uint32_t nr_started;
	struct open_range started[OPEN_MAX];
	uint32_t nr_threads;
	struct {
		uint32_t tid;
		char name[NVTX_THREAD_BYTES];
	} thread[THREADS_MAX];
};

static pthread_key_t at_thread_end;

static void thread_end(void *arg)
{
	ip_tls.nvtx = NULL;
	munmap(arg, sizeof(struct nvtx_thread));
}

void nvtx_open_init(void)
{
	pthread_key_create(&at_thread_end, thread_end);
}

/* False in a signal handler that came in the middle of what is done here: its ranges are not kept. */
static bool begin(void)
{
	if (ip_tls.nvtx_busy)
		return false;
	ip_tls.nvtx_busy = true;
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static void end(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	ip_tls.nvtx_busy = false;
}

static void fill(struct open_range *r, uint64_t domain, uint32_t category, const struct nvtx_text *t)
{
	r->domain = domain;
	r->category = category;
	r->registered = t->registered;
	r->len = (uint32_t)(t->len < OPEN_TEXT ? t->len : OPEN_TEXT);
	memcpy(r->text, t->text, r->len);
}

static void record_open(struct ip_thread *thread, uint8_t kind, const struct open_range *r, uint64_t aux)
{
	struct nvtx_text t = { .text = r->text, .len = r->len, .registered = r->registered };

	nvtx_record(thread, kind, nvtx_text_id(&t), nvtx_domain_id(r->domain), aux);
}

/* ---- of one thread ---------------------------------------------------------------------------- */

static IP_COLD struct nvtx_thread *thread_new(void)
{
	void *p = mmap(NULL, sizeof(struct nvtx_thread), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	ip_tls.nvtx = p;
	pthread_setspecific(at_thread_end, p);
	return p;
}

void nvtx_open_push(uint64_t domain, uint32_t category, const struct nvtx_text *t)
{
	struct nvtx_thread *own;

	if (!begin())
		return;
	own = ip_tls.nvtx ? ip_tls.nvtx : thread_new();
	if (own && own->nr == OPEN_MAX)
		own->nr_deeper++;
	else if (own)
		fill(&own->range[own->nr++], domain, category, t);
	end();
}

static void pop(struct nvtx_thread *own, uint64_t domain)
{
	uint32_t i = own->nr;

	if (own->nr_deeper) {
		own->nr_deeper--;
		return;
	}
	while (i && own->range[i - 1].domain != domain)
		i--;
	if (!i)
		return;
	memmove(&own->range[i - 1], &own->range[i], (own->nr - i) * sizeof(*own->range));
	own->nr--;
}

void nvtx_open_pop(uint64_t domain)
{
	if (!ip_tls.nvtx || !begin())
		return;
	pop(ip_tls.nvtx, domain);
	end();
}

static void replay_thread(struct ip_thread *thread)
{
	struct nvtx_thread *own = ip_tls.nvtx;

	if (!own)
		return;
	for (uint32_t i = 0; i < own->nr; i++)
		record_open(thread, TFMT_RANGE_PUSH, &own->range[i], own->range[i].category);
	ip_tls.nvtx = NULL;
	pthread_setspecific(at_thread_end, NULL);
	munmap(own, sizeof(*own));
}

/* ---- of the process --------------------------------------------------------------------------- */

/* NULL: not to be had, nothing is locked. */
static struct nvtx_process *process_lock(bool make)
{
	struct nvtx_process *p = atomic_load(&ip_recorder->nvtx);

	if ((!p && !make) || !begin())
		return NULL;
	ip_lock(&ip_recorder->nvtx_lock);
	p = atomic_load(&ip_recorder->nvtx);
	if (!p) {
		p = ip_map(sizeof(*p));
		atomic_store(&ip_recorder->nvtx, p);
	}
	if (p)
		return p;
	ip_unlock(&ip_recorder->nvtx_lock);
	end();
	return NULL;
}

static void process_unlock(void)
{
	ip_unlock(&ip_recorder->nvtx_lock);
	end();
}

void nvtx_open_start(uint64_t id, uint64_t domain, const struct nvtx_text *t)
{
	struct nvtx_process *p = process_lock(true);
	uint32_t i = 0;

	if (!p)
		return;
	while (i < OPEN_MAX && p->started[i].id)
		i++;
	if (i < OPEN_MAX) {
		fill(&p->started[i], domain, 0, t);
		p->started[i].id = id;
		atomic_fetch_add(&p->nr_started, 1);
	}
	process_unlock();
}

/* Take the range of this id, 0 = any, into *out. */
static bool take_started(uint64_t id, struct open_range *out)
{
	struct nvtx_process *p = atomic_load(&ip_recorder->nvtx);
	uint32_t i = 0;

	if (!p || !atomic_load(&p->nr_started) || !process_lock(false))
		return false;
	while (i < OPEN_MAX && (!p->started[i].id || (id && p->started[i].id != id)))
		i++;
	if (i < OPEN_MAX) {
		*out = p->started[i];
		p->started[i].id = 0;
		atomic_fetch_sub(&p->nr_started, 1);
	}
	process_unlock();
	return i < OPEN_MAX;
}

bool nvtx_open_end(uint64_t id)
{
	struct open_range ended;

	return id && take_started(id, &ended);
}

void nvtx_replay(struct ip_thread *thread)
{
	struct open_range r;

	while (take_started(0, &r))
		record_open(thread, TFMT_RANGE_START, &r, r.id);
	replay_thread(thread);
}

/* ---- names of threads ------------------------------------------------------------------------- */

static uint32_t find_thread(const struct nvtx_process *p, uint32_t tid)
{
	uint32_t i = 0;

	while (i < p->nr_threads && p->thread[i].tid != tid)
		i++;
	return i;
}

void nvtx_name_thread(uint32_t tid, const struct nvtx_text *t)
{
	size_t len = t->len < NVTX_THREAD_BYTES - 1 ? t->len : NVTX_THREAD_BYTES - 1;
	struct nvtx_process *p = process_lock(true);
	uint32_t i;

	if (!p)
		return;
	i = find_thread(p, tid);
	if (i < THREADS_MAX) {
		p->thread[i].tid = tid;
		memcpy(p->thread[i].name, t->text, len);
		p->thread[i].name[len] = 0;
		p->nr_threads += i == p->nr_threads;
	}
	process_unlock();
}

void nvtx_thread_name(uint32_t tid, char name[static NVTX_THREAD_BYTES])
{
	struct nvtx_process *p = process_lock(false);
	uint32_t i;

	if (!p)
		return;
	i = find_thread(p, tid);
	if (i < p->nr_threads)
		memcpy(name, p->thread[i].name, NVTX_THREAD_BYTES);
	process_unlock();
}
