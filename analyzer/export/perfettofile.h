/* SPDX-License-Identifier: MIT */
/*
 * A trace in Perfetto's own format, packet by packet: tracks, and what happens on them.
 *
 * A *track* has a number, and is described before it is used; it lies below another, in the end below a process. Times are
 * nanoseconds since the start of the recording. Packets of one process are one sequence.
 */
#ifndef VT_PERFETTOFILE_H
#define VT_PERFETTOFILE_H

#include <stdint.h>
#include <stdio.h>

#include "analyzer/export/wire.h"

/* Fields of packets, as Perfetto's description of the format numbers them. */
enum perfetto_packet { PACKET_INTERNED = 12, PACKET_PROFILE = 37 };

/* Zero but for `out` before first use. */
struct perfettofile {
	FILE *out;
	uint32_t sequence; /* of the packets that come next, from 1 */
	uint32_t nr_begun; /* sequences up to this number have packets */
	uint64_t nr_tracks;
	struct wire packet, event, part, inner; /* scratch */
};

/* Describe tracks; all return their numbers. Names are copied. */
uint64_t perfetto_process(struct perfettofile *f, int32_t pid, const char *name);
uint64_t perfetto_thread(struct perfettofile *f, int32_t pid, uint32_t tid, const char *name);
uint64_t perfetto_track(struct perfettofile *f, uint64_t parent, const char *name);
uint64_t perfetto_bytes_counter(struct perfettofile *f, uint64_t parent, const char *name);

/* A slice begins, and the latest that has begun on the track ends; a moment; a counter has a value from here on. */
void perfetto_begin(struct perfettofile *f, uint64_t track, uint64_t time_ns, const char *name);
void perfetto_end(struct perfettofile *f, uint64_t track, uint64_t time_ns);
void perfetto_instant(struct perfettofile *f, uint64_t track, uint64_t time_ns, const char *name);
void perfetto_count(struct perfettofile *f, uint64_t track, uint64_t time_ns, uint64_t value);

/* A packet with a profile, and the texts and stacks that it names. */
void perfetto_profile(struct perfettofile *f, uint64_t time_ns, const struct wire *interned, const struct wire *profile);

void perfettofile_release(struct perfettofile *f);

#endif
