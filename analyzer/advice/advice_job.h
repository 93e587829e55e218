/* SPDX-License-Identifier: MIT */
/*
 * What kinds of advice ask about the part of the job that the peak lies in: about optimizer and ranks (advice_optimizer.c,
 * advice_sharding.c), and the lines of the program (advice_lines.c).
 */
#ifndef VT_ADVICE_JOB_H
#define VT_ADVICE_JOB_H

#include "analyzer/advice/advice.h"
#include "analyzer/changes/jobpart.h"

/* Is it the optimizer's: state, or a temporary of its step? */
bool advice_is_state(const struct jobpart *j, size_t block);
bool advice_is_of_step(const struct jobpart *j, size_t block);

/* The bytes of all state, and the largest of its tensors. 0: there is none. */
uint64_t advice_state_bytes(const struct jobpart *j, size_t *largest);

/* Of the gradients of one pass: as large as the parameters that have any. */
uint64_t advice_gradient_bytes(const struct jobpart *j);

/* Do the ranks share out the state, or the parameters that it is of, as it is? */
bool advice_is_sharded(const struct jobpart *j);

/* Over so many ranks: those of the job, if there are several. */
uint64_t advice_ranks(const struct jobpart *j);

/* The line that stands for a stack. */
void advice_at_stack(const struct jobpart *j, struct advice *a, uint32_t python_stack);

/* The line that stands for a stack, and the program's own where an installed package was called: what to change is there. */
void advice_at_program(const struct jobpart *j, struct advice *a, uint32_t python_stack);

/* Is the line that stands for a stack, a->site, that of an installed package that the program called? */
bool advice_is_package(const struct jobpart *j, const struct advice *a, uint32_t python_stack);

/* Does a Python frame of the stack lie in a file whose path has one of these in it? A list that ends with NULL. */
bool advice_runs_in(const struct jobpart *j, uint32_t python_stack, const char *const *files);

/* Does a function of the stack, or the node of autograd, have one of these in its name? A list that ends with NULL. */
bool advice_names_one(const struct jobpart *j, uint32_t python_stack, const char *const *functions);

/* Is it the newest frame of the stack that lies there? */
bool advice_ends_in(const struct jobpart *j, uint32_t python_stack, const char *file);

#endif
