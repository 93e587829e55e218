/* SPDX-License-Identifier: MIT */
/* What a trace's ring file still holds: copied, and joined after the last frame. */
#include "tracefmt/array.h"
#include "tracefmt/merge.h"
#include "tracefmt/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES_MAX 64 /* how often a running process may have written a frame while its rings were read */

/* ---- the ring file --------------------------------------------------------------------------- */

static char *ring_path(const struct tfmt_header *h, const char *trace)
{
	size_t len = strlen(trace);
	char *path;

	if (h->storage == TFMT_STORAGE_TEMPORARY || h->storage == TFMT_STORAGE_SEALED)
		return strdup(h->ring_path);
	if (len >= 4 && !strcmp(trace + len - 4, ".vtr"))
		len -= 4;
	path = malloc(len + sizeof(".ring"));
	if (path) {
		memcpy(path, trace, len);
		memcpy(path + len, ".ring", sizeof(".ring"));
	}
	return path;
}

/* The id in a header's ring_path; -1 if there is none. */
static int shared_id(const struct tfmt_header *h)
{
	int id;
	char rest;

	return h->storage == TFMT_STORAGE_SHARED && sscanf(h->ring_path, "shm:%d%c", &id, &rest) == 1 ? id : -1;
}

bool tfmt_ring_exists(const struct tfmt_header *h, const char *path)
{
	struct shmid_ds ds;
	char *file;
	bool exists;

	if (h->storage == TFMT_STORAGE_SHARED)
		return shared_id(h) >= 0 && !shmctl(shared_id(h), IPC_STAT, &ds);
	file = h->storage == TFMT_STORAGE_ANONYMOUS ? NULL : ring_path(h, path);
	exists = file && !access(file, F_OK);
	free(file);
	return exists;
}

int tfmt_reader_remove_ring(const struct tfmt_reader *r)
{
	char *path;

	if (r->header.storage == TFMT_STORAGE_SHARED)
		return shmctl(shared_id(&r->header), IPC_RMID, NULL);
	if (r->header.storage != TFMT_STORAGE_BESIDE && r->header.storage != TFMT_STORAGE_TEMPORARY)
		return 0;
	path = ring_path(&r->header, r->path);
	if (!path)
		return TFMT_E_NOMEM;
	unlink(path);
	free(path);
	return 0;
}

static int map_descriptor(int fd, struct tfmt_ring_view *view)
{
	struct stat st;
	void *base;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < sizeof(struct tfmt_status))
		return TFMT_E_DAMAGED;
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (base == MAP_FAILED)
		return TFMT_E_DAMAGED;
	*view = (struct tfmt_ring_view){ .base = base, .bytes = (size_t)st.st_size };
	return 0;
}

static int map_file(const char *path, struct tfmt_ring_view *view)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err;

	if (fd < 0)
		return TFMT_E_IO;
	err = map_descriptor(fd, view);
	close(fd);
	return err;
}

/* munmap() takes it away again, as it does a file. */
static int map_shared(int id, struct tfmt_ring_view *view)
{
	struct shmid_ds ds;
	void *base;

	if (id < 0 || shmctl(id, IPC_STAT, &ds))
		return TFMT_E_IO;
	if (ds.shm_segsz < sizeof(struct tfmt_status))
		return TFMT_E_DAMAGED;
	base = shmat(id, NULL, SHM_RDONLY);
	if (base == (void *)-1)
		return TFMT_E_IO;
	*view = (struct tfmt_ring_view){ .base = base, .bytes = ds.shm_segsz };
	return 0;
}

/* Wherever the header says that the rings are. */
static int map_rings(const struct tfmt_reader *r, struct tfmt_ring_view *view)
{
	char *path;
	int err;

	if (r->kept_ring >= 0)
		return map_descriptor(r->kept_ring, view);
	if (r->header.storage == TFMT_STORAGE_SHARED)
		return map_shared(shared_id(&r->header), view);
	path = ring_path(&r->header, r->path);
	if (!path)
		return TFMT_E_NOMEM;
	err = map_file(path, view);
	free(path);
	return err;
}

int tfmt_reader_map_ring(const struct tfmt_reader *r, struct tfmt_ring_view *view, const char **what)
{
	const struct tfmt_status *s;
	struct tfmt_geometry g;
	int err = map_rings(r, view);

	*what = "cannot be read";
	if (err)
		return err;
	s = (const struct tfmt_status *)view->base;
	*what = "makes no sense";
	if (tfmt_view_geometry(view, &g))
		err = TFMT_E_DAMAGED;
	if (!err && (s->pid != r->header.pid || s->image_start_ns != r->header.image_start_ns)) {
		*what = "belongs to another process";
		err = TFMT_E_DAMAGED;
	}
	if (err)
		munmap(view->base, view->bytes);
	return err;
}

int tfmt_reader_merge(const struct tfmt_reader *r, struct tfmt_merge **out, const struct tfmt_ring_view *view)
{
	uint64_t from[TFMT_NR_RINGS];
	uint32_t i;

	int err;

	for (i = 0; i < r->at.nr_rings; i++)
		from[i] = r->at.ring[i].to;
	err = tfmt_merge_open(out, view, r->at.order, from, r->at.nr_rings);
	if (!err)
		(*out)->is_dead = !r->is_running;
	return err;
}

/* ---- copying --------------------------------------------------------------------------------- */

static int joined_add_event(struct tfmt_joined *j, const struct tfmt_event *ev)
{
	if (j->nr_events == j->max_events) {
		struct tfmt_event *grown = tfmt_array_grow(j->event, &j->max_events, sizeof(*grown));

		if (!grown)
			return TFMT_E_NOMEM;
		j->event = grown;
	}
	j->event[j->nr_events++] = *ev;
	return 0;
}

static int joined_add_definition(struct tfmt_joined *j, uint32_t type, uint32_t id, const uint8_t *payload,
				 size_t len)
{
	uint32_t head[3] = { type, id, (uint32_t)len };
	size_t bytes = j->definitions_bytes + sizeof(head) + len;

	if (bytes > j->definitions_room) {
		uint8_t *grown = realloc(j->definitions, 2 * bytes);

		if (!grown)
			return TFMT_E_NOMEM;
		j->definitions = grown;
		j->definitions_room = 2 * bytes;
	}
	memcpy(j->definitions + j->definitions_bytes, head, sizeof(head));
	memcpy(j->definitions + j->definitions_bytes + sizeof(head), payload, len);
	j->definitions_bytes = bytes;
	return 0;
}

static void joined_note(struct tfmt_joined *j, const char *what)
{
	snprintf(j->damage, sizeof(j->damage), "%s", what);
}

/* What never reached the disk, or was changed there. */
static void joined_note_torn(struct tfmt_joined *j, const struct tfmt_merge *m)
{
	const struct tfmt_torn *t = &m->torn;

	if (tfmt_torn_any(t))
		snprintf(j->damage, sizeof(j->damage),
			 "is torn from its byte %llu on: %llu events, definitions in %llu places and %u rings' pages",
			 (unsigned long long)t->offset, (unsigned long long)t->records,
			 (unsigned long long)t->definitions, t->pages);
}

/*
 * Events first, then definitions: each was published before the events that use it. Of a process that runs, a gap may
 * still be filled, so nothing after it is taken; nor anything newer than what was there before the first ring was
 * looked at: an older one may have come into a ring that has been looked at since.
 */
static int joined_copy(struct tfmt_reader *r, struct tfmt_merge *m)
{
	uint64_t wait_ns = r->is_running ? UINT64_MAX / 2 : 0;
	uint64_t newest = r->is_running ? tfmt_view_newest(m->view, &m->geometry) : UINT64_MAX;
	uint64_t position = r->at.definitions.to;
	const uint8_t *payload;
	struct tfmt_event ev;
	uint32_t type, id;
	size_t len;
	int got;

	while ((got = tfmt_merge_next(m, 1, wait_ns, &ev)) > 0 && ev.time_ns <= newest) {
		if (joined_add_event(&r->joined, &ev))
			return TFMT_E_NOMEM;
	}
	while ((got = tfmt_merge_definition(m, &position, &type, &id, &payload, &len)) > 0) {
		if (joined_add_definition(&r->joined, type, id, payload, len))
			return TFMT_E_NOMEM;
	}
	if (got == TFMT_E_DAMAGED)
		joined_note(&r->joined, "has definitions that cannot be read");
	joined_note_torn(&r->joined, m);
	return got == TFMT_E_NOMEM ? got : 0;
}

static void joined_forget(struct tfmt_joined *j)
{
	j->nr_events = j->definitions_bytes = 0;
	j->damage[0] = 0;
}

/*
 * Copy what the ring file holds, as it is now. Returns 0 (r->has_status tells whether there was one) or TFMT_E_NOMEM.
 * *is_cut: rings that the status page counts are not in it.
 */
static int ring_copy_once(struct tfmt_reader *r, bool *is_cut)
{
	struct tfmt_ring_view view;
	struct tfmt_merge *m;
	const char *what;
	int err = tfmt_reader_map_ring(r, &view, &what);

	*is_cut = false;
	if (err == TFMT_E_DAMAGED)
		joined_note(&r->joined, what);
	if (err)
		return err == TFMT_E_NOMEM ? err : 0;
	err = tfmt_reader_merge(r, &m, &view);
	if (!err)
		err = joined_copy(r, m);
	if (!err) {
		*is_cut = tfmt_merge_is_cut(m);
		if (*is_cut)
			joined_note(&r->joined, "is cut short");
		memcpy(&r->status, view.base, sizeof(r->status));
		r->has_status = true;
	}
	tfmt_merge_close(m);
	munmap(view.base, view.bytes);
	return err == TFMT_E_NOMEM ? err : 0;
}

/* A running process adds rings, which are not in what was mapped before: they are there when it is mapped again. */
static int reader_copy_ring(struct tfmt_reader *r)
{
	bool is_cut;
	int err = ring_copy_once(r, &is_cut);

	for (unsigned tries = 0; !err && is_cut && r->is_running && tries < TRIES_MAX; tries++) {
		joined_forget(&r->joined);
		err = ring_copy_once(r, &is_cut);
	}
	return err;
}

/* ---- joining --------------------------------------------------------------------------------- */

bool tfmt_reader_is_locked(const struct tfmt_reader *r)
{
	struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET };

	return !fcntl(r->fd, F_OFD_GETLK, &lock) && lock.l_type != F_UNLCK;
}

/*
 * A flight recorder has put a file without the oldest frames in this one's place: go on in it, after what has been
 * read. False if the name is no other file's, or none of this process.
 */
static bool trace_is_replaced(struct tfmt_reader *r)
{
	struct stat old, now;
	int fd, old_fd = r->fd;
	struct tfmt_header h;
	size_t bytes;
	uint64_t offset;

	if (fstat(r->fd, &old) || stat(r->path, &now) || (old.st_ino == now.st_ino && old.st_dev == now.st_dev))
		return false;
	fd = open(r->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return false;
	r->fd = fd;
	if (fstat(fd, &now) || !S_ISREG(now.st_mode) || tfmt_reader_fill(r, 0) ||
	    tfmt_header_get(&h, r->window, r->window_bytes, &bytes, &offset) || h.pid != r->header.pid ||
	    h.image_start_ns != r->header.image_start_ns) {
		close(fd);
		r->fd = old_fd;
		r->window_bytes = 0;
		return false;
	}
	close(old_fd);
	r->offset = bytes;
	r->file_bytes = (uint64_t)now.st_size;
	r->is_rereading = true;
	return true;
}

bool tfmt_reader_has_grown(struct tfmt_reader *r)
{
	struct stat st;

	if (r->file_failed || r->is_pipe)
		return false;
	if (trace_is_replaced(r))
		return true;
	if (fstat(r->fd, &st) || (uint64_t)st.st_size == r->file_bytes)
		return false;
	r->file_bytes = (uint64_t)st.st_size;
	r->window_bytes = 0;
	return true;
}

static int joined_define(struct tfmt_reader *r)
{
	const struct tfmt_joined *j = &r->joined;
	uint32_t head[3];
	size_t at;

	r->definitions.max_cost = 0; /* there are no more than the ring file has bytes */
	for (at = 0; at < j->definitions_bytes; at += sizeof(head) + head[2]) {
		const uint8_t *p = j->definitions + at;
		int err;

		memcpy(head, p, sizeof(head));
		err = tfmt_definitions_add(&r->definitions, head[0], head[1], p + sizeof(head), head[2]);
		if (err == TFMT_E_NOMEM)
			return err;
		if (err)
			joined_note(&r->joined, "has definitions that cannot be read");
	}
	return 0;
}

/* Bytes after the last good frame. A frame that a kill cut short is still in the ring file. */
static int reader_judge_tail(struct tfmt_reader *r)
{
	unsigned long long offset = r->offset;
	bool excused = r->is_running || (r->has_status && !r->has_end_frame && !r->joined.damage[0]);

	if (r->file_failed)
		return tfmt_reader_complain(r, TFMT_E_DAMAGED, r->offset,
					    "the file cannot be read from offset %llu on", offset);
	if (r->tail == TFMT_FRAME_GOOD || (r->tail == TFMT_FRAME_SHORT && excused))
		return 0;
	r->summary.damaged_bytes += r->file_bytes - r->offset;
	if (r->tail == TFMT_FRAME_SHORT)
		return tfmt_reader_complain(r, TFMT_E_CUT, r->offset,
					    "the file ends inside the frame at offset %llu", offset);
	return tfmt_reader_complain(
		r, TFMT_E_DAMAGED, r->offset,
		"no frame could be found in the file's last %llu bytes, from offset %llu on",
		(unsigned long long)(r->file_bytes - r->offset), offset);
}

int tfmt_reader_join(struct tfmt_reader *r)
{
	int err = 0;

	if (!r->has_end_frame && !r->stops_at_ring) {
		r->is_running = tfmt_reader_is_locked(r);
		err = reader_copy_ring(r);
		if (!err && tfmt_reader_has_grown(r)) { /* what was copied may have been reused */
			joined_forget(&r->joined);
			r->has_status = false;
			if (r->joined.tries++ < TRIES_MAX)
				return 0;
		}
	}
	if (!err && r->joined.nr_events)
		err = tfmt_ledger_use_addresses(&r->ledger);
	if (!err && r->copier)
		r->copier->accepted(r->copier, NULL);
	if (!err)
		err = joined_define(r);
	if (err)
		return err;
	r->stage = TFMT_READER_JOINED;
	return r->stops_at_ring ? 0 : reader_judge_tail(r);
}
