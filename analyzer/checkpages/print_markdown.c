/* SPDX-License-Identifier: MIT */
/* What `check` found, as Markdown (GitHub's, GitLab's). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/checkpages/print_check.h"
#include "analyzer/checkpages/print_ruling.h"

/* Text that means nothing to Markdown, in a cell of a table too. */
static void plain(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("\\`*_[]<>|&~#@", *text))
			fputc('\\', out);
		fputc((unsigned char)*text >= 0x20 ? *text : ' ', out);
	}
}

static void cell(FILE *out, const char *text)
{
	fputc(' ', out);
	plain(out, text);
	fputs(" |", out);
}

static void rulings(FILE *out, const struct rulings *all)
{
	char text[RULING_TEXT_MAX];

	fputs("\n| | GPU | what | took | allowed | over | by |\n|---|---|---|---:|---:|---:|---|\n", out);
	for (size_t i = 0; i < all->nr_rulings; i++) {
		const struct ruling *r = &all->ruling[i];

		fprintf(out, "| %s |", r->is_broken ? "**broken**" : "kept");
		cell(out, footprint_device_name(text, sizeof(text), r->device));
		cell(out, r->of);
		cell(out, print_amount(text, r, r->actual, false));
		cell(out, print_amount(text, r, r->allowed, false));
		cell(out, print_excess(text, r, false));
		cell(out, r->origin);
		fputc('\n', out);
	}
}

static void blame_row(FILE *out, const struct compare_stack *s, bool is_growth)
{
	const struct footprint_stack *now = s->after ? s->after : s->before;
	char size[HUMAN_MAX], text[RULING_TEXT_MAX];

	fputc('|', out);
	if (is_growth)
		cell(out, human_bytes_delta(size, s->grown_bytes));
	cell(out, human_bytes(size, now->bytes));
	cell(out, print_what(text, now));
	cell(out, print_place(text, now));
	fputc('\n', out);
}

static void blame(FILE *out, const struct check_page *page, const struct footprint_device *d)
{
	bool is_growth = rulings_blame_kind(page->rulings, d) == BLAME_GREW;
	uint32_t nr = page->top;
	struct compare_stack *row = rulings_blame(page->rulings, d, &nr);
	char title[RULING_TEXT_MAX];

	if (nr) {
		print_blame_title(title, page->rulings, d);
		*title = (char)toupper(*title);
		fprintf(out, "\n%s:\n\n", title);
		fprintf(out, "|%s bytes | what | allocated at |\n|%s---:|---|---|\n", is_growth ? " grown |" : "",
			is_growth ? "---:|" : "");
		for (uint32_t i = 0; i < nr; i++)
			blame_row(out, &row[i], is_growth);
	}
	free(row);
}

void print_markdown(FILE *out, const struct check_page *page)
{
	const struct rulings *all = page->rulings;
	char text[RULING_TEXT_MAX];

	fputs("### GPU memory: ", out);
	plain(out, print_rulings_line(text, all, page->replay->recording.path));
	fputc('\n', out);
	if (all->status == RULINGS_BROKEN && *all->reason) {
		fputs("\nThe rest could not be told: ", out);
		plain(out, all->reason);
		fputc('\n', out);
	}
	if (all->nr_rulings)
		rulings(out, all);
	for (uint32_t i = 0; i < page->query->now->nr_devices; i++)
		if (rulings_is_broken(all, &page->query->now->device[i]))
			blame(out, page, &page->query->now->device[i]);
}
