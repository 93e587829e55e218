/* SPDX-License-Identifier: MIT */
/*
 * What the terminal can do: its width, whether colours are wanted, whether somebody is watching.
 * Colour rule: --color=always|never decides, else only on a tty with TERM other than "dumb" and no NO_COLOR.
 */
#ifndef VT_TERM_H
#define VT_TERM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum term_color { TERM_COLOR_AUTO, TERM_COLOR_ALWAYS, TERM_COLOR_NEVER };
extern const char *const term_color_names[]; /* for OPT_ENUM */

enum term_style {
	TERM_PLAIN,
	TERM_BOLD,
	TERM_DIM,
	TERM_RED,
	TERM_GREEN,
	TERM_YELLOW,
	TERM_BLUE,
	TERM_MAGENTA,
	TERM_CYAN
};

/* Should output to `out` be coloured? `color` is an enum term_color. */
bool term_wants_color(FILE *out, int color);

/* Escape sequence that starts a style (TERM_PLAIN ends it); "" when colored is false. */
const char *term_style(enum term_style style, bool colored);

/* Columns of the terminal that `out` is; COLUMNS, then 80, when it is none. */
int term_columns(FILE *out);

/* Can the terminal that `out` is draw Unicode (UTF-8 locale by LC_ALL, LC_CTYPE, LANG)? */
bool term_has_utf8(void);

/* One code point of UTF-8: its length and *point, or 0 if the bytes are none (overlong, surrogate, cut). */
int term_decode_utf8(const char *text, size_t len, uint32_t *point);

/* Columns that `len` bytes of UTF-8 text take on a terminal; an invalid byte counts 1. */
int term_text_width(const char *text, size_t len);

/*
 * Names come from traces: what could drive the terminal, and bytes that are no UTF-8, become '?'. Colour
 * sequences stay when output is coloured.
 */
void term_make_printable(char *text, bool colored);

#endif
