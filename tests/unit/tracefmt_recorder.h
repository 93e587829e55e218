/* SPDX-License-Identifier: MIT */
/*
 * A process that records, in miniature: rings and a definition ring in a file, hooks that push, and a drain
 * whose steps a test can take one by one. For tests of tracefmt; static functions, one includer per program.
 */
#ifndef TRACEFMT_RECORDER_H
#define TRACEFMT_RECORDER_H

#include <stdio.h>
#include <sys/mman.h>

#include "tests/unit/tracefmt_stream.h"

#define NR_RINGS 5
#define CAPACITY 256
#define DEFINITION_BYTES 8192
#define RING_STRIDE (sizeof(struct tfmt_ring) + CAPACITY * sizeof(struct tfmt_record))
#define RING_FILE_BYTES (4096 + DEFINITION_BYTES + NR_RINGS * RING_STRIDE)

/* A process that records: its threads' rings, and its drain. */
struct recorder {
	const char *trace, *ring_file;
	int fd;
	struct tfmt_ring_view view;
	struct tfmt_status *status;
	struct tfmt_writer *writer;
	struct tfmt_merge *merge;
	uint64_t definition_position;
	uint64_t order[TFMT_NR_DEVICES + 1];
};

static inline struct tfmt_ring *ring_of(struct recorder *rec, unsigned i)
{
	return (struct tfmt_ring *)(rec->view.base + rec->status->ring_offset + i * RING_STRIDE);
}

static inline void recorder_map(struct recorder *rec)
{
	int fd = stream_create(rec->ring_file);
	unsigned i;

	assert_int_equal(ftruncate(fd, RING_FILE_BYTES), 0);
	rec->view.base = mmap(NULL, RING_FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	rec->view.bytes = RING_FILE_BYTES;
	assert_true(rec->view.base != MAP_FAILED);
	close(fd);
	rec->status = (struct tfmt_status *)rec->view.base;
	*rec->status = (struct tfmt_status){
		.magic = TFMT_RING_MAGIC,
		.version = TFMT_RING_VERSION,
		.pid = 4711,
		.image_start_ns = 1234567,
		.definition_offset = 4096,
		.definition_bytes = DEFINITION_BYTES,
		.ring_offset = 4096 + DEFINITION_BYTES,
		.ring_stride = RING_STRIDE,
		.ring_capacity = CAPACITY,
		.nr_rings = NR_RINGS,
	};
	rec->status->check = tfmt_status_check(rec->status);
	for (i = 0; i < NR_RINGS; i++) {
		ring_of(rec, i)->thread = 100 + i;
		ring_of(rec, i)->thread_check = tfmt_thread_check(100 + i);
	}
}

static inline void recorder_start(struct recorder *rec)
{
	struct tfmt_header h = stream_header(0);

	memset(rec, 0, sizeof(*rec));
	rec->trace = strdup(stream_path("ring.vtr"));
	rec->ring_file = strdup(stream_path("ring.ring"));
	recorder_map(rec);
	rec->fd = stream_create(rec->trace);
	assert_int_equal(tfmt_writer_open(&rec->writer, rec->fd, &h, 1), 0);
	assert_int_equal(tfmt_merge_open(&rec->merge, &rec->view, NULL, NULL, 0), 0);
}

static inline void recorder_stop(struct recorder *rec)
{
	tfmt_merge_close(rec->merge);
	tfmt_writer_close(rec->writer);
	munmap(rec->view.base, rec->view.bytes);
	close(rec->fd);
	unlink(rec->trace);
	unlink(rec->ring_file);
	free((char *)rec->trace);
	free((char *)rec->ring_file);
}

static inline unsigned domain_of(const struct tfmt_event *ev)
{
	return ev->kind <= TFMT_TENSOR_OOM ? ev->device : TFMT_NR_DEVICES;
}

static inline bool ring_is_full(struct recorder *rec, unsigned i)
{
	return ring_of(rec, i)->head - __atomic_load_n(&ring_of(rec, i)->tail, __ATOMIC_ACQUIRE) == CAPACITY;
}

/* What a hook does at its end; the order has been taken. */
static inline void push_ordered(struct recorder *rec, unsigned i, const struct tfmt_event *ev, uint64_t order)
{
	struct tfmt_ring *ring = ring_of(rec, i);
	struct tfmt_record *r = &ring->record[ring->head % CAPACITY];

	assert_false(ring_is_full(rec, i));
	*r = (struct tfmt_record){
		.time_ns = ev->time_ns,
		.address = ev->address,
		.size = ev->size,
		.order = order,
		.aux = ev->aux,
		.python_stack = ev->python_stack,
		.native_stack = ev->native_stack,
		.shape = ev->shape,
		.stream = ev->stream,
		.function = ev->function,
		.kind = ev->kind,
		.device = ev->device,
		.flags = ev->flags,
	};
	__atomic_store_n(&r->valid, tfmt_record_check(r, ring->head), __ATOMIC_RELEASE);
	__atomic_store_n(&ring->head, ring->head + 1, __ATOMIC_RELEASE);
}

static inline void push(struct recorder *rec, unsigned i, const struct tfmt_event *ev)
{
	push_ordered(rec, i, ev, rec->order[domain_of(ev)]++);
}

/* A ring passes on to another thread. */
static inline void push_thread(struct recorder *rec, unsigned i, uint32_t thread)
{
	struct tfmt_event ev = { .kind = TFMT_RECORD_THREAD, .address = thread, .size = ring_of(rec, i)->thread };

	push_ordered(rec, i, &ev, UINT64_MAX);
	ring_of(rec, i)->thread = thread;
}

static inline void ring_write(struct recorder *rec, uint64_t position, const void *from, size_t len)
{
	uint8_t *area = rec->view.base + rec->status->definition_offset;
	const uint8_t *bytes = from;
	size_t i;

	for (i = 0; i < len; i++)
		area[(position + i) % DEFINITION_BYTES] = bytes[i];
}

static inline void push_definition(struct recorder *rec, uint32_t type, uint32_t id, const uint8_t *payload,
				   uint32_t len)
{
	uint32_t offset = 0;

	do {
		uint32_t chunk = len - offset < DEFINITION_BYTES / 4 ? len - offset : DEFINITION_BYTES / 4;
		struct tfmt_definition_entry e = {
			.entry_bytes = (uint32_t)sizeof(e) + (chunk + 7) / 8 * 8,
			.payload_bytes = chunk,
			.type = type,
			.id = id,
			.offset = offset,
			.whole_bytes = len,
		};

		uint64_t head = rec->status->definition_head;

		e.check = tfmt_entry_check(&e, head, payload + offset);
		ring_write(rec, head, &e, sizeof(e));
		ring_write(rec, head + sizeof(e), payload + offset, chunk);
		/* The whole entry at once, as the recorder does it: somebody may be reading. */
		__atomic_store_n(&rec->status->definition_head, head + e.entry_bytes, __ATOMIC_RELEASE);
		offset += chunk;
	} while (offset < len);
}

/* Everything that is ready goes into the writer. */
static inline void drain_collect(struct recorder *rec)
{
	const uint8_t *payload;
	uint32_t type, id;
	struct tfmt_event ev;
	size_t len;
	int got;

	while ((got = tfmt_merge_next(rec->merge, 1, 1000, &ev)) > 0)
		assert_true(tfmt_writer_event(rec->writer, &ev) >= 0);
	assert_int_equal(got, 0);
	while ((got = tfmt_merge_definition(rec->merge, &rec->definition_position, &type, &id, &payload,
					    &len)) > 0)
		assert_true(tfmt_writer_definition(rec->writer, type, id, payload, len) >= 0);
	assert_int_equal(got, 0);
}

static inline void drain_write(struct recorder *rec)
{
	assert_int_equal(tfmt_writer_flush(rec->writer, rec->merge, rec->definition_position), 0);
}

static inline void drain_advance(struct recorder *rec)
{
	const uint64_t *position;
	uint32_t nr = tfmt_merge_positions(rec->merge, &position), i;

	for (i = 0; i < nr; i++)
		__atomic_store_n(&ring_of(rec, i)->tail, position[i], __ATOMIC_RELEASE);
	rec->status->definition_tail = rec->definition_position;
}

static inline void drain(struct recorder *rec)
{
	drain_collect(rec);
	drain_write(rec);
	drain_advance(rec);
}

#endif
