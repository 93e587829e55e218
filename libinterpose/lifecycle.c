/* SPDX-License-Identifier: MIT */
/* How the recorder of a process begins and ends. */
#include "lifecycle.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "callstack.h"
#include "env.h"
#include "interpose.h"
#include "resolve.h"

#define FINISH_NS 2000000000ull /* the longest an ending process waits for its trace */
#define OPEN_NS 2000000000ull   /* the longest the first allocation waits for the files */

/* Before the constructor has run (another library's constructor calls CUDA) nothing can be recorded. */
static struct ip_recorder before_constructor = { .state = IP_OFF };
struct ip_recorder *ip_recorder = &before_constructor;

static uint64_t image_start_ns;
static uint32_t image_pid;
static uint32_t nr_generations; /* not wiped: a fork child counts on from its parent's */

static uint64_t realtime_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t ip_image_start_ns(void)
{
	return image_start_ns;
}

static void at_exit(int status, void *arg)
{
	(void)arg;
	ip_finish(TFMT_END_EXIT, status & 0xff);
}

static __attribute__((constructor)) void constructor(void)
{
	struct ip_recorder *r;

	if (getauxval(AT_SECURE))
		return;
	r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED || madvise(r, sizeof(*r), MADV_WIPEONFORK))
		return;
	image_start_ns = realtime_ns();
	image_pid = (uint32_t)getpid();
	ip_env_init();
	ip_process_init();
	ip_thread_init();
	callstack_init();
	on_exit(at_exit, NULL);
	ip_recorder = r;
}

void ip_prepare(void)
{
	uint32_t idle = IP_IDLE;

	if (ip_state() != IP_IDLE || !atomic_compare_exchange_strong(&ip_recorder->state, &idle, IP_PREPARING))
		return;
	ip_recorder->pid = (uint32_t)getpid();
	ip_recorder->generation = ++nr_generations;
	if (ip_recorder->pid != image_pid || nr_generations > 1)
		image_start_ns = realtime_ns();
	callstack_start();
	ip_resolve_prepare();
	/* The drain looks at the state first thing: it must find PREPARED or later. */
	atomic_store(&ip_recorder->state, IP_PREPARED);
	if (!ip_drain_start())
		atomic_store(&ip_recorder->state, IP_OFF);
}

/* The first allocation: have the drain open the trace, and wait for it; nobody waits after a wait in vain. */
static IP_COLD bool begin(void)
{
	uint64_t until = ip_now_ns() + OPEN_NS;
	uint32_t prepared = IP_PREPARED, state;

	ip_prepare();
	if (atomic_compare_exchange_strong(&ip_recorder->state, &prepared, IP_OPENING))
		ip_drain_ready();
	for (;;) {
		state = ip_state();
		if (state >= IP_RECORDING || atomic_load(&ip_recorder->lost_before_open) || ip_now_ns() > until)
			return state == IP_RECORDING;
		ip_futex_wait(&ip_recorder->state, state, OPEN_NS / 20);
	}
}

bool ip_begin(void)
{
	uint32_t state = ip_state();

	if (state != IP_RECORDING && (state > IP_RECORDING || !begin()))
		return false;
	if (!atomic_load_explicit(&ip_recorder->listening, memory_order_relaxed))
		ip_simulation_listen();
	return true;
}

/* A vfork child shares our memory, but it is not us. */
static bool is_this_process(void)
{
	return ip_recorder->pid == (uint32_t)getpid();
}

void ip_note_end(int end, int status)
{
	uint32_t state = ip_state();

	if ((state != IP_RECORDING && state != IP_STOPPED) || !is_this_process())
		return;
	ip_recorder->status->exit_status = status;
	__atomic_store_n(&ip_recorder->status->end, (uint32_t)end, __ATOMIC_RELEASE);
}

void ip_finish(enum tfmt_end end, int status)
{
	uint64_t until = ip_now_ns() + FINISH_NS;
	uint32_t recording = IP_RECORDING;

	ip_note_end((int)end, status);
	if (ip_state() != IP_RECORDING || !is_this_process())
		return;
	atomic_store(&ip_recorder->finish, 1);
	/* Other threads may go on until the process is gone: what they do after the trace's end is not recorded. */
	atomic_compare_exchange_strong(&ip_recorder->state, &recording, IP_CLOSED);
	ip_drain_ready();
	while (!atomic_load(&ip_recorder->drain_finished) && ip_now_ns() < until)
		ip_futex_wait(&ip_recorder->drain_finished, 0, FINISH_NS / 20);
}
