/* SPDX-License-Identifier: MIT */
/* When a copy of the process is made, and how. */
#include "census.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "census_copy.h"
#include "census_room.h"
#include "env.h"
#include "info.h"
#include "lifecycle.h"
#include "objects.h"
#include "pyframes.h"

#define STEP_BYTES (64ull << 20)     /* the least that a new high is above the last one */
#define STALL_SHARE 100u             /* of the run's time one part of so many, at most */
#define OOMS_AT_ONCE 8u              /* each has a census; of later ones one in */
#define OOM_NS 10000000000ull
#define ASKED_NS 500000000ull        /* so long a census that was asked for waits for a hook */
#define DUE_NS 100000000ull          /* so long one that is due waits for an event */
#define RETRY_NS 10000000000ull      /* after there was no copy to be had */
#define MEMORY_LEAST (256ull << 20)  /* for a copy; or this part of the machine's, if that is more */
#define MEMORY_PART 50u
#define SECONDS 20u
#define STACK_BYTES (512u << 10)
#define SPARE_TASKS 32u              /* processes and threads that a program may still want to make */
#define SPARE_BYTES (96ull << 20)    /* of memory; and for page tables, twice over: */
#define RESIDENT_PART 256u
#define LOOK_NS 20000000u            /* from one look at them to the next */
#define FIND_NS 10000000000ull       /* and at which groups have a limit */
#define LATE_NS 5000000000ull        /* a copy that goes on so long after its time is ended */
#define END_PAUSE_NS 2000000u
#define SIGNAL_SET_BYTES 8

/* Made once, and kept: they are the same for all copies but for a few words. */
static struct {
	struct census_order *order;
	uint8_t *stack;
	struct census_room room;
	uint64_t looked_ns, found_ns; /* when that was asked; when its groups were found */
} census;

/* ---- making one ------------------------------------------------------------------------------------------ */

/* Pages that the driver reads and writes by itself stay with the process since Linux 5.12; before, the copy gets them. */
static bool kernel_keeps_pages(void)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	if (uname(&u) || sscanf(u.release, "%u.%u", &major, &minor) != 2)
		return false;
	return major > 5 || (major == 5 && minor >= 12);
}

static uint64_t memory_for_a_copy(void)
{
	struct sysinfo machine;
	uint64_t part;

	if (ip_env.names_bytes)
		return ip_env.names_bytes;
	part = sysinfo(&machine) ? 0 : (uint64_t)machine.totalram * machine.mem_unit / MEMORY_PART;
	return part > MEMORY_LEAST ? part : MEMORY_LEAST;
}

/* Plain mappings, which a copy has as well (ip_map()'s it has not). NULL, or why there can be no census. */
static const char *prepare(void)
{
	const char *why;

	if (census.order)
		return NULL;
	census.order = mmap(NULL, sizeof(*census.order) + STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (census.order == MAP_FAILED) {
		census.order = NULL;
		return "no memory";
	}
	census.stack = (uint8_t *)census.order + sizeof(*census.order);
	why = pyobjects_find(&census.order->py);
	if (why)
		return why;
	census_torch_find(&census.order->torch);
	return census.order->torch.tensor_class ? NULL : "the process has no PyTorch for Python";
}

/* "FOLDER/HOST.PID.START.vtr" to "FOLDER/HOST.PID.START.N.names"; false if that is too long. */
static bool name_file(char path[PATH_MAX], const char *trace, uint32_t number)
{
	size_t len = strlen(trace);
	int n;

	if (len < 5 || strcmp(trace + len - 4, ".vtr") != 0)
		return false;
	n = snprintf(path, PATH_MAX, "%.*s.%u.names", (int)(len - 4), trace, number);
	return n > 0 && n < PATH_MAX;
}

/*
 * The copy runs on a stack of its own, and not on the thread's, of which little may be left. All signals wait meanwhile:
 * in the copy none of the program's handlers may run.
 */
static int make_copy(void)
{
	uint64_t all = UINT64_MAX, old;
	int pid, error;

	syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, &all, &old, (long)SIGNAL_SET_BYTES);
	pid = clone(census_copy_main, census.stack + STACK_BYTES - 64, 0, census.order);
	error = errno;
	syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, &old, NULL, (long)SIGNAL_SET_BYTES);
	errno = error;
	return pid;
}

/* ---- room for one ------------------------------------------------------------------------------------------ */

/* The kernel counts a user's processes; how many there are on the whole machine is known without counting. */
static bool is_room_for_user(void)
{
	struct rlimit limit;
	struct sysinfo machine;

	if (getrlimit(RLIMIT_NPROC, &limit) || limit.rlim_cur == RLIM_INFINITY || sysinfo(&machine))
		return true;
	return machine.procs + SPARE_TASKS <= limit.rlim_cur;
}

static void look_for_room(void)
{
	const char *crowded = NULL;
	uint64_t now = ip_now_ns();

	if (now - census.looked_ns < LOOK_NS)
		return;
	census.looked_ns = now;
	if (now - census.found_ns > FIND_NS) {
		census.found_ns = now;
		census_room_look(&census.room, "");
	}
	if (census_room_tasks(&census.room) < SPARE_TASKS)
		crowded = "its control group may have hardly any more processes";
	else if (census.room.nr_memory &&
		 census_room_memory(&census.room) < SPARE_BYTES + census_room_resident() / RESIDENT_PART)
		crowded = "its control group has too little memory left";
	atomic_store(&ip_recorder->census.crowded, crowded);
}

void census_open(void)
{
	census.looked_ns = census.found_ns = 0;
	look_for_room();
}

/* ---- and then ---------------------------------------------------------------------------------------------- */

static void note_stall(uint64_t ns)
{
	struct ip_census *c = &ip_recorder->census;

	atomic_fetch_add(&c->stall_ns, ns);
	if (ns > atomic_load(&c->longest_ns))
		atomic_store(&c->longest_ns, ns);
}

/* There is no copy to be had, for this reason or errno: not soon again. */
static void refuse(const char *why, int error)
{
	struct ip_census *c = &ip_recorder->census;

	atomic_fetch_add(&c->nr_refused, 1);
	atomic_store(&c->refused_why, why);
	atomic_store(&c->last_errno, error);
	atomic_store(&c->not_before_ns, ip_now_ns() + RETRY_NS);
}

static bool take_copy(uint32_t slot)
{
	struct ip_census *c = &ip_recorder->census;
	uint64_t begun = ip_now_ns();
	int pid;

	census.order->facts.time_ns = begun;
	pid = make_copy();
	if (pid < 0)
		refuse(NULL, errno);
	note_stall(ip_now_ns() - begun);
	if (pid < 0)
		return false;
	atomic_store(&c->begun_ns[slot], begun);
	atomic_store(&c->copy[slot], (uint32_t)pid);
	return true;
}

static int free_slot(void)
{
	for (uint32_t i = 0; i < IP_CENSUS_COPIES; i++)
		if (!atomic_load(&ip_recorder->census.copy[i]))
			return (int)i;
	return -1;
}

static bool take(enum tfmt_census_why why, unsigned device, uint64_t allocated)
{
	struct ip_census *c = &ip_recorder->census;
	const char *unable = prepare(), *crowded = atomic_load(&c->crowded);
	int slot = free_slot();

	if (!unable && atomic_load(&c->registered) && !kernel_keeps_pages())
		unable = "on this kernel a copy would get the program's page-locked memory";
	if (unable) {
		atomic_store(&c->unable, unable);
		return false;
	}
	if (!crowded && !is_room_for_user())
		crowded = "its user may have hardly any more processes";
	if (!crowded && slot < 0)
		crowded = "others were still at work";
	if (crowded) {
		refuse(crowded, 0);
		return false;
	}
	if (!name_file(census.order->path, ip_recorder->status->trace_path, c->nr_begun + 1))
		return false;
	atomic_fetch_add(&c->nr_begun, 1);
	census.order->facts = (struct tfmt_census_facts){ .why = why, .device = device, .allocated = allocated };
	census.order->is_first = atomic_load(&c->nr_begun) == 1;
	census.order->pid = ip_recorder->pid;
	census.order->room = &census.room;
	census.order->image_start_ns = ip_image_start_ns();
	census.order->max_bytes = memory_for_a_copy();
	census.order->max_ns = (ip_env.names_seconds ? ip_env.names_seconds : SECONDS) * 1000000000ull;
	return take_copy((uint32_t)slot);
}

/* ---- when ------------------------------------------------------------------------------------------------- */

/* How long the process has been running. */
static uint64_t run_ns(void)
{
	struct timespec now;
	uint64_t ns;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	return ns > ip_image_start_ns() ? ns - ip_image_start_ns() : 0;
}

/* One thread at a time, of this process and with Python in it; the hook leaves errno as it was. */
static bool enter(int *error)
{
	uint32_t nobody = 0;

	*error = errno;
	return ip_state() == IP_RECORDING && pyframes_layout() && !pyframes_finalizing() &&
	       ip_recorder->pid == (uint32_t)getpid() &&
	       atomic_compare_exchange_strong(&ip_recorder->census.taking, &nobody, 1);
}

static void leave(int error)
{
	atomic_store(&ip_recorder->census.taking, 0);
	errno = error;
}

/* A copy at work is enough: the others are for when memory runs out. */
static bool is_due(uint64_t now)
{
	const struct ip_census *c = &ip_recorder->census;

	for (uint32_t i = 0; i < IP_CENSUS_COPIES; i++)
		if (atomic_load(&c->copy[i]))
			return false;
	return now >= atomic_load(&c->not_before_ns) && atomic_load(&c->stall_ns) <= run_ns() / STALL_SHARE;
}

/* Somebody has asked, and nobody has taken one yet. */
static bool take_question(void)
{
	bool asked = true;

	return atomic_compare_exchange_strong(&ip_recorder->census.asked, &asked, false);
}

/* What comes after the highest moment, as an optimizer's state, is seen when the run is twice as old as at the latest. */
static bool is_long_ago(const struct ip_census *c)
{
	uint64_t then = atomic_load(&c->latest_run_ns);

	return then && run_ns() >= 2 * then;
}

/* Above how many bytes of a device one is due: a quarter more than at the latest; long after it, as many again. */
static uint64_t due_above(const struct ip_census *c, unsigned device)
{
	uint64_t high = atomic_load(&c->high[device]);

	if (!high)
		return STEP_BYTES;
	return is_long_ago(c) ? atomic_load(&c->latest[device]) - 1 : high;
}

static void note_high(struct ip_census *c, unsigned device, uint64_t allocated)
{
	atomic_store(&c->latest[device], allocated);
	atomic_store(&c->high[device], allocated + (allocated / 4 > STEP_BYTES ? allocated / 4 : STEP_BYTES));
	atomic_store(&c->latest_run_ns, run_ns());
}

void census_high(unsigned device, uint64_t allocated)
{
	struct ip_census *c = &ip_recorder->census;
	uint64_t high = due_above(c, device);
	int error;

	if (ip_env.names != IP_NAMES_AUTO || atomic_load(&c->unable))
		high = UINT64_MAX;
	atomic_store(&c->next_high[device], high);
	if (!atomic_load(&c->asked) && allocated <= high)
		return;
	if (!atomic_load(&c->asked) && !is_due(ip_now_ns())) {
		/* Until the drain finds that one is due, hooks need not ask. */
		atomic_store(&c->next_high[device], UINT64_MAX);
		return;
	}
	if (!atomic_load(&c->asked)) {
		atomic_store(&c->next_high[device], UINT64_MAX);
		atomic_store(&c->due_allocated, allocated);
		atomic_store(&c->due_ns, ip_now_ns());
		atomic_store(&c->due, device + 1);
		return;
	}
	if (!enter(&error))
		return;
	if (take_question())
		take(TFMT_CENSUS_ASKED, device, allocated);
	atomic_store(&c->next_high[device], atomic_load(&c->high[device]));
	leave(error);
}

void census_take_due(void)
{
	struct ip_census *c = &ip_recorder->census;
	uint32_t due;
	int error;

	if (!enter(&error))
		return;
	due = atomic_exchange(&c->due, 0);
	if (due) {
		if (take(TFMT_CENSUS_HIGH, due - 1, atomic_load(&c->due_allocated)))
			note_high(c, due - 1, atomic_load(&c->due_allocated));
		atomic_store(&c->next_high[due - 1], atomic_load(&c->high[due - 1]));
	}
	leave(error);
}

void census_out_of_memory(unsigned device, uint64_t allocated)
{
	struct ip_census *c = &ip_recorder->census;
	uint64_t now = ip_now_ns();
	int error;

	if (ip_env.names == IP_NAMES_OFF || atomic_load(&c->unable))
		return;
	if (atomic_fetch_add(&c->nr_oom, 1) >= OOMS_AT_ONCE && now - atomic_load(&c->last_oom_ns) < OOM_NS)
		return;
	if (!enter(&error))
		return;
	atomic_store(&c->last_oom_ns, now);
	take(TFMT_CENSUS_OOM, device, allocated);
	leave(error);
}

void census_note_registered(void)
{
	atomic_store_explicit(&ip_recorder->census.registered, true, memory_order_relaxed);
}

void census_ask(void)
{
	struct ip_census *c = &ip_recorder->census;

	if (ip_env.names == IP_NAMES_OFF || atomic_load(&c->unable))
		return;
	atomic_store(&c->asked_ns, ip_now_ns());
	atomic_store(&c->asked, true);
	for (unsigned i = 0; i < TFMT_NR_DEVICES; i++)
		atomic_store(&c->next_high[i], 0);
}

/* No hook has come by: the program computes, or waits. Then its objects may change while the copy is made. */
static void take_if_nobody_has(void)
{
	struct ip_census *c = &ip_recorder->census;
	int error;

	if (atomic_load(&c->due) && ip_now_ns() - atomic_load(&c->due_ns) > DUE_NS)
		census_take_due();
	if (!atomic_load(&c->asked) || ip_now_ns() - atomic_load(&c->asked_ns) < ASKED_NS || !enter(&error))
		return;
	if (take_question())
		take(TFMT_CENSUS_ASKED, TFMT_DEVICE_NONE, 0);
	leave(error);
}

/* Hooks that have found that none is due look again from here on. */
static void arm(void)
{
	struct ip_census *c = &ip_recorder->census;

	if (ip_env.names != IP_NAMES_AUTO || atomic_load(&c->unable) || atomic_load(&c->due) || !is_due(ip_now_ns()))
		return;
	for (unsigned i = 0; i < TFMT_NR_DEVICES; i++)
		if (atomic_load(&c->next_high[i]) == UINT64_MAX || is_long_ago(c))
			atomic_store(&c->next_high[i], due_above(c, i));
}

/* ---- the drain's part --------------------------------------------------------------------------------------- */

static void reap(struct ip_census *c, uint32_t slot)
{
	pid_t pid = (pid_t)atomic_load(&c->copy[slot]), got;
	int status = 0;

	if (!pid)
		return;
	got = (pid_t)syscall(SYS_wait4, (long)pid, &status, (long)(__WCLONE | WNOHANG), NULL);
	if (!got) {
		if (ip_now_ns() - atomic_load(&c->begun_ns[slot]) > census.order->max_ns + LATE_NS)
			kill(pid, SIGKILL);
		return;
	}
	/* Where the program waits for its children with __WALL, it may have been told instead; the file says what there is. */
	if (got != pid || (WIFEXITED(status) && !WEXITSTATUS(status))) {
		atomic_fetch_add(&c->nr_done, 1);
	} else {
		atomic_fetch_add(&c->nr_failed, 1);
		atomic_store(&c->last_status, status);
	}
	atomic_store(&c->copy[slot], 0);
}

static void put_number(struct tfmt_writer *w, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	info_put(w, key, text);
}

/* "off: VRAMTRACE_NAMES", "on, but ..." */
static void put_state(struct tfmt_writer *w)
{
	static const char *const states[] = { "on", "on: only when memory has run out", "off: VRAMTRACE_NAMES=off" };
	const char *unable = atomic_load(&ip_recorder->census.unable);
	char text[160];

	snprintf(text, sizeof(text), unable ? "off: %s" : "%s", unable ? unable : states[ip_env.names]);
	info_put(w, "names", text);
}

/* Why the latest of those that came to nothing did. */
static void put_trouble(struct tfmt_writer *w, const struct ip_census *c)
{
	uint32_t failed = atomic_load(&c->nr_failed), refused = atomic_load(&c->nr_refused);
	int status = atomic_load(&c->last_status);
	const char *why = atomic_load(&c->refused_why);
	char text[160];

	if (failed && WIFSIGNALED(status))
		snprintf(text, sizeof(text), "%u copies did not end well, the last by signal %d", failed, WTERMSIG(status));
	else if (failed)
		snprintf(text, sizeof(text), "%u copies did not end well, the last because %s", failed,
			 census_status_text(WEXITSTATUS(status)));
	if (failed)
		info_put(w, "names.failed", text);
	if (refused && why)
		snprintf(text, sizeof(text), "%u times there was no copy, the last time because %s", refused, why);
	else if (refused)
		snprintf(text, sizeof(text), "%u times there was no copy, the last with errno %d", refused,
			 atomic_load(&c->last_errno));
	if (refused)
		info_put(w, "names.refused", text);
}

bool census_tend(struct tfmt_writer *w)
{
	struct ip_census *c = &ip_recorder->census;
	uint32_t sum;

	look_for_room();
	take_if_nobody_has();
	arm();
	for (uint32_t i = 0; i < IP_CENSUS_COPIES; i++)
		reap(c, i);
	sum = 1 + atomic_load(&c->nr_done) + atomic_load(&c->nr_failed) + atomic_load(&c->nr_refused) +
	      (atomic_load(&c->unable) ? 1 : 0);
	if (sum == c->told)
		return false;
	c->told = sum;
	put_state(w);
	if (sum == 1)
		return true;
	put_number(w, "names.censuses", atomic_load(&c->nr_done));
	put_number(w, "names.stall_ns", atomic_load(&c->stall_ns));
	put_number(w, "names.longest_stall_ns", atomic_load(&c->longest_ns));
	put_trouble(w, c);
	return true;
}

static bool any_is_there(struct ip_census *c)
{
	bool any = false;

	for (uint32_t i = 0; i < IP_CENSUS_COPIES; i++) {
		reap(c, i);
		any |= atomic_load(&c->copy[i]) != 0;
	}
	return any;
}

void census_end(struct tfmt_writer *w, uint64_t until_ns)
{
	struct ip_census *c = &ip_recorder->census;

	while (any_is_there(c) && ip_now_ns() < until_ns)
		ip_pause(END_PAUSE_NS);
	for (uint32_t i = 0; i < IP_CENSUS_COPIES; i++) {
		c->ended[i] = (pid_t)atomic_exchange(&c->copy[i], 0);
		if (!c->ended[i])
			continue;
		kill(c->ended[i], SIGKILL);
		atomic_fetch_add(&c->nr_failed, 1);
		atomic_store(&c->last_status, SIGKILL);
	}
	census_tend(w);
}

void census_see_end(void)
{
	for (uint32_t i = 0; i < IP_CENSUS_COPIES; i++)
		if (ip_recorder->census.ended[i])
			syscall(SYS_wait4, (long)ip_recorder->census.ended[i], NULL, (long)__WCLONE, NULL);
}
