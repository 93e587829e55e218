/* SPDX-License-Identifier: MIT */
/*
 * The page that `run` lends to the processes that it starts (struct tfmt_witnesses): each that uses GPU memory enters
 * itself, and says why if it cannot record. What nobody entered did not happen.
 */
#ifndef VT_WITNESSES_H
#define VT_WITNESSES_H

#include <stddef.h>

#include "analyzer/recording/unrecorded.h"

/* Make the page, and name it in our environment. Without memory for it there is none: then nothing is known. */
void witnesses_open(void);

/* How many processes have used GPU memory since it was made or emptied; 0 also where that is not known. */
size_t witnesses_nr(void);

/* The next of them that has a reason, from *at (0 first) on; false: no more. */
bool witnesses_next(struct unrecorded *u, size_t *at);

/* The next of them that had no reason not to record: its process id; 0: no more. */
uint32_t witnesses_next_recorder(size_t *at);

/* Forget them all: before the next run of a repeated job. */
void witnesses_empty(void);

#endif
