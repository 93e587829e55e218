/* SPDX-License-Identifier: MIT */
/* When to ask the driver what is in use, and asking it; see samples.h. */
#include "samples.h"

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <stdlib.h>
#include <unistd.h>

#include "env.h"
#include "interpose.h"
#include "nvml_query.h"
#include "opencall.h"
#include "resolve.h"

#define SHARE 1000u           /* a sample is followed by so many times its cost without one */
#define REFUSED_PART 100u     /* after a refusal the wait is so many times shorter: what is free explains the refusal */
#define IDLE_NS 1000000000ull /* without a sample for so long, the next allocation takes one */

/* Real functions, looked up once in a driver's life by whoever takes a sample; `asked`: its epoch and 1. */
static struct {
	_Atomic uint32_t asked;
	CUresult (*mem_get_info)(size_t *, size_t *);
	CUresult (*exchange_capture_mode)(CUstreamCaptureMode *);
	CUresult (*pool_attribute)(CUmemoryPool, CUmemPool_attribute, void *);
	CUresult (*current_pool)(CUmemoryPool *, CUdevice);
} driver;

static void look_up(void)
{
	uint32_t epoch = ip_driver_epoch() + 1;

	if (atomic_load_explicit(&driver.asked, memory_order_acquire) == epoch)
		return;
	driver.mem_get_info = (__typeof__(driver.mem_get_info))ip_driver_symbol("cuMemGetInfo_v2");
	driver.exchange_capture_mode =
		(__typeof__(driver.exchange_capture_mode))ip_driver_symbol("cuThreadExchangeStreamCaptureMode");
	driver.pool_attribute = (__typeof__(driver.pool_attribute))ip_driver_symbol("cuMemPoolGetAttribute");
	driver.current_pool = (__typeof__(driver.current_pool))ip_driver_symbol("cuDeviceGetMemPool");
	atomic_store_explicit(&driver.asked, epoch, memory_order_release);
}

uint64_t ip_sample_pace(_Atomic uint64_t *next_ns, uint64_t began_ns)
{
	uint64_t now = ip_now_ns();

	atomic_store_explicit(next_ns, now + (now - began_ns) * SHARE, memory_order_relaxed);
	return now;
}

static void record(struct ip_thread *t, uint8_t kind, unsigned device, uint64_t address, uint64_t size, uint64_t aux)
{
	struct tfmt_record ev = {
		.kind = kind, .device = (uint8_t)device, .address = address, .size = size, .aux = aux
	};

	ip_record(t, &ev);
}

/* After a refusal, has enough time passed since the latest question of its kind? */
static bool is_refusal_due(_Atomic uint64_t *last_ns, _Atomic uint64_t *next_ns, uint64_t now)
{
	uint64_t last = atomic_load_explicit(last_ns, memory_order_relaxed);
	uint64_t next = atomic_load_explicit(next_ns, memory_order_relaxed);

	return next <= last || now - last >= (next - last) / REFUSED_PART;
}

static void sample_processes(struct ip_thread *t, unsigned device, struct ip_sampled *s, uint64_t now, bool is_refused)
{
	uint64_t own, others;
	bool known;

	if (now < atomic_load_explicit(&s->next_processes_ns, memory_order_relaxed) &&
	    !(is_refused && is_refusal_due(&s->last_processes_ns, &s->next_processes_ns, now)))
		return;
	known = ip_nvml_processes(device, &own, &others);
	now = ip_sample_pace(&s->next_processes_ns, now);
	atomic_store_explicit(&s->last_processes_ns, now, memory_order_relaxed);
	if (known)
		record(t, TFMT_PROCESS_INFO, device, 0, own, others);
}

static void sample_one_pool(struct ip_thread *t, unsigned device, CUmemoryPool pool)
{
	cuuint64_t reserved = 0, used = 0;

	if (!pool && (!driver.current_pool || driver.current_pool(&pool, (CUdevice)device)))
		return;
	if (driver.pool_attribute && !driver.pool_attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved) &&
	    !driver.pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used))
		record(t, TFMT_POOL_INFO, device, (uintptr_t)pool, reserved, used);
}

static void sample_memory(struct ip_thread *t, unsigned device)
{
	size_t free_bytes, total_bytes;

	if (!driver.mem_get_info(&free_bytes, &total_bytes))
		record(t, TFMT_MEMORY_INFO, device, 0, free_bytes, total_bytes);
}

/*
 * The pool is one that the program is using in this very call, or just has: no other is asked, for it might be
 * destroyed meanwhile.
 */
static void take(struct ip_thread *t, unsigned device, bool with_pool, void *pool, bool is_refused)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
	struct ip_sampled *s = &ip_recorder->sampled[device];
	bool is_here = ip_driver_device() == device;
	uint64_t now = ip_now_ns();
	uint32_t nobody = 0;

	if ((!is_here && !with_pool) || ip_captures_forbid_questions() ||
	    !atomic_compare_exchange_strong(&ip_recorder->sampling, &nobody, 1))
		return;
	look_up();
	t->busy = true;
	if (!driver.mem_get_info || (driver.exchange_capture_mode && driver.exchange_capture_mode(&mode)))
		goto out;
	if (is_here)
		atomic_store_explicit(&s->grown_bytes, 0, memory_order_relaxed);
	sample_processes(t, device, s, now, is_refused);
	now = ip_now_ns();
	if (with_pool)
		sample_one_pool(t, device, pool);
	if (is_here)
		sample_memory(t, device);
	atomic_store_explicit(&s->last_ns, ip_sample_pace(&s->next_ns, now), memory_order_relaxed);
	if (driver.exchange_capture_mode)
		driver.exchange_capture_mode(&mode);
out:
	t->busy = false;
	atomic_store_explicit(&ip_recorder->sampling, 0, memory_order_release);
}

/* Enough has been allocated since the last sample, or that is long ago; and the pace allows another. */
static bool is_due(struct ip_sampled *s, uint64_t bytes)
{
	uint64_t grown = atomic_fetch_add_explicit(&s->grown_bytes, bytes, memory_order_relaxed) + bytes;
	uint64_t last = atomic_load_explicit(&s->last_ns, memory_order_relaxed), now = ip_now_ns();

	return now >= atomic_load_explicit(&s->next_ns, memory_order_relaxed) &&
	       (!last || grown >= ip_env.sample_bytes || now - last > IDLE_NS);
}

static bool is_sampled(unsigned device)
{
	return ip_env.sample_bytes && device < TFMT_NR_DEVICES;
}

void ip_sample_grown(struct ip_thread *t, unsigned device, uint64_t bytes)
{
	if (is_sampled(device) && is_due(&ip_recorder->sampled[device], bytes))
		take(t, device, false, NULL, false);
}

void ip_sample_pool(struct ip_thread *t, unsigned device, void *pool, uint64_t bytes)
{
	if (is_sampled(device) && is_due(&ip_recorder->sampled[device], bytes ? bytes : ip_env.sample_bytes))
		take(t, device, true, pool, false);
}

void ip_sample_now(struct ip_thread *t, unsigned device)
{
	if (is_sampled(device) && is_due(&ip_recorder->sampled[device], ip_env.sample_bytes))
		take(t, device, false, NULL, false);
}

void ip_sample_refused(struct ip_thread *t, unsigned device)
{
	struct ip_sampled *s;

	if (!is_sampled(device))
		return;
	s = &ip_recorder->sampled[device];
	if (is_refusal_due(&s->last_ns, &s->next_ns, ip_now_ns()))
		take(t, device, false, NULL, true);
}

/* The process ends. Not from within a call to the driver: the thread may hold its locks. */
static void at_end(void)
{
	int saved = errno;
	struct ip_thread *t;
	unsigned device;

	if (ip_state() != IP_RECORDING || ip_recorder->pid != (uint32_t)getpid() || open_origin(NULL) || open_nccl(NULL))
		return;
	t = ip_event_thread();
	device = t ? ip_driver_device() : TFMT_DEVICE_NONE;
	if (device != TFMT_DEVICE_NONE)
		ip_sample_now(t, device);
	errno = saved;
}

void ip_samples_prepare(void)
{
	static _Atomic bool registered; /* also in what fork children inherit: exit handlers are */

	if (!ip_env.sample_bytes)
		return;
	ip_nvml_prepare(ip_driver_device() != TFMT_DEVICE_NONE);
	if (!atomic_exchange(&registered, true))
		atexit(at_end);
}
