/* SPDX-License-Identifier: MIT */
/* When to write checkpoints, and when to drop what lies before one; see flight.h. */
#include "flight.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "env.h"
#include "info.h"
#include "interpose.h"

#define STEPS_BUDGET (2ull << 30)  /* of --keep-steps alone */
#define SHORT_PERCENT 10u          /* left of the file system */
#define SPACE_NS 1000000000ull     /* between looks at it */
#define INTERVAL_MIN (8ull << 20)  /* between checkpoints of a trace that may grow: one in four million events or so */
#define INTERVAL_PARTS 512u        /* they grow with it: so that all but the first are remembered (TFMT_NR_MARKS) */
#define INTERVAL_SIZES 16u         /* they are at most such a part of it */
#define STEP_INTERVAL (64ull << 10)
#define STEP_DROP (256ull << 10)   /* less is not worth the copying of the rest */
#define SLICE (1u << 20)           /* copied at once: rings fill meanwhile */

static uint64_t at_least(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void set_budget(struct flight *f, uint64_t bytes)
{
	f->budget = bytes;
	f->rotate_bytes = bytes / 16 * 9;
	f->kept_bytes = bytes / 16 * 6;
}

/* Bytes that may still be written; *is_short: less than a tenth of the file system. Unknown is plenty. */
static uint64_t space_left(const struct flight *f, bool *is_short)
{
	struct statfs fs;

	*is_short = false;
	if (fstatfs(f->storage->trace_fd, &fs) || !fs.f_blocks)
		return UINT64_MAX;
	*is_short = (uint64_t)fs.f_bavail < (uint64_t)fs.f_blocks / 100 * SHORT_PERCENT;
	return (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
}

/*
 * Go over to the flight recorder before the disk is full: half of what is left is for the trace to grow. Others fill
 * it, too, and make room again: the budget falls with what is left, and there is none when enough is free.
 */
static void look_at_space(struct flight *f)
{
	uint64_t now = ip_now_ns(), left, budget;
	bool was_short = f->is_short;
	char text[64];

	if ((f->budget && !was_short) || now - f->space_ns < SPACE_NS)
		return;
	f->space_ns = now;
	left = space_left(f, &f->is_short);
	if (!f->is_short) {
		set_budget(f, 0);
		return;
	}
	budget = at_least(tfmt_writer_bytes(f->writer) + left / 2, IP_KEEP_LEAST);
	if (was_short && budget >= f->budget)
		return;
	set_budget(f, budget);
	if (f->said_short)
		return;
	f->said_short = true;
	snprintf(text, sizeof(text), "%llu bytes: less than %u %% of the disk was free",
		 (unsigned long long)f->budget, SHORT_PERCENT);
	info_put(f->writer, "keep", text);
}

static void abandon(struct flight *f)
{
	tfmt_writer_drop_abort(f->writer);
	filesync_forget(&f->sync);
	storage_drop_next(f->storage);
	f->dropping = false;
}

/* Not now: what stands in the way may be gone when the trace has grown. */
static void give_up(struct flight *f, const char *what, int reason)
{
	abandon(f);
	f->next_bytes = tfmt_writer_bytes(f->writer) + f->budget / 32;
	f->failures++;
	f->what = what;
	f->reason = reason;
}

/* The disk is full, and the next file on it: the trace itself comes first. */
static bool make_room(void *flight)
{
	struct flight *f = flight;

	if (!f->dropping)
		return false;
	give_up(f, "disk full", ENOSPC);
	return true;
}

/* The trace is larger than it was to be: that is said in it. Not while the writer writes. */
static void tell_failure(struct flight *f)
{
	char text[160];

	if (!f->what)
		return;
	snprintf(text, sizeof(text), "%llu times, errno %d: %s", (unsigned long long)f->failures, f->reason, f->what);
	info_put(f->writer, "keep_failed", text);
	f->what = NULL;
}

void flight_begin(struct flight *f, struct storage *s, struct tfmt_writer *w)
{
	char text[64];

	*f = (struct flight){ .storage = s, .writer = w, .kept_steps = ip_env.keep_steps };
	if (tfmt_writer_keep(w)) {
		f->off = true;
		info_put(w, "note", "nothing can be dropped: there was no memory for it");
		return;
	}
	tfmt_writer_on_full(w, make_room, f);
	if (f->kept_steps && !steps_begin(&f->steps))
		f->kept_steps = 0;
	if (ip_env.keep_bytes || ip_env.keep_steps)
		set_budget(f, ip_env.keep_bytes ? ip_env.keep_bytes : STEPS_BUDGET);
	snprintf(text, sizeof(text), f->kept_steps ? "%llu bytes, %llu steps" : "%llu bytes",
		 (unsigned long long)f->budget, (unsigned long long)f->kept_steps);
	if (f->budget)
		info_put(w, "keep", text);
	else
		look_at_space(f);
}

/*
 * Checkpoints lie so dense that what is kept is not much less than what may be, and what is read to get to a time is
 * not much.
 */
static bool checkpoint_if_due(struct flight *f)
{
	uint64_t bytes = tfmt_writer_bytes(f->writer), now = steps_number(&f->steps), step, size, since, interval;
	int err;

	since = tfmt_writer_since_checkpoint(f->writer, &step, &size);
	interval = at_least(at_least(INTERVAL_MIN, bytes / INTERVAL_PARTS), INTERVAL_SIZES * size);
	if (f->budget && f->budget / 16 < interval)
		interval = f->budget / 16;
	if (since < at_least(interval, 4 * size) &&
	    !(f->kept_steps && now >= step && now - step >= at_least(f->kept_steps / 4, 1) &&
	      since >= at_least(STEP_INTERVAL, 4 * size)))
		return true;
	/* Without memory for it there is none now. */
	err = tfmt_writer_checkpoint(f->writer, now);
	return !err || err == TFMT_E_NOMEM;
}

/* As an errno. */
static int reason_of(int err)
{
	return err == TFMT_E_NOMEM ? ENOMEM : err == TFMT_E_IO ? errno : EIO;
}

/* Begin a file without the oldest part, if that is due. */
static void drop_if_due(struct flight *f)
{
	uint64_t bytes = tfmt_writer_bytes(f->writer), least = tfmt_writer_drop_bytes(f->writer, 0, 0);
	uint64_t left, most, kept;
	bool is_full = bytes >= f->rotate_bytes - f->budget / 32, is_short;
	uint64_t now = steps_number(&f->steps), step = now > f->kept_steps + 1 ? now - f->kept_steps - 1 : 0;
	int fd, err;

	if (!f->kept_steps)
		step = 0;
	if (!f->budget || !least || bytes < f->next_bytes || !(is_full || step))
		return;
	/* Definitions and live blocks are kept whatever they take; some of the events should be, too. */
	most = at_least(f->kept_bytes, least + f->budget / 8);
	kept = tfmt_writer_drop_bytes(f->writer, most, step);
	if (!is_full && bytes - kept < STEP_DROP) /* mostly so, and the file system need not be asked for it */
		return;
	left = space_left(f, &is_short);
	if (f->is_short && most > left / 2) {
		most = left / 2;
		kept = tfmt_writer_drop_bytes(f->writer, most, step);
	}
	/* Dropping little costs as much as dropping much. */
	if (kept > left || kept > bytes / 4 * 3 || (!is_full && bytes - kept < STEP_DROP))
		return;
	fd = storage_open_next(f->storage);
	if (fd < 0) {
		give_up(f, "the next file cannot be made", errno);
		return;
	}
	err = tfmt_writer_drop_begin(f->writer, fd, most, step);
	f->dropping = true;
	f->sync_limit_bytes = 0;
	if (err)
		give_up(f, "the next file cannot be written", reason_of(err));
}

/* What both files take. */
static uint64_t total_bytes(const struct flight *f)
{
	struct stat next;

	return tfmt_writer_bytes(f->writer) + (fstat(f->storage->next_fd, &next) ? 0 : (uint64_t)next.st_size);
}

/*
 * Is it on the disk? All but what has come in since that was begun, and is copied while it goes on: of a trace that
 * is never dropped the latest is not there either. Where it cannot be asked for, or the budget leaves no time for it,
 * it is as if.
 */
static bool next_is_synced(struct flight *f, int *err)
{
	*err = 0;
	if (!f->sync_limit_bytes) {
		f->sync_limit_bytes = at_least(f->budget / 32 * 31, total_bytes(f) + f->budget / 64);
		filesync_begin(&f->sync, f->storage->next_fd);
	}
	return filesync_is_done(&f->sync, err) || total_bytes(f) > f->sync_limit_bytes;
}

static void drop_some(struct flight *f)
{
	int done = tfmt_writer_drop_step(f->writer, SLICE), err = 0;

	if (done < 0) {
		give_up(f, "the next file cannot be written", reason_of(done));
	} else if (done && next_is_synced(f, &err)) {
		if (err && err != EINVAL && err != EOPNOTSUPP) { /* which a file system says that has no need of it */
			give_up(f, "the next file cannot be written", err);
		} else if (!storage_publish_next(f->storage)) {
			give_up(f, "the next file cannot be renamed", errno);
		} else {
			tfmt_writer_drop_commit(f->writer);
			filesync_forget(&f->sync);
			storage_take_next(f->storage);
			f->dropping = false;
		}
	}
}

/* The first optimizer was seen: what had counted as steps were the backward passes of one. */
static void look_at_steps(struct flight *f)
{
	uint64_t step = steps_number(&f->steps);

	if (step < f->step)
		tfmt_writer_limit_steps(f->writer, step);
	f->step = step;
}

bool flight_tend(struct flight *f, bool is_flushed)
{
	if (f->off)
		return true;
	look_at_steps(f);
	if (is_flushed && !checkpoint_if_due(f))
		return false;
	look_at_space(f);
	if (!f->dropping)
		drop_if_due(f);
	if (f->dropping)
		drop_some(f);
	tell_failure(f);
	return true;
}

void flight_end(struct flight *f)
{
	if (f->dropping)
		abandon(f);
	if (f->kept_steps)
		steps_end(&f->steps);
	f->kept_steps = 0;
	f->off = true;
}
