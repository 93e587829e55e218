/* SPDX-License-Identifier: MIT */
/* leaks --series: the growth of a series of readings; see leaks_series.h. */
#include "analyzer/pages/leaks_series.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"

static int nothing_read(const struct seriestext *s, const struct leaks_series_opts *o, const char *path)
{
	struct emit *e = emit_open(stdout, &o->emit, "vramtrace/leaks/2");

	if (!s->nr_lines)
		return emit_fail(e, "'%s' is empty; --series reads 'step,bytes' lines or a training log",
				 path);
	if (s->trouble[SERIESTEXT_NO_UNIT])
		return emit_fail(
			e, "'%s' has %" PRIu64 " readings without a unit; --unit GiB says what they are in",
			path, s->trouble[SERIESTEXT_NO_UNIT]);
	if (s->trouble[SERIESTEXT_NEGATIVE] + s->trouble[SERIESTEXT_NOT_FINITE])
		return emit_fail(
			e, "'%s' has no usable reading: %" PRIu64 " negative, %" PRIu64
			" too large or not finite",
			path, s->trouble[SERIESTEXT_NEGATIVE], s->trouble[SERIESTEXT_NOT_FINITE]);
	return emit_fail(e,
			 "'%s' has no readings; --series reads 'step,bytes' lines or those of a training log "
			 "('Step 100: Memory=18.2GB'), --key NAME says which word stands before the memory",
			 path);
}

static int show_growth(const struct seriestext *s, const struct leaks_series_opts *o)
{
	struct growth g;
	struct emit *e;
	int ret;

	growth_find(&g, s->reading, s->nr, growth_limits_bytes(&o->limits));
	e = emit_open(stdout, &o->emit, "vramtrace/leaks/2");
	print_growth(e, &g, s, &o->limits);
	ret = emit_close(e);
	if (!ret &&
	    (growth_is_warned(&g, s, &o->limits) || (o->exit_code && growth_is_finding(&g, s, &o->limits))))
		ret = CMD_FINDING;
	return ret;
}

int leaks_series(const struct leaks_series_opts *o)
{
	struct seriestext_rules rules = { .is_binary = o->is_binary, .key = o->key };
	bool is_stdin = !strcmp(o->path, "-");
	FILE *in = is_stdin ? stdin : fopen(o->path, "re");
	struct seriestext *s = heap_alloc(1, sizeof(*s));
	int err = 0, ret;

	if (o->unit)
		rules.unit_bytes =
			seriestext_unit(o->unit, strlen(o->unit), o->is_binary, &rules.unit_is_decimal);
	if (in)
		err = seriestext_read(s, &rules, in);
	if (!in)
		ret = message_error("cannot open '%s': %s", o->path, strerror(errno));
	else if (err)
		ret = message_error("cannot read '%s': %s", is_stdin ? "stdin" : o->path, strerror(-err));
	else
		ret = s->nr ? show_growth(s, o) : nothing_read(s, o, is_stdin ? "stdin" : o->path);
	free(s);
	if (in && !is_stdin)
		fclose(in);
	return ret;
}
