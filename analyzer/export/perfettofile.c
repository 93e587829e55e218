/* SPDX-License-Identifier: MIT */
/* Packets of Perfetto's format. Field numbers are those of the format's public description. */
#include "analyzer/export/perfettofile.h"

#include <stdbool.h>

enum { TRACE_PACKET = 1 };
enum { PACKET_TIMESTAMP = 8, PACKET_SEQUENCE = 10, PACKET_TRACK_EVENT = 11, PACKET_SEQUENCE_FLAGS = 13,
       PACKET_TRACK_DESCRIPTOR = 60, PACKET_FIRST_ON_SEQUENCE = 87 };
enum { FLAG_STATE_CLEARED = 1, FLAG_NEEDS_STATE = 2 };
enum { TRACK_UUID = 1, TRACK_NAME = 2, TRACK_PROCESS = 3, TRACK_THREAD = 4, TRACK_PARENT = 5, TRACK_COUNTER = 8 };
enum { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum { COUNTER_UNIT = 3, UNIT_SIZE_BYTES = 3 };
enum { EVENT_TYPE = 9, EVENT_TRACK = 11, EVENT_NAME = 23, EVENT_COUNTER_VALUE = 30 };
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4 };

/* ---- packets ----------------------------------------------------------------------------------- */

/* Begin a packet. The first of a sequence says that nothing is known from before. */
static void packet_begin(struct perfettofile *f, uint32_t flags)
{
	bool is_first = f->sequence > f->nr_begun;

	wire_clear(&f->packet);
	wire_uint(&f->packet, PACKET_SEQUENCE, f->sequence);
	if (is_first) {
		f->nr_begun = f->sequence;
		flags |= FLAG_STATE_CLEARED;
		wire_uint(&f->packet, PACKET_FIRST_ON_SEQUENCE, 1);
	}
	if (flags)
		wire_uint(&f->packet, PACKET_SEQUENCE_FLAGS, flags);
}

static void packet_write(struct perfettofile *f)
{
	uint8_t head[11] = { TRACE_PACKET << 3 | 2 };
	size_t nr = 1, len = f->packet.nr_bytes;

	for (; len >= 0x80; len >>= 7)
		head[nr++] = (uint8_t)(len | 0x80);
	head[nr++] = (uint8_t)len;
	fwrite_unlocked(head, 1, nr, f->out);
	fwrite_unlocked(f->packet.byte, 1, f->packet.nr_bytes, f->out);
}

void perfetto_profile(struct perfettofile *f, uint64_t time_ns, const struct wire *interned, const struct wire *profile)
{
	packet_begin(f, FLAG_NEEDS_STATE);
	wire_uint(&f->packet, PACKET_TIMESTAMP, time_ns);
	wire_message(&f->packet, PACKET_INTERNED, interned);
	wire_message(&f->packet, PACKET_PROFILE, profile);
	packet_write(f);
}

/* ---- tracks ------------------------------------------------------------------------------------ */

/* The descriptor in f->part, with a number and a part of its own in f->inner. */
static uint64_t describe(struct perfettofile *f, uint64_t parent, const char *name, uint32_t field)
{
	wire_clear(&f->part);
	wire_uint(&f->part, TRACK_UUID, ++f->nr_tracks);
	if (parent)
		wire_uint(&f->part, TRACK_PARENT, parent);
	if (name)
		wire_text(&f->part, TRACK_NAME, name);
	if (field)
		wire_message(&f->part, field, &f->inner);
	packet_begin(f, 0);
	wire_message(&f->packet, PACKET_TRACK_DESCRIPTOR, &f->part);
	packet_write(f);
	return f->nr_tracks;
}

uint64_t perfetto_process(struct perfettofile *f, int32_t pid, const char *name)
{
	wire_clear(&f->inner);
	wire_uint(&f->inner, PROCESS_PID, (uint64_t)(int64_t)pid);
	wire_text(&f->inner, PROCESS_NAME, name);
	return describe(f, 0, NULL, TRACK_PROCESS);
}

uint64_t perfetto_thread(struct perfettofile *f, int32_t pid, uint32_t tid, const char *name)
{
	wire_clear(&f->inner);
	wire_uint(&f->inner, THREAD_PID, (uint64_t)(int64_t)pid);
	wire_uint(&f->inner, THREAD_TID, tid);
	wire_text(&f->inner, THREAD_NAME, name);
	return describe(f, 0, NULL, TRACK_THREAD);
}

uint64_t perfetto_track(struct perfettofile *f, uint64_t parent, const char *name)
{
	return describe(f, parent, name, 0);
}

uint64_t perfetto_bytes_counter(struct perfettofile *f, uint64_t parent, const char *name)
{
	wire_clear(&f->inner);
	wire_uint(&f->inner, COUNTER_UNIT, UNIT_SIZE_BYTES);
	return describe(f, parent, name, TRACK_COUNTER);
}

/* ---- events ------------------------------------------------------------------------------------ */

static void event_begin(struct perfettofile *f, uint64_t track, uint32_t type)
{
	wire_clear(&f->event);
	wire_uint(&f->event, EVENT_TYPE, type);
	wire_uint(&f->event, EVENT_TRACK, track);
}

static void event_write(struct perfettofile *f, uint64_t time_ns)
{
	packet_begin(f, 0);
	wire_uint(&f->packet, PACKET_TIMESTAMP, time_ns);
	wire_message(&f->packet, PACKET_TRACK_EVENT, &f->event);
	packet_write(f);
}

void perfetto_begin(struct perfettofile *f, uint64_t track, uint64_t time_ns, const char *name)
{
	event_begin(f, track, SLICE_BEGIN);
	wire_text(&f->event, EVENT_NAME, name);
	event_write(f, time_ns);
}

void perfetto_end(struct perfettofile *f, uint64_t track, uint64_t time_ns)
{
	event_begin(f, track, SLICE_END);
	event_write(f, time_ns);
}

void perfetto_instant(struct perfettofile *f, uint64_t track, uint64_t time_ns, const char *name)
{
	event_begin(f, track, INSTANT);
	wire_text(&f->event, EVENT_NAME, name);
	event_write(f, time_ns);
}

void perfetto_count(struct perfettofile *f, uint64_t track, uint64_t time_ns, uint64_t value)
{
	event_begin(f, track, COUNTER);
	wire_uint(&f->event, EVENT_COUNTER_VALUE, value);
	event_write(f, time_ns);
}

void perfettofile_release(struct perfettofile *f)
{
	wire_release(&f->packet);
	wire_release(&f->event);
	wire_release(&f->part);
	wire_release(&f->inner);
}
