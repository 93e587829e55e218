/* SPDX-License-Identifier: MIT */
/* What a recording says that it does not have; see print_missing.h. */
#include "analyzer/pages/print_missing.h"

void print_unrecorded(struct emit *e, const struct unrecorded *list, size_t nr)
{
	char text[UNRECORDED_TEXT_MAX];

	emit_array_begin(e, "unrecorded", NULL);
	for (size_t i = 0; i < nr; i++) {
		emit_object_begin(e, NULL, NULL);
		emit_uint(e, "pid", NULL, list[i].pid);
		emit_string(e, "program", NULL, list[i].program);
		emit_string(e, "why", NULL, tfmt_why_name(list[i].why));
		emit_int(e, "errno", NULL, list[i].error);
		emit_uint(e, "unrecorded_events", NULL, list[i].nr);
		emit_string(e, "text", "not recorded", unrecorded_text(text, &list[i]));
		emit_object_end(e);
	}
	emit_array_end(e);
}

void print_unhooked_calls(struct emit *e, const struct unhooked *u)
{
	emit_object_begin(e, "unhooked", NULL);
	emit_uint(e, "allocs", NULL, u->allocs);
	emit_uint(e, "bytes", NULL, u->alloc_bytes);
	emit_uint(e, "frees", NULL, u->frees);
	emit_uint(e, "others", NULL, u->others);
	emit_object_end(e);
}
