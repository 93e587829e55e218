/* SPDX-License-Identifier: MIT */
/* What the terminal can do. */
#include "analyzer/base/term.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

const char *const term_color_names[] = { "auto", "always", "never", NULL };

bool term_wants_color(FILE *out, int color)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (color != TERM_COLOR_AUTO)
		return color == TERM_COLOR_ALWAYS;
	if (no_color && *no_color)
		return false;
	return term && *term && strcmp(term, "dumb") != 0 && isatty(fileno(out));
}

const char *term_style(enum term_style style, bool colored)
{
	static const char *const sequences[] = {
		[TERM_PLAIN] = "\033[0m", [TERM_BOLD] = "\033[1m",     [TERM_DIM] = "\033[2m",
		[TERM_RED] = "\033[31m",  [TERM_GREEN] = "\033[32m",   [TERM_YELLOW] = "\033[33m",
		[TERM_BLUE] = "\033[34m", [TERM_MAGENTA] = "\033[35m", [TERM_CYAN] = "\033[36m",
	};

	return colored ? sequences[style] : "";
}

static int columns_from_env(void)
{
	const char *text = getenv("COLUMNS");
	long value = text ? strtol(text, NULL, 10) : 0;

	return value > 0 && value <= 10000 ? (int)value : 80;
}

int term_columns(FILE *out)
{
	struct winsize size;

	return !ioctl(fileno(out), TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : columns_from_env();
}

bool term_has_utf8(void)
{
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *value = getenv(names[i]);

		if (value && *value)
			return strcasestr(value, "UTF-8") || strcasestr(value, "UTF8");
	}
	return false;
}

/* East Asian characters and emoji take two columns. A coarse table serves file names well enough. */
static int code_point_width(uint32_t c)
{
	if ((c >= 0x300 && c <= 0x36f) || (c >= 0x200b && c <= 0x200f) || (c >= 0xfe00 && c <= 0xfe0f))
		return 0;
	if ((c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
	    (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
	    (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd))
		return 2;
	return 1;
}

int term_text_width(const char *text, size_t len)
{
	int width = 0;

	for (size_t i = 0; i < len;) {
		uint32_t point;
		int n = term_decode_utf8(text + i, len - i, &point);

		width += n > 0 ? code_point_width(point) : 1;
		i += n > 0 ? (size_t)n : 1;
	}
	return width;
}

/* Bytes of the sequence that this byte begins, 0 if none does. */
static int sequence_length(unsigned char first)
{
	if (first < 0x80)
		return 1;
	if (first < 0xc0 || first >= 0xf8)
		return 0;
	return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
}

int term_decode_utf8(const char *text, size_t len, uint32_t *point)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const unsigned char *s = (const unsigned char *)text;
	int n;

	if (!len)
		return 0;
	n = sequence_length(s[0]);
	if (!n || (size_t)n > len)
		return 0;
	*point = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (int i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (s[i] & 0x3fu);
	}
	if (*point < least[n] || *point > 0x10ffff || (*point >= 0xd800 && *point <= 0xdfff))
		return 0;
	return n;
}

/* Length of a colour sequence at s, 0 if there is none. */
static size_t color_sequence(const char *s)
{
	size_t n;

	if (s[0] != '\033' || s[1] != '[')
		return 0;
	n = 2 + strspn(s + 2, "0123456789;");
	return s[n] == 'm' ? n + 1 : 0;
}

void term_make_printable(char *text, bool colored)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len;) {
		size_t skip = colored ? color_sequence(text + i) : 0;
		uint32_t point;
		int n;

		if (skip) {
			i += skip;
			continue;
		}
		n = term_decode_utf8(text + i, len - i, &point);
		if (!n || point < 0x20 || (point >= 0x7f && point < 0xa0)) {
			n = n ? n : 1;
			memmove(text + i + 1, text + i + n, len - i - (size_t)n + 1);
			text[i] = '?';
			len -= (size_t)n - 1;
			n = 1;
		}
		i += (size_t)n;
	}
}
