/* SPDX-License-Identifier: MIT */
/* Completing a trace while its recorder puts another file in its place: that one is its recorder's. */
#include <errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/unit/tracefmt_recorder.h"

static struct {
	const char *trace, *next; /* at the next open of the trace; NULL: nothing happens then */
	int fd;                   /* the recorder's, of the trace */
} replace;

/* In the place of open(2): right after it, the recorder that is being watched moves on. */
int test_open(const char *path, int flags, ...) __asm__("open");
int test_open(const char *path, int flags, ...)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600);

	if (replace.trace && !strcmp(path, replace.trace)) {
		assert_int_equal(rename(replace.next, replace.trace), 0);
		close(replace.fd);
		replace.trace = NULL;
	}
	return fd;
}

static void lock(int fd)
{
	struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
}

static void test_replaced_while_it_is_opened(void **state)
{
	struct tfmt_event ev = { .kind = TFMT_TENSOR_ALLOC, .address = 512, .size = 512, .time_ns = 1 };
	uint8_t *before, *after;
	size_t bytes, bytes_after;
	struct recorder rec;
	const char *next;
	int next_fd;

	(void)state;
	recorder_start(&rec);
	next = stream_path("ring.vtr.new");
	push(&rec, 0, &ev);
	drain(&rec);
	ev.address = 1024;
	push(&rec, 0, &ev); /* in the ring file only: whoever seals would write it into the trace */
	lock(rec.fd);
	before = stream_load(rec.trace, &bytes);
	stream_store(next, before, bytes);
	next_fd = open(next, O_RDWR | O_CLOEXEC);
	lock(next_fd);
	replace.next = next;
	replace.fd = rec.fd;
	replace.trace = rec.trace;
	assert_int_equal(tfmt_seal(rec.trace, TFMT_END_KILLED, 0), TFMT_E_IO);
	assert_int_equal(errno, EAGAIN);
	assert_null(replace.trace);
	assert_int_equal(access(rec.ring_file, F_OK), 0);
	after = stream_load(rec.trace, &bytes_after);
	assert_int_equal(bytes_after, bytes);
	assert_memory_equal(after, before, bytes);
	free(before);
	free(after);
	/* The recorder ends: now it is sealed. */
	close(next_fd);
	assert_int_equal(tfmt_seal(rec.trace, TFMT_END_SIGNAL, 9), 0);
	assert_int_not_equal(access(rec.ring_file, F_OK), 0);
	rec.fd = -1;
	recorder_stop(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replaced_while_it_is_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
