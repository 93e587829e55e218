/* SPDX-License-Identifier: MIT */
/*
 * Native stack walks: by the rule table where it can, else by libgcc's unwinder or, where the user wants that, by
 * libunwind. Whoever walks, another one watches.
 */
#include "unwind.h"

#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unwind.h>

#include "unwind_libunwind.h"

#define COMPARED_FIRST 1000u /* captures of a process that are walked twice */
#define COMPARED_EVERY 4096u /* and later one of so many in each thread */

enum method { BY_LIBGCC, BY_TABLE, TABLE_DISAGREED, BY_LIBUNWIND };

static bool available;
static enum unwind_choice choice;
static _Atomic uint32_t method; /* enum method */
static _Atomic uint32_t nr_compared, nr_differed;
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

/* Give frames the numbers of their addresses, by which the table's user remembers what they are. */
static void number_frames(struct unwind_thread *u, struct walk *w)
{
	for (uint32_t i = 0; i < w->nr; i++)
		w->frame[i].address = (uint16_t)unwind_table_address(u, w->frame[i].ip);
}

static bool capture_by_libgcc(struct unwind_thread *u, uint64_t from)
{
	struct walk w = { .frame = u->fresh, .max = UNWIND_MAX, .from = from, .careful = true };
	bool whole = walk_by_libgcc(&w);

	number_frames(u, &w);
	unwind_table_set(u, w.nr);
	return whole;
}

/* ---- libunwind's walk ------------------------------------------------------------------------------ */

static bool add_visited(uint64_t ip, uint64_t sp, void *arg)
{
	struct walk *w = arg;

	if (w->nr == w->max)
		return false;
	if (!unwind_is_own(ip))
		w->frame[w->nr++] = (struct unwind_level){ .ip = ip, .sp = sp };
	return true;
}

/* The frames from `at` outwards without ours, out of all that there are. */
static void take_addresses(struct walk *w, const uint64_t *ip, uint32_t nr, uint64_t at)
{
	uint32_t i = 0;

	while (i < nr && ip[i] != at)
		i++;
	for (i = i == nr ? 0 : i; i < nr && w->nr < w->max; i++)
		if (ip[i] && !unwind_is_own(ip[i]))
			w->frame[w->nr++] = (struct unwind_level){ .ip = ip[i] };
}

/* Is it known of each frame what it is, and is the outermost a thread's first function? */
static bool are_all_known(const struct unwind_thread *u, const struct walk *w)
{
	for (uint32_t i = 0; i < w->nr; i++)
		if (!u->address[w->frame[i].address].mark)
			return false;
	return w->nr && u->address[w->frame[w->nr - 1].address].rule.kind == UNWIND_END;
}

/*
 * libunwind's quick walk tells return addresses only. Its slow one also tells where frames stand, which has to be known
 * the first time that they are met. False if frames further out are missing.
 */
static bool walk_by_libunwind(struct unwind_thread *u, struct walk *w, struct unwind_registers at)
{
	uint32_t nr = libunwind_backtrace(u->scratch, UNWIND_SCRATCH_WORDS);
	bool whole = true;

	take_addresses(w, u->scratch, nr, at.ip);
	number_frames(u, w);
	if (are_all_known(u, w))
		return true;
	w->nr = 0;
	whole = libunwind_walk(u->scratch, at, add_visited, w);
	number_frames(u, w);
	return whole;
}

_Static_assert(UNWIND_SCRATCH_WORDS >= LIBUNWIND_CURSOR_WORDS, "a cursor fits");

/* ---- who walks, and who watches -------------------------------------------------------------------- */

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

/* Two unwinders have walked a stack, the rules to its root: count whether they agree, and return it. */
static bool note_comparison(const struct unwind_thread *u, const struct walk *w, bool whole)
{
	bool same = agree(u, w) && whole;

	atomic_fetch_add_explicit(&nr_compared, 1, memory_order_relaxed);
	if (!same)
		atomic_fetch_add_explicit(&nr_differed, 1, memory_order_relaxed);
	return same;
}

/* Who judges the rules, and walks where they say nothing: libunwind (true) where that is chosen, else libgcc. */
static bool is_second_libunwind(void)
{
	return choice == UNWIND_BY_RULES && libunwind_is_usable();
}

/*
 * The table has walked a stack to its root: have the other unwinder walk it, too. If it finds another stack, that one
 * counts, and the table is not used again. False if frames further out are missing.
 */
static __attribute__((noinline)) bool judge(struct unwind_thread *u, struct unwind_registers at)
{
	struct walk w = { .frame = u->fresh, .max = UNWIND_MAX, .from = at.sp };
	bool whole = is_second_libunwind() ? walk_by_libunwind(u, &w, at) : walk_by_libgcc(&w);

	if (!w.nr) /* no judge at all */
		return true;
	if (note_comparison(u, &w, whole))
		return true;
	atomic_store_explicit(&method, TABLE_DISAGREED, memory_order_relaxed);
	unwind_table_set(u, w.nr);
	return whole;
}

static __attribute__((noinline)) bool capture_without_rules(struct unwind_thread *u, struct unwind_registers at)
{
	struct walk w = { .frame = u->fresh, .max = UNWIND_MAX };
	bool whole;

	if (!is_second_libunwind())
		return capture_by_libgcc(u, at.sp);
	whole = walk_by_libunwind(u, &w, at);
	unwind_table_set(u, w.nr);
	return whole;
}

/* Another one walks, and the rules watch: a difference is counted, and changes nothing. */
static __attribute__((noinline)) bool capture_watched(struct unwind_thread *u, struct unwind_registers at,
						      bool by_libunwind)
{
	struct walk w = { .frame = u->fresh, .max = UNWIND_MAX, .from = at.sp, .careful = !by_libunwind };
	bool compared = is_compared(u) && unwind_table_walk(u, at) == UNWIND_ROOT;
	bool whole;

	if (!compared)
		unwind_table_begin(u);
	whole = by_libunwind ? walk_by_libunwind(u, &w, at) : walk_by_libgcc(&w);
	if (!by_libunwind)
		number_frames(u, &w);
	if (compared && w.nr)
		note_comparison(u, &w, whole);
	unwind_table_set(u, w.nr);
	return whole;
}

static bool capture_by_rules(struct unwind_thread *u, struct unwind_registers at)
{
	enum unwind_end end = unwind_table_walk(u, at);

	if (end == UNWIND_UNKNOWN)
		return capture_without_rules(u, at);
	if (end == UNWIND_ROOT && is_compared(u))
		return judge(u, at);
	return end == UNWIND_ROOT;
}

bool unwind_capture(struct unwind_thread *u, struct unwind_registers at)
{
	uint32_t by = atomic_load_explicit(&method, memory_order_relaxed);

	if (by == BY_TABLE)
		return capture_by_rules(u, at);
	if (by == TABLE_DISAGREED) {
		unwind_table_begin(u);
		return capture_by_libgcc(u, at.sp);
	}
	if (by == BY_LIBGCC)
		return capture_watched(u, at, false);
	if (libunwind_is_usable())
		return capture_watched(u, at, true);
	atomic_compare_exchange_strong(&method, &by, BY_TABLE);
	return capture_by_rules(u, at);
}

bool unwind_may_repeat(const struct unwind_thread *u)
{
	return atomic_load_explicit(&method, memory_order_relaxed) == BY_TABLE &&
	       atomic_load_explicit(&nr_compared, memory_order_relaxed) >= COMPARED_FIRST &&
	       (u->nr_captures + 1) % COMPARED_EVERY != 0 && unwind_table_holds(u);
}

void unwind_init(enum unwind_choice chosen)
{
	struct unwind_level few[4];
	struct walk w = { .frame = few, .max = 4, .careful = true };
	bool has_libunwind = false;

	find_own_code();
	walk_by_libgcc(&w);
	available = w.nr > 0;
	choice = chosen;
	if (chosen == UNWIND_BY_RULES || chosen == UNWIND_BY_LIBUNWIND)
		has_libunwind = libunwind_open();
	atomic_store(&nr_compared, 0);
	atomic_store(&nr_differed, 0);
	atomic_store(&method, chosen == UNWIND_BY_LIBUNWIND && has_libunwind ? BY_LIBUNWIND :
			      chosen == UNWIND_BY_LIBGCC		     ? BY_LIBGCC :
									       BY_TABLE);
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
		[BY_LIBUNWIND] = "libunwind",
	};
	uint32_t by = atomic_load(&method);

	if (by == TABLE_DISAGREED && choice == UNWIND_BY_RULES)
		return "libgcc, because the rule table disagreed with another unwinder";
	return name[by];
}

const char *unwind_note(void)
{
	return choice == UNWIND_BY_RULES || choice == UNWIND_BY_LIBUNWIND ? libunwind_trouble() : NULL;
}

struct unwind_comparison unwind_comparison(void)
{
	uint32_t by = atomic_load(&method);
	bool is_table = by == BY_TABLE || by == TABLE_DISAGREED;
	bool by_libunwind = choice == UNWIND_BY_RULES && !libunwind_trouble();

	return (struct unwind_comparison){ atomic_load(&nr_compared), atomic_load(&nr_differed),
					   !is_table ? "the rule table" : by_libunwind ? "libunwind" : "libgcc" };
}
