/* SPDX-License-Identifier: MIT */
/* Printing which part of a model made most of what the step of a failure needs. */
#include "analyzer/pages/print_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/pages/print_said.h"

#define NAME_MAX_SHOWN 128

static const char *part_name(const struct autopsy *a, char buf[static NAME_MAX_SHOWN])
{
	return modulepaths_text(a->device->process->modulepaths, a->parts.most, a->modules.nr_common, buf,
				NAME_MAX_SHOWN);
}

unsigned print_parts(struct emit *e, const struct autopsy *a)
{
	const struct autopsy_parts *p = &a->parts;
	bool is_cross = p->cross_bytes && 2 * p->cross_bytes >= p->step_bytes;
	uint64_t bytes = is_cross ? p->cross_bytes : p->most_bytes;
	struct fact part = fact_bytes("bytes", bytes), all = fact_bytes("all", p->step_bytes);
	struct fact share = fact_share("share", (double)bytes, (double)p->step_bytes);
	bool has_pictures = p->pictures > 0;
	char name[NAME_MAX_SHOWN];

	if ((!p->most && !is_cross) || !autopsy_matters(a, bytes))
		return 0;
	if (is_cross)
		return print_said(e, "- ", "  ", SAID(part_is_cross_attention, part, all, share));
	part_name(a, name);
	if (!name[strspn(name, "*.")]) /* some layers of a list */
		return 0;
	return print_said(e, "- ", "  ", SAID(part_made_most, fact_name("module", name), part, all, share,
					      fact_if(has_pictures, fact_count("pictures", p->pictures)),
					      fact_if(has_pictures, fact_count("height", p->height)),
					      fact_if(has_pictures, fact_count("width", p->width))));
}

void print_parts_object(struct emit *e, const struct autopsy *a)
{
	const struct autopsy_parts *p = &a->parts;
	char name[NAME_MAX_SHOWN];

	if (!p->step_bytes) {
		emit_null(e, "parts", NULL);
		return;
	}
	emit_object_begin(e, "parts", NULL);
	emit_uint(e, "step_bytes", NULL, p->step_bytes);
	emit_string(e, "module", NULL, p->most ? part_name(a, name) : NULL);
	emit_uint(e, "module_bytes", NULL, p->most_bytes);
	emit_uint(e, "cross_attention_bytes", NULL, p->cross_bytes);
	if (p->pictures) {
		emit_object_begin(e, "pictures", NULL);
		emit_uint(e, "count", NULL, p->pictures);
		emit_uint(e, "height", NULL, p->height);
		emit_uint(e, "width", NULL, p->width);
		emit_object_end(e);
	} else {
		emit_null(e, "pictures", NULL);
	}
	emit_object_end(e);
}
