/* SPDX-License-Identifier: MIT */
/* The result of `check` in each of its formats. */
#ifndef VT_PRINT_CHECK_H
#define VT_PRINT_CHECK_H

#include "analyzer/gate/rulings.h"
#include "analyzer/replay/replay.h"
#include "analyzer/ui/emit.h"

#define CHECK_SCHEMA "vramtrace/check/1"
#define BLAMED 5 /* stacks of a device, unless the user says how many */

enum check_format { FORMAT_TEXT, FORMAT_JSON, FORMAT_JUNIT, FORMAT_GITHUB, FORMAT_MARKDOWN };
extern const char *const check_formats[]; /* "text", "json", ... , NULL */

/* The rulings and what they are about. */
struct check_page {
	const struct rulings *rulings;
	const struct rulings_query *query;
	const struct replay *replay;
	uint32_t top; /* stacks of a device */
};

/* As text or, as e has it, JSON (vramtrace/check/1). Closes e. Returns CMD_FINE or CMD_TROUBLE. */
int print_check(struct emit *e, const struct check_page *page);

/* One test case for each ruling, as CI systems read JUnit's reports. */
void print_junit(FILE *out, const struct check_page *page);

/* Annotations of GitHub Actions: an error on the line that grew most for each GPU with a broken limit. */
void print_github(FILE *out, const struct check_page *page);

/* A table for a comment on a pull request. */
void print_markdown(FILE *out, const struct check_page *page);

#endif
