/* SPDX-License-Identifier: MIT */
/* One-line messages on stderr. */
#include "analyzer/base/message.h"

#include <stdio.h>

#include "analyzer/base/progress.h"
#include "analyzer/base/term.h"
#include "analyzer/command.h"

void message_line(const char *format, va_list args)
{
	char line[4096];

	vsnprintf(line, sizeof(line), format, args);
	term_make_printable(line, false);
	progress_hide();
	fprintf(stderr, "vramtrace: %s\n", line);
}

int message_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message_line(format, args);
	va_end(args);
	return CMD_TROUBLE;
}

void message_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message_line(format, args);
	va_end(args);
}

void message_info(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	message_line(format, args);
	va_end(args);
}
