/* SPDX-License-Identifier: MIT */
/* Fuzzer of memory snapshots: one is refused with a reason, or becomes a trace that can be read. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/imports/snapshot.h"
#include "analyzer/imports/snapshottrace.h"
#include "tests/fuzz/hostile_file.h"
#include "tracefmt/tracefmt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_trace(int fd, uint64_t nr_events)
{
	struct tfmt_reader *reader;
	struct tfmt_event ev;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (tfmt_reader_open(&reader, path, NULL))
		abort();
	while (tfmt_reader_next(reader, &ev) > 0)
		nr_events--;
	if (nr_events || !tfmt_reader_summary(reader)->complete)
		abort();
	tfmt_reader_close(reader);
}

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
	check_trace(fd, result.nr_events);
	close(fd);
	snapshot_release(&s);
	return 0;
}
