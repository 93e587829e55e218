/* SPDX-License-Identifier: MIT */
/* What `check` found, as workflow commands of GitHub Actions. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/checkpages/print_check.h"
#include "analyzer/checkpages/print_ruling.h"

/* As GitHub's own toolkit escapes: of properties also what ends them. */
static void escaped(FILE *out, const char *text, bool is_property)
{
	for (; *text; text++) {
		if (strchr("%\r\n", *text) || (is_property && strchr(":,", *text)))
			fprintf(out, "%%%02X", (unsigned char)*text);
		else
			fputc(*text, out);
	}
}

/* The first stack that has a line which GitHub can show. */
static const struct footprint_stack *line_to_show(const struct compare_stack *row, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		if (row[i].after && row[i].after->in_tree && row[i].after->line)
			return row[i].after;
	return NULL;
}

static void annotate(FILE *out, const struct check_page *page, const struct footprint_device *d)
{
	const struct rulings *all = page->rulings;
	uint32_t nr = page->top;
	struct compare_stack *row = rulings_blame(all, d, &nr);
	const struct footprint_stack *at = line_to_show(row, nr);
	char text[RULING_TEXT_MAX];

	fputs("::error ", out);
	if (at) {
		fputs("file=", out);
		escaped(out, at->file, true);
		fprintf(out, ",line=%" PRIu32 ",", at->line);
	}
	fputs("title=GPU memory::", out);
	for (size_t i = 0, said = 0; i < all->nr_rulings; i++) {
		if (!all->ruling[i].is_broken || all->ruling[i].device != d)
			continue;
		escaped(out, said++ ? "\n" : "", false);
		escaped(out, print_ruling(text, &all->ruling[i]), false);
	}
	if (nr) {
		escaped(out, "\n", false);
		escaped(out, print_blame_title(text, all, d), false);
		fputc(':', out);
	}
	for (uint32_t i = 0; i < nr; i++) {
		escaped(out, "\n", false);
		escaped(out, print_blame(text, &row[i]), false);
	}
	fputc('\n', out);
	free(row);
}

void print_github(FILE *out, const struct check_page *page)
{
	const struct rulings *all = page->rulings;
	char text[RULING_TEXT_MAX];

	for (uint32_t i = 0; i < page->query->now->nr_devices; i++)
		if (rulings_is_broken(all, &page->query->now->device[i]))
			annotate(out, page, &page->query->now->device[i]);
	if (*all->reason) {
		fputs("::error title=GPU memory::could not tell: ", out);
		escaped(out, all->reason, false);
		fputc('\n', out);
	}
	if (all->status == RULINGS_KEPT) {
		fputs("::notice title=GPU memory::", out);
		escaped(out, print_rulings_line(text, all, page->replay->recording.path), false);
		fputc('\n', out);
	}
}
