/* SPDX-License-Identifier: MIT */
/*
 * The drain: one thread that moves events and definitions from the rings into the trace.
 *
 * It has a descriptor table of its own, blocks all signals, and takes no lock of the loader, of malloc or
 * of Python. A ring's tail moves only after the frame that covers its records has been written in full, so
 * a process killed at any instant loses nothing: the reader takes from the rings what no frame holds.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "apart.h"
#include "census.h"
#include "cupti.h"
#include "env.h"
#include "flight.h"
#include "info.h"
#include "interpose.h"
#include "lifecycle.h"
#include "modules.h"
#include "place.h"
#include "reason.h"
#include "sourcefiles.h"
#include "storage.h"

/*
 * Between rounds that found work. A Llama on a GPU that takes no time fills its ring in 90 ms; a thread that is faster
 * wakes the drain when its ring is half full. With rounds every 2 ms an event cost the drain twice the time, and found
 * its way into the program's caches as often.
 */
#define NAP_MIN_NS 40000000ull
#define NAP_MAX_NS 200000000ull   /* between rounds that did not */
#define FLUSH_NS 1000000000ull    /* the longest an event stays out of the trace */
#define GAP_NS 100000000ull       /* a sequence number missing for longer is no longer waited for */
#define CLOCK_NS 10000000000ull   /* between clock pairs */
#define SCAN_NS 50000000ull       /* between scans of what is loaded */
#define SOURCES_NS 5000000ull     /* of a round, for looking at source files */
#define SOURCES_LAST_NS 100000000ull /* the same when the program ends, which waits for it */
#define CENSUS_LAST_NS 1500000000ull /* that an ending process waits for copies that look for names: of FINISH_NS, its wait for all */
#define SPARE_RINGS 2u
/*
 * zstd levels, by the use of the fullest ring when it was last looked at; a frame's events, about a third of a ring,
 * are still in it when it is written. Of a Llama's events 3 takes 2% fewer bytes
 * than 1 for 3 ns more an event, -1 takes 11% more for 5 ns less; the next higher ones cost more than they save.
 */
#define LEVEL_AT_EASE 3
#define LEVEL_BUSY 1    /* from half a ring on */
#define LEVEL_LATE (-1) /* from five eighths on: soon, at IP_RING_HIGH, hooks wait */
#define STACK_BYTES (1u << 20)    /* whatever the program's limit is */

static struct {
	struct storage storage;
	struct tfmt_ring_view view; /* the merge looks at it as long as it lives */
	struct tfmt_writer *writer;
	struct tfmt_merge *merge;
	struct flight flight;
	struct place place;
	struct clock_measure clock;
	uint64_t seen[IP_RING_MAX]; /* head of each ring when it was last looked at */
	uint64_t definition_position;
	uint64_t last_flush_ns, last_clock_ns, last_scan_ns;
	uint64_t fullest; /* ring's use when it was last looked at */
	uint64_t nr_torn; /* records somebody has written into: counted as lost */
	bool pending;   /* something is buffered in the writer */
	bool has_counter; /* which the clock of events goes by */
	bool scan_owed; /* a native frame lies in no known module */
	bool main_went_first; /* and threads of the program went on */
	bool is_left_alone;
	int status; /* of the process, when it has left the drain alone */
	int alone_errno; /* why there is no drain: the trace is only begun; 0 = there is one */
} drain;

/* Recording ends early: the program goes on, the status page says when and why. */
static void stop(int err)
{
	struct tfmt_status *s = ip_recorder->status;

	flight_end(&drain.flight);
	s->stop_time_ns = ip_now_ns();
	s->stop_errno = err;
	if (err == ENOSPC || err == EDQUOT || err == EFBIG)
		s->stop = TFMT_STOP_DISK_FULL;
	else
		s->stop = err == ENOMEM ? TFMT_STOP_NOMEM : TFMT_STOP_IO;
	atomic_store(&ip_recorder->state, IP_STOPPED);
}

/*
 * The writer or the merge has failed. What is buffered is not flushed: it would cover ring positions whose
 * records it does not hold. They stay in the ring file.
 */
static bool give_up(int err)
{
	int reason = tfmt_writer_errno(drain.writer);

	stop(reason ? reason : err == TFMT_E_NOMEM ? ENOMEM : EIO);
	return false;
}

/* Files that were removed are made anew, with all that they held; else that ends the recording. */
static bool keep_files(void)
{
	int err;

	if (!storage_is_removed(&drain.storage))
		return true;
	if (storage_restore(&drain.storage)) {
		info_put(drain.writer, "note",
			 drain.storage.kind == TFMT_STORAGE_BESIDE ?
				 "its files were removed while it recorded, and made anew: from then on kill -9 loses what was "
				 "not yet written" :
				 "its files were removed while it recorded, and made anew");
		return true;
	}
	err = errno;
	ip_reason_tell(TFMT_WHY_REMOVED, err);
	for (uint32_t i = 0; i < ip_recorder->status->nr_rings; i++)
		ip_reason_count(ip_recorder->ring[i]->head);
	stop(err);
	return false;
}

/* Records that are not what a hook has left there: in the trace each stands for a lost event. */
static void count_torn(void)
{
	uint64_t nr = tfmt_merge_nr_torn(drain.merge);

	__atomic_fetch_add(&ip_recorder->status->lost_events, nr - drain.nr_torn, __ATOMIC_RELAXED);
	drain.nr_torn = nr;
}

/* Write what is buffered; then, and only then, the producers may use that part of the rings again. */
static bool flush(void)
{
	struct tfmt_status *s = ip_recorder->status;
	const uint64_t *position;
	uint32_t nr;
	int err;

	drain.last_flush_ns = ip_now_ns();
	count_torn();
	__atomic_fetch_add(&s->lost_events, atomic_exchange(&ip_recorder->lost_before_open, 0), __ATOMIC_RELAXED);
	if (!drain.pending)
		return true;
	if (!keep_files())
		return false;
	info_unsupported(drain.writer);
	ip_cupti_info(drain.writer, false);
	tfmt_writer_level(drain.writer, drain.fullest >= IP_RING_CAPACITY / 8 * 5 ? LEVEL_LATE :
					drain.fullest >= IP_RING_CAPACITY / 2 ? LEVEL_BUSY :
										LEVEL_AT_EASE);
	err = tfmt_writer_flush(drain.writer, drain.merge, drain.definition_position);
	if (err)
		return give_up(err);
	drain.pending = false;
	nr = tfmt_merge_positions(drain.merge, &position);
	for (uint32_t i = 0; i < nr; i++)
		__atomic_store_n(&ip_recorder->ring[i]->tail, position[i], __ATOMIC_RELEASE);
	__atomic_store_n(&s->definition_tail, drain.definition_position, __ATOMIC_RELEASE);
	return flight_tend(&drain.flight, true) || give_up(TFMT_E_IO);
}

static void scan(uint64_t now)
{
	drain.scan_owed = false;
	drain.last_scan_ns = now;
	modules_scan(drain.writer);
	info_update(drain.writer);
}

/* Code made at run time is in no module: looking for it again and again would take all of the drain's time. */
static void scan_if_owed(uint64_t now)
{
	if (drain.scan_owed && now - drain.last_scan_ns > SCAN_NS)
		scan(now);
}

/* A native frame outside all known modules: a library has been loaded since the last scan, or in place of another. */
static void check_module(uint32_t type, const uint8_t *payload, size_t len)
{
	uint64_t value[3] = { 0 };
	unsigned shift = 0, nr = 0;

	if (type != TFMT_DEF_FRAME)
		return;
	for (size_t i = 0; i < len && nr < 3; i++) {
		value[nr] |= (uint64_t)(payload[i] & 0x7f) << (shift < 64 ? shift : 0);
		shift += 7;
		if (!(payload[i] & 0x80)) {
			nr++;
			shift = 0;
		}
	}
	if (value[1] != TFMT_FRAME_NATIVE)
		return;
	if (atomic_exchange(&ip_recorder->library_unloaded, false))
		scan(ip_now_ns());
	else if (!modules_cover(value[2]))
		drain.scan_owed = true;
	scan_if_owed(ip_now_ns());
}

static bool take_definitions(void)
{
	const uint8_t *payload;
	uint32_t type, id;
	size_t len;
	int got, err = 0;

	while (!err && (got = tfmt_merge_definition(drain.merge, &drain.definition_position, &type, &id, &payload,
						    &len)) != 0) {
		if (got < 0)
			return give_up(got);
		check_module(type, payload, len);
		sourcefiles_see(type, id, payload, len);
		drain.pending = true;
		if (drain.flight.kept_steps)
			steps_define(&drain.flight.steps, type, id, payload, len);
		err = tfmt_writer_definition(drain.writer, type, id, payload, len);
	}
	return err ? give_up(err) : true;
}

/* What has been taken still fills the ring until it has been written. */
static bool definitions_high(void)
{
	return drain.definition_position - ip_recorder->status->definition_tail >= IP_DEFINITION_HIGH;
}

static bool definitions_wait(void)
{
	return __atomic_load_n(&ip_recorder->status->definition_head, __ATOMIC_ACQUIRE) != drain.definition_position;
}

/* Counts the rings that nobody has, and returns the fullest ring's use. */
static uint64_t count_rings(unsigned *spare)
{
	struct tfmt_status *s = ip_recorder->status;
	uint32_t nr = __atomic_load_n(&s->nr_rings, __ATOMIC_ACQUIRE);
	uint64_t fullest = 0;

	*spare = 0;
	for (uint32_t i = 0; i < nr; i++) {
		struct tfmt_ring *r = ip_recorder->ring[i];
		uint64_t used = __atomic_load_n(&r->head, __ATOMIC_ACQUIRE) - r->tail;

		*spare += __atomic_load_n(&r->owner, __ATOMIC_ACQUIRE) == TFMT_RING_FREE;
		fullest = used > fullest ? used : fullest;
	}
	return fullest;
}

/*
 * See that there are always a few rings to take, where threads cannot begin one themselves. Returns the fullest ring's
 * use.
 */
static uint64_t tend_rings(void)
{
	unsigned spare, wanted = SPARE_RINGS + atomic_exchange(&ip_recorder->rings_wanted, 0);
	uint64_t fullest = count_rings(&spare);

	while (!ip_recorder->rings_grow && spare < wanted && storage_add_rings(&drain.storage, 1))
		spare++;
	drain.fullest = fullest;
	return fullest;
}

/* One pass over everything that is ready. True if it found events; false also when recording has stopped. */
static bool take_events(uint64_t gap_ns)
{
	struct tfmt_event ev[TFMT_WRITER_BATCH];
	bool found = false;
	uint32_t nr;
	int full;

	if (!take_definitions())
		return false;
	while ((nr = tfmt_merge_events(drain.merge, ip_now_ns(), gap_ns, ev, tfmt_writer_room(drain.writer))) > 0) {
		found = drain.pending = true;
		/* The events may use definitions that were committed after the last look. */
		if (definitions_wait() && !take_definitions())
			return false;
		for (uint32_t i = 0; drain.flight.kept_steps && i < nr; i++)
			steps_event(&drain.flight.steps, &ev[i]);
		full = tfmt_writer_batch(drain.writer, ev, nr);
		if (full < 0)
			return give_up(full);
		/* Only here: the merge has read all these events, and a flush frees what it has read. */
		if (full) {
			if (!flush())
				return false;
			tend_rings(); /* the pass can be long: new threads need rings meanwhile */
		}
	}
	return found;
}

static void clock_pair(uint64_t now)
{
	if (now - drain.last_clock_ns < CLOCK_NS)
		return;
	drain.last_clock_ns = now;
	info_clock(drain.writer);
	info_comparison(drain.writer);
	ip_cupti_info(drain.writer, true);
}

/* Leave the processor to the thread that has recorded most since the last round: it runs there, very likely. */
static void keep_away(void)
{
	struct tfmt_status *s = ip_recorder->status;
	uint32_t processor = 0;
	uint64_t most = 0;

	for (uint32_t i = 0, n = __atomic_load_n(&s->nr_rings, __ATOMIC_ACQUIRE); i < n; i++) {
		struct tfmt_ring *r = ip_recorder->ring[i];
		uint64_t head = __atomic_load_n(&r->head, __ATOMIC_RELAXED), grown = head - drain.seen[i];

		drain.seen[i] = head;
		if (grown > most) {
			most = grown;
			processor = __atomic_load_n(&r->processor, __ATOMIC_RELAXED);
		}
	}
	if (processor)
		place_avoid(&drain.place, processor - 1);
}

/* How main's thread has ended: the last field of its line in /proc, as wait(2) gives it. */
static int main_status(void)
{
	char path[64], line[1024];
	const char *last = NULL;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? 0 : read(fd, line, sizeof(line) - 1);
	if (fd >= 0)
		close(fd);
	line[len > 0 ? len : 0] = 0;
	last = strrchr(line, ' ');
	return last ? WEXITSTATUS(strtol(last, NULL, 10)) : 0;
}

/*
 * All other threads have ended, main's by a raw exit that nobody sees, which ends one thread: the process goes on only
 * because of this one, and ends with it. (A main that calls pthread_exit() has had its end seen to.) The last thread's
 * status is the process's: main's, or that of a thread that went on and that the C library has ended, with 0.
 */
static bool is_left_alone(void)
{
	if (!ip_has_main_ended(UINT_MAX))
		return false;
	drain.is_left_alone = ip_has_main_ended(atomic_load(&ip_recorder->nr_threads));
	if (drain.is_left_alone && !drain.main_went_first)
		drain.status = main_status();
	drain.main_went_first = true;
	if (drain.is_left_alone)
		ip_note_end(TFMT_END_EXIT, drain.status);
	return drain.is_left_alone;
}

static void run(void)
{
	uint64_t nap = NAP_MIN_NS;

	while (!atomic_load_explicit(&ip_recorder->finish, memory_order_acquire) &&
	       !(nap == NAP_MAX_NS && is_left_alone())) {
		uint32_t request = atomic_load_explicit(&ip_recorder->drain_request, memory_order_acquire);
		uint64_t now;

		apart_follow_user();
		keep_away();
		if (drain.has_counter)
			clock_measure(&drain.clock);
		nap = take_events(GAP_NS) ? NAP_MIN_NS : nap * 2 < NAP_MAX_NS ? nap * 2 : NAP_MAX_NS;
		if (ip_state() == IP_STOPPED)
			return;
		now = ip_now_ns();
		drain.pending |= sourcefiles_tell(drain.writer, now + SOURCES_NS);
		if (storage_is_asked(&drain.storage))
			census_ask();
		drain.pending |= census_tend(drain.writer);
		if (drain.pending &&
		    (now - drain.last_flush_ns > FLUSH_NS || tend_rings() > IP_RING_CAPACITY / 4 ||
		     definitions_high()) &&
		    !flush())
			return;
		scan_if_owed(now);
		tend_rings();
		clock_pair(now);
		flight_tend(&drain.flight, false);
		while (nap > NAP_MIN_NS && atomic_load(&ip_recorder->drain_request) == request &&
		       storage_populate(&drain.storage))
			;
		atomic_store_explicit(&ip_recorder->drain_asleep, 1, memory_order_seq_cst);
		if (!atomic_load_explicit(&ip_recorder->finish, memory_order_acquire))
			ip_futex_wait(&ip_recorder->drain_request, request, nap);
		atomic_store_explicit(&ip_recorder->drain_asleep, 0, memory_order_relaxed);
	}
}

/* The process ends: everything that was recorded goes into the trace, which then needs no ring file. */
static void finish(void)
{
	uint64_t now = ip_now_ns();

	flight_end(&drain.flight);
	take_events(0);
	if (ip_state() == IP_STOPPED)
		return;
	if (drain.scan_owed)
		modules_scan(drain.writer);
	info_update(drain.writer);
	sourcefiles_tell(drain.writer, ip_now_ns() + SOURCES_LAST_NS);
	census_end(drain.writer, now + CENSUS_LAST_NS);
	info_comparison(drain.writer);
	ip_cupti_info(drain.writer, true);
	drain.pending = true;
	if (flush() && !tfmt_writer_end(drain.writer, ip_recorder->status)) {
		__atomic_store_n(&ip_recorder->status->is_complete, 1, __ATOMIC_RELEASE);
		storage_drop_ring_file(&drain.storage);
	}
	census_see_end();
}

/* Without a drain, what fits into the rings is all that there will be. */
static void note_alone(void)
{
	char note[192];

	if (!drain.alone_errno)
		return;
	snprintf(note, sizeof(note), "no thread to write with (errno %d): only the first %u events of each thread are kept",
		 drain.alone_errno, IP_RING_CAPACITY);
	info_put(drain.writer, "note", note);
}

static enum tfmt_why open_trace(void)
{
	struct tfmt_header h = { 0 };
	enum tfmt_why why;
	int err;

	info_header(&h);
	h.image_start_ns = ip_image_start_ns();
	why = storage_open(&drain.storage, ip_env.output, ip_env.job, ip_env.host, h.image_start_ns);
	if (why)
		return why;
	h.storage = (uint8_t)drain.storage.kind;
	if (drain.storage.kind != TFMT_STORAGE_BESIDE)
		snprintf(h.ring_path, sizeof(h.ring_path), "%.511s", drain.storage.ring_path);
	drain.view.base = drain.storage.base;
	drain.view.bytes = sizeof(struct tfmt_status) + IP_DEFINITION_BYTES;
	drain.view.ring = ip_recorder->ring;
	ip_recorder->base = drain.storage.base;
	ip_recorder->rings_grow = drain.storage.kind == TFMT_STORAGE_SHARED;
	ip_recorder->status = (struct tfmt_status *)drain.storage.base;
	drain.has_counter = clock_has_counter();
	while (storage_populate(&drain.storage))
		;
	drain.definition_position = 0;
	drain.nr_torn = 0;
	drain.last_clock_ns = drain.last_flush_ns = ip_now_ns();
	errno = 0;
	if (tfmt_merge_open(&drain.merge, &drain.view, NULL, NULL, 0) ||
	    tfmt_writer_open(&drain.writer, drain.storage.trace_fd, &h, LEVEL_AT_EASE))
		goto fail;
	info_begin(drain.writer, drain.storage.kind);
	note_alone();
	flight_begin(&drain.flight, &drain.storage, drain.writer);
	modules_scan(drain.writer);
	info_update(drain.writer);
	drain.pending = true;
	if (!flush())
		errno = ip_recorder->status->stop_errno;
	else if (storage_publish(&drain.storage))
		return TFMT_WHY_NONE;
fail:
	err = errno;
	storage_discard(&drain.storage);
	errno = err;
	return err ? TFMT_WHY_TRACE : TFMT_WHY_MEMORY;
}

/* From OPENING to RECORDING, or to OFF with a reason. */
static void begin(void)
{
	enum tfmt_why why = open_trace();

	if (why) {
		ip_reason_tell(why, errno);
		ip_reason_count(atomic_exchange(&ip_recorder->lost_before_open, 0));
	}
	census_open();
	atomic_store(&ip_recorder->state, why ? IP_OFF : IP_RECORDING);
	ip_futex_wake(&ip_recorder->state);
}

/* With descriptors of our own, until the process ends. */
static void serve(void)
{
	begin();
	if (ip_state() == IP_RECORDING || ip_state() == IP_CLOSED) {
		run();
		/* The lock on the trace says that the process lives; it ends with this thread. */
		while (ip_state() == IP_STOPPED && !is_left_alone())
			ip_futex_wait(&ip_recorder->state, IP_STOPPED, NAP_MAX_NS);
		finish();
	}
	if (!drain.is_left_alone)
		storage_close(&drain.storage);
}

/*
 * There is nobody to write: the trace is begun here, among the program's descriptors, and those are closed at once.
 * All events stay in the rings, where readers find them; more than a ring holds are lost, and counted.
 */
static void begin_alone(int err)
{
	drain.alone_errno = err;
	begin();
	storage_close(&drain.storage);
	atomic_store(&ip_recorder->nr_threads, 0);
	atomic_store(&ip_recorder->drain_finished, 1);
}

static void *drain_main(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "vramtrace-drain");
	if (!apart_serve(serve)) {
		begin_alone(errno);
		return NULL;
	}
	if (drain.is_left_alone)
		syscall(SYS_exit, drain.status);
	atomic_store(&ip_recorder->nr_threads, 0);
	atomic_store(&ip_recorder->drain_finished, 1);
	ip_futex_wake(&ip_recorder->drain_finished);
	return NULL;
}

void ip_drain_start(void)
{
	sigset_t all, old;
	pthread_attr_t attr;
	pthread_t thread;
	int err;

	atomic_store(&ip_recorder->nr_threads, 1);
	memset(&drain, 0, sizeof(drain)); /* a fork child's is its parent's */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	err = pthread_create(&thread, &attr, drain_main, NULL);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (err)
		begin_alone(err);
}

void ip_drain_wake(void)
{
	atomic_fetch_add(&ip_recorder->drain_request, 1);
	ip_futex_wake(&ip_recorder->drain_request);
}
