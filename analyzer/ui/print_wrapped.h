/* SPDX-License-Identifier: MIT */
/* Sentences in lines that fit on a screen. */
#ifndef VT_PRINT_WRAPPED_H
#define VT_PRINT_WRAPPED_H

#include "analyzer/ui/emit.h"

/*
 * Text in lines of at most 80 columns, the first after `first`, the others after `indent`; returns how many they are.
 * Without an e it only counts them.
 */
unsigned print_wrapped(struct emit *e, const char *first, const char *indent, const char *text);

#endif
