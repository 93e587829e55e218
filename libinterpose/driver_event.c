/* SPDX-License-Identifier: MIT */
/* Recording what the driver's entry points did: events, allocations, frees. */
#include "autograd.h"
#include "census.h"
#include "hooks_driver.h"
#include "hooks_nccl.h"
#include "samples.h"

/* Call with t->busy set: NCCL's may commit a definition. */
static uint16_t entry_point(struct ip_thread *t, uint16_t function)
{
	uint16_t nccl = ip_nccl_function(t), origin = open_origin(t);

	return nccl ? nccl : origin ? origin : function;
}

static void record(struct ip_thread *t, struct tfmt_record *ev)
{
	t->busy = true;
	autograd_before_event(t);
	ev->function = entry_point(t, ev->function);
	ip_record(t, ev);
	t->busy = false;
}

/* Without a context, device 0 stands for what belongs to none. */
static uint8_t device_of(const struct tfmt_record *ev)
{
	unsigned device = ev->device;

	if (device == IP_CURRENT_DEVICE)
		device = ip_driver_device();
	return device == TFMT_DEVICE_NONE ? 0 : (uint8_t)device;
}

struct ip_thread *ip_driver_event(struct tfmt_record ev)
{
	int saved = errno;
	struct ip_thread *t = ip_event_thread();

	if (t) {
		ev.device = device_of(&ev);
		record(t, &ev);
	}
	errno = saved;
	return t;
}

struct ip_thread *ip_driver_born(struct tfmt_record ev)
{
	int saved = errno;
	struct ip_thread *t;

	ip_begin();
	t = ip_event_thread();
	if (t) {
		ev.device = device_of(&ev);
		if (ev.device < TFMT_NR_DEVICES)
			ip_driver_define_device(t, ev.device);
		record(t, &ev);
	}
	errno = saved;
	return t;
}

/* What is freed when its context is destroyed. Pools, physical memory and address ranges belong to none. */
static bool is_of_context(unsigned space)
{
	return space == TFMT_SPACE_DEVICE || space == TFMT_SPACE_PINNED || space == TFMT_SPACE_MANAGED ||
	       space == TFMT_SPACE_REGISTERED || space == TFMT_SPACE_ARRAY || space == TFMT_SPACE_IPC;
}

/* Of pools, the wrappers themselves have samples taken: those need the pool. */
static bool is_sampled(unsigned space)
{
	return space == TFMT_SPACE_DEVICE || space == TFMT_SPACE_ARRAY || space == TFMT_SPACE_HANDLE;
}

/* The event is complete but for its context. */
static void record_alloc(struct ip_thread *t, struct tfmt_record *ev)
{
	unsigned space = ev->flags & TFMT_SPACE_MASK;

	ip_driver_define_device(t, ev->device);
	ev->aux = is_of_context(space) ? ip_context_number() : 0;
	if (is_of_context(space) && !ev->aux)
		ip_context_used(ev->function, ev->device);
	record(t, ev);
	if (is_sampled(space))
		ip_sample_grown(t, ev->device, ev->size);
}

/* Linear memory of the device: each of these calls frees what any of them stands for. */
static bool is_linear(unsigned space)
{
	space &= TFMT_SPACE_MASK;
	return space == TFMT_SPACE_DEVICE || space == TFMT_SPACE_POOL || space == TFMT_SPACE_GRAPH ||
	       space == TFMT_SPACE_IPC;
}

/*
 * Has a call within recorded it? Not all that is recorded meanwhile is: a signal handler may allocate, and an
 * interposer something for itself.
 */
static bool is_told_within(const struct tfmt_record *ev, bool worked)
{
	if (!worked)
		return ip_tls.taken.nr_refused != ip_tls.entered.nr_refused;
	return ip_tls.taken.nr != ip_tls.entered.nr && ev->address >= ip_tls.taken_address &&
	       ev->address < ip_tls.taken_end;
}

static void told(const struct tfmt_record *ev, bool worked)
{
	unsigned space = ev->flags & TFMT_SPACE_MASK;

	if (!worked) {
		ip_tls.taken.nr_refused++;
	} else if (space != TFMT_SPACE_RESERVED) { /* which is no memory */
		ip_tls.taken.nr++;
		ip_tls.taken_address = ev->address;
		ip_tls.taken_end = ev->address + (is_linear(space) || space == TFMT_SPACE_MANAGED ? ev->size : 1);
	}
	if (worked && ip_tls.freeing.address == ev->address)
		ip_tls.freeing.address = 0; /* a signal handler jumped out of that free */
}

struct ip_thread *ip_driver_took(struct tfmt_record ev, int error)
{
	int saved = errno;
	bool worked = !error && ev.address;
	struct ip_thread *t;

	if ((!worked && error != IP_OUT_OF_MEMORY) || is_told_within(&ev, worked))
		return NULL;
	told(&ev, worked);
	if (worked)
		ip_begin();
	t = ip_event_thread();
	ev.device = t ? device_of(&ev) : 0;
	if (t && worked && ev.device >= TFMT_NR_DEVICES) {
		ip_lost();
		worked = false;
	} else if (t && worked) {
		record_alloc(t, &ev);
	} else if (t) {
		ev.kind = TFMT_ALLOC_FAILED;
		ev.address = 0;
		ev.aux = (uint64_t)error;
		record(t, &ev);
		ip_sample_refused(t, ev.device);
	}
	errno = saved;
	return worked ? t : NULL;
}

void ip_driver_alloc(uint16_t function, int error, unsigned space, uint64_t address, uint64_t bytes)
{
	if (space == TFMT_SPACE_REGISTERED && !error)
		census_note_registered();
	ip_driver_took((struct tfmt_record){ .kind = TFMT_DRIVER_ALLOC,
					     .flags = (uint16_t)space,
					     .function = function,
					     .device = IP_CURRENT_DEVICE,
					     .address = address,
					     .size = bytes },
		       error);
}

bool ip_is_to_free(unsigned space, uint64_t address)
{
	const struct ip_freeing *around = &ip_tls.freeing;

	if (around->address == address &&
	    (around->space == space || (is_linear(around->space) && is_linear(space))))
		return false;
	if (ip_tls.taken_address == address)
		ip_tls.taken_address = ip_tls.taken_end = 0;
	return address != 0;
}

bool ip_driver_free(uint16_t function, unsigned space, uint64_t address)
{
	return ip_is_to_free(space, address) && ip_driver_event((struct tfmt_record){ .kind = TFMT_DRIVER_FREE,
										      .flags = (uint16_t)space,
										      .function = function,
										      .device = IP_CURRENT_DEVICE,
										      .address = address });
}

void ip_driver_free_failed(uint16_t function, int error, unsigned space, uint64_t address)
{
	if (error != IP_SHUT_DOWN)
		ip_driver_event((struct tfmt_record){ .kind = TFMT_FREE_FAILED,
						      .flags = (uint16_t)space,
						      .function = function,
						      .address = address,
						      .aux = (uint64_t)error });
}

void *ip_question_function(struct ip_question *q)
{
	uint64_t now = (uint64_t)ip_driver_epoch() + 1;
	int saved = errno;

	if (atomic_load_explicit(&q->asked, memory_order_acquire) != now) {
		atomic_store_explicit(&q->function, ip_driver_symbol(q->symbol), memory_order_relaxed);
		atomic_store_explicit(&q->asked, now, memory_order_release);
	}
	errno = saved;
	return atomic_load_explicit(&q->function, memory_order_relaxed);
}

/*
 * A handle keeps its number, also when the driver gives it out again for another stream. Asking the driver
 * for the stream's own number would be one call more. The table outlives a fork: its numbers stay right.
 */
#define STREAM_ROOM 4096u
#define STREAM_TRIES 32u

uint16_t ip_stream_number(CUstream stream)
{
	static _Atomic uintptr_t seen[STREAM_ROOM];
	uintptr_t handle = (uintptr_t)stream;
	unsigned first = (unsigned)(handle * 0x9e3779b97f4a7c15ull >> 52);

	if (handle <= (uintptr_t)CU_STREAM_PER_THREAD)
		return (uint16_t)handle;
	for (unsigned i = 0; i < STREAM_TRIES; i++) {
		unsigned at = (first + i) & (STREAM_ROOM - 1);
		uintptr_t found = atomic_load_explicit(&seen[at], memory_order_relaxed);

		if (found == handle ||
		    (!found && atomic_compare_exchange_strong(&seen[at], &found, handle)) || found == handle)
			return (uint16_t)(at + 3);
	}
	return TFMT_STREAM_OTHER;
}
