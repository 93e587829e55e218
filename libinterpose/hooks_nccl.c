/* SPDX-License-Identifier: MIT */
/*
 * Wrappers of NCCL's entry points, as PyTorch calls them: they only note, for the time of the call, which
 * communicator it is for. NCCL's types are spelt out here: its header ships apart from CUDA's.
 */
#include "hooks_nccl.h"

#include <stdio.h>

#include "objects.h"
#include "resolve.h"
#include "strings.h"

#define SYSTEM_ERROR 2 /* ncclSystemError: what a program gets when there is no NCCL to call */
#define NCCL_SEVERAL 0xffffu

struct unique_id {
	char internal[128];
};

/* The entry points, in a row each: in messages and in ip_tls.nccl they go by number. */
#define ENTRIES(_)                                                                                        \
	_(ncclCommInitRank) _(ncclCommInitRankConfig) _(ncclCommInitRankScalable) _(ncclCommInitAll)      \
	_(ncclCommSplit) _(ncclCommShrink) _(ncclCommFinalize) _(ncclCommDestroy) _(ncclCommAbort)        \
	_(ncclCommRegister) _(ncclCommWindowRegister) _(ncclMemAlloc)                                     \
	_(ncclAllReduce) _(ncclReduce) _(ncclBroadcast) _(ncclBcast) _(ncclReduceScatter)                 \
	_(ncclAllGather) _(ncclAlltoAll) _(ncclSend) _(ncclRecv) _(ncclGroupStart) _(ncclGroupEnd)

enum entry {
	ENTRY_NONE,
#define ROW(name) ENTRY_##name,
	ENTRIES(ROW)
#undef ROW
	NR_ENTRIES
};

static const char *const names[NR_ENTRIES] = {
#define ROW(name) [ENTRY_##name] = #name,
	ENTRIES(ROW)
#undef ROW
};

/* ip_tls.nccl: the entry above, the communicator's slot (0 = not known) below. */
#define SLOT_BITS 10u
#define SLOTS (1u << SLOT_BITS)
_Static_assert(NR_ENTRIES <= 1u << (16 - SLOT_BITS), "an entry and a slot fit 16 bits");

/* Of slot i: written by the thread that makes the communicator, before its handle is entered. */
static struct communicator {
	uint32_t number;
	_Atomic uint32_t nr_ranks; /* 0 = not known yet */
} communicator[SLOTS];
static _Atomic uint32_t nr_communicators; /* made so far, also those without a slot */

/* Handles by hash; a slot whose communicator is gone is free for another of the same place. */
static struct {
	_Atomic uintptr_t handle; /* 0 = never used */
	_Atomic uint32_t slot;
} table[2 * SLOTS];
#define GONE ((uintptr_t)1)
#define BEING_ENTERED ((uintptr_t)2)

static uint32_t place_of(uintptr_t handle)
{
	return (uint32_t)((handle >> 4) * 0x9e3779b97f4a7c15ull >> 32) & (2 * SLOTS - 1);
}

/* The slot of a communicator, 0 if it is not known. */
static uint32_t find(const void *comm)
{
	uintptr_t handle = (uintptr_t)comm, found;

	for (uint32_t i = place_of(handle), n = 0; comm && n < 2 * SLOTS; i = (i + 1) & (2 * SLOTS - 1), n++) {
		found = atomic_load_explicit(&table[i].handle, memory_order_acquire);
		if (found == handle)
			return atomic_load_explicit(&table[i].slot, memory_order_relaxed);
		if (!found)
			break;
	}
	return 0;
}

static void enter_handle(const void *comm, uint32_t slot)
{
	for (uint32_t i = place_of((uintptr_t)comm), n = 0; n < 2 * SLOTS; i = (i + 1) & (2 * SLOTS - 1), n++) {
		uintptr_t found = atomic_load_explicit(&table[i].handle, memory_order_relaxed);

		if (found > GONE && found != (uintptr_t)comm)
			continue;
		/* Another thread may have taken the place just now: then the next one. */
		if (!atomic_compare_exchange_strong(&table[i].handle, &found, BEING_ENTERED))
			continue;
		atomic_store_explicit(&table[i].slot, slot, memory_order_relaxed);
		atomic_store_explicit(&table[i].handle, (uintptr_t)comm, memory_order_release);
		return;
	}
}

static void forget_handle(const void *comm)
{
	uintptr_t handle = (uintptr_t)comm;

	for (uint32_t i = place_of(handle), n = 0; n < 2 * SLOTS; i = (i + 1) & (2 * SLOTS - 1), n++) {
		uintptr_t found = atomic_load_explicit(&table[i].handle, memory_order_relaxed);

		if (found == handle) {
			atomic_store_explicit(&table[i].handle, GONE, memory_order_release);
			return;
		}
		if (!found)
			return;
	}
}

/* A number and a slot for a communicator that is about to be made; slot 0 when there are too many. */
static uint32_t slot_new(int nr_ranks)
{
	uint32_t number = atomic_fetch_add_explicit(&nr_communicators, 1, memory_order_relaxed) + 1;

	if (number >= SLOTS)
		return 0;
	communicator[number].number = number;
	atomic_store_explicit(&communicator[number].nr_ranks, nr_ranks > 0 ? (uint32_t)nr_ranks : 0,
			      memory_order_relaxed);
	return number;
}

uint16_t ip_nccl_named(const char *entry)
{
	const struct communicator *c = &communicator[ip_tls.nccl & (SLOTS - 1)];
	uint32_t nr_ranks = atomic_load_explicit(&c->nr_ranks, memory_order_relaxed);
	char text[96];

	if (!entry)
		entry = names[ip_tls.nccl >> SLOT_BITS];
	if (!c->number)
		snprintf(text, sizeof(text), "%s", entry);
	else if (!nr_ranks)
		snprintf(text, sizeof(text), "%s, communicator %u", entry, c->number);
	else
		snprintf(text, sizeof(text), "%s, communicator %u of %u ranks", entry, c->number, nr_ranks);
	return ip_function_named(text);
}

/* ---- around a call ---------------------------------------------------------------------------- */

/*
 * The real function: another interposer's or the simulated one first; then that of the caller's own NCCL, which may be
 * part of the caller's own object; then any, for one that was opened with RTLD_GLOBAL is everybody's.
 */
static void *find_real(unsigned what, const void *caller)
{
	const char *name = names[what - FN_NR];
	void *f = ip_symbol_next(name);

	if (!f)
		f = ip_symbol_beside(caller, name);
	return f ? f : ip_symbol_elsewhere(name);
}

static void *real(enum entry e, const void *caller)
{
	return ip_real_at(FN_NR + e, caller, find_real);
}

static inline uint16_t entry_and_slot(enum entry e, uint32_t slot)
{
	return (uint16_t)((unsigned)e << SLOT_BITS | slot);
}

/* The group that is open on this thread, if one is, needs this communicator. */
static inline void note_in_group(uint32_t slot)
{
	if (!ip_tls.nccl_depth)
		return;
	if (!ip_tls.nccl_group && slot)
		ip_tls.nccl_group = (uint16_t)slot;
	else if (ip_tls.nccl_group != slot)
		ip_tls.nccl_group = NCCL_SEVERAL;
}

struct nccl_call {
	uint64_t mark;
	bool outermost; /* else NCCL is already on the stack, and calls itself */
};

/* Forget a call of NCCL that has been left by a jump. In the hook's own frame, as the functions that follow. */
static inline __attribute__((always_inline)) void forget_left(void)
{
	const struct unwind_registers at = UNWIND_CALLER();

	if (ip_tls.nccl && !open_frame_stands(NULL, &ip_tls.nccl_call.at, &at))
		ip_tls.nccl = 0;
}

/* NCCL is entered. */
static inline __attribute__((always_inline)) void enter(struct nccl_call *c, enum entry e, uint32_t slot)
{
	c->mark = 0;
	c->outermost = !ip_tls.nccl;
	if (c->outermost) {
		open_entry_note(&ip_tls.nccl_call, &c->mark);
		ip_tls.nccl = entry_and_slot(e, slot);
	}
}

static inline void leave(struct nccl_call *c)
{
	if (c->outermost && open_entry_ends(&ip_tls.nccl_call, &c->mark))
		ip_tls.nccl = 0;
}

/* The slot of the communicator of an operation. */
static inline uint32_t used(const void *comm)
{
	uint32_t slot = find(comm);

	note_in_group(slot);
	return slot;
}

static IP_COLD void record(uint8_t kind, const void *comm, uint32_t nr_ranks, int rank)
{
	int saved = errno;
	struct ip_thread *t = ip_event_thread();
	struct tfmt_record ev = {
		.kind = kind,
		.flags = TFMT_OBJECT_COMMUNICATOR,
		.address = (uintptr_t)comm,
		.size = nr_ranks,
		.aux = rank > 0 ? (uint64_t)rank : 0,
	};

	if (t) {
		ev.device = (uint8_t)ip_driver_device();
		t->busy = true;
		ev.function = ip_nccl_function(t);
		ip_record(t, &ev);
		t->busy = false;
	}
	errno = saved;
}

/* A communicator has been made, or NCCL goes on making it in a thread of its own. */
static IP_COLD void made(uint32_t slot, const void *comm, int rank)
{
	if (!comm)
		return;
	enter_handle(comm, slot);
	record(TFMT_OBJECT_NEW, comm, slot ? atomic_load(&communicator[slot].nr_ranks) : 0, rank);
}

/* ---- communicators ---------------------------------------------------------------------------- */

#define IN_PROGRESS 7 /* ncclInProgress: a communicator that does not block */
#define WORKED(result) (!(result) || (result) == IN_PROGRESS)
/* The real function that a hook is to call; a hook says this first. */
#define NEXT(name, params) (forget_left(), (int(*) params)real(ENTRY_##name, __builtin_return_address(0)))

/* COMM is where the new handle is after success, RANKS and RANK what the caller says of it. */
#define MAKE(name, params, args, comm, ranks, rank)                                   \
	IP_EXPORT int name params;                                                    \
	IP_EXPORT int name params                                                     \
	{                                                                             \
		int(*next) params = NEXT(name, params);                               \
		uint32_t slot = ip_tls.nccl ? 0 : slot_new(ranks);                    \
		struct nccl_call c;                                                   \
		int result;                                                           \
                                                                                      \
		enter(&c, ENTRY_##name, slot);                                        \
		result = next ? next args : SYSTEM_ERROR;                             \
		if (c.outermost)                                                      \
			note_in_group(slot);                                          \
		if (c.outermost && WORKED(result) && (comm))                          \
			made(slot, *(comm), rank);                                    \
		leave(&c);                                                            \
		return result;                                                        \
	}

MAKE(ncclCommInitRank, (void **comm, int ranks, struct unique_id id, int rank), (comm, ranks, id, rank), comm, ranks,
     rank)
MAKE(ncclCommInitRankConfig, (void **comm, int ranks, struct unique_id id, int rank, void *config),
     (comm, ranks, id, rank, config), comm, ranks, rank)
MAKE(ncclCommInitRankScalable, (void **comm, int ranks, int rank, int nr_ids, struct unique_id *ids, void *config),
     (comm, ranks, rank, nr_ids, ids, config), comm, ranks, rank)
MAKE(ncclCommSplit, (void *comm, int color, int key, void **split, void *config), (comm, color, key, split, config),
     split, 0, key)
MAKE(ncclCommShrink, (void *comm, int *excluded, int nr_excluded, void **shrunk, void *config, int flags),
     (comm, excluded, nr_excluded, shrunk, config, flags), shrunk, 0, 0)

/* One communicator a device; what is taken meanwhile is of no one of them. */
IP_EXPORT int ncclCommInitAll(void **comm, int nr, const int *devices);
IP_EXPORT int ncclCommInitAll(void **comm, int nr, const int *devices)
{
	int (*next)(void **, int, const int *) = NEXT(ncclCommInitAll, (void **, int, const int *));
	struct nccl_call c;
	int result;

	enter(&c, ENTRY_ncclCommInitAll, 0);
	result = next ? next(comm, nr, devices) : SYSTEM_ERROR;
	leave(&c);
	for (int rank = 0; c.outermost && WORKED(result) && comm && rank < nr; rank++) {
		uint32_t slot = slot_new(nr);

		enter(&c, ENTRY_ncclCommInitAll, slot);
		made(slot, comm[rank], rank);
		leave(&c);
	}
	return result;
}

/* The end of a communicator is noted before the call: its handle may be another's right after it. */
#define UNMAKE(name)                                                                  \
	IP_EXPORT int name(void *comm);                                               \
	IP_EXPORT int name(void *comm)                                                \
	{                                                                             \
		int (*next)(void *) = NEXT(name, (void *));                           \
		struct nccl_call c;                                                   \
		int result;                                                           \
                                                                                      \
		enter(&c, ENTRY_##name, find(comm));                                  \
		if (c.outermost && comm) {                                            \
			record(TFMT_OBJECT_GONE, comm, 0, 0);                         \
			forget_handle(comm);                                          \
		}                                                                     \
		result = next ? next(comm) : SYSTEM_ERROR;                            \
		leave(&c);                                                            \
		return result;                                                        \
	}

UNMAKE(ncclCommDestroy)
UNMAKE(ncclCommAbort)

/* ---- operations ------------------------------------------------------------------------------- */

#define OPERATION(name, params, args)                                                 \
	IP_EXPORT int name params;                                                    \
	IP_EXPORT int name params                                                     \
	{                                                                             \
		int(*next) params = NEXT(name, params);                               \
		struct nccl_call c;                                                   \
		int result;                                                           \
                                                                                      \
		enter(&c, ENTRY_##name, ip_tls.nccl ? 0 : used(comm));                \
		result = next ? next args : SYSTEM_ERROR;                             \
		leave(&c);                                                            \
		return result;                                                        \
	}

OPERATION(ncclCommFinalize, (void *comm), (comm))
OPERATION(ncclCommRegister, (void *comm, void *address, size_t bytes, void **handle), (comm, address, bytes, handle))
OPERATION(ncclCommWindowRegister, (void *comm, void *address, size_t bytes, void **window, int flags),
	  (comm, address, bytes, window, flags))
OPERATION(ncclAllReduce, (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream),
	  (from, to, count, type, op, comm, stream))
OPERATION(ncclReduce,
	  (const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream),
	  (from, to, count, type, op, root, comm, stream))
OPERATION(ncclBroadcast, (const void *from, void *to, size_t count, int type, int root, void *comm, void *stream),
	  (from, to, count, type, root, comm, stream))
OPERATION(ncclBcast, (void *buffer, size_t count, int type, int root, void *comm, void *stream),
	  (buffer, count, type, root, comm, stream))
OPERATION(ncclReduceScatter, (const void *from, void *to, size_t count, int type, int op, void *comm, void *stream),
	  (from, to, count, type, op, comm, stream))
OPERATION(ncclAllGather, (const void *from, void *to, size_t count, int type, void *comm, void *stream),
	  (from, to, count, type, comm, stream))
OPERATION(ncclAlltoAll, (const void *from, void *to, size_t count, int type, void *comm, void *stream),
	  (from, to, count, type, comm, stream))
OPERATION(ncclSend, (const void *from, size_t count, int type, int peer, void *comm, void *stream),
	  (from, count, type, peer, comm, stream))
OPERATION(ncclRecv, (void *to, size_t count, int type, int peer, void *comm, void *stream),
	  (to, count, type, peer, comm, stream))

/* For no communicator: a group that is open goes on needing those that it needed. */
IP_EXPORT int ncclMemAlloc(void **address, size_t bytes);
IP_EXPORT int ncclMemAlloc(void **address, size_t bytes)
{
	int (*next)(void **, size_t) = NEXT(ncclMemAlloc, (void **, size_t));
	struct nccl_call c;
	int result;

	enter(&c, ENTRY_ncclMemAlloc, 0);
	result = next ? next(address, bytes) : SYSTEM_ERROR;
	leave(&c);
	return result;
}

/* ---- groups ----------------------------------------------------------------------------------- */

IP_EXPORT int ncclGroupStart(void);
IP_EXPORT int ncclGroupStart(void)
{
	int (*next)(void) = NEXT(ncclGroupStart, (void));

	if (!ip_tls.nccl && !ip_tls.nccl_depth++)
		ip_tls.nccl_group = 0;
	return next ? next() : SYSTEM_ERROR;
}

IP_EXPORT int ncclGroupEnd(void);
IP_EXPORT int ncclGroupEnd(void)
{
	int (*next)(void) = NEXT(ncclGroupEnd, (void));
	struct nccl_call c;
	int result;

	enter(&c, ENTRY_ncclGroupEnd, ip_tls.nccl_group == NCCL_SEVERAL ? 0 : ip_tls.nccl_group);
	if (c.outermost && ip_tls.nccl_depth) /* as NCCL counts: before it does anything that a jump can leave */
		ip_tls.nccl_depth--;
	result = next ? next() : SYSTEM_ERROR;
	leave(&c);
	return result;
}
