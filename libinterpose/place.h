/* SPDX-License-Identifier: MIT */
/*
 * place: keeps the drain off the processor on which the program records.
 *
 * A scheduler that has not been told which processors share a cache wakes a thread where its timer fires, which is
 * where the program runs: the drain then takes the time of the very thread that it works for, though other
 * processors have nothing to do. Only the drain's own affinity is ever changed, within what it was given; threads that
 * the program starts inherit nothing of it.
 *
 * Threading: the calling thread's own affinity; a struct place belongs to that thread.
 */
#ifndef IP_PLACE_H
#define IP_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#define PLACE_PROCESSORS 8192u /* the most that Linux knows */
#define PLACE_WORDS (PLACE_PROCESSORS / 64)

struct place {
	uint64_t given[PLACE_WORDS]; /* processors that this thread may use, as the program or somebody else set them */
	uint64_t taken[PLACE_WORDS]; /* the same without the one kept away from */
	bool moved;                  /* `taken` has been set */
};

/* All zero at first. Move off this processor if it is the one the calling thread runs on, and there is another. */
void place_avoid(struct place *p, uint32_t processor);

#endif
