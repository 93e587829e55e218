/* SPDX-License-Identifier: MIT */
/*
 * What NVTX's functions do here: ranges and marks become events.
 *
 * What they return is what the program would get without us, or what the other tool returns if there is one. Only
 * ids and handles, which the program passes back, are made up.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "autograd.h"
#include "interpose.h"
#include "nvtx.h"

nvtx_function nvtx_core_next[NVTX_CORE_SIZE], nvtx_core2_next[NVTX_CORE2_SIZE];

/* The other tool's function of this place, as a pointer to a function like `like`. */
#define NEXT(like, module, id) ((__typeof__(&like))nvtx_##module##_next[id])

void nvtx_record(struct ip_thread *thread, uint8_t kind, uint32_t name, uint32_t domain, uint64_t aux)
{
	struct tfmt_record ev = {
		.kind = kind,
		.device = TFMT_DEVICE_NONE,
		.stream = TFMT_STREAM_OTHER,
		.address = name,
		.size = domain,
		.aux = aux,
	};

	autograd_before_event(thread);
	ip_record(thread, &ev);
}

static void record(uint8_t kind, const struct nvtx_text *t, uint64_t domain, uint64_t aux)
{
	struct ip_thread *thread = ip_event_thread();

	if (!thread)
		return;
	thread->busy = true;
	nvtx_record(thread, kind, t ? nvtx_text_id(t) : 0, nvtx_domain_id(domain), aux);
	thread->busy = false;
}

static uint32_t category_of(const struct nvtx_attributes *a)
{
	return a && a->size >= sizeof(*a) ? a->category : 0;
}

/* ---- what all variants of a function do -------------------------------------------------------- */

static void pushed(uint64_t domain, uint32_t category, const struct nvtx_text *t)
{
	uint32_t state = ip_state();
	int saved = errno;

	if (state == IP_RECORDING)
		record(TFMT_RANGE_PUSH, t, domain, category);
	else if (state < IP_RECORDING)
		nvtx_open_push(domain, category, t);
	errno = saved;
}

static void popped(uint64_t domain)
{
	uint32_t state = ip_state();
	int saved = errno;

	if (state == IP_RECORDING)
		record(TFMT_RANGE_POP, NULL, domain, 0);
	else if (state < IP_RECORDING)
		nvtx_open_pop(domain);
	errno = saved;
}

static void marked(uint64_t domain, uint32_t category, const struct nvtx_text *t)
{
	int saved = errno;

	if (ip_state() == IP_RECORDING)
		record(TFMT_MARK, t, domain, category);
	errno = saved;
}

/* The other tool's id if it gave one, else a new one. */
static uint64_t started(uint64_t id, uint64_t domain, const struct nvtx_text *t)
{
	static _Atomic uint64_t last;
	struct ip_thread *thread;
	int saved = errno;

	if (!id)
		id = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
	if (ip_state() == IP_RECORDING) {
		record(TFMT_RANGE_START, t, domain, id);
	} else if (ip_state() < IP_RECORDING) {
		nvtx_open_start(id, domain, t);
		/* Another thread may have begun to record meanwhile, and looked for open ranges too early. */
		thread = ip_state() == IP_RECORDING ? ip_event_thread() : NULL;
		if (thread) {
			thread->busy = true;
			nvtx_replay(thread);
			thread->busy = false;
		}
	}
	errno = saved;
	return id;
}

static void ended(uint64_t id)
{
	int saved = errno;

	if (!nvtx_open_end(id) && ip_state() == IP_RECORDING)
		record(TFMT_RANGE_END, NULL, 0, id);
	errno = saved;
}

/* Another tool that gave no handle would get ours: better a range without its domain's name. */
static uint64_t kept(uint64_t handle, const struct nvtx_text *t)
{
	int saved = errno;

	if (handle || !nvtx_has_other())
		handle = nvtx_name_keep(handle, t);
	errno = saved;
	return handle;
}

static void named_thread(uint32_t tid, const struct nvtx_text *t)
{
	struct ip_thread *thread;
	int saved = errno;

	nvtx_name_thread(tid, t);
	thread = ip_state() == IP_RECORDING && tid == (uint32_t)syscall(SYS_gettid) ? ip_thread_get() : NULL;
	if (thread) {
		thread->busy = true;
		ip_thread_define(thread);
		thread->busy = false;
	}
	errno = saved;
}

/* ---- the functions, in the order of the tables -------------------------------------------------- */

static void mark_ex(const struct nvtx_attributes *a)
{
	__typeof__(&mark_ex) next = NEXT(mark_ex, core, NVTX_MARK_EX);
	struct nvtx_text t;

	nvtx_text_of(&t, a);
	marked(0, category_of(a), &t);
	if (next)
		next(a);
}

static void mark_a(const char *message)
{
	__typeof__(&mark_a) next = NEXT(mark_a, core, NVTX_MARK_A);
	struct nvtx_text t;

	nvtx_text_ascii(&t, message);
	marked(0, 0, &t);
	if (next)
		next(message);
}

static void mark_w(const wchar_t *message)
{
	__typeof__(&mark_w) next = NEXT(mark_w, core, NVTX_MARK_W);
	struct nvtx_text t;

	nvtx_text_wide(&t, message);
	marked(0, 0, &t);
	if (next)
		next(message);
}

static uint64_t start_ex(const struct nvtx_attributes *a)
{
	__typeof__(&start_ex) next = NEXT(start_ex, core, NVTX_START_EX);
	struct nvtx_text t;

	nvtx_text_of(&t, a);
	return started(next ? next(a) : 0, 0, &t);
}

static uint64_t start_a(const char *message)
{
	__typeof__(&start_a) next = NEXT(start_a, core, NVTX_START_A);
	struct nvtx_text t;

	nvtx_text_ascii(&t, message);
	return started(next ? next(message) : 0, 0, &t);
}

static uint64_t start_w(const wchar_t *message)
{
	__typeof__(&start_w) next = NEXT(start_w, core, NVTX_START_W);
	struct nvtx_text t;

	nvtx_text_wide(&t, message);
	return started(next ? next(message) : 0, 0, &t);
}

static void end(uint64_t id)
{
	__typeof__(&end) next = NEXT(end, core, NVTX_END);

	ended(id);
	if (next)
		next(id);
}

static int push_ex(const struct nvtx_attributes *a)
{
	__typeof__(&push_ex) next = NEXT(push_ex, core, NVTX_PUSH_EX);
	struct nvtx_text t;

	nvtx_text_of(&t, a);
	pushed(0, category_of(a), &t);
	return next ? next(a) : NVTX_NO_PUSH_POP_TRACKING;
}

static int push_a(const char *message)
{
	__typeof__(&push_a) next = NEXT(push_a, core, NVTX_PUSH_A);
	struct nvtx_text t;

	nvtx_text_ascii(&t, message);
	nvtx_text_cut_numbers(&t);
	pushed(0, 0, &t);
	return next ? next(message) : NVTX_NO_PUSH_POP_TRACKING;
}

static int push_w(const wchar_t *message)
{
	__typeof__(&push_w) next = NEXT(push_w, core, NVTX_PUSH_W);
	struct nvtx_text t;

	nvtx_text_wide(&t, message);
	pushed(0, 0, &t);
	return next ? next(message) : NVTX_NO_PUSH_POP_TRACKING;
}

static int pop(void)
{
	__typeof__(&pop) next = NEXT(pop, core, NVTX_POP);

	popped(0);
	return next ? next() : NVTX_NO_PUSH_POP_TRACKING;
}

static void name_thread_a(uint32_t tid, const char *name)
{
	__typeof__(&name_thread_a) next = NEXT(name_thread_a, core, NVTX_NAME_THREAD_A);
	struct nvtx_text t;

	nvtx_text_ascii(&t, name);
	named_thread(tid, &t);
	if (next)
		next(tid, name);
}

static void name_thread_w(uint32_t tid, const wchar_t *name)
{
	__typeof__(&name_thread_w) next = NEXT(name_thread_w, core, NVTX_NAME_THREAD_W);
	struct nvtx_text t;

	nvtx_text_wide(&t, name);
	named_thread(tid, &t);
	if (next)
		next(tid, name);
}

static void domain_mark(uint64_t domain, const struct nvtx_attributes *a)
{
	__typeof__(&domain_mark) next = NEXT(domain_mark, core2, NVTX_DOMAIN_MARK);
	struct nvtx_text t;

	nvtx_text_of(&t, a);
	marked(domain, category_of(a), &t);
	if (next)
		next(domain, a);
}

static uint64_t domain_start(uint64_t domain, const struct nvtx_attributes *a)
{
	__typeof__(&domain_start) next = NEXT(domain_start, core2, NVTX_DOMAIN_START);
	struct nvtx_text t;

	nvtx_text_of(&t, a);
	return started(next ? next(domain, a) : 0, domain, &t);
}

static void domain_end(uint64_t domain, uint64_t id)
{
	__typeof__(&domain_end) next = NEXT(domain_end, core2, NVTX_DOMAIN_END);

	ended(id);
	if (next)
		next(domain, id);
}

static int domain_push(uint64_t domain, const struct nvtx_attributes *a)
{
	__typeof__(&domain_push) next = NEXT(domain_push, core2, NVTX_DOMAIN_PUSH);
	struct nvtx_text t;

	nvtx_text_of(&t, a);
	pushed(domain, category_of(a), &t);
	return next ? next(domain, a) : NVTX_NO_PUSH_POP_TRACKING;
}

static int domain_pop(uint64_t domain)
{
	__typeof__(&domain_pop) next = NEXT(domain_pop, core2, NVTX_DOMAIN_POP);

	popped(domain);
	return next ? next(domain) : NVTX_NO_PUSH_POP_TRACKING;
}

static uint64_t register_a(uint64_t domain, const char *text)
{
	__typeof__(&register_a) next = NEXT(register_a, core2, NVTX_REGISTER_A);
	struct nvtx_text t;

	nvtx_text_ascii(&t, text);
	return kept(next ? next(domain, text) : 0, &t);
}

static uint64_t register_w(uint64_t domain, const wchar_t *text)
{
	__typeof__(&register_w) next = NEXT(register_w, core2, NVTX_REGISTER_W);
	struct nvtx_text t;

	nvtx_text_wide(&t, text);
	return kept(next ? next(domain, text) : 0, &t);
}

static uint64_t domain_create_a(const char *name)
{
	__typeof__(&domain_create_a) next = NEXT(domain_create_a, core2, NVTX_DOMAIN_CREATE_A);
	struct nvtx_text t;

	nvtx_text_ascii(&t, name);
	return kept(next ? next(name) : 0, &t);
}

static uint64_t domain_create_w(const wchar_t *name)
{
	__typeof__(&domain_create_w) next = NEXT(domain_create_w, core2, NVTX_DOMAIN_CREATE_W);
	struct nvtx_text t;

	nvtx_text_wide(&t, name);
	return kept(next ? next(name) : 0, &t);
}

#define CORE(id, function) { NVTX_CORE, id, (nvtx_function)function }
#define CORE2(id, function) { NVTX_CORE2, id, (nvtx_function)function }

const struct nvtx_handler nvtx_handlers[] = {
	CORE(NVTX_MARK_EX, mark_ex),
	CORE(NVTX_MARK_A, mark_a),
	CORE(NVTX_MARK_W, mark_w),
	CORE(NVTX_START_EX, start_ex),
	CORE(NVTX_START_A, start_a),
	CORE(NVTX_START_W, start_w),
	CORE(NVTX_END, end),
	CORE(NVTX_PUSH_EX, push_ex),
	CORE(NVTX_PUSH_A, push_a),
	CORE(NVTX_PUSH_W, push_w),
	CORE(NVTX_POP, pop),
	CORE(NVTX_NAME_THREAD_A, name_thread_a),
	CORE(NVTX_NAME_THREAD_W, name_thread_w),
	CORE2(NVTX_DOMAIN_MARK, domain_mark),
	CORE2(NVTX_DOMAIN_START, domain_start),
	CORE2(NVTX_DOMAIN_END, domain_end),
	CORE2(NVTX_DOMAIN_PUSH, domain_push),
	CORE2(NVTX_DOMAIN_POP, domain_pop),
	CORE2(NVTX_REGISTER_A, register_a),
	CORE2(NVTX_REGISTER_W, register_w),
	CORE2(NVTX_DOMAIN_CREATE_A, domain_create_a),
	CORE2(NVTX_DOMAIN_CREATE_W, domain_create_w),
};
const unsigned nvtx_nr_handlers = sizeof(nvtx_handlers) / sizeof(*nvtx_handlers);
