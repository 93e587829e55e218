/* SPDX-License-Identifier: MIT */
/*
 * What vramtrace says on stderr: one line each, prefixed "vramtrace: ", lower case, subject quoted, what to
 * do next. A progress line on the terminal is wiped first. Control characters in the text are shown as '?'.
 * Single-threaded.
 */
#ifndef VT_MESSAGE_H
#define VT_MESSAGE_H

#include <stdarg.h>

/* Trouble; returns CMD_TROUBLE so that a command can `return message_error(...)`. */
int message_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Something the user should know although the command goes on. */
void message_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Plain information (the closing lines of `run`). */
void message_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same with a va_list. */
void message_line(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

#endif
