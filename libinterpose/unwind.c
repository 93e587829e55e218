/* SPDX-License-Identifier: MIT */
/*
 * Native stack walks: by the rule table where it can, else by libgcc's unwinder, which also watches the
 * table.
 */
#include "unwind.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unwind.h>

#define COMPARED_FIRST 1000u /* captures of a process that libgcc judges */
#define COMPARED_EVERY 4096u /* and later one of so many in each thread */

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

bool unwind_is_own(uint64_t ip)
{
	return ip >= own_start && ip <= own_end;
}

/* ---- libgcc's walk --------------------------------------------------------------------------------- */

/* Frames outside this library, innermost first. */
struct walk {
	struct unwind_level *frame;
	uint32_t nr, max;
	uint64_t from; /* nothing below this sp */
	uint32_t nr_steps;
	bool careful;  /* nobody has walked this stack before */
	bool ended;    /* at the thread's first function */
};

/* libgcc reads what a frame names without a look whether it is there: where it is not, the walk ends before. */
static bool can_step(struct _Unwind_Context *context, uint64_t ip, uint64_t sp, bool interrupted)
{
	struct unwind_registers at = { ip, sp, _Unwind_GetGR(context, ARCH_REG_FP) };

	return unwind_can_step(&at, interrupted, unwind_readable);
}

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
	struct walk *w = arg;
	int interrupted = 0;
	uint64_t ip = _Unwind_GetIPInfo(context, &interrupted), sp = _Unwind_GetCFA(context);

	/* The walk ends in a zero where the thread's first function marks it. */
	w->ended = !ip;
	if (!ip)
		return _URC_NO_REASON;
	if (sp >= w->from && !unwind_is_own(ip)) {
		if (w->nr == w->max)
			return _URC_NORMAL_STOP;
		w->frame[w->nr++] = (struct unwind_level){ .ip = ip, .sp = sp };
	}
	/* A stack in a circle may never come to count. */
	if (w->nr_steps++ == 2 * UNWIND_MAX || (w->careful && !can_step(context, ip, sp, interrupted)))
		return _URC_NORMAL_STOP;
	return _URC_NO_REASON;
}

/* False if frames further out are missing. */
static __attribute__((noinline)) bool walk_by_libgcc(struct walk *w)
{
	_Unwind_Backtrace(add_frame, w);
	return w->ended;
}

static bool capture_by_libgcc(struct unwind_thread *u, uint64_t from)
{
	struct walk w = { .frame = u->fresh, .max = UNWIND_MAX, .from = from, .careful = true };
	bool whole = walk_by_libgcc(&w);

	unwind_table_set(u, w.nr);
	return whole;
}

/* ---- the judge ------------------------------------------------------------------------------------- */

static bool is_compared(const struct unwind_thread *u)
{
	return atomic_load_explicit(&nr_compared, memory_order_relaxed) < COMPARED_FIRST ||
	       u->nr_captures % COMPARED_EVERY == 0;
}

static bool agree(const struct unwind_thread *u, const struct walk *w)
{
	uint32_t n = 0;

	for (uint32_t i = u->nr; i-- > 0;) {
		if (unwind_is_own(u->level[i].ip))
			continue;
		if (n == w->nr || u->level[i].ip != w->frame[n].ip)
			return false;
		n++;
	}
	return n == w->nr;
}

/*
 * The table has walked a stack to its root. When libgcc sees another one, that holds, and the table is done
 * with.
 */
static __attribute__((noinline)) bool judge(struct unwind_thread *u, uint64_t from)
{
	struct walk w = { .frame = u->fresh, .max = UNWIND_MAX, .from = from };
	bool whole = walk_by_libgcc(&w);

	if (!w.nr) /* no judge at all */
		return true;
	atomic_fetch_add_explicit(&nr_compared, 1, memory_order_relaxed);
	if (agree(u, &w) && whole)
		return true;
	atomic_store_explicit(&method, TABLE_DISAGREED, memory_order_relaxed);
	unwind_table_set(u, w.nr);
	return whole;
}

bool unwind_capture(struct unwind_thread *u, struct unwind_registers at)
{
	enum unwind_end end;

	if (atomic_load_explicit(&method, memory_order_relaxed) != BY_TABLE)
		return capture_by_libgcc(u, at.sp);
	end = unwind_table_walk(u, at);
	if (end == UNWIND_UNKNOWN)
		return capture_by_libgcc(u, at.sp);
	if (end == UNWIND_ROOT && is_compared(u))
		return judge(u, at.sp);
	return end == UNWIND_ROOT;
}

bool unwind_may_repeat(const struct unwind_thread *u)
{
	return atomic_load_explicit(&method, memory_order_relaxed) == BY_TABLE &&
	       atomic_load_explicit(&nr_compared, memory_order_relaxed) >= COMPARED_FIRST &&
	       (u->nr_captures + 1) % COMPARED_EVERY != 0 && unwind_table_holds(u);
}

void unwind_init(void)
{
	struct unwind_level few[4];
	struct walk w = { .frame = few, .max = 4, .careful = true };

	find_own_code();
	walk_by_libgcc(&w);
	available = w.nr > 0;
	atomic_store(&nr_compared, 0);
	atomic_store(&method, BY_TABLE);
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
