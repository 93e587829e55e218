/* SPDX-License-Identifier: MIT */
/* Completing the trace of a process that has ended, from its ring file. */
#include "tracefmt/merge.h"
#include "tracefmt/reader.h"
#include "tracefmt/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEAL_LEVEL 1

/* Take the lock that a live recorder holds. Returns the descriptor, or -1 and errno. */
static int seal_lock(const char *path)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct stat mine, now;

	if (fd < 0)
		return -1;
	/* A recorder that drops the oldest part may have put the next file there meanwhile: that one it has locked. */
	if (fcntl(fd, F_OFD_SETLK, &lock) || fstat(fd, &mine) || !S_ISREG(mine.st_mode) || stat(path, &now) ||
	    mine.st_ino != now.st_ino || mine.st_dev != now.st_dev) {
		close(fd);
		errno = EAGAIN;
		return -1;
	}
	return fd;
}

/* Read all frames, so that the reader knows where the stream stands. */
static int seal_read(struct tfmt_reader *r)
{
	struct tfmt_event ev;
	int got;

	r->stops_at_ring = true;
	do
		got = tfmt_reader_next(r, &ev);
	while (got > 0 || got == TFMT_E_DAMAGED || got == TFMT_E_CUT);
	return r->file_failed ? TFMT_E_IO : got;
}

/* A writer that goes on after the last good frame; an unfinished one there is cut off. */
static int seal_resume(struct tfmt_reader *r, int fd, struct tfmt_writer **out)
{
	uint64_t end = r->tail == TFMT_FRAME_BAD ? r->file_bytes : r->offset;
	struct tfmt_checkpoint at = r->at;
	uint32_t i;
	int err;

	*out = NULL;
	err = tfmt_ledger_use_addresses(&r->ledger);
	if (err)
		return err;
	if (end < r->file_bytes && ftruncate(fd, (off_t)end))
		return TFMT_E_IO;
	at.ordinal = r->next_ordinal;
	at.definitions.from = at.definitions.to;
	for (i = 0; i < at.nr_rings; i++)
		at.ring[i].from = at.ring[i].to;
	err = tfmt_writer_resume(out, fd, end, r->next_sequence, r->header.time_shift, SEAL_LEVEL, &at,
				 &r->ledger);
	memset(&r->ledger, 0, sizeof(r->ledger));
	return err;
}

/*
 * Append the rings' definitions and events, as a drain would. TFMT_E_DAMAGED if the ring file does not hold
 * all that it should: then the trace must not end as if it were complete.
 */
static int seal_drain(const struct tfmt_reader *r, struct tfmt_writer *w, const struct tfmt_ring_view *view)
{
	uint64_t position = r->at.definitions.to;
	const uint8_t *payload;
	struct tfmt_merge *m;
	struct tfmt_event ev[TFMT_WRITER_BATCH];
	uint32_t type, id, nr;
	size_t len;
	int err = tfmt_reader_merge(r, &m, view), got = 0;

	if (err)
		return err;
	while (!err && (got = tfmt_merge_definition(m, &position, &type, &id, &payload, &len)) > 0)
		err = tfmt_writer_definition(w, type, id, payload, len);
	while (err >= 0 && (nr = tfmt_merge_events(m, 0, 0, ev, tfmt_writer_room(w))) > 0) {
		err = tfmt_writer_batch(w, ev, nr);
		if (err > 0)
			err = tfmt_writer_flush(w, m, position);
	}
	if (err >= 0)
		err = tfmt_writer_flush(w, m, position);
	if (!err && (got < 0 || tfmt_merge_is_cut(m) || tfmt_torn_any(&m->torn)))
		err = TFMT_E_DAMAGED;
	tfmt_merge_close(m);
	return err;
}

static int seal_append(struct tfmt_reader *r, int fd, const struct tfmt_ring_view *view, enum tfmt_end end,
		       int exit_status)
{
	struct tfmt_status status = { 0 };
	struct tfmt_writer *w;
	int err = seal_resume(r, fd, &w);

	if (err)
		return err;
	if (view->base) {
		memcpy(&status, view->base, sizeof(status));
		err = seal_drain(r, w, view);
	}
	if (status.end == TFMT_END_OPEN) {
		status.end = end;
		status.exit_status = exit_status;
	}
	if (!err)
		err = tfmt_writer_end(w, &status);
	if (err == TFMT_E_IO)
		errno = tfmt_writer_errno(w);
	tfmt_writer_close(w);
	return err;
}

/* The trace is complete and on disk: its rings go, if they are this trace's. */
static int seal_finish(const struct tfmt_reader *r, int fd)
{
	struct tfmt_ring_view view;
	const char *what;

	if (tfmt_reader_map_ring(r, &view, &what))
		return 0;
	munmap(view.base, view.bytes);
	return fdatasync(fd) || tfmt_reader_remove_ring(r) != TFMT_E_NOMEM ? 0 : TFMT_E_NOMEM;
}

static int seal_trace(struct tfmt_reader *r, int fd, enum tfmt_end end, int exit_status)
{
	struct tfmt_ring_view view = { 0 };
	const char *what;
	int err = seal_read(r);

	if (err)
		return err;
	if (!r->has_end_frame) {
		if (tfmt_reader_map_ring(r, &view, &what))
			view.base = NULL;
		if (!view.base && end != TFMT_END_SIGNAL)
			return 0;
		err = seal_append(r, fd, &view, end, exit_status);
		if (view.base)
			munmap(view.base, view.bytes);
	}
	return err ? err : seal_finish(r, fd);
}

/* What a recorder that was killed while it dropped the oldest part had of the next trace. */
static void seal_unlink_next(const char *path)
{
	char *next;

	if (asprintf(&next, "%s.new", path) < 0)
		return;
	unlink(next);
	free(next);
}

int tfmt_seal(const char *path, enum tfmt_end end, int status)
{
	return tfmt_seal_kept(path, end, status, -1);
}

int tfmt_seal_kept(const char *path, enum tfmt_end end, int status, int ring_fd)
{
	struct tfmt_reader *r;
	int err, reason, fd = seal_lock(path);

	if (fd < 0)
		return TFMT_E_IO;
	err = tfmt_reader_open(&r, path, NULL);
	if (!err) {
		r->kept_ring = ring_fd;
		seal_unlink_next(path);
		err = seal_trace(r, fd, end, status);
	}
	reason = errno;
	tfmt_reader_close(r);
	close(fd);
	errno = reason;
	return err;
}
