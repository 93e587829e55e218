/* SPDX-License-Identifier: MIT */
/* Rulings and grown stacks in words, for every format of `check`, and for `diff`. All return buf. */
#ifndef VT_PRINT_RULING_H
#define VT_PRINT_RULING_H

#include "analyzer/base/human.h"
#include "analyzer/gate/rulings.h"

#define RULING_TEXT_MAX 512

/* "train.py:36 in Block.forward", "MmBackward0, from forward train.py:36 in Block.forward", "(modelled)". */
const char *print_place(char buf[static RULING_TEXT_MAX], const struct footprint_stack *s);

/* The functions that called the place: "GPT.forward < train < <module>", as many as so many columns hold; "" = none. */
const char *print_callers(char buf[static RULING_TEXT_MAX], const struct footprint_stack *s, size_t width);

/* "float32 [32, 1024]", or the call that took it from the driver. */
const char *print_what(char buf[static RULING_TEXT_MAX], const struct footprint_stack *s);

/* A number of a ruling in its unit: "2.66 GiB", "12.5%", "3"; exact where raw. */
const char *print_amount(char buf[static HUMAN_MAX], const struct ruling *r, uint64_t amount, bool raw);

/* By how much it is over what is allowed: "+676 MiB"; "" if it is not. */
const char *print_excess(char buf[static HUMAN_MAX], const struct ruling *r, bool raw);

/* One sentence: "peak of GPU 0 is 2.66 GiB, 676 MiB above the 2.00 GiB of --max-peak". */
const char *print_ruling(char buf[static RULING_TEXT_MAX], const struct ruling *r);

/* "pass: train.vtr keeps within 4 limits", "fail: train.vtr breaks 1 of 4 limits", "could not tell: REASON". */
const char *print_rulings_line(char buf[static RULING_TEXT_MAX], const struct rulings *all, const char *recording);

/* "what grew at the peak of GPU 0", "what each step leaves on GPU 0", "largest holders at the peak of GPU 0" */
const char *print_blame_title(char buf[static RULING_TEXT_MAX], const struct rulings *all,
			      const struct footprint_device *d);

/* One line of blame: "+512 MiB at train.py:36 in Block.forward (float32 [32, 1024])". */
const char *print_blame(char buf[static RULING_TEXT_MAX], const struct compare_stack *s);

#endif
