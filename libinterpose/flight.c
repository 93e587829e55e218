/* SPDX-License-Identifier: MIT */
/* When to write checkpoints, and when to drop what lies before one; see flight.h. */
#include "flight.h"

#include <stdio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "env.h"
#include "info.h"
#include "interpose.h"

#define STEPS_BUDGET (2ull << 30)  /* of --keep-steps alone */
#define SHORT_PERCENT 10u          /* left of the file system */
#define SPACE_NS 1000000000ull     /* between looks at it */
#define INTERVAL_MIN (16ull << 20) /* between checkpoints of a trace that may grow */
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

void flight_begin(struct flight *f, struct storage *s, struct tfmt_writer *w)
{
	char text[64];

	*f = (struct flight){ .storage = s, .writer = w, .kept_steps = ip_env.keep_steps };
	if (tfmt_writer_keep(w)) {
		f->off = true;
		info_put(w, "note", "nothing can be dropped: there was no memory for it");
		return;
	}
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

/* Checkpoints lie so dense that what is kept is not much less than what may be. */
static bool checkpoint_if_due(struct flight *f)
{
	uint64_t bytes = tfmt_writer_bytes(f->writer), now = steps_number(&f->steps), step, size, since, interval;
	int err;

	since = tfmt_writer_since_checkpoint(f->writer, &step, &size);
	interval = at_least(INTERVAL_MIN, bytes / 8);
	if (f->budget && f->budget / 16 < interval)
		interval = f->budget / 16;
	if (since < at_least(interval, 4 * size) &&
	    !(f->kept_steps && now >= step && now - step >= at_least(f->kept_steps / 4, 1) && since >= at_least(STEP_INTERVAL, 4 * size)))
		return true;
	/* Without memory for it there is none now. */
	err = tfmt_writer_checkpoint(f->writer, now);
	return !err || err == TFMT_E_NOMEM;
}

/* Not now: what stands in the way may be gone when the trace has grown. */
static void give_up(struct flight *f)
{
	tfmt_writer_drop_abort(f->writer);
	storage_drop_next(f->storage);
	f->dropping = false;
	f->next_bytes = tfmt_writer_bytes(f->writer) + f->budget / 32;
}

/* Begin a file without the oldest part, if that is due. */
static void drop_if_due(struct flight *f)
{
	uint64_t bytes = tfmt_writer_bytes(f->writer), least = tfmt_writer_drop_bytes(f->writer, 0, 0), left, most, kept;
	bool is_full = bytes >= f->rotate_bytes - f->budget / 32, is_short;
	uint64_t now = steps_number(&f->steps), step = now > f->kept_steps + 1 ? now - f->kept_steps - 1 : 0;
	int fd;

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
	if (fd < 0 || tfmt_writer_drop_begin(f->writer, fd, most, step)) {
		give_up(f);
		return;
	}
	f->dropping = true;
}

static void drop_some(struct flight *f)
{
	int done = tfmt_writer_drop_step(f->writer, SLICE);

	if (done < 0 || (done && !storage_publish_next(f->storage))) {
		give_up(f);
	} else if (done) {
		tfmt_writer_drop_commit(f->writer);
		storage_take_next(f->storage);
		f->dropping = false;
	}
}

bool flight_tend(struct flight *f, bool is_flushed)
{
	if (f->off)
		return true;
	if (is_flushed && !checkpoint_if_due(f))
		return false;
	look_at_space(f);
	if (!f->dropping)
		drop_if_due(f);
	if (f->dropping)
		drop_some(f);
	return true;
}

void flight_end(struct flight *f)
{
	if (f->dropping)
		give_up(f);
	if (f->kept_steps)
		steps_end(&f->steps);
	f->kept_steps = 0;
	f->off = true;
}
