/* SPDX-License-Identifier: MIT */
/* Fuzzer of logs of RMM's: one is refused with a reason, or becomes a trace that can be read. */
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/imports/rmmlog.h"
#include "tests/fuzz/hostile_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_log(struct rmmlog *l)
{
	struct tfmt_header header = rmmlog_header(l);
	int fd = memfd_create("trace", MFD_CLOEXEC), err;
	struct rmmlog_result result;

	err = rmmlog_write(l, &header, fd, &result);
	if (err < 0 || (err && !*l->why))
		abort();
	if (!err)
		hostile_check_trace(fd, result.nr_events);
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
