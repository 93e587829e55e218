/* SPDX-License-Identifier: MIT */
/*
 * Native stack walks: by the rule table where it can, else by libgcc's unwinder, which also watches the
 * table.
 */
#include "unwind.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unwind.h>

#define COMPARED_FIRST 1000u /* captures of a process that libgcc judges */
#define COMPARED_EVERY 4096u /* and later one of so many in each thread */
#define STEP_MAX (1u << 20)  /* bytes from frame to frame on one stack */

enum method { BY_LIBGCC, BY_TABLE, TABLE_DISAGREED };

static bool available;
static _Atomic uint32_t method; /* enum method */
static _Atomic uint32_t nr_compared;
static uint64_t own_start, own_end; /* of this library's code */

/* The linker's name for where this object begins in memory. */
extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static void find_own_code(void)
{
	uint64_t base = (uintptr_t)&__ehdr_start;
	const ElfW(Phdr) *ph = (const ElfW(Phdr) *)(base + __ehdr_start.e_phoff);

	for (int i = 0; i < __ehdr_start.e_phnum; i++) {
		if (ph[i].p_type != PT_LOAD || !(ph[i].p_flags & PF_X))
			continue;
		own_start = base + ph[i].p_vaddr;
		own_end = own_start + ph[i].p_memsz;
	}
}

/* A walk of libgcc, and what it shows of the stack. */
struct walk {
	struct unwind_trace trace;
	uint64_t high;   /* rsp of the outermost frame so far, 0 = none */
	bool plain;      /* on one stack as it seems: no signal's frame, no large step */
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
	struct walk *w = arg;
	int interrupted = 0;
	uint64_t ip = _Unwind_GetIPInfo(context, &interrupted), rsp = _Unwind_GetCFA(context);

	/* The walk ends in a zero where the thread's first function marks it. */
	if (!ip)
		return _URC_NO_REASON;
	if (interrupted || (w->high && rsp - w->high > STEP_MAX))
		w->plain = false;
	w->high = rsp;
	return unwind_trace_add(&w->trace, ip) ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

static struct unwind_trace trace_into(uint64_t *ip, uint32_t max)
{
	return (struct unwind_trace){ .ip = ip, .max = max, .skip_start = own_start, .skip_end = own_end };
}

/* What of the table is not for this capture is left to libgcc; the table learns the stack from that. */
static __attribute__((noinline)) struct unwind_trace walk_by_libgcc(struct unwind_thread *u, uint64_t rsp,
								    uint64_t *ip, uint32_t max)
{
	struct walk w = { .trace = trace_into(ip, max), .plain = true };

	_Unwind_Backtrace(add_frame, &w);
#ifdef __x86_64__
	if (u && w.plain && w.high > rsp)
		unwind_table_learn(u, rsp, w.high);
#else
	(void)u;
	(void)rsp;
#endif
	return w.trace;
}

#ifdef __x86_64__

/* A table that has told a stack otherwise than libgcc is not asked again. */
static void compare(const struct unwind_trace *by_table, const struct unwind_trace *by_libgcc)
{
	atomic_fetch_add_explicit(&nr_compared, 1, memory_order_relaxed);
	if (by_table->nr != by_libgcc->nr || by_table->cut != by_libgcc->cut ||
	    memcmp(by_table->ip, by_libgcc->ip, by_table->nr * sizeof(*by_table->ip)))
		atomic_store_explicit(&method, TABLE_DISAGREED, memory_order_relaxed);
}

static bool is_compared(const struct unwind_thread *u)
{
	return atomic_load_explicit(&nr_compared, memory_order_relaxed) < COMPARED_FIRST ||
	       u->nr_captures % COMPARED_EVERY == 0;
}

static __attribute__((noinline)) struct unwind_trace walk_by_both(struct unwind_thread *u,
								  struct unwind_registers at, uint64_t *ip,
								  uint32_t max)
{
	uint64_t judged[UNWIND_MAX];
	struct unwind_trace by_table = trace_into(judged, max), by_libgcc;
	bool done = max <= UNWIND_MAX && unwind_table_walk(u, at, &by_table);

	by_libgcc = walk_by_libgcc(u, at.rsp, ip, max);
	if (done)
		compare(&by_table, &by_libgcc);
	return by_libgcc;
}

__attribute__((noinline)) uint32_t unwind_capture(struct unwind_thread *u, uint64_t *ip, uint32_t max,
						  bool *cut)
{
	/* This function's own frame, which asking for its address gives the classic shape. */
	const uint64_t *frame = __builtin_frame_address(0);
	struct unwind_registers at = { .ip = frame[1], .rsp = (uintptr_t)(frame + 2), .rbp = frame[0] };
	struct unwind_trace trace = trace_into(ip, max);

	if (atomic_load_explicit(&method, memory_order_relaxed) != BY_TABLE)
		trace = walk_by_libgcc(NULL, at.rsp, ip, max);
	else if (is_compared(u))
		trace = walk_by_both(u, at, ip, max);
	else if (!unwind_table_walk(u, at, &trace))
		trace = walk_by_libgcc(u, at.rsp, ip, max);
	*cut = trace.cut;
	return trace.nr;
}

#else

uint32_t unwind_capture(struct unwind_thread *u, uint64_t *ip, uint32_t max, bool *cut)
{
	struct unwind_trace trace = walk_by_libgcc(u, 0, ip, max);

	*cut = trace.cut;
	return trace.nr;
}

#endif

void unwind_init(void)
{
	uint64_t ip[4];

	find_own_code();
	available = walk_by_libgcc(NULL, 0, ip, 4).nr > 0;
#ifdef __x86_64__
	atomic_store(&nr_compared, 0);
	atomic_store(&method, BY_TABLE);
#endif
}

bool unwind_available(void)
{
	return available;
}

const char *unwind_method(void)
{
	static const char *const name[] = {
		[BY_LIBGCC] = "libgcc",
		[BY_TABLE] = "rule table",
		[TABLE_DISAGREED] = "libgcc, because the rule table disagreed with it",
	};

	return name[atomic_load(&method)];
}

uint32_t unwind_nr_compared(void)
{
	return atomic_load(&nr_compared);
}
