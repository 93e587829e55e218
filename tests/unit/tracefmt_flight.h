/* SPDX-License-Identifier: MIT */
/*
 * A flight recorder in miniature: it writes checkpoints and drops the oldest part of its trace, a slice at a time, as
 * the recorder's drain does. For tests of tracefmt; static functions, one includer per program.
 */
#ifndef TRACEFMT_FLIGHT_H
#define TRACEFMT_FLIGHT_H

#include <stdio.h>
#include <sys/stat.h>

#include "tests/unit/tracefmt_stream.h"

#include "tracefmt/varint.h"

/* A writer and the two files that it goes between. */
struct flight {
	const char *path, *other;
	struct tfmt_writer *w;
	int fd, other_fd;
	unsigned nr_drops;
	uint64_t max_bytes; /* of both files together, ever */
};

static inline void flight_start(struct flight *f, unsigned time_shift)
{
	struct tfmt_header h = stream_header(time_shift);

	*f = (struct flight){ .path = strdup(stream_path("keep.vtr")), .other = strdup(stream_path("keep.new")),
			      .other_fd = -1 };
	f->fd = stream_create(f->path);
	assert_int_equal(tfmt_writer_open(&f->w, f->fd, &h, 1), 0);
	assert_int_equal(tfmt_writer_keep(f->w), 0);
}

static inline void flight_define_shape(struct tfmt_writer *w, uint32_t id, uint64_t bytes)
{
	uint8_t payload[64], *p = payload;

	p = tfmt_varint_put(p, 6);
	p = tfmt_varint_put(p, bytes);
	p = tfmt_varint_put(p, 0);
	assert_int_equal(tfmt_writer_definition(w, TFMT_DEF_SHAPE, id, payload, (size_t)(p - payload)), 0);
}

static inline uint64_t file_bytes(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) ? (uint64_t)st.st_size : 0;
}

static inline void flight_tend(struct flight *f, uint64_t interval, uint64_t keep)
{
	uint64_t step, bytes;
	int done;

	if (tfmt_writer_since_checkpoint(f->w, &step, &bytes) >= interval)
		assert_int_equal(tfmt_writer_checkpoint(f->w, 0), 0);
	if (f->other_fd < 0 && tfmt_writer_bytes(f->w) >= 3 * keep / 2 && tfmt_writer_drop_bytes(f->w, keep, 0)) {
		f->other_fd = stream_create(f->other);
		assert_int_equal(tfmt_writer_drop_begin(f->w, f->other_fd, keep, 0), 0);
	}
	if (f->other_fd < 0)
		return;
	done = tfmt_writer_drop_step(f->w, 60000);
	assert_true(done >= 0);
	if (file_bytes(f->fd) + file_bytes(f->other_fd) > f->max_bytes)
		f->max_bytes = file_bytes(f->fd) + file_bytes(f->other_fd);
	if (!done)
		return;
	assert_int_equal(rename(f->other, f->path), 0);
	tfmt_writer_drop_commit(f->w);
	close(f->fd);
	f->fd = f->other_fd;
	f->other_fd = -1;
	f->nr_drops++;
}

static inline void flight_end(struct flight *f)
{
	struct tfmt_status status = { .end = TFMT_END_EXIT };

	assert_int_equal(tfmt_writer_flush(f->w, NULL, 0), 0);
	assert_int_equal(tfmt_writer_end(f->w, &status), 0);
	tfmt_writer_close(f->w);
	close(f->fd);
	if (f->other_fd >= 0)
		close(f->other_fd);
	unlink(f->other);
}

static inline void flight_forget(struct flight *f)
{
	unlink(f->path);
	free((char *)f->path);
	free((char *)f->other);
}

#endif
