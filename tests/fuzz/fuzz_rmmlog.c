/* SPDX-License-Identifier: MIT */
/* Fuzzer of logs of RMM's: one is refused with a reason, or becomes a trace that can be read. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/imports/rmmlog.h"
#include "tests/fuzz/hostile_file.h"

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

static void check_log(struct rmmlog *l)
{
	struct tfmt_header header = rmmlog_header(l);
	int fd = memfd_create("trace", MFD_CLOEXEC), err;
	struct rmmlog_result result;

	err = rmmlog_write(l, &header, fd, &result);
	if (err < 0 || (err && !*l->why))
		abort();
	if (!err)
		check_trace(fd, result.nr_events);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rmmlog l;

	hostile_quiet();
	if (!rmmlog_open(&l, hostile_file(data, size)))
		check_log(&l);
	rmmlog_close(&l);
	return 0;
}
