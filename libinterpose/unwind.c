/* SPDX-License-Identifier: MIT */
/* Native stack walks by libgcc's unwinder. */
#include "unwind.h"

#include <link.h>
#include <stddef.h>
#include <unwind.h>

static bool available;
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

struct trace {
	uint64_t *ip;
	uint32_t nr, max;
	bool cut;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *arg)
{
	struct trace *t = arg;
	uint64_t ip = _Unwind_GetIP(context);

	/* The walk ends in a zero where the thread's first function marks it. */
	if (!ip || (ip >= own_start && ip <= own_end))
		return _URC_NO_REASON;
	if (t->nr == t->max) {
		t->cut = true;
		return _URC_NORMAL_STOP;
	}
	t->ip[t->nr++] = ip;
	return _URC_NO_REASON;
}

uint32_t unwind_capture(uint64_t *ip, uint32_t max, bool *cut)
{
	struct trace trace = { .ip = ip, .max = max };

	_Unwind_Backtrace(add_frame, &trace);
	*cut = trace.cut;
	return trace.nr;
}

void unwind_init(void)
{
	uint64_t ip[4];
	bool cut;

	find_own_code();
	available = unwind_capture(ip, 4, &cut) > 0;
}

bool unwind_available(void)
{
	return available;
}
