/* SPDX-License-Identifier: MIT */
/* Printing which part of a model made most of what the step of a failure needs. */
#include "analyzer/pages/print_parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/oom/autopsy_facts.h"
#include "analyzer/ui/print_wrapped.h"

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
	char name[NAME_MAX_SHOWN] = "cross-attention", pictures[96] = "", text[NAME_MAX_SHOWN + 192];
	char size[HUMAN_MAX], all[HUMAN_MAX], share[HUMAN_MAX];

	if ((!p->most && !is_cross) || !autopsy_matters(a, bytes))
		return 0;
	if (!is_cross)
		part_name(a, name);
	if (!name[strspn(name, "*.")]) /* some layers of a list */
		return 0;
	if (!is_cross && p->pictures)
		snprintf(pictures, sizeof(pictures), ", of %" PRIu64 " picture%s of %" PRIu64 " x %" PRIu64, p->pictures,
			 p->pictures == 1 ? "" : "s", p->height, p->width);
	snprintf(text, sizeof(text), "%s%s made %s of the step's %s (%s)%s", is_cross ? "" : "module ", name,
		 human_bytes(size, bytes), human_bytes(all, p->step_bytes),
		 human_percent(share, (double)bytes, (double)p->step_bytes), pictures);
	return print_wrapped(e, "- ", "  ", text);
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
