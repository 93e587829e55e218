/* SPDX-License-Identifier: MIT */
/* Fuzzer of memory snapshots: one is refused with a reason, or becomes a trace that can be read. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/imports/snapshot.h"
#include "analyzer/imports/snapshottrace.h"
#include "tests/fuzz/hostile_file.h"
#include "tracefmt/tracefmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct snapshottrace_result result = { 0 };
	struct tfmt_header header;
	struct snapshot s;
	int fd;

	hostile_quiet();
	if (snapshot_read(&s, hostile_file(data, size))) {
		if (!*s.why)
			abort();
		snapshot_release(&s);
		return 0;
	}
	fd = memfd_create("trace", MFD_CLOEXEC);
	header = snapshottrace_header(&s);
	if (snapshottrace_write(&s, &header, fd, &result))
		abort();
	hostile_check_trace(fd, result.nr_events);
	close(fd);
	snapshot_release(&s);
	return 0;
}
