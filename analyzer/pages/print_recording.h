/* SPDX-License-Identifier: MIT */
/*
 * What several commands print alike: the recording they read, the device a figure belongs to, and what is
 * missing from the recording.
 */
#ifndef VT_PRINT_RECORDING_H
#define VT_PRINT_RECORDING_H

#include "analyzer/replay/replay.h"
#include "analyzer/recording/unrecorded.h"
#include "analyzer/ui/emit.h"

/*
 * The process that says which ranks of a simulated job ran, and how many did not (at least 1); NULL when all ran, or
 * it was no such job.
 */
const struct replay_process *print_some_ranks(const struct replay *m, int64_t *nr_absent);

/*
 * From when on events are there of all processes, on the recording's clock: a flight recorder has dropped the
 * beginning of one. -1: it has not.
 */
int64_t print_kept_from(const struct replay *m);

/* The same on stderr, in one line; nothing if all is there. */
void print_kept(const struct replay *m);

/* The JSON member "recording". */
void print_recording(struct emit *e, const struct replay *m);

/*
 * On stderr: one line for each way in which the recording is not whole. Returns CMD_TROUBLE if a trace is
 * cut off, damaged or unreadable, which is to be the exit status although the rest is shown; else CMD_FINE.
 */
int print_caveats(const struct replay *m);

/* The JSON members that name a device: host, pid, rank, local_rank, device, ..., exact. */
void print_device_identity(struct emit *e, const struct replay_device *d);

/* The same without `exact`, for pages that have more to say of it. */
void print_device_names(struct emit *e, const struct replay_device *d);

/*
 * "GPU 0, NVIDIA H100 (simulated)", with pid and rank when the recording has several processes; returns
 * buf.
 */
const char *print_device_title(char *buf, size_t size, const struct replay *m, const struct replay_device *d);

/* "about " when the total at the end is not exactly known: more or less than the figure. Else "". */
const char *print_about_end(const struct replay_device *d, enum replay_total total);

/* "at least " when an event of the process was lost, or sizes were taken as 0, else "". */
const char *print_at_least(const struct replay_process *p);

/* Of a recording: how often its processes were answered 0 for a size (replay_zero_answers()). */
uint64_t print_zero_answers(const struct replay *m);

/*
 * "cuDNN's workspaces are not counted (12 unknown)" after BEFORE: the end of a sentence with a figure that rests on
 * them, after NR answers of 0; "" after none. Returns buf.
 */
#define ZERO_TEXT_MAX 96
const char *print_zeros(char buf[static ZERO_TEXT_MAX], const char *before, uint64_t nr);

/* A number that may be missing: -1 is null. */
void print_optional(struct emit *e, const char *key, int64_t number);

/* A member: file, line and function of a frame, null where they are not known; NULL = no frame. */
void print_frame_of(struct emit *e, const char *name, const struct stack_frame *f);

/* The same as the member "site". */
void print_site_of(struct emit *e, const struct stack_frame *f);

/*
 * A source file as short as it stays recognisable: from its package on ("transformers/models/..."), else
 * its last two components. Points into the path.
 */
const char *print_short_path(const char *path);

/*
 * What a recording says that it does not have: processes that did not record, as an array "unrecorded", and in text a line
 * for each; and calls past the hooks.
 */
void print_unrecorded(struct emit *e, const struct unrecorded *list, size_t nr);

/* "unhooked": { "allocs", "bytes", "frees", "others" }. */
void print_unhooked_calls(struct emit *e, const struct unhooked *u);

#endif
