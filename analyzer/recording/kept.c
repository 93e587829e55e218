/* SPDX-License-Identifier: MIT */
/* See kept.h. */
#include "analyzer/recording/kept.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"

bool kept_from(const struct tfmt_reader *r, uint64_t *ns)
{
	const struct tfmt_summary *s = tfmt_reader_summary(r);

	*ns = s->window_ns;
	return s->dropped_events != 0;
}

const char *kept_text(char *buf, size_t size, const struct tfmt_reader *r, uint64_t last_ns)
{
	uint64_t start = tfmt_reader_header(r)->start_mono_ns, from;
	char kept[HUMAN_MAX], whole[HUMAN_MAX];

	kept_from(r, &from);
	from = from > start ? from : start;
	last_ns = last_ns > from ? last_ns : from;
	snprintf(buf, size, "the last %s (of %s)", human_ns(kept, last_ns - from), human_ns(whole, last_ns - start));
	return buf;
}

uint64_t kept_failures(const struct tfmt_reader *r, char *buf, size_t size)
{
	const char *value = tfmt_reader_info_value(r, "keep_failed");
	uint64_t times = 0;
	int reason, what = 0;

	*buf = 0;
	if (value && sscanf(value, "%" SCNu64 " times, errno %d: %n", &times, &reason, &what) >= 2 && what)
		snprintf(buf, size, "%s: %s", value + what, strerror(reason));
	return times;
}
