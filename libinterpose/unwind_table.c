/* SPDX-License-Identifier: MIT */
/*
 * The walk. What it costs are cache lines: so a rule and its key are sixteen bytes, lie in the order in
 * which they were met first, and mostly name the next one, which takes the hash table off the way from
 * frame to frame.
 */
#include "unwind_table.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096u
#define STEP_MAX (64ull << 20) /* bytes from one frame to the next; also of a stack's growth at once */

static _Atomic uint32_t generation;

void unwind_objects_changed(void)
{
	atomic_fetch_add(&generation, 1);
}

/* ---- memory of the stack --------------------------------------------------------------------------- */

/* The kernel reads the word, then finds that it knows no such operation. Costs a tenth of a microsecond. */
bool unwind_readable(uint64_t address)
{
	int saved = errno;
	bool readable = syscall(SYS_rt_sigprocmask, -1, address, NULL, 8) == 0 || errno != EFAULT;

	errno = saved;
	return readable;
}

/* Every page from `from` to the one of `to`. */
static bool readable(uint64_t from, uint64_t to)
{
	for (uint64_t page = from & ~(PAGE - 1ull); page <= to; page += PAGE)
		if (!unwind_readable(page))
			return false;
	return true;
}

/* The word at an address beyond what is known to be readable. */
static __attribute__((noinline)) bool grow_up(struct unwind_thread *u, uint64_t address)
{
	if (address - u->high > STEP_MAX || !readable(u->high, address))
		return false;
	u->high = (address & ~(PAGE - 1ull)) + PAGE;
	return true;
}

/*
 * The stack goes deeper than ever, or is another one (a fiber's, a signal handler's): what was known to be readable
 * may belong to what is gone.
 */
static __attribute__((noinline)) void find_stack(struct unwind_thread *u, uint64_t sp)
{
	u->low = sp & ~(PAGE - 1ull);
	u->high = u->low + PAGE;
	u->reusable = false;
}

/* A word that may hold something of a frame which begins at sp. */
static inline bool in_stack(struct unwind_thread *u, uint64_t sp, uint64_t address)
{
	return !(address & 7) && address >= sp && (address < u->high || grow_up(u, address));
}

/* ---- return addresses ------------------------------------------------------------------------------ */

static void forget(struct unwind_thread *u)
{
	/* Pages of a new thread are zero, and cost time only when they are touched. */
	if (u->nr_addresses) {
		memset(u->index, 0, sizeof(u->index));
		memset(u->address, 0, u->nr_addresses * sizeof(*u->address));
	}
	u->nr_addresses = 1;
	u->nr_objects = 0;
	u->top = 0;
	u->epoch++;
	u->reusable = false;
}

static bool is_full(const struct unwind_thread *u)
{
	return u->nr_addresses == UNWIND_ADDRESSES || u->nr_objects == UNWIND_OBJECTS;
}

static const struct unwind_object *object_of(struct unwind_thread *u, uint64_t ip)
{
	struct unwind_object *o = u->object;

	for (; o < u->object + u->nr_objects; o++)
		if (ip - o->start < o->bytes)
			return o;
	if (u->nr_objects == UNWIND_OBJECTS || !unwind_object_find(ip, o))
		return NULL;
	u->nr_objects++;
	return o;
}

static bool is_there(const struct unwind_object *known)
{
	struct unwind_object now;

	return unwind_object_find(known->start, &now) && now.identity == known->identity;
}

static inline uint32_t slot_of(uint64_t ip)
{
	return (uint32_t)(ip * 0x9e3779b97f4a7c15ull >> 32) % (2 * UNWIND_ADDRESSES);
}

/* The address's number; 0 if it lies in no object, or the table is full until the next recheck. */
static __attribute__((noinline)) uint32_t find_address(struct unwind_thread *u, uint64_t ip)
{
	const struct unwind_object *o;
	uint32_t i = slot_of(ip), number;

	while ((number = u->index[i]) != 0) {
		if (u->address[number].ip == ip)
			return number;
		i = (i + 1) % (2 * UNWIND_ADDRESSES);
	}
	o = object_of(u, ip - 1);
	if (!o || u->nr_addresses == UNWIND_ADDRESSES)
		return 0;
	if (!is_there(o)) {
		u->generation--; /* the next capture forgets all */
		return 0;
	}
	number = u->nr_addresses++;
	u->address[number] = (struct unwind_address){ .ip = ip, .rule = unwind_rule(o, ip - 1) };
	u->index[i] = (uint16_t)number;
	return number;
}

/* One object in turn: if something else is there now, nothing that is remembered can be relied on. */
static __attribute__((noinline)) void recheck(struct unwind_thread *u)
{
	if (is_full(u))
		forget(u);
	if (!u->nr_objects)
		return;
	if (!is_there(&u->object[u->nr_captures / UNWIND_RECHECK % u->nr_objects]))
		forget(u);
}

/* ---- the walk -------------------------------------------------------------------------------------- */

/* From a frame to its caller's: false if that cannot be one. Notes in the level where the way lay. */
static inline bool step(struct unwind_thread *u, struct unwind_level *l, struct unwind_rule rule,
			struct unwind_registers *r)
{
	uint64_t cfa = (rule.kind == UNWIND_SP ? r->sp : r->fp) + (uint64_t)(rule.cfa_offset * 8);
	uint64_t sp = r->sp, ra_slot, fp_slot = UNWIND_NO_SLOT, slot;
	bool by_rule = rule.kind == UNWIND_SAVED;

	if (by_rule) {
		if (!in_stack(u, sp, cfa))
			return false;
		cfa = unwind_load(cfa);
	}
	/* The CFA lies above it, and so above sp. */
	slot = cfa + (uint64_t)(rule.ra_offset * 8);
	if (!in_stack(u, sp, slot))
		return false;
	r->ip = arch_code_address(unwind_load(slot));
	ra_slot = (slot - sp) / 8;
	if (rule.fp_where != UNWIND_FP_SAME) {
		slot = (rule.fp_where == UNWIND_FP_ON_FP ? r->fp : cfa) + (uint64_t)(rule.fp_offset * 8);
		if (!in_stack(u, sp, slot))
			return false;
		r->fp = unwind_load(slot);
		fp_slot = (slot - sp) / 8;
		by_rule |= fp_slot >= UNWIND_NO_SLOT;
	}
	l->by_rule = by_rule | (ra_slot > UINT16_MAX);
	l->ra_slot = (uint16_t)ra_slot;
	l->fp_slot = (uint16_t)fp_slot;
	r->sp = cfa;
	return true;
}

/* The oldest level to which the words on the stack still lead from level j, by each level between. */
static inline uint32_t still_leads_to(const struct unwind_level *level, uint32_t j)
{
	for (; j > 0; j--) {
		const struct unwind_level *l = &level[j];

		if (l->by_rule || arch_code_address(unwind_load(l->sp + 8u * l->ra_slot)) != l[-1].ip)
			break;
		if (l->fp_slot != UNWIND_NO_SLOT && unwind_load(l->sp + 8u * l->fp_slot) != l[-1].fp)
			break;
	}
	return j;
}

void unwind_table_set(struct unwind_thread *u, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		u->level[i] = u->fresh[nr - 1 - i];
	u->nr = nr;
	u->kept = 0;
	u->reusable = false;
}

static void join(struct unwind_thread *u, uint32_t kept, uint32_t nr_fresh)
{
	for (uint32_t i = 0; i < nr_fresh; i++)
		u->level[kept + i] = u->fresh[nr_fresh - 1 - i];
	u->kept = kept;
	u->nr = kept + nr_fresh;
}

static inline bool same_place(const struct unwind_level *l, const struct unwind_registers *r)
{
	return l->sp == r->sp && l->ip == r->ip && l->fp == r->fp;
}

/* At an address whose rule is none that leads to a caller. */
static __attribute__((noinline)) enum unwind_end no_way_on(const struct unwind_thread *u, uint32_t number)
{
	if (u->address[number].rule.kind == UNWIND_END)
		return UNWIND_ROOT;
	return number || is_full(u) ? UNWIND_UNKNOWN : UNWIND_LOST;
}

/* The walk, with `old` levels to look for. *kept of them remain, *nr_fresh frames are new. */
static enum unwind_end walk(struct unwind_thread *u, struct unwind_registers at, uint32_t old, uint32_t *kept,
			    uint32_t *nr_fresh)
{
	const struct unwind_level *level = u->level;
	uint32_t n = 0, j = old, number = u->top;
	enum unwind_end end;

	*kept = 0;
	if (u->address[number].ip != at.ip)
		number = u->top = find_address(u, at.ip);
	for (;;) {
		struct unwind_address *known;
		struct unwind_level *l = &u->fresh[n];
		uint32_t next;

		while (j && level[j - 1].sp < at.sp)
			j--;
		if (j && same_place(&level[j - 1], &at)) {
			uint32_t to = still_leads_to(level, j - 1);

			if (!to) {
				*kept = j;
				*nr_fresh = n;
				return UNWIND_ROOT;
			}
			for (; j > to + 1 && n < UNWIND_MAX - 1; j--)
				u->fresh[n++] = level[j - 1];
			l = &u->fresh[n];
			at = (struct unwind_registers){ level[j - 1].ip, level[j - 1].sp, level[j - 1].fp };
			number = level[j - 1].address;
			j--;
		}
		l->ip = at.ip;
		l->sp = at.sp;
		l->fp = at.fp;
		l->address = (uint16_t)number;
		n++;
		known = &u->address[number];
		if (known->rule.kind > UNWIND_WALKED || !number) {
			*nr_fresh = n;
			return no_way_on(u, number);
		}
		if (!step(u, l, known->rule, &at)) {
			end = UNWIND_LOST;
			break;
		}
		if (!at.ip) { /* how some threads mark their first function's caller */
			end = UNWIND_ROOT;
			break;
		}
		if (n == UNWIND_MAX) {
			end = UNWIND_TOO_DEEP;
			break;
		}
		next = (uint32_t)known->next;
		if (u->address[next].ip != at.ip) {
			next = find_address(u, at.ip);
			known->next = next & 0x1fff;
		}
		number = next;
	}
	*nr_fresh = n;
	return end;
}

bool unwind_table_holds(const struct unwind_thread *u)
{
	return u->generation == atomic_load_explicit(&generation, memory_order_acquire) && u->nr_addresses &&
	       u->nr_captures % UNWIND_RECHECK != 0;
}

uint32_t unwind_table_address(struct unwind_thread *u, uint64_t ip)
{
	return find_address(u, ip);
}

void unwind_table_begin(struct unwind_thread *u)
{
	uint32_t now = atomic_load_explicit(&generation, memory_order_acquire);

	if (now != u->generation || !u->nr_addresses)
		forget(u);
	else if (u->nr_captures % UNWIND_RECHECK == 0)
		recheck(u);
	u->generation = now;
	u->nr_captures++;
}

void unwind_table_leave_stack(struct unwind_thread *u)
{
	u->nr = u->kept = 0;
	u->reusable = false;
	u->low = u->high = 0;
}

enum unwind_end unwind_table_walk(struct unwind_thread *u, struct unwind_registers at)
{
	uint32_t kept, nr_fresh;
	enum unwind_end end;
	uint64_t high;

	unwind_table_begin(u);
	if (at.sp < u->low || at.sp >= u->high)
		find_stack(u, at.sp);
	high = u->high;
	end = walk(u, at, u->reusable ? u->nr : 0, &kept, &nr_fresh);
	if (kept + nr_fresh > UNWIND_MAX)
		end = walk(u, at, 0, &kept, &nr_fresh);
	join(u, kept, nr_fresh);
	/* A root that is one by a zero on the stack need not be one the next time. */
	u->reusable = end == UNWIND_ROOT && (kept || u->address[u->level[0].address].rule.kind == UNWIND_END);
	if (end == UNWIND_LOST)
		u->high = high; /* a frame that leads nowhere may have led beyond the stack */
	return end;
}
