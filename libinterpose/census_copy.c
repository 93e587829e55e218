/* SPDX-License-Identifier: MIT */
/* In a copy of the process: leave all that is the program's alone, look for names, write, end. */
#include "census_copy.h"

#include <stdbool.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "census_walk.h"
#include "census_write.h"
#include "info.h"
#include "interpose.h"
#include "kernelsignal.h"
#include "traverse.h"

#define NR_SIGNALS 64
#define SIGNAL_SET_BYTES 8
#define DESCRIPTORS_MAX 65536u
#define NICE 10
#define FIRST_NS 500000000ull /* of a processor, that the first copy has before it gives way */
#define LEAST_ROOM (48ull << 20) /* bytes that its control group has left; with less the copy ends */
#define WALK_PART 4 / 5 /* of the time, the rest is for writing */

/* A signal here is none of the program's: no handler of its runs. */
static void reset_signals(void)
{
	const uint64_t none = 0;

	for (int i = 1; i <= NR_SIGNALS; i++)
		if (i != SIGKILL && i != SIGSTOP)
			kernel_signal(i, NULL);
	syscall(SYS_rt_sigprocmask, (long)SIG_SETMASK, &none, NULL, (long)SIGNAL_SET_BYTES);
}

/* A pipe's reader must see its end, and a file that the program closes must be closed. */
static void close_all(void)
{
	struct rlimit limit = { DESCRIPTORS_MAX, DESCRIPTORS_MAX };

	if (!syscall(SYS_close_range, 0ul, ~0ul, 0ul))
		return;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur > DESCRIPTORS_MAX)
		limit.rlim_cur = DESCRIPTORS_MAX;
	for (unsigned i = 0; i < limit.rlim_cur; i++)
		close((int)i);
}

/* Where memory runs out the kernel ends the copy and not the program: false if that cannot be had. Before memory is used. */
static bool go_first(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, "1000", 4) == 4;

	if (fd >= 0)
		close(fd);
	return done;
}

static void give_way(void)
{
	setpriority(PRIO_PROCESS, 0, NICE);
}

/*
 * Whoever must give way does it. Not so after memory has run out, for then the program mostly ends; nor the first copy for as
 * long as most of them work, FIRST_NS: the program may be a short one, which has no names if this one is not done.
 */
static void be_modest(const struct census_order *o)
{
	const struct rlimit no_core = { 0, 0 };
	const struct sched_param param = { 0 };
	struct itimerval last = { .it_value = { .tv_sec = (time_t)(o->max_ns / 1000000000u) + 1 } };

	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_NAME, "vramtrace-names");
	sched_setscheduler(0, SCHED_OTHER, &param);
	if (o->facts.why != TFMT_CENSUS_OOM && !o->is_first)
		give_way();
	setitimer(ITIMER_REAL, &last, NULL);
}

const char *census_status_text(int status)
{
	static const char *const texts[] = {
		[CENSUS_DONE] = "it is not known how",
		[CENSUS_NO_FILE] = "its file could not be made",
		[CENSUS_NO_MEMORY] = "it had no memory",
		[CENSUS_NO_WRITE] = "its file could not be written",
		[CENSUS_NO_ROOM] = "its control group was running out of memory",
		[CENSUS_NOT_FIRST] = "the kernel would not have it killed before the program",
	};

	return texts[status >= 0 && status < (int)(sizeof(texts) / sizeof(*texts)) ? status : 0];
}

static void leave(enum census_status status)
{
	syscall(SYS_exit_group, (long)status);
}

static uint64_t worked_ns(void)
{
	struct timespec t = { 0 };

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* All pages that the program writes from here on are there twice: it must not run out of them because of that. */
static void look_for_room(const struct census_walk *w, uint64_t bytes)
{
	if (w->room && w->room->nr_memory && census_room_memory(w->room) < LEAST_ROOM + bytes)
		leave(CENSUS_NO_ROOM);
	if (w->is_first && worked_ns() > FIRST_NS)
		give_way();
}

static int look_and_write(const struct census_order *o, int fd)
{
	struct census_walk walk = { .py = &o->py, .layout = { .torch = &o->torch }, .max_bytes = o->max_bytes };
	struct tfmt_header header = { 0 };
	struct census_output *out;

	info_header(&header);
	header.pid = o->pid;
	header.image_start_ns = o->image_start_ns;
	header.storage = TFMT_STORAGE_ANONYMOUS;
	header.ring_path[0] = 0;
	walk.room = o->room;
	walk.is_first = o->is_first && o->facts.why != TFMT_CENSUS_OOM;
	walk.look_for_room = look_for_room;
	look_for_room(&walk, 0);
	walk.deadline_ns = o->facts.time_ns + o->max_ns * WALK_PART;
	walk.tensor_type = o->torch.tensor_class ? *o->torch.tensor_class : NULL;
	if (!census_walk_begin(&walk))
		return CENSUS_NO_MEMORY;
	out = census_begin(fd, &header, &o->facts, &walk);
	if (!out)
		return CENSUS_NO_WRITE;
	/* What comes first stays if the rest takes too long: if the program ends, say. */
	census_walk_program(&walk);
	if (census_put(out))
		return CENSUS_NO_WRITE;
	census_walk_rest(&walk);
	return census_put(out) || census_finish(out, &o->facts) ? CENSUS_NO_WRITE : CENSUS_DONE;
}

int census_copy_main(void *order)
{
	const struct census_order *o = order;
	int fd, status = CENSUS_NO_FILE;

	close_all();
	if (!go_first())
		leave(CENSUS_NOT_FIRST);
	be_modest(o);
	reset_signals();
	traverse_survive();
	fd = open(o->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0)
		status = look_and_write(o, fd);
	leave((enum census_status)status);
	__builtin_unreachable();
}
