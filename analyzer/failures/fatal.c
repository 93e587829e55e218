/* SPDX-License-Identifier: MIT */
/* Requests that a program did not get over. */
#include "analyzer/failures/fatal.h"

const struct failure *fatal_request(const struct failures_of_device *d)
{
	const struct failure *last = d && d->nr_failures ? failures_last(d) : NULL;

	/* A program without a framework that ended well has got over it. */
	if (last && (last->is_driver || last->is_library) && d->process->end == REPLAY_END_EXIT && !d->process->summary->exit_status)
		return NULL;
	return last && !last->handled ? last : NULL;
}

const struct failure *fatal_or_last(const struct failures_of_device *d)
{
	const struct failure *last = d && d->nr_failures ? failures_last(d) : NULL, *fatal = fatal_request(d);

	if (fatal || !last || last->is_driver || last->is_library)
		return fatal;
	return d->process->end == REPLAY_END_EXIT && d->process->summary->exit_status ? last : NULL;
}

/* The device of the last such request. */
static const struct replay_device *last_device(const struct failures *f, const struct replay *m,
					       const struct failure *of(const struct failures_of_device *))
{
	const struct replay_device *last = NULL;
	uint64_t last_ns = 0;

	for (size_t i = 0; i < m->nr_devices; i++) {
		const struct failure *failure = of(failures_of(f, &m->device[i]));

		if (failure && (!last || failure->time_ns > last_ns)) {
			last = &m->device[i];
			last_ns = failure->time_ns;
		}
	}
	return last;
}

const struct replay_device *fatal_device(const struct failures *f, const struct replay *m)
{
	return last_device(f, m, fatal_request);
}

const struct replay_device *fatal_device_or_last(const struct failures *f, const struct replay *m)
{
	const struct replay_device *d = fatal_device(f, m);

	return d ? d : last_device(f, m, fatal_or_last);
}

bool fatal_to_program(const struct oomwatch *w, const struct replay_device *d)
{
	if (!oomwatch_has_failed(d->process))
		return false;
	for (size_t i = 0; i < w->nr_rows; i++)
		if (w->row[i].process == d->process && w->row[i].device == d->ordinal && w->row[i].pending)
			return true;
	return false;
}

const struct replay_device *fatal_last_device(const struct replay *m)
{
	const struct replay_device *last = NULL;

	for (size_t i = 0; i < m->nr_devices; i++) {
		const struct replay_device *d = &m->device[i];

		if (!d->books->tensor_ooms)
			continue;
		if (!last || replay_time(d->process, d->books->moment[MARK_OOM].time_ns) >
				     replay_time(last->process, last->books->moment[MARK_OOM].time_ns))
			last = d;
	}
	return last;
}
