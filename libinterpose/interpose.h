/* SPDX-License-Identifier: MIT */
/*
 * libinterpose: what its files share. Everything here runs inside somebody else's program.
 *
 * The promise of every hook: the real call happens exactly once, its result and errno are returned
 * untouched, and nothing in between allocates through the traced program, locks what the traced
 * program locks, takes the GIL or prints. What cannot be recorded is counted in the status page.
 *
 * Life of the recorder in one process (enum ip_state, in memory that a fork child finds zeroed):
 *   IDLE -> PREPARED   first successful cuInit, outside any allocator lock: libraries, drain thread
 *   -> RECORDING       first successful allocation: the drain has opened trace and rings
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

#include "tracefmt/tracefmt.h"

#define IP_EXPORT __attribute__((visibility("default")))
#define IP_COLD __attribute__((cold, noinline))

#define IP_RING_CAPACITY 16384u             /* records: 1 MiB */
#define IP_RING_STRIDE (sizeof(struct tfmt_ring) + (size_t)IP_RING_CAPACITY * TFMT_RECORD_BYTES)
#define IP_RING_MAX 512u                    /* threads recording at one time */
#define IP_DEFINITION_BYTES (1u << 20)
#define IP_WAIT_NS 20000000ull              /* the longest a hook waits for room in a ring */
#define IP_STUCK_NS 500000000ull            /* a drain that has not moved for so long is not waited for */

enum ip_state { IP_IDLE = 0, IP_PREPARING, IP_PREPARED, IP_OPENING, IP_RECORDING, IP_STOPPED, IP_CLOSED, IP_OFF };

struct callstack;

/* A thread that has recorded: its ring, its stack caches, and whether it is inside a hook. */
struct ip_thread {
	struct tfmt_ring *ring;
	struct callstack *stacks;
	struct shape_cache *shapes;
	uint64_t head;       /* ring->head, the producer's own copy */
	uint64_t stuck_tail; /* ring->tail at the last wait for room; UINT64_MAX = none */
	unsigned nr_waits;   /* for which it did not move */
	bool busy;           /* inside a hook: what a signal handler does meanwhile is counted as lost */
};

struct pending_tensor;

/* All thread-local data of the library, initial-exec, 24 bytes. */
struct ip_tls {
	struct ip_thread *thread;
	const struct pending_tensor *tensor; /* the tensor that this thread is about to allocate, or NULL */
	uint32_t generation; /* whose state `thread` is: a fork child inherits the pointer, not the memory */
	uint16_t origin;     /* function id of the outermost runtime call in progress, 0 = none */
	bool driver_seen;    /* ... which has reached a driver hook */
};
extern __thread struct ip_tls ip_tls;

/* All mutable state of the recorder; one MADV_WIPEONFORK mapping, so a fork child starts at IDLE. */
struct ip_recorder {
	_Atomic uint32_t state;
	uint32_t pid;
	uint32_t generation;                 /* of this process among its ancestors that recorded; pids can repeat */
	uint8_t *base;                       /* the mapped ring file: status, definitions, rings */
	struct tfmt_status *status;
	_Atomic uint32_t definition_lock, shape_lock, owner_lock;
	_Atomic bool listening;              /* the simulated device has been told to talk to us */
	_Atomic uint32_t nr_definitions[TFMT_NR_DEF_TYPES];
	_Atomic uint32_t drain_request;      /* bumped to ask the drain for a round; futex */
	_Atomic uint32_t drain_asleep;
	_Atomic uint32_t drain_finished;     /* futex: 1 when the trace is closed */
	_Atomic uint32_t finish;             /* the process is ending */
	_Atomic uint32_t rings_wanted;       /* threads waiting for their first ring */
	_Atomic bool rings_exhausted;        /* there can be no more, or not soon: such threads do not wait */
	_Atomic uint64_t rings_missing_since; /* when a thread got none for the first time since the drain looked */
	_Atomic uint64_t lost_before_open;   /* events while the trace was being opened for too long */
	uint64_t definition_stuck;           /* definition_tail + 1 at the last wait that found no room; under the lock */
	_Atomic uint64_t driver_order;
	uint64_t tensor_order[TFMT_NR_DEVICES]; /* each under its device allocator's mutex */
	_Atomic uint32_t device_known[TFMT_NR_DEVICES];
	_Atomic bool torch_too_old;          /* its allocator's reports have no addresses */
	_Atomic bool driver_hooked;          /* a driver wrapper has been reached: runtime wrappers only tag */
};

extern struct ip_recorder *ip_recorder; /* set by the constructor, never NULL afterwards */

static inline uint32_t ip_state(void)
{
	return atomic_load_explicit(&ip_recorder->state, memory_order_acquire);
}

/* ---- lifecycle.c ---- */

/* After a successful cuInit. Not under an allocator's lock: may load libraries and start the drain. */
void ip_prepare(void);

/* Before the first event: true when events can be recorded. Waits for the drain to open the trace. */
bool ip_begin(void);

/*
 * The process ends with `end` and status: stores it, lets the drain finish (waiting at most two seconds).
 * Nothing is recorded afterwards. Does nothing in a vfork child or where nothing was recorded.
 */
void ip_finish(enum tfmt_end end, int status);

/* ---- thread.c ---- */

/* This thread's state, made at first use; NULL when there is no ring or no memory for it. */
struct ip_thread *ip_thread_get(void);
void ip_thread_init(void); /* constructor */

/*
 * The state for recording one event; NULL when that cannot be: not recording, no ring, or a signal handler's call
 * in the middle of a hook. What is missed while recording counts as lost.
 */
struct ip_thread *ip_event_thread(void);

/* ---- ring.c ---- */

/*
 * Record one event of this thread: fills time, order, stacks and flags, and publishes it. ev holds what the
 * hook knows. Called with t->busy set. Waits at most IP_WAIT_NS for room, then counts the event as lost.
 */
void ip_record(struct ip_thread *t, struct tfmt_record *ev);

/* Commit a definition before its id is used; false = not committed (no ring, or full for too long). */
bool ip_define(uint32_t type, uint32_t id, const void *payload, size_t len);

/* Count one event that cannot be recorded. */
void ip_lost(void);

/* A fresh id of a definition type, starting at 1. */
uint32_t ip_next_id(enum tfmt_def_type type);

/* Wake the drain if it sleeps. */
void ip_wake_drain(void);

/* ---- hooks_driver.c ---- */

/* An allocation that worked, or (error not 0) was refused; reached from driver and runtime wrappers. */
void ip_driver_alloc(uint16_t function, int error, unsigned space, uint64_t address, uint64_t bytes);

/* A free about to be made. True when it was recorded, and ip_driver_free_failed() may be owed. */
bool ip_driver_free(uint16_t function, unsigned space, uint64_t address);
void ip_driver_free_failed(uint16_t function, int error, unsigned space, uint64_t address);

/* ---- simulation.c ---- */

/* Have the simulated device tell what it models and what is read of it. Nothing on a real one. Recording. */
void ip_simulation_listen(void);

/* ---- memory and time (system.c) ---- */

void *ip_map(size_t bytes);                /* zeroed anonymous memory, not inherited by fork; NULL on failure */
void ip_unmap(void *p, size_t bytes);
uint64_t ip_now_ns(void);                  /* CLOCK_MONOTONIC */
void ip_pause(uint64_t ns);                /* sleep, at most so long (less than a second) */
void ip_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);
void ip_futex_wake(_Atomic uint32_t *word);
void ip_lock(_Atomic uint32_t *word);      /* a small lock; held only over a few stores */
void ip_unlock(_Atomic uint32_t *word);

/* ---- drain.c ---- */

bool ip_drain_start(void);                 /* the thread; true when it runs */
void ip_drain_ready(void);                 /* have it open the trace */

/* ---- driver_query.c ---- */

/* Define the device at its first event: name, capacity, ids. Asks the driver (needs no context). */
void ip_driver_define_device(struct ip_thread *t, unsigned device);

/* The device of the calling thread's current context; TFMT_DEVICE_NONE without one. */
unsigned ip_driver_device(void);

/* Record what the driver says is free on the current device. */
void ip_driver_sample(struct ip_thread *t, unsigned device);

#endif
