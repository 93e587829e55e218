/* SPDX-License-Identifier: MIT */
/* The questions that a simulated program's libraries were asked (`run --questions`), put to the real ones. */
#ifndef VT_QUESTIONS_H
#define VT_QUESTIONS_H

#include "analyzer/calibrate/libraries.h"
#include "analyzer/gpu/gpufile.h"

struct questions_result {
	unsigned nr_answered, nr_unanswered;
};

/*
 * Put every question of the file PATH to the libraries, on the current context's device, and add the answers
 * to g. What cannot be answered is told and left out. Returns 0, or CMD_TROUBLE after a message when the file
 * cannot be read.
 */
int questions_answer(const struct libraries *l, const char *path, struct gpufile *g,
		     struct questions_result *result);

#endif
