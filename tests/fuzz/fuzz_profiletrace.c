/* SPDX-License-Identifier: MIT */
/* Fuzzer of traces of PyTorch's profiler: one is refused with a reason, or becomes a trace that can be read. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/imports/profiletrace.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_trace(struct profiletrace *p)
{
	struct tfmt_header header = profiletrace_header(p);
	int fd = memfd_create("trace", MFD_CLOEXEC);
	struct profiletrace_result result;

	if (profiletrace_write(p, &header, fd, &result))
		abort();
	hostile_check_trace(fd, result.nr_events);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profiletrace p;

	hostile_quiet();
	if (!profiletrace_read(&p, hostile_file(data, size)))
		check_trace(&p);
	else if (!*p.why)
		abort();
	profiletrace_release(&p);
	return 0;
}
