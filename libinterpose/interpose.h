/* SPDX-License-Identifier: MIT */
/*
 * libinterpose: what its files share. Everything here runs inside somebody else's program.
 *
 * The promise of every hook: the real call happens exactly once, its result and errno are returned
 * untouched, and nothing in between allocates through the traced program, locks what the traced
 * program locks, takes the GIL or prints. What cannot be recorded is counted in the status page.
 *
 * Life of the recorder in one process (enum ip_state, in memory that a fork child finds zeroed):
 *   UNBORN             before the constructor; whichever hook needs more than that does what the constructor does
 *   IDLE               nothing of CUDA has been used
 *   -> PREPARING       first successful cuInit, outside any allocator lock: libraries are loaded and looked at
 *   -> PREPARED        that is done
 *   -> OPENING         first context or allocation: there is a drain thread, which opens trace and rings
 *   -> RECORDING       they are open
 *   -> STOPPED         a write failed; the program goes on, the status page says why
 *   -> CLOSED          the process ends; the trace is complete
 *   OFF                nothing can or may be recorded
 */
#ifndef IP_INTERPOSE_H
#define IP_INTERPOSE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "captures.h"
#include "clock.h"
#include "driver_state.h"
#include "tracefmt/tracefmt.h"
#include "unwind_rules.h"

#define IP_EXPORT __attribute__((visibility("default")))
#define IP_COLD __attribute__((cold, noinline))

#define IP_RING_CAPACITY 16384u             /* records: 1 MiB */
#define IP_RING_STRIDE (sizeof(struct tfmt_ring) + (size_t)IP_RING_CAPACITY * TFMT_RECORD_BYTES)
#define IP_RING_HIGH (IP_RING_CAPACITY / 4 * 3) /* from here on a hook waits for the drain */
#define IP_RING_MAX 128u                    /* more threads than that share them: ringclaim.c */
#define IP_DEFINITION_BYTES (1u << 20)
#define IP_DEFINITION_HIGH (IP_DEFINITION_BYTES / 2) /* from here on the drain makes room at once */
#define IP_DEFINITION_MAX (IP_DEFINITION_BYTES / 4 * 3) /* of one payload */
#define IP_WAIT_NS 20000000ull              /* the longest a hook waits for the drain, but a thread's first */
#define IP_STUCK_NS 500000000ull            /* a drain that has not moved for so long is not waited for */

enum ip_state { IP_IDLE = 0, IP_PREPARING, IP_PREPARED, IP_OPENING, IP_RECORDING, IP_STOPPED, IP_CLOSED, IP_OFF,
		IP_UNBORN };

struct autograd_table;
struct callstack;
struct ip_cupti;
struct ip_strings;
struct nvtx_callbacks;
struct nvtx_process;
struct nvtx_thread;
struct open_calls;

/*
 * A thread that has recorded: its ring, its stack caches, and whether it is inside a hook. What a signal handler
 * does in the middle of a hook has a state of its own, `nested`: a handler may also jump out of the hook, and then
 * that one stays busy for ever, as it was left.
 */
struct ip_thread {
	struct tfmt_ring *ring;
	struct callstack *stacks; /* its own; NULL until it has recorded a while: stackpool.h */
	struct shape_cache *shapes; /* NULL until it has allocated a tensor */
	uint64_t torch_thread; /* PyTorch's own number of it, 0 = not asked for yet */
	uint32_t made_stack;   /* with which it made its latest autograd node outside of nodes, 0 = none */
	struct clock_thread clock;
	uint64_t head;       /* ring->head, the producer's own copy */
	bool is_writing;     /* into its ring: nobody takes it away meanwhile. Both atomic, see ringclaim.c */
	bool is_revoked;     /* the ring has been given to another thread */
	uint32_t ring_index;
	uint32_t id;         /* of its TFMT_DEF_THREAD */
	uint32_t tid;        /* the system's number of the thread */
	uint64_t stuck_tail; /* ring->tail at the last wait for room; UINT64_MAX = none */
	unsigned nr_waits;   /* for which it did not move */
	uint32_t nr_taken;   /* stacks for which it has taken caches of the pool */
	uint64_t nr_dropped; /* events for which there was no room, since the last that was recorded */
	const void *frame;   /* of the call that made it busy */
	uintptr_t near;      /* ip_near() of frames that are known to be its thread's */
	int *errno_at;       /* the thread's errno: known here without a call */
	const struct unwind_registers *caller; /* where native stacks begin; NULL = wherever they are asked for */
	bool busy;           /* inside a hook */
	bool is_elsewhere;   /* records what happened elsewhere: its own stack would say nothing */
	bool left;           /* a jump has left that hook: counted */
	struct ip_thread *nested;
};

/* How many allocations and refusals driver hooks have recorded on this thread. */
struct ip_taken {
	uint32_t nr, nr_refused;
};

/* A call of a hook that is in progress, or was: opencall.h says when it is believed. */
struct open_call {
	uint64_t serial;            /* of no other call in this process, and no number that memory holds by chance */
	const uint64_t *mark;       /* in the hook's frame: holds `serial` while the call stands */
	struct unwind_registers at; /* of the hook's caller */
};

/* What a driver hook is freeing, 0 = nothing, and by the call for which kind of memory. */
struct ip_freeing {
	uint64_t address;
	unsigned space;
	struct unwind_registers at; /* of the hook's caller */
};

/* PyTorch's current streams on a thread, as far as they are known: hooks_torch.c. */
struct ip_streams {
	uint64_t known; /* a bit for each device */
	uint32_t nr_asked;
	uint16_t id[TFMT_NR_DEVICES];
};

/* A copy of NVTX, by what it has handed over: nvtx_inject.c. All NULL: none. */
struct ip_nvtx_copy {
	const void *(*get)(uint32_t id);
	const struct nvtx_callbacks *callbacks;
};

/* All thread-local data of the library, initial-exec. Points to nothing on the stack of a call that it outlives. */
struct ip_tls {
	struct ip_thread *thread;
	struct open_calls *calls;            /* into PyTorch, in progress on this thread; NULL = none so far (opencall.h) */
	const void *python_state;            /* Python's state of it, once known and there for good (pyframes.c) */
	struct ip_streams streams;
	uint32_t generation; /* whose state `thread` is: a fork child inherits the pointer, not the memory */
	uint16_t origin;     /* function id of the outermost runtime call in progress, 0 = none */
	uint16_t calling;    /* of the driver hook whose call CUPTI has not told the end of, 0 = none; cupti.h */
	uint16_t nccl;       /* the call into NCCL in progress (hooks_nccl.c), 0 = none */
	uint16_t nccl_group; /* the communicator used since ncclGroupStart(), 0 = none yet, NCCL_SEVERAL */
	uint8_t nccl_depth;  /* of open groups */
	bool driver_seen;    /* the outermost runtime call in progress has reached a driver hook */
	bool reset_seen;     /* the end of a context was recorded since cudaDeviceReset() began */
	bool nvtx_busy;      /* inside nvtx_open.c */
	struct ip_taken taken, entered;    /* until now; until the innermost driver hook was entered */
	uint64_t taken_address, taken_end; /* the latest allocation, 0 = freed */
	struct ip_freeing freeing;
	struct open_call runtime_call, nccl_call; /* which have set `origin` and `nccl`: opencall.h */
	uint64_t nr_entered;               /* of those calls */
	struct nvtx_thread *nvtx;          /* its ranges while there is no trace yet, or NULL */
	uint64_t module_bytes;             /* of code that CUPTI has told of during that call */
	struct ip_nvtx_copy nvtx_copy;     /* the copy of NVTX that another tool is being let into */
};
extern __thread struct ip_tls ip_tls;

/* Of one device: when it was sampled last, and when it may be again (CLOCK_MONOTONIC). See samples.h. */
struct ip_sampled {
	_Atomic uint64_t grown_bytes; /* allocated since then */
	_Atomic uint64_t last_ns, next_ns;                     /* last: 0 = never */
	_Atomic uint64_t last_processes_ns, next_processes_ns;
};

#define IP_CACHE_LINE 64

/* The number of a device's next event. Every event writes it: no other thread's work is in its cache line. */
struct ip_order {
	_Alignas(IP_CACHE_LINE) uint64_t next;
};

#define IP_SHARED_STACKS 8u

/* Stack caches that new threads use in turn: stackpool.h. */
struct ip_shared_stacks {
	_Atomic bool is_taken;
	struct callstack *_Atomic stacks; /* NULL: nobody has needed them yet */
	uint32_t thread;                  /* the id of the one that had them last */
};

/* Why this process does not record, and what that has cost: reason.h. */
struct ip_reason {
	_Atomic bool is_seen;
	_Atomic uint32_t why; /* enum tfmt_why */
	int error;            /* an errno, 0 = none */
	_Atomic uint64_t unrecorded;
	struct tfmt_witness *_Atomic witness; /* this process's entry in the page of `run`, or NULL */
};

#define IP_CENSUS_COPIES 4u

/* Copies of the process that look for names: census.h. */
struct ip_census {
	_Atomic uint64_t next_high[TFMT_NR_DEVICES]; /* bytes allocated above which a hook looks whether one is due */
	_Atomic uint64_t high[TFMT_NR_DEVICES];      /* above which one is; 0 = the first step */
	_Atomic uint64_t latest[TFMT_NR_DEVICES];    /* bytes allocated when the latest was taken for that */
	_Atomic uint64_t latest_run_ns;              /* how long the process had been running then */
	_Atomic uint32_t due;                        /* device + 1 of which one is to be taken; 0 = none */
	_Atomic uint64_t due_allocated, due_ns;      /* of it, and since when */
	_Atomic bool asked;                          /* for one: the next hook takes it, or after a while the drain */
	_Atomic uint64_t asked_ns;
	_Atomic uint32_t taking;                     /* some thread is making one */
	_Atomic uint32_t copy[IP_CENSUS_COPIES];     /* process numbers of those that are at work; 0 = none */
	_Atomic uint64_t begun_ns[IP_CENSUS_COPIES];
	pid_t ended[IP_CENSUS_COPIES];               /* killed at the end of the process, and not yet waited for; 0 = none */
	_Atomic uint32_t nr_begun, nr_done, nr_refused, nr_failed; /* refused: there was no copy; failed: it did not end well */
	_Atomic uint32_t nr_oom;
	_Atomic uint64_t last_oom_ns, not_before_ns;
	_Atomic uint64_t stall_ns, longest_ns; /* for which the program stood still, in all */
	_Atomic int32_t last_errno, last_status; /* of a refused one; of one that did not end well, as wait() has it */
	_Atomic(const char *) refused_why;     /* of the last one that was not even tried; NULL: it was */
	_Atomic(const char *) crowded;         /* why there is no room for a copy just now; the drain looks */
	_Atomic bool registered;               /* the program has page-locked memory of its own */
	_Atomic(const char *) unable;          /* why none are taken; NULL: they are, or nobody has asked yet */
	uint32_t told;                         /* by the drain: a sum of the above that changes when one does */
};

/* All mutable state of the recorder; one MADV_WIPEONFORK mapping, so a fork child starts at IDLE. */
struct ip_recorder {
	_Atomic uint32_t state;
	uint32_t pid;
	uint32_t generation;                 /* of this process among its ancestors that recorded; pids can repeat */
	uint8_t *base;                       /* the mapped ring file: status page, definitions */
	struct tfmt_ring *ring[IP_RING_MAX]; /* its rings, as many as the status page counts */
	struct tfmt_status *status;
	_Atomic uint32_t definition_lock, shape_lock, string_lock;
	struct ip_strings *_Atomic strings;
	_Atomic uint32_t nvtx_lock;
	struct nvtx_process *_Atomic nvtx;
	struct ip_cupti *cupti;              /* made once, before anything is recorded; NULL = none */
	_Atomic bool cupti_on;               /* hooks say where they are: cupti.h */
	struct autograd_table *_Atomic autograd;
	_Atomic bool listening;              /* the simulated device has been told to talk to us */
	_Atomic uint32_t nr_definitions[TFMT_NR_DEF_TYPES];
	_Atomic uint32_t drain_request;      /* bumped to ask the drain for a round; futex */
	_Atomic uint32_t drain_asleep;
	_Atomic uint32_t drain_finished;     /* futex: 1 when the trace is closed */
	_Atomic uint32_t finisher;           /* system id of the thread that ends the process */
	_Atomic uint32_t finish;             /* the drain is to write what there is, and to end the trace */
	_Atomic uint64_t hold_until_ns;      /* until then at most, threads in hooks wait for the end of the trace */
	_Atomic uint32_t claim_lock;
	void *idle_states;                   /* of threads that have ended, under that lock: thread.c */
	struct ip_thread *ring_owner[IP_RING_MAX]; /* under that lock */
	uint32_t ring_looked_at;             /* the same: the latest that was to be taken from its thread */
	struct ip_shared_stacks shared_stacks[IP_SHARED_STACKS];
	bool rings_grow;                     /* there is memory for all of them: a thread that needs one begins it */
	_Atomic uint32_t rings_wanted;       /* else how many were missing since the drain looked */
	_Atomic uint32_t nr_forgotten;       /* states of threads that a jump has left for good (thread.c) */
	_Atomic bool open_is_slow;           /* nobody waits any longer for the trace to be opened */
	_Atomic uint64_t lost_before_open;   /* events that are missing because it was not open yet */
	_Atomic uint32_t nr_threads;         /* of ours: the drain, and what waits for it */
	_Atomic bool main_has_left;          /* by pthread_exit(); the process goes on */
	struct ip_reason reason;
	uint64_t definition_stuck;           /* definition_tail + 1 at the last wait without room; under the lock */
	_Atomic uint32_t device_known[TFMT_NR_DEVICES]; /* driver_query.c */
	_Atomic bool library_unloaded;       /* another may lie in its place: the modules are to be looked at again */
	_Atomic bool torch_too_old;          /* its allocator's reports have no addresses */
	struct ip_captures captures;
	struct ip_census census;
	_Atomic uint32_t sampling;           /* 1: some thread is taking a sample */
	struct ip_sampled sampled[TFMT_NR_DEVICES];
	_Atomic bool driver_hooked;          /* a driver wrapper has been reached: runtime wrappers only tag */
	struct ip_contexts contexts;
	struct ip_pools pools;
	struct ip_graphs graphs;
	_Alignas(IP_CACHE_LINE) _Atomic uint64_t driver_order;
	struct ip_order tensor_order[TFMT_NR_DEVICES]; /* each under its device allocator's mutex */
};

extern struct ip_recorder *ip_recorder; /* never NULL */

static inline uint32_t ip_state(void)
{
	return atomic_load_explicit(&ip_recorder->state, memory_order_acquire);
}

/* ---- lifecycle.c ---- */

/* After a successful cuInit. Not under an allocator's lock: may load libraries. Starts no thread. */
void ip_prepare(void);

/*
 * Before what a hook does for a process that does not record: libraries' initialisers call CUDA before our constructor
 * has run. True unless nothing can or may be recorded.
 */
bool ip_is_on(void);

/* Before the first event: true when events can be recorded. Waits for the drain to open the trace. */
bool ip_begin(void);

/*
 * The process ends with `end` and status: stores it, lets the drain finish (waiting at most two seconds).
 * Nothing is recorded afterwards. Does nothing in a vfork child or where nothing was recorded.
 */
void ip_finish(enum tfmt_end end, int status);

/*
 * The recording has been closed, and the process is about to end: what a thread does now would be missing from a
 * trace that says it is complete. Keeps every thread but the one that ends the process from doing it: returns when
 * the process should have ended, which it mostly does not live to see. Returns at once in that thread.
 */
IP_COLD void ip_hold(void);

/* ---- thread.c ---- */

void ip_thread_init(void); /* constructor */

/* What the calling thread has in ip_tls is to be given back when it ends. */
void ip_thread_remember(void);

/* Define the calling thread anew: it has got a name. Recording, t busy. */
void ip_thread_define(struct ip_thread *t);

/* ip_thread_get() for the call at that frame, whatever there is of a state. Keeps errno. */
IP_COLD struct ip_thread *ip_thread_get_slowly(const void *frame);

/* The MiB of memory that a frame is in: two threads that share their thread-local data have no stacks in the same one. */
static inline uintptr_t ip_near(const void *frame)
{
	return (uintptr_t)frame >> 20;
}

/* A state of this thread that is not busy, made at first use; NULL when there is no ring or no memory. Keeps errno. */
static inline struct ip_thread *ip_thread_get(void)
{
	const void *frame = __builtin_frame_address(0);
	struct ip_thread *t = ip_tls.thread;

	/* In a fork child the memory of its parent's thread is not there. Threads made by clone() may share all of this. */
	if (!t || ip_tls.generation != ip_recorder->generation || t->busy || t->near != ip_near(frame))
		return ip_thread_get_slowly(frame);
	t->frame = frame;
	return t;
}

/*
 * The same for recording one event: NULL also when nothing is being recorded. What is missed while recording counts
 * as lost. May wait, see ip_hold().
 */
struct ip_thread *ip_event_thread(void);

/* ---- ring.c ---- */

/*
 * Record one event of this thread: publishes it with time, order, stacks and what flags follow from them. ev holds what
 * the hook knows. Called with t->busy set. Waits at most IP_WAIT_NS while the ring is nearly full; when it is full
 * then, drops the event and counts it, there and by a TFMT_LOST before the thread's next event.
 */
void ip_record(struct ip_thread *t, const struct tfmt_record *ev);

/* Say in t's ring, which was another thread's (0 = nobody's), that its records are t's from now on. For ringclaim.c. */
void ip_record_thread(struct ip_thread *t, uint32_t previous);

/* Commit a definition before its id is used; false = not committed: no ring, full for too long, or too large. */
bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len);

/* Count one event that cannot be recorded. */
void ip_lost(void);

/* Note that a hook has waited for the drain since then (ip_now_ns). */
void ip_waited(uint64_t since_ns);

/* A fresh id of a definition type, starting at 1. */
uint32_t ip_next_id(enum tfmt_def_type type);

/* Wake the drain if it sleeps. */
void ip_wake_drain(void);

/* ---- ringclaim.c ---- */

/*
 * Give t a ring: one that nobody has, a new one, or one that an idle thread has. Waits at most IP_WAIT_NS, where all
 * threads that have one are writing; false: there is none.
 */
bool ip_ring_claim(struct ip_thread *t);

/* The thread ends: others may have its ring at once, whatever of it is not yet in the trace. */
void ip_ring_leave(struct ip_thread *t);

/* ---- driver_event.c ---- */

/* An allocation that worked, or (error not 0) was refused; reached from driver and runtime wrappers. */
void ip_driver_alloc(uint16_t function, int error, unsigned space, uint64_t address, uint64_t bytes);

/* A free about to be made. True when it was recorded, and ip_driver_free_failed() may be owed. */
bool ip_driver_free(uint16_t function, unsigned space, uint64_t address);
void ip_driver_free_failed(uint16_t function, int error, unsigned space, uint64_t address);

/* ---- hooks_context.c ---- */

/* A device's primary context has been reset by the runtime, past the driver's wrappers. */
void ip_context_reset(uint16_t function, unsigned device);

/* ---- simulation.c ---- */

/* Have the simulated device tell what it models and what is read of it. Nothing on a real one. Recording. */
void ip_simulation_listen(void);

/* ---- memory and time (system.c) ---- */

void *ip_map(size_t bytes);                /* zeroed anonymous memory, not inherited by fork; NULL on failure */
/* mmap() of memory that is read and written, by the same rules; NULL on failure. */
void *ip_map_file(size_t bytes, int flags, int fd, off_t offset);
void ip_unmap(void *p, size_t bytes);
uint64_t ip_now_ns(void);                  /* CLOCK_MONOTONIC */
void ip_pause(uint64_t ns);                /* sleep, at most so long (less than a second) */
/* Has main's thread ended, and are there no more than so many others? Opens no descriptor; false without /proc. */
bool ip_has_main_ended(unsigned max_others);
void ip_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);
void ip_futex_wake(_Atomic uint32_t *word);
/*
 * A small lock, held only over a few stores. The holder's signals wait meanwhile, and so does its cancellation: a
 * handler can neither find the lock held by its own thread nor jump away with it.
 */
void ip_lock(_Atomic uint32_t *word);
void ip_unlock(_Atomic uint32_t *word);

/* ---- drain.c ---- */

/*
 * Start the thread, which opens the trace; the state goes from OPENING to RECORDING or OFF. Where there is no thread to be
 * had, this one opens it, and what the rings hold is left to the readers.
 */
void ip_drain_start(void);
void ip_drain_wake(void);                  /* have it look whether the process ends */

/* ---- driver_query.c ---- */

/* Define the device at its first event: name, capacity, ids. Asks the driver (needs no context). */
void ip_driver_define_device(struct ip_thread *t, unsigned device);

/* The device of the calling thread's current context; TFMT_DEVICE_NONE without one. */
unsigned ip_driver_device(void);

#endif
