/* SPDX-License-Identifier: MIT */
/* Limits of this machine that a simulated GPU would run into, and a real GPU that it hides. */
#include "analyzer/launch/hostlimits.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gpu/realgpu.h"

/* PyTorch's CUDA libraries alone take some 10 GiB of addresses before the first allocation. */
#define ADDRESS_BYTES_MIN (16ull << 30)
#define NOFILE_MIN 16 /* one memfd per device, on top of what an interpreter has open */
#define NOFILE_LOW 64
#define MAP_COUNT_LOW 32768

/* The number in a one-line file of /proc; `missing` if there is none. */
static uint64_t proc_number(const char *path, uint64_t missing)
{
	FILE *f = fopen(path, "re");
	uint64_t number = missing;

	if (!f)
		return missing;
	if (fscanf(f, "%" SCNu64, &number) != 1)
		number = missing;
	fclose(f);
	return number;
}

/* Bytes that a strictly accounting kernel would still promise to processes; UINT64_MAX if unknown. */
static uint64_t commit_left(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	uint64_t limit = UINT64_MAX, used = 0, kib;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "CommitLimit: %" SCNu64, &kib) == 1)
			limit = kib << 10;
		else if (sscanf(line, "Committed_AS: %" SCNu64, &kib) == 1)
			used = kib << 10;
	}
	if (f)
		fclose(f);
	return limit == UINT64_MAX || limit > used ? limit - used : 0;
}

static int check_address_space(bool quiet)
{
	struct rlimit limit;
	char size[HUMAN_MAX];

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return 0;
	human_bytes(size, limit.rlim_cur);
	if (limit.rlim_cur < (64ull << 20)) {
		message_error(
			"cannot simulate a GPU in %s of address space; raise the limit ('ulimit -v unlimited')",
			size);
		return RUN_TROUBLE;
	}
	if (!quiet)
		message_warn(
			"address space is limited to %s ('ulimit -v'): simulated memory beyond it ends the program%s",
			size, limit.rlim_cur < ADDRESS_BYTES_MIN ? "; PyTorch needs more to start" : "");
	return 0;
}

static int check_descriptors(bool quiet)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= NOFILE_LOW)
		return 0;
	if (limit.rlim_cur < NOFILE_MIN) {
		message_error("cannot simulate a GPU with %ju open files; raise the limit ('ulimit -n 1024')",
			      (uintmax_t)limit.rlim_cur);
		return RUN_TROUBLE;
	}
	if (!quiet)
		message_warn("open files are limited to %ju ('ulimit -n'): the program may run out of them",
			     (uintmax_t)limit.rlim_cur);
	return 0;
}

/* The program will not see it. Who asks takes as long as the driver does to begin, where there is one. */
static void tell_real_gpu(void)
{
	static struct realgpu g;

	if (realgpu_ask(&g))
		message_info("this machine has a GPU, which the program will not see: it runs on the simulated one");
}

int hostlimits_check(bool quiet)
{
	uint64_t maps = proc_number("/proc/sys/vm/max_map_count", UINT64_MAX), left;
	char size[HUMAN_MAX];
	int status = check_address_space(quiet);

	if (!status)
		status = check_descriptors(quiet);
	if (status || quiet)
		return status;
	tell_real_gpu();
	if (proc_number("/proc/sys/vm/overcommit_memory", 0) == 2 && (left = commit_left()) != UINT64_MAX)
		message_warn(
			"memory is strictly accounted (vm.overcommit_memory=2): simulated memory beyond %s ends the "
			"program; 'sysctl vm.overcommit_memory=1' lifts that",
			human_bytes(size, left));
	if (maps < MAP_COUNT_LOW)
		message_warn("a process may have only %" PRIu64
			     " mappings (vm.max_map_count): many small simulated "
			     "allocations end the program; 'sysctl vm.max_map_count=65530' is usual",
			     maps);
	return 0;
}
