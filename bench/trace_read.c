/* SPDX-License-Identifier: MIT */
/*
 * Reads a trace: every event is decoded and replayed, what is live is known at each.
 *
 *   trace_read TRACE
 *
 * Prints how many events there are and the CPU nanoseconds it took.
 */
#include <stdio.h>
#include <time.h>

#include "tracefmt/tracefmt.h"

int main(int argc, char **argv)
{
	struct tfmt_reader *r;
	const struct tfmt_event *ev;
	unsigned long long nr = 0;
	struct timespec t;
	int got;

	if (argc != 2 || tfmt_reader_open(&r, argv[1], NULL)) {
		fprintf(stderr, "trace_read: cannot read '%s'\n", argc == 2 ? argv[1] : "");
		return 2;
	}
	while ((got = tfmt_reader_events(r, &ev)) > 0)
		nr += (unsigned)got;
	tfmt_reader_close(r);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	printf("{\"events\": %llu, \"cpu_ns\": %.0f}\n", nr, (double)t.tv_sec * 1e9 + (double)t.tv_nsec);
	return got ? 2 : 0;
}
