/* SPDX-License-Identifier: MIT */
/*
 * Read a trace with libtracefmt: the most that tensors held on each device, and the largest block then.
 *
 *   cc peak.c $(pkg-config --cflags --libs tracefmt) -o peak && ./peak train.vtr/HOST.PID.START.vtr
 *
 * Exit status: 0, 1 if something was missing or damaged, 2 if the trace cannot be read.
 */
#include <inttypes.h>
#include <stdio.h>

#include <tracefmt/tracefmt.h>

struct peak {
	uint64_t bytes, time_ns;
};

static void note_peak(struct peak *peak, uint64_t allocated, uint64_t time_ns)
{
	if (allocated <= peak->bytes)
		return;
	peak->bytes = allocated;
	peak->time_ns = time_ns;
}

int main(int argc, char **argv)
{
	struct peak peak[TFMT_NR_DEVICES] = { { 0, 0 } };
	const struct tfmt_summary *summary;
	struct tfmt_reader *reader;
	struct tfmt_totals totals;
	struct tfmt_event event;
	uint64_t offset = 0;
	int got, err;

	if (argc != 2) {
		fprintf(stderr, "usage: peak TRACE\n");
		return 2;
	}
	err = tfmt_reader_open(&reader, argv[1], &offset);
	if (err) {
		fprintf(stderr, "peak: '%s', byte %" PRIu64 ": %s\n", argv[1], offset, tfmt_strerror(err));
		return 2;
	}
	/* Damage (below 0) is skipped: say so and go on. */
	while ((got = tfmt_reader_next(reader, &event)) != 0) {
		if (got < 0) {
			fprintf(stderr, "peak: %s\n", tfmt_reader_message(reader));
			continue;
		}
		if (event.kind != TFMT_TENSOR_ALLOC || event.device >= TFMT_NR_DEVICES)
			continue;
		tfmt_reader_totals(reader, &totals);
		note_peak(&peak[event.device], totals.allocated[event.device], event.time_ns);
	}
	for (unsigned i = 0; i < TFMT_NR_DEVICES; i++) {
		if (peak[i].bytes)
			printf("GPU %u: %" PRIu64 " bytes after %.3f s\n", i, peak[i].bytes,
			       (double)(peak[i].time_ns - tfmt_reader_header(reader)->start_mono_ns) * 1e-9);
	}
	summary = tfmt_reader_summary(reader);
	printf("%" PRIu64 " events, %" PRIu64 " lost\n", summary->nr_events, summary->lost_events);
	err = summary->complete ? 0 : 1;
	tfmt_reader_close(reader);
	return err;
}
