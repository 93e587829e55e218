/* SPDX-License-Identifier: MIT */
/* What text and JSON say of growth from step to step. What fills buf returns it. */
#ifndef VT_STEPGROWTH_WORDS_H
#define VT_STEPGROWTH_WORDS_H

#include "analyzer/base/human.h"
#include "analyzer/findings/sentence.h"
#include "analyzer/growth/stepgrowth.h"
#include "analyzer/stacks/stack.h"

#define STEPGROWTH_TEXT_MAX 256

/* What growth is by: "a step", "a call", "in 1,000 events". Static. */
const char *stepgrowth_each(const struct stepgrowth *g);

/* The number of a step or call, or of events, at a place of its readings. */
const char *stepgrowth_at(char buf[static HUMAN_MAX], const struct stepgrowth *g, double at);

/* How fast a cause of it grows, with its interval, and since when. */
struct said stepgrowth_growth(const struct stepgrowth *by, const struct stepgrowth_cause *c);

/* What the blocks are that stay. */
struct said stepgrowth_what(const struct stepgrowth_cause *c);

/* Who keeps it, where something tells; else nothing. */
struct said stepgrowth_keeper(const struct replay *m, struct replay_process *p, const struct stepgrowth_cause *c);

/* How much it can get, where its container is full one day, or that it may be such a one; else nothing. */
struct said stepgrowth_bound(const struct stepgrowth_cause *c);

/* What grows by `sum` bytes, and is no growth without end; `c` is the first of it, `place` its line or "". */
struct said stepgrowth_apart_note(const struct stepgrowth *g, const struct stepgrowth_cause *c, double sum, const char *place);

/* So many places grow by `sum` bytes, and it does not matter. */
struct said stepgrowth_small_note(const struct stepgrowth *g, size_t nr, double sum);

/* Why there is nothing to say, or that nothing grows; `is_kept`: of what is left of a recording. */
struct said stepgrowth_none(const struct stepgrowth *g, bool is_kept);

/* A frame, without its folders if it is too long. */
const char *stepgrowth_place_text(char *buf, size_t size, const struct stack_frame *frame);

/*
 * The frame where a stack is, NULL and false: nobody knows. It belongs to *stack, which was zeroed and is the caller's to
 * release.
 */
bool stepgrowth_site(struct stack *stack, const struct replay *m, struct replay_process *p, uint32_t python,
		     uint32_t native, const struct stack_frame **frame);

/*
 * The program's own line that called the package which the cause's site is in. false: the site is no package's, or is not
 * known; *frame is the site then. Likewise.
 */
bool stepgrowth_caller(struct stack *stack, const struct replay *m, struct replay_process *p,
		       const struct stepgrowth_cause *c, const struct stack_frame **frame);

#endif
