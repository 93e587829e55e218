/* SPDX-License-Identifier: MIT */
/* A streaming JSON writer. */
#include "analyzer/ui/jsonout.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/jsontext.h"

static void new_line(struct jsonout *j)
{
	if (!j->compact)
		fprintf(j->out, "\n%*s", (int)(2 * j->depth), "");
}

static void begin_member(struct jsonout *j, const char *key)
{
	if (j->scope[j->depth].has_members)
		fputs(j->compact ? ", " : ",", j->out);
	j->scope[j->depth].has_members = true;
	if (!j->depth)
		return;
	new_line(j);
	if (!j->scope[j->depth].is_array) {
		jsontext_write(j->out, key);
		fputs(": ", j->out);
	}
}

void jsonout_begin(struct jsonout *j, const char *key, char bracket)
{
	begin_member(j, key);
	putc(bracket, j->out);
	if (j->depth == JSONOUT_DEPTH_MAX)
		abort();
	j->depth++;
	j->scope[j->depth].is_array = bracket == '[';
	j->scope[j->depth].has_members = false;
}

void jsonout_end(struct jsonout *j)
{
	bool is_array = j->scope[j->depth].is_array, had_members = j->scope[j->depth].has_members;

	j->depth--;
	if (had_members)
		new_line(j);
	putc(is_array ? ']' : '}', j->out);
	if (!j->depth) {
		putc('\n', j->out);
		j->scope[0].has_members = false;
	}
}

void jsonout_value(struct jsonout *j, const char *key, const char *json)
{
	begin_member(j, key);
	fputs(json, j->out);
}

void jsonout_string(struct jsonout *j, const char *key, const char *text)
{
	begin_member(j, key);
	jsontext_write(j->out, text);
}

bool jsonout_in_array(const struct jsonout *j)
{
	return j->depth && j->scope[j->depth].is_array;
}
