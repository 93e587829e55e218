/* SPDX-License-Identifier: MIT */
/*
 * Traces made up by a unit test: a few calls write a process's definitions and events through the trace
 * writer. Every failure fails the test. Times start at SYNTHETIC_START and advance by 1000 ns per event.
 */
#ifndef VT_TEST_SYNTHETIC_H
#define VT_TEST_SYNTHETIC_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tracefmt/tracefmt.h"

#define SYNTHETIC_START 5000000ull /* CLOCK_MONOTONIC at the start of the recording */
#define SYNTHETIC_STEP 1000ull

struct synthetic {
	struct tfmt_writer *writer;
	int fd;
	uint64_t time_ns;
	uint64_t order[TFMT_NR_DEVICES + 1]; /* by device; the last is the driver's */
	uint32_t nr_infos;
	uint32_t thread, python_stack, native_stack, shape; /* of the events that follow */
	uint16_t flags, function;
};

static inline struct tfmt_header synthetic_header(uint32_t pid)
{
	struct tfmt_header header = { .pid = pid,
				     .start_mono_ns = SYNTHETIC_START,
				     .start_real_ns = 1700000000000000000ull,
				     .image_start_ns = 1700000000000000000ull + pid,
				     .time_ns_inode = 1,
				     .boot_id = { 1, 2, 3},
				     .host = "host",
				     .job = "job" };

	return header;
}

static inline void synthetic_open(struct synthetic *s, const char *path, const struct tfmt_header *header)
{
	*s = (struct synthetic){ .time_ns = header->start_mono_ns };
	s->fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	assert_true(s->fd >= 0);
	assert_int_equal(tfmt_writer_open(&s->writer, s->fd, header, 1), 0);
}

static inline void synthetic_flush(struct synthetic *s)
{
	assert_int_equal(tfmt_writer_flush(s->writer, NULL, 0), 0);
}

/* End the trace as a process that exited with `status`; 256 = leave it open, as after a crash. */
static inline void synthetic_close(struct synthetic *s, int status)
{
	struct tfmt_status end = { .end = TFMT_END_EXIT, .exit_status = status };

	synthetic_flush(s);
	if (status < 256)
		assert_int_equal(tfmt_writer_end(s->writer, &end), 0);
	tfmt_writer_close(s->writer);
	close(s->fd);
}

static inline void synthetic_define(struct synthetic *s, uint32_t type, uint32_t id, const uint8_t *from,
				    const uint8_t *to)
{
	int ret = tfmt_writer_definition(s->writer, type, id, from, (size_t)(to - from));

	assert_true(ret >= 0);
	if (ret)
		synthetic_flush(s);
}

static inline void synthetic_info(struct synthetic *s, const char *key, const char *value)
{
	uint8_t buf[512], *p = buf;

	p = tfmt_put_string(p, key, strlen(key));
	p = tfmt_put_string(p, value, strlen(value));
	synthetic_define(s, TFMT_DEF_INFO, s->nr_infos++, buf, p);
}

static inline void synthetic_device(struct synthetic *s, uint32_t ordinal, uint64_t capacity)
{
	uint8_t buf[512], *p = buf;

	p = tfmt_put_varint(p, capacity);
	p = tfmt_put_string(p, "Test GPU", 8);
	p = tfmt_put_string(p, "GPU-0", 5);
	p = tfmt_put_string(p, "0000:01:00.0", 12);
	p = tfmt_put_varint(p, 0);
	p = tfmt_put_varint(p, ordinal + 1);
	synthetic_define(s, TFMT_DEF_DEVICE, ordinal, buf, p);
}

static inline void synthetic_module(struct synthetic *s, uint32_t id, uint64_t start, uint64_t end,
				    const char *path)
{
	uint8_t buf[512], *p = buf;

	p = tfmt_put_varint(p, start);
	p = tfmt_put_varint(p, end);
	p = tfmt_put_varint(p, 0);
	p = tfmt_put_string(p, path, strlen(path));
	p = tfmt_put_string(p, "", 0);
	synthetic_define(s, TFMT_DEF_MODULE, id, buf, p);
}

static inline void synthetic_frame(struct synthetic *s, uint32_t id, uint32_t parent, uint32_t kind,
				   uint64_t a, int64_t b)
{
	uint8_t buf[64], *p = buf;

	p = tfmt_put_varint(p, parent);
	p = tfmt_put_varint(p, kind);
	p = tfmt_put_varint(p, a);
	p = tfmt_put_zigzag(p, b);
	synthetic_define(s, TFMT_DEF_FRAME, id, buf, p);
}

/* A code object whose every position is on its first line. */
static inline void synthetic_code(struct synthetic *s, uint32_t id, const char *name, const char *file,
				  uint32_t line)
{
	static const uint8_t table[] = { 0xfe, 0x00 }; /* 254 bytes of code: one line further down by 0 */
	uint8_t buf[512], *p = buf;

	p = tfmt_put_varint(p, TFMT_LINES_PEP626);
	p = tfmt_put_varint(p, line);
	p = tfmt_put_string(p, name, strlen(name));
	p = tfmt_put_string(p, file, strlen(file));
	memcpy(p, table, sizeof(table));
	synthetic_define(s, TFMT_DEF_CODE, id, buf, p + sizeof(table));
}

static inline void synthetic_function(struct synthetic *s, uint32_t id, const char *name)
{
	uint8_t buf[128], *p = tfmt_put_string(buf, name, strlen(name));

	synthetic_define(s, TFMT_DEF_FUNCTION, id, buf, p);
}

static inline void synthetic_shape(struct synthetic *s, uint32_t id, uint32_t type, uint64_t bytes,
				   uint64_t dim)
{
	uint8_t buf[64], *p = buf;

	p = tfmt_put_varint(p, type);
	p = tfmt_put_varint(p, bytes);
	p = tfmt_put_varint(p, 1);
	p = tfmt_put_varint(p, dim);
	synthetic_define(s, TFMT_DEF_SHAPE, id, buf, p);
}

static inline void synthetic_event(struct synthetic *s, uint8_t kind, uint8_t device, uint64_t address,
				   uint64_t size, uint64_t aux)
{
	bool tensor = kind == TFMT_TENSOR_ALLOC || kind == TFMT_TENSOR_FREE || kind == TFMT_TENSOR_OOM;
	struct tfmt_event ev = { .time_ns = s->time_ns,
				.address = address,
				.size = size,
				.aux = aux,
				.order = s->order[tensor ? device : TFMT_NR_DEVICES]++,
				.python_stack = s->python_stack,
				.native_stack = s->native_stack,
				.shape = s->shape,
				.thread = s->thread,
				.flags = s->flags,
				.function = s->function,
				.kind = kind,
				.device = device };
	int ret = tfmt_writer_event(s->writer, &ev);

	assert_true(ret >= 0);
	if (ret)
		synthetic_flush(s);
	s->time_ns += SYNTHETIC_STEP;
}

/* A new folder for the test's traces becomes the working directory; remove_folder() deletes it. */
static char synthetic_folder[64];

static inline int synthetic_enter(void **state)
{
	(void)state;
	strcpy(synthetic_folder, "/tmp/vramtrace-test-XXXXXX");
	return mkdtemp(synthetic_folder) && !chdir(synthetic_folder) ? 0 : -1;
}

static inline int synthetic_leave(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", synthetic_folder);
	return chdir("/") || system(command);
}

#endif
