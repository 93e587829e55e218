/* SPDX-License-Identifier: MIT */
/*
 * Sizes that a library only answers, and that the program then allocates: workspaces and reserve spaces.
 *
 * A question is one line of text that says all that the answer can depend on; its first word is its kind. The
 * real library can be asked the same again from that text alone, which is what `vramtrace calibrate` does.
 * The answers it got come back in the file of SIMGPU_MODEL. Kinds:
 *
 *	cudnn-plan		MODE DESCRIPTOR: workspace of the first plan that heuristics of MODE find for
 *				an operation graph (cudnn_question.h has the notation)
 *	cudnn-rnn-workspace	the 17 numbers of cudnn_rnn.c
 *	cudnn-rnn-reserve	the same
 *	cufft			the arguments of cufftXtMakePlanMany
 */
#ifndef SIMGPU_ANSWERS_H
#define SIMGPU_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * What the model file says to QUESTION, else OTHERWISE. Where SIMGPU_QUESTIONS names a file, the question is
 * added to it, once a process. Any thread.
 */
size_t sim_answer(const char *question, size_t otherwise);

/*
 * A library was asked for a size that is not known, and answers 0: counted, for what is made of it is a lower bound.
 * sim_answer() counts its own.
 */
void sim_answered_zero(void);
unsigned long sim_zero_answers(void);

/* Whether anybody wants questions: without, the text need not be put together. */
bool sim_answers_wanted(void);

/* For memory_model.c alone: add an answer; all are added. */
void sim_answers_add(const char *question, size_t bytes);
void sim_answers_added(void);

#endif
