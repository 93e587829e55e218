/* SPDX-License-Identifier: MIT */
/*
 * What of a device is not PyTorch's, and what nvidia-smi shows, in text and JSON: of the driver's peak, where all parts
 * add up to the capacity less what the driver says is free.
 */
#ifndef VT_PRINT_OUTSIDE_H
#define VT_PRINT_OUTSIDE_H

#include "analyzer/holders/outside.h"
#include "analyzer/ui/emit.h"

/* The labels "outside PyTorch" and "nvidia-smi" of the one device of a page; returns their lines (at most 4). */
unsigned print_outside(struct emit *e, const struct replay_device *d, const struct outside *o);

/* The same in lines of their own, of one of several devices. */
unsigned print_outside_of(struct emit *e, const struct replay_device *d, const struct outside *o);

/* All parts, a table a device, for -v. */
void print_outside_whole(struct emit *e, const struct replay *m, const struct replay_device *d, const struct outside *o);

/* The members "modelled" and "residual" of a device. */
void json_outside(struct emit *e, const struct replay_device *d, const struct outside *o);

/* "nccl_communicators" of its driver ledger. */
void json_communicators(struct emit *e, const struct outside *o);

#endif
