/* SPDX-License-Identifier: MIT */
/* Drawing a plot row by row, from the top. */
#include "analyzer/ui/plot.h"

#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/base/term.h"

static const char *const eighths[] = { " ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };

/* How much of row `row` (0 = lowest) a value fills, in eighths. */
static int filled_eighths(const struct plot *p, uint64_t bytes, uint32_t row)
{
	double rows = (double)bytes / (double)p->top_bytes * p->rows - row;
	int eighth;

	if (rows >= 1)
		return 8;
	if (rows <= 0)
		return 0;
	eighth = (int)(rows * 8 + 0.5);
	/* Something is never drawn as nothing. */
	return eighth == 0 && row == 0 ? 1 : eighth;
}

static void print_cell(FILE *out, const struct plot *p, int solid, int shaded)
{
	if (p->utf8)
		fputs(solid ? eighths[solid] : shaded >= 4 ? "░" : " ", out);
	else
		putc(solid >= 4 || (solid && shaded < 4) ? '#' : shaded >= 4 ? '.' : ' ', out);
}

static void print_row(FILE *out, const struct plot *p, uint32_t row)
{
	enum term_style style = TERM_PLAIN;

	for (uint32_t i = 0; i < p->columns; i++) {
		int solid = filled_eighths(p, p->solid[i], row),
		    shaded = filled_eighths(p, p->shaded[i], row);
		enum term_style wanted = solid ? TERM_CYAN : shaded ? TERM_DIM : TERM_PLAIN;

		if (p->colored && wanted != style) {
			fputs(term_style(TERM_PLAIN, true), out);
			fputs(wanted ? term_style(wanted, true) : "", out);
			style = wanted;
		}
		print_cell(out, p, solid, shaded);
	}
	if (style)
		fputs(term_style(TERM_PLAIN, true), out);
	putc('\n', out);
}

/* Bytes at the lower edge of a row, where the axis has a label: the top, the middle and the bottom. */
static const char *row_label(char buf[static HUMAN_MAX], const struct plot *p, uint32_t row)
{
	if (row == p->rows - 1)
		return human_bytes(buf, p->top_bytes);
	if (row == p->rows / 2 && p->rows > 4)
		return human_bytes(buf, (uint64_t)((double)p->top_bytes * (row + 0.5) / p->rows));
	return row ? "" : "0 B";
}

void plot_print(FILE *out, const struct plot *p)
{
	char label[HUMAN_MAX];
	int end;

	for (uint32_t row = p->rows; row-- > 0;) {
		fprintf(out, "%*s %s", PLOT_MARGIN - 2, row_label(label, p, row), p->utf8 ? "┤" : "|");
		print_row(out, p, row);
	}
	fprintf(out, "%*s %s", PLOT_MARGIN - 2, "", p->utf8 ? "└" : "+");
	for (uint32_t i = 0; i < p->columns; i++)
		fputs(p->utf8 ? "─" : "-", out);
	human_ns(label, p->end_ns);
	end = (int)p->columns - (int)strlen(label) - 1;
	fprintf(out, "\n%*s0 s%*s%s\n", PLOT_MARGIN - 1, "", end > 3 ? end - 2 : 1, "", label);
}
