/* SPDX-License-Identifier: MIT */
/* The file of a reader, or the pipe: a part of it is in memory. */
#include "tracefmt/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define NAMELESS_PIPES 0x50495045 /* PIPEFS_MAGIC: the file system of pipes without a name */
_Static_assert(TFMT_READER_WINDOW > TFMT_FRAME_MAX, "the largest frame fits the window");

/* What is in the window from an offset on moves to its front, if anything; a pipe cannot be read again. */
static void window_keep(struct tfmt_reader *r, uint64_t offset)
{
	uint64_t gone = offset - r->window_offset;

	r->window_bytes = gone < r->window_bytes ? r->window_bytes - (size_t)gone : 0;
	memmove(r->window, r->window + gone, r->window_bytes);
}

int tfmt_reader_fill(struct tfmt_reader *r, uint64_t offset)
{
	if (r->is_pipe)
		window_keep(r, offset);
	else
		r->window_bytes = 0;
	r->window_offset = offset;
	while (r->window_bytes < TFMT_READER_WINDOW) {
		uint8_t *to = r->window + r->window_bytes;
		size_t room = TFMT_READER_WINDOW - r->window_bytes;
		ssize_t n = r->is_pipe ? read(r->fd, to, room)
				       : pread(r->fd, to, room, (off_t)(offset + r->window_bytes));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return TFMT_E_IO;
		if (!n && r->is_pipe)
			r->file_bytes = offset + r->window_bytes;
		if (!n)
			break;
		r->window_bytes += (size_t)n;
	}
	return 0;
}

const uint8_t *tfmt_reader_window(struct tfmt_reader *r, uint64_t offset, size_t *available)
{
	uint64_t wanted = offset + TFMT_FRAME_MAX < r->file_bytes ? offset + TFMT_FRAME_MAX : r->file_bytes;
	bool is_there = offset >= r->window_offset && wanted <= r->window_offset + r->window_bytes;

	if (!is_there && !r->file_failed && !(r->is_pipe && offset < r->window_offset) && tfmt_reader_fill(r, offset))
		r->file_failed = true;
	if (offset < r->window_offset || offset >= r->window_offset + r->window_bytes) {
		*available = 0;
		return r->window;
	}
	*available = (size_t)(r->window_offset + r->window_bytes - offset);
	return r->window + (offset - r->window_offset);
}

/*
 * A pipe with a name reads as empty until somebody opens it for writing: wait for that, as whoever opens one does.
 * One without a name that has no writer any more will never get another.
 */
static bool pipe_wait(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct statfs fs;

	if (!fstatfs(fd, &fs) && fs.f_type == NAMELESS_PIPES)
		return true;
	while (poll(&p, 1, -1) < 0) {
		if (errno != EINTR)
			return false;
	}
	return true;
}

int tfmt_reader_open_file(struct tfmt_reader *r)
{
	struct stat st;

	r->fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (r->fd < 0 || fstat(r->fd, &st))
		return TFMT_E_IO;
	r->is_pipe = S_ISFIFO(st.st_mode);
	if (!S_ISREG(st.st_mode) && !r->is_pipe) {
		errno = S_ISDIR(st.st_mode) ? EISDIR : ESPIPE;
		return TFMT_E_IO;
	}
	if (r->is_pipe && (fcntl(r->fd, F_SETFL, 0) || !pipe_wait(r->fd)))
		return TFMT_E_IO;
	r->file_bytes = r->is_pipe ? UINT64_MAX - TFMT_FRAME_MAX : (uint64_t)st.st_size;
	return tfmt_reader_fill(r, 0);
}
