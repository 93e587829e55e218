/* SPDX-License-Identifier: MIT */
/* The host memory that a simulated device's memory is, and what happens when the host has no more of it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simgpu/internal.h"

enum { STATUS_TROUBLE = 125 };

_Noreturn void sim_host_limit(const char *what, const char *remedy)
{
	dprintf(STDERR_FILENO, "simgpu: %s: %s (a limit of this machine, not of the simulated GPU; %s)\n",
		what, strerror(errno), remedy);
	_exit(STATUS_TROUBLE);
}

void *sim_realloc(void *p, size_t bytes)
{
	p = realloc(p, bytes);
	if (!p)
		sim_host_limit("malloc failed", "free some memory on this machine");
	return p;
}

void *sim_alloc(size_t bytes)
{
	return sim_realloc(NULL, bytes);
}

void *sim_zalloc(size_t bytes)
{
	return memset(sim_alloc(bytes), 0, bytes);
}

static const char *mapping_remedy(void)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
	int mode = f ? fgetc(f) : '0';

	if (f)
		fclose(f);
	return mode == '2' ? "set vm.overcommit_memory to 0 or 1"
			   : "raise `ulimit -v` (address space) or vm.max_map_count";
}

void *sim_map(size_t bytes, size_t align, int prot)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = sim_round_up(bytes, page);
	size_t slack = align > page ? align : 0;
	char *p = mmap(NULL, whole + slack, prot, flags, -1, 0), *start = p;

	if (p == MAP_FAILED)
		sim_host_limit("mmap of simulated device memory failed", mapping_remedy());
	if (slack) {
		start = (char *)sim_round_up((uintptr_t)p, align);
		if (start > p)
			munmap(p, (size_t)(start - p));
		if (start + whole < p + whole + slack)
			munmap(start + whole, (size_t)(p + slack - start));
	}
	/* A huge page would make 2 MiB resident for the first byte that a copy touches. */
	if (prot != PROT_NONE)
		madvise(start, whole, MADV_NOHUGEPAGE);
	return start;
}

void sim_unmap(void *p, size_t bytes)
{
	munmap(p, sim_round_up(bytes, (size_t)sysconf(_SC_PAGESIZE)));
}
