/* SPDX-License-Identifier: MIT */
/*
 * Random event streams whose truth is known: what a recorder would write, and what a reader must give back.
 * For tests of tracefmt; static functions, one includer per program.
 */
#ifndef TRACEFMT_STREAM_H
#define TRACEFMT_STREAM_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracefmt/tracefmt.h"

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define STREAM_MAX_LIVE 4096

struct stream_block {
	struct tfmt_event alloc; /* with its ordinal */
	unsigned references;     /* of a handle, the user's own included */
	unsigned user_references;
};

struct stream_mapping {
	uint64_t address, size, handle;
};

struct stream {
	uint64_t random, time_ns, ordinal, next_address;
	uint64_t order[TFMT_NR_DEVICES + 1];
	struct stream_block live[STREAM_MAX_LIVE];
	unsigned nr_live;
	struct stream_mapping mapping[STREAM_MAX_LIVE];
	unsigned nr_mappings;
	struct tfmt_totals totals;
	uint64_t reserved[TFMT_NR_DEVICES];
	unsigned time_shift;
	bool wild; /* any value in any field, not only likely ones */
};

static inline uint64_t stream_random(struct stream *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

static inline uint64_t stream_below(struct stream *s, uint64_t n)
{
	return stream_random(s) % n;
}

static inline void stream_init(struct stream *s, uint64_t seed, unsigned time_shift, bool wild)
{
	memset(s, 0, sizeof(*s));
	s->random = seed * 0x9e3779b97f4a7c15ull + 1;
	s->time_shift = time_shift;
	s->wild = wild;
	s->time_ns = 1000000;
	s->next_address = 0x7f0000000000ull;
}

/* A value of up to 64 bits, short ones as likely as long ones. */
static inline uint64_t stream_value(struct stream *s)
{
	return stream_random(s) >> stream_below(s, 64);
}

static inline uint64_t *stream_total(struct stream *s, const struct tfmt_event *alloc)
{
	unsigned space = alloc->flags & TFMT_SPACE_MASK;

	if (alloc->kind == TFMT_TENSOR_ALLOC)
		return &s->totals.allocated[alloc->device];
	switch (space) {
	case TFMT_SPACE_PINNED:
	case TFMT_SPACE_REGISTERED:
	case TFMT_SPACE_POOL_HOST:
	case TFMT_SPACE_HANDLE_HOST:
		return &s->totals.pinned;
	case TFMT_SPACE_MANAGED:
		return &s->totals.managed[alloc->device];
	case TFMT_SPACE_DEVICE:
	case TFMT_SPACE_HANDLE:
	case TFMT_SPACE_POOL:
	case TFMT_SPACE_ARRAY:
		return &s->totals.driver[alloc->device];
	default:
		return NULL;
	}
}

/* Which space the call says that frees memory of this one: it does not know more. */
static inline unsigned stream_freed_space(unsigned space)
{
	static const uint8_t freed[] = {
		[TFMT_SPACE_DEVICE] = TFMT_SPACE_DEVICE,	   [TFMT_SPACE_PINNED] = TFMT_SPACE_PINNED,
		[TFMT_SPACE_MANAGED] = TFMT_SPACE_DEVICE,	   [TFMT_SPACE_REGISTERED] = TFMT_SPACE_REGISTERED,
		[TFMT_SPACE_HANDLE] = TFMT_SPACE_HANDLE,	   [TFMT_SPACE_POOL] = TFMT_SPACE_DEVICE,
		[TFMT_SPACE_ARRAY] = TFMT_SPACE_ARRAY,		   [TFMT_SPACE_IPC] = TFMT_SPACE_DEVICE,
		[TFMT_SPACE_RESERVED] = TFMT_SPACE_RESERVED,	   [TFMT_SPACE_GRAPH] = TFMT_SPACE_DEVICE,
		[TFMT_SPACE_MULTICAST] = TFMT_SPACE_HANDLE,	   [TFMT_SPACE_POOL_HOST] = TFMT_SPACE_DEVICE,
		[TFMT_SPACE_HANDLE_HOST] = TFMT_SPACE_HANDLE,	   [TFMT_SPACE_HANDLE_IMPORTED] = TFMT_SPACE_HANDLE,
	};

	return freed[space];
}
#define STREAM_NR_SPACES 14

static inline bool stream_is_handle(const struct tfmt_event *a)
{
	return a->kind == TFMT_DRIVER_ALLOC &&
	       stream_freed_space(a->flags & TFMT_SPACE_MASK) == TFMT_SPACE_HANDLE;
}

static inline void stream_forget(struct stream *s, unsigned i)
{
	uint64_t *total = stream_total(s, &s->live[i].alloc);

	if (total)
		*total -= s->live[i].alloc.size;
	s->live[i] = s->live[--s->nr_live];
}

static inline int stream_find_handle(struct stream *s, uint64_t address)
{
	unsigned i;

	for (i = 0; i < s->nr_live; i++) {
		const struct tfmt_event *a = &s->live[i].alloc;

		if (stream_is_handle(a) && a->address == address)
			return (int)i;
	}
	return -1;
}

static inline void stream_unreference(struct stream *s, unsigned i)
{
	if (!--s->live[i].references)
		stream_forget(s, i);
}

/* A random live block that its owner may still free; -1 if none was met. */
static inline int stream_pick(struct stream *s)
{
	unsigned tries;

	for (tries = 0; s->nr_live && tries < 8; tries++) {
		unsigned i = (unsigned)stream_below(s, s->nr_live);

		if (s->live[i].user_references)
			return (int)i;
	}
	return -1;
}

static inline void stream_common(struct stream *s, struct tfmt_event *ev)
{
	memset(ev, 0, sizeof(*ev));
	s->time_ns += stream_below(s, 5000);
	ev->time_ns = s->time_ns;
	ev->python_stack = (uint32_t)stream_below(s, 200);
	ev->native_stack = (uint32_t)stream_below(s, 3) ? 0 : (uint32_t)stream_below(s, 1000);
	ev->thread = (uint32_t)stream_below(s, 3);
	ev->stream = (uint16_t)stream_below(s, 3);
	ev->function = (uint16_t)stream_below(s, 4);
	ev->device = (uint8_t)stream_below(s, 3);
	ev->alloc_ordinal = TFMT_NO_ORDINAL;
	if (!s->wild)
		return;
	ev->time_ns = stream_below(s, 4) ? s->time_ns : s->time_ns - stream_below(s, 100000);
	ev->python_stack = (uint32_t)stream_value(s);
	ev->native_stack = (uint32_t)stream_value(s);
	ev->thread = (uint32_t)stream_value(s);
	ev->stream = (uint16_t)stream_value(s);
	ev->function = (uint16_t)stream_value(s);
	ev->device = (uint8_t)stream_below(s, TFMT_NR_DEVICES);
}

static inline void stream_alloc(struct stream *s, struct tfmt_event *ev)
{
	struct stream_block *b = &s->live[s->nr_live++];
	uint64_t *total;

	ev->kind = stream_below(s, 4) ? TFMT_TENSOR_ALLOC : TFMT_DRIVER_ALLOC;
	ev->size = (1 + stream_below(s, 1000)) * 512;
	ev->address = s->next_address;
	s->next_address += (ev->size + 511) / 512 * 512 + 512;
	if (ev->kind == TFMT_TENSOR_ALLOC) {
		s->reserved[ev->device] += stream_below(s, 8) ? 0 : 2 << 20;
		ev->aux = s->reserved[ev->device];
		s->totals.reserved[ev->device] = ev->aux;
		ev->shape = (uint32_t)stream_below(s, 30);
	} else {
		ev->flags = (uint16_t)stream_below(s, STREAM_NR_SPACES);
		ev->aux = stream_below(s, 3);
	}
	if (s->wild) {
		ev->size = stream_value(s) >> 16;
		ev->shape = (uint32_t)stream_value(s);
		ev->flags |= stream_below(s, 4) ? 0 : TFMT_FLAG_TEARDOWN;
	}
	b->alloc = *ev;
	b->alloc.ordinal = s->ordinal;
	b->references = b->user_references = 1;
	total = stream_total(s, &b->alloc);
	if (total)
		*total += ev->size;
}

/* What a matched free gives back, as the header of tracefmt has it. */
static inline void stream_inherit(struct tfmt_event *want, const struct tfmt_event *alloc)
{
	want->address = alloc->address;
	want->size = alloc->size;
	want->shape = alloc->shape;
	want->device = alloc->device;
	if (alloc->kind == TFMT_TENSOR_ALLOC)
		want->stream = alloc->stream;
	else
		want->flags = (uint16_t)((want->flags & ~TFMT_SPACE_MASK) | (alloc->flags & TFMT_SPACE_MASK));
}

static inline void stream_free(struct stream *s, struct tfmt_event *ev, struct tfmt_event *want, unsigned i)
{
	struct stream_block *b = &s->live[i];
	bool tensor = b->alloc.kind == TFMT_TENSOR_ALLOC;

	ev->kind = tensor ? TFMT_TENSOR_FREE : TFMT_DRIVER_FREE;
	ev->address = b->alloc.address;
	if (tensor) {
		ev->device = b->alloc.device;
		ev->size = b->alloc.size;
		ev->aux = s->reserved[ev->device];
	} else {
		ev->flags = (uint16_t)stream_freed_space(b->alloc.flags & TFMT_SPACE_MASK);
	}
	*want = *ev;
	want->alloc_ordinal = b->alloc.ordinal;
	stream_inherit(want, &b->alloc);
	b->user_references--;
	stream_unreference(s, i);
}

static inline void stream_free_unknown(struct stream *s, struct tfmt_event *ev)
{
	ev->kind = stream_below(s, 2) ? TFMT_TENSOR_FREE : TFMT_DRIVER_FREE;
	ev->address = 0x100000 + stream_below(s, 1000) * 512;
	ev->size = 512;
	if (ev->kind == TFMT_TENSOR_FREE) {
		ev->aux = s->reserved[ev->device];
		s->totals.reserved[ev->device] = ev->aux;
	}
}

/* Something that happens to a handle of virtual memory; false if there is none. */
static inline bool stream_virtual(struct stream *s, struct tfmt_event *ev)
{
	int i = stream_pick(s);
	struct stream_block *b = i < 0 ? NULL : &s->live[i];

	if (s->nr_mappings && stream_below(s, 2)) {
		unsigned k = (unsigned)stream_below(s, s->nr_mappings);

		ev->kind = TFMT_UNMAP;
		ev->address = s->mapping[k].address;
		ev->size = s->mapping[k].size;
		i = stream_find_handle(s, s->mapping[k].handle);
		s->mapping[k] = s->mapping[--s->nr_mappings];
		assert_true(i >= 0);
		stream_unreference(s, (unsigned)i);
		return true;
	}
	if (!b || !stream_is_handle(&b->alloc))
		return false;
	b->references++;
	if (stream_below(s, 4) || s->nr_mappings == STREAM_MAX_LIVE) {
		ev->kind = TFMT_HANDLE_RETAIN;
		ev->address = b->alloc.address;
		b->user_references++;
		return true;
	}
	ev->kind = TFMT_MAP;
	ev->address = s->next_address;
	ev->size = b->alloc.size;
	ev->aux = b->alloc.address;
	s->next_address += (ev->size + 511) / 512 * 512 + 512;
	s->mapping[s->nr_mappings++] = (struct stream_mapping){ ev->address, ev->size, ev->aux };
	return true;
}

static inline void stream_other(struct stream *s, struct tfmt_event *ev)
{
	static const uint8_t kind[] = { TFMT_TENSOR_OOM, TFMT_ALLOC_FAILED, TFMT_MEMORY_INFO, TFMT_LOST };

	ev->kind = kind[stream_below(s, 4)];
	ev->size = s->wild ? stream_value(s) >> 20 : stream_below(s, 1000);
	ev->aux = s->wild ? stream_value(s) : stream_below(s, 1000);
	ev->address = s->wild ? stream_value(s) : 0;
	if (ev->kind == TFMT_TENSOR_OOM) {
		ev->aux = s->reserved[ev->device];
		s->totals.reserved[ev->device] = ev->aux;
	}
}

/* The next event as a recorder gives it (*ev) and as a reader must give it back (*want). */
static inline void stream_next(struct stream *s, struct tfmt_event *ev, struct tfmt_event *want)
{
	unsigned choice = (unsigned)stream_below(s, 100);
	bool copied = false;
	int i = -1;

	stream_common(s, ev);
	if (choice < 45 && s->nr_live < STREAM_MAX_LIVE) {
		stream_alloc(s, ev);
	} else if (choice < 88 && (i = stream_pick(s)) >= 0) {
		stream_free(s, ev, want, (unsigned)i);
		copied = true;
	} else if (choice >= 95 || !stream_virtual(s, ev)) {
		if (choice & 1)
			stream_free_unknown(s, ev);
		else
			stream_other(s, ev);
	}
	if (!copied) {
		*want = *ev;
		want->alloc_ordinal = TFMT_NO_ORDINAL;
	}
	want->ordinal = s->ordinal++;
	want->time_ns = want->time_ns >> s->time_shift << s->time_shift;
}

static inline void assert_event_equal(const struct tfmt_event *a, const struct tfmt_event *b)
{
	assert_int_equal(a->ordinal, b->ordinal);
	assert_int_equal(a->kind, b->kind);
	assert_int_equal(a->alloc_ordinal, b->alloc_ordinal);
	assert_int_equal(a->time_ns, b->time_ns);
	assert_int_equal(a->address, b->address);
	assert_int_equal(a->size, b->size);
	assert_int_equal(a->aux, b->aux);
	assert_int_equal(a->python_stack, b->python_stack);
	assert_int_equal(a->native_stack, b->native_stack);
	assert_int_equal(a->shape, b->shape);
	assert_int_equal(a->thread, b->thread);
	assert_int_equal(a->stream, b->stream);
	assert_int_equal(a->function, b->function);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->device, b->device);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A private folder for this program's files, removed by hand at the end of each test that uses it. */
static inline const char *stream_path(const char *name)
{
	static char path[4][512];
	static unsigned next;
	const char *base = getenv("TMPDIR");
	char *p = path[next++ % 4];

	snprintf(p, 512, "%s/vramtrace-unit-%d-%s", base ? base : "/tmp", (int)getpid(), name);
	return p;
}

static inline int stream_create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	return fd;
}

static inline struct tfmt_header stream_header(unsigned time_shift)
{
	struct tfmt_header h = {
		.pid = 4711,
		.start_mono_ns = 5,
		.start_real_ns = 6,
		.image_start_ns = 1234567,
		.time_ns_inode = 8,
		.boot_id = { 1, 2, 3 },
		.time_shift = (uint8_t)time_shift,
		.host = "some-host",
		.job = "j1",
	};

	return h;
}

/* A whole file in memory; the caller frees it. */
static inline uint8_t *stream_load(const char *path, size_t *len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t end = lseek(fd, 0, SEEK_END);
	uint8_t *bytes = malloc((size_t)end + 1);

	assert_true(fd >= 0 && bytes);
	assert_int_equal(pread(fd, bytes, (size_t)end, 0), end);
	close(fd);
	*len = (size_t)end;
	return bytes;
}

static inline void stream_store(const char *path, const uint8_t *bytes, size_t len)
{
	int fd = stream_create(path);

	assert_int_equal(write(fd, bytes, len), (ssize_t)len);
	close(fd);
}

#endif
