/* SPDX-License-Identifier: MIT */
/* How the recorder of a process begins and ends. */
#include "lifecycle.h"

#include <linux/membarrier.h>
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "callstack.h"
#include "cupti.h"
#include "env.h"
#include "interpose.h"
#include "lookup.h"
#include "nvtx.h"
#include "reason.h"
#include "resolve.h"
#include "samples.h"

#define FINISH_NS 2000000000ull /* the longest an ending process waits for its trace */
#define OPEN_NS 2000000000ull   /* the longest the first allocation waits for the files */
#define HOLD_NS 2500000000ull   /* the longest that other threads wait for the process's end */
#define HOLD_PAUSE_NS 5000000u

/* Before the constructor has run (another library's constructor calls CUDA), and where nothing may be recorded. */
static struct ip_recorder before_constructor = { .state = IP_UNBORN };
struct ip_recorder *ip_recorder = &before_constructor;
static _Atomic uint32_t birth_lock;

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

/*
 * Loaded before the program's own libraries? Otherwise this is a process that is not traced, and NVTX has loaded us
 * because it inherited the variable that names us. What is loaded at the start is listed by distance: preloaded
 * libraries come before the C library.
 */
static bool is_preloaded(void)
{
	struct link_map *map = NULL;
	Dl_info info;

	if (!dladdr1((void *)is_preloaded, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
		return false;
	while ((map = map->l_next) != NULL) {
		const char *base = strrchr(map->l_name, '/');

		if (base && !strncmp(base, "/libc.so", 8))
			return true;
	}
	return false;
}

/* The recorder's state, and all that a program finds changed: its environment, and what runs at its end. */
static struct ip_recorder *recorder_new(int argc, char **argv)
{
	struct ip_recorder *r;

	if (getauxval(AT_SECURE) || !is_preloaded())
		return NULL;
	ip_process_init();
	ip_env_init(argc, argv);
	if (!ip_env_is_chosen())
		return NULL;
	r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r == MAP_FAILED || madvise(r, sizeof(*r), MADV_WIPEONFORK)) {
		before_constructor.reason.error = errno;
		before_constructor.reason.why = TFMT_WHY_MEMORY;
		return NULL;
	}
	image_start_ns = realtime_ns();
	image_pid = (uint32_t)getpid();
	ip_thread_init();
	callstack_init();
	nvtx_init();
	on_exit(at_exit, NULL);
	return r;
}

/* Once, whichever thread comes first. The arguments are those of main(), or NULL: then the kernel is asked for them. */
static void be_born(int argc, char **argv)
{
	struct ip_recorder *r;

	ip_lock(&birth_lock);
	if (ip_recorder == &before_constructor && ip_state() == IP_UNBORN) {
		atomic_store(&before_constructor.state, IP_OFF); /* a call from within sees no recorder */
		if (!argv)
			argv = ip_env_arguments(&argc);
		r = recorder_new(argc, argv);
		if (r)
			__atomic_store_n(&ip_recorder, r, __ATOMIC_RELEASE);
	}
	ip_unlock(&birth_lock);
}

/* The C library hands constructors what it hands main(). */
static __attribute__((constructor)) void constructor(int argc, char **argv)
{
	be_born(argc, argv);
}

bool ip_is_on(void)
{
	if (ip_state() == IP_UNBORN)
		be_born(0, NULL);
	return ip_state() != IP_OFF;
}

void ip_prepare(void)
{
	uint32_t idle = IP_IDLE;
	bool is_kept;

	if (!ip_is_on() || ip_state() != IP_IDLE ||
	    !atomic_compare_exchange_strong(&ip_recorder->state, &idle, IP_PREPARING))
		return;
	ip_recorder->pid = (uint32_t)getpid();
	ip_recorder->generation = ++nr_generations;
	if (ip_recorder->pid != image_pid || nr_generations > 1)
		image_start_ns = realtime_ns();
	is_kept = ip_dlerror_keep();
	callstack_start((enum unwind_choice)ip_env.unwinder);
	ip_resolve_prepare();
	ip_samples_prepare();
	ip_cupti_start();
	ip_dlerror_give_back(is_kept);
	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	atomic_store(&ip_recorder->state, IP_PREPARED);
	ip_futex_wake(&ip_recorder->state);
}

/*
 * The first one that comes has the trace opened. Not before: a program that has only asked for the number of devices
 * has no more threads than without us when it forks.
 */
static void open_trace(void)
{
	uint32_t prepared = IP_PREPARED;

	if (!atomic_compare_exchange_strong(&ip_recorder->state, &prepared, IP_OPENING))
		return;
	ip_reason_see();
	ip_env_read_allocator();
	ip_drain_start();
	if (atomic_load(&ip_recorder->main_has_left))
		ip_process_end_last();
}

/* The first allocation: have the drain open the trace, and wait for it, as others do; not after a wait in vain. */
static IP_COLD bool begin(void)
{
	uint64_t until = ip_now_ns() + OPEN_NS;
	uint32_t state;

	ip_prepare();
	for (;;) {
		/* Another thread may only now have prepared. */
		if (ip_state() == IP_PREPARED)
			open_trace();
		state = ip_state();
		if (state >= IP_RECORDING || atomic_load(&ip_recorder->open_is_slow))
			return state == IP_RECORDING;
		if (ip_now_ns() > until)
			atomic_store(&ip_recorder->open_is_slow, true);
		else
			ip_futex_wait(&ip_recorder->state, state, OPEN_NS / 20);
	}
}

bool ip_begin(void)
{
	uint32_t state = ip_state();

	if (state == IP_UNBORN && ip_is_on())
		state = ip_state();
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

/*
 * From now on hooks hold their threads instead of returning. A hook publishes its event and then looks at the state,
 * with nothing between the two but the order of its instructions; the barrier does the rest in all threads at once:
 * what was published before it is seen by the drain's last pass, and what is published after it finds the state closed.
 */
static void close_recording(void)
{
	uint32_t recording = IP_RECORDING, nobody = 0;

	if (!atomic_compare_exchange_strong(&ip_recorder->finisher, &nobody, (uint32_t)syscall(SYS_gettid)))
		return;
	atomic_store(&ip_recorder->hold_until_ns, ip_now_ns() + HOLD_NS);
	atomic_compare_exchange_strong(&ip_recorder->state, &recording, IP_CLOSED);
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	atomic_store(&ip_recorder->finish, 1);
	ip_drain_wake();
}

void ip_hold(void)
{
	uint64_t until = atomic_load(&ip_recorder->hold_until_ns);

	if (atomic_load(&ip_recorder->finisher) == (uint32_t)syscall(SYS_gettid) || !is_this_process())
		return;
	while (ip_now_ns() < until)
		ip_pause(HOLD_PAUSE_NS);
}

/* Of a process that ends without having recorded what it did. */
static void leave_reason(void)
{
	uint32_t state = ip_state();

	if ((state != IP_OPENING && state != IP_STOPPED && state != IP_OFF) || !is_this_process())
		return;
	if (state == IP_OPENING) {
		ip_reason_tell(TFMT_WHY_SLOW, 0);
		ip_reason_count(atomic_exchange(&ip_recorder->lost_before_open, 0));
	}
	ip_reason_leave();
}

void ip_finish(enum tfmt_end end, int status)
{
	uint64_t until = ip_now_ns() + FINISH_NS;

	ip_note_end((int)end, status);
	leave_reason();
	if ((ip_state() != IP_RECORDING && ip_state() != IP_CLOSED) || !is_this_process())
		return;
	close_recording();
	while (!atomic_load(&ip_recorder->drain_finished) && ip_now_ns() < until)
		ip_futex_wait(&ip_recorder->drain_finished, 0, FINISH_NS / 20);
}
