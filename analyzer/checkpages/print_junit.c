/* SPDX-License-Identifier: MIT */
/* What `check` found, as a JUnit report. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/checkpages/print_check.h"
#include "analyzer/checkpages/print_ruling.h"

/* Text as XML has it, in attributes too; control characters, which XML cannot have at all, as '?'. */
static void xml(FILE *out, const char *text)
{
	for (; *text; text++) {
		switch (*text) {
		case '&':
			fputs("&amp;", out);
			break;
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc((unsigned char)*text >= 0x20 ? *text : '?', out);
		}
	}
}

static void attribute(FILE *out, const char *name, const char *value)
{
	fprintf(out, " %s=\"", name);
	xml(out, value);
	fputc('"', out);
}

static void failure(FILE *out, const struct check_page *page, const struct ruling *r)
{
	uint32_t nr = page->top;
	struct compare_stack *row = rulings_blame(page->rulings, r->device, &nr);
	char text[RULING_TEXT_MAX];

	fputs("\t\t\t<failure", out);
	attribute(out, "message", print_ruling(text, r));
	attribute(out, "type", r->limit);
	fputc('>', out);
	for (uint32_t i = 0; i < nr; i++) {
		xml(out, print_blame(text, &row[i]));
		fputc('\n', out);
	}
	fputs("</failure>\n", out);
	free(row);
}

static void test_case(FILE *out, const struct check_page *page, const struct ruling *r)
{
	char device[64], name[RULING_TEXT_MAX];

	fputs("\t\t<testcase", out);
	attribute(out, "classname", footprint_device_name(device, sizeof(device), r->device));
	snprintf(name, sizeof(name), "%s: %s", r->limit, r->of);
	attribute(out, "name", name);
	if (!r->is_broken) {
		fputs(" time=\"0\"/>\n", out);
		return;
	}
	fputs(" time=\"0\">\n", out);
	failure(out, page, r);
	fputs("\t\t</testcase>\n", out);
}

void print_junit(FILE *out, const struct check_page *page)
{
	const struct rulings *all = page->rulings;
	int nr_errors = *all->reason ? 1 : 0;
	char counts[128];

	snprintf(counts, sizeof(counts), " tests=\"%zu\" failures=\"%zu\" errors=\"%d\" time=\"0\"",
		 all->nr_rulings + (size_t)nr_errors, all->nr_broken, nr_errors);
	fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"vramtrace check\"%s>\n\t<testsuite",
		counts);
	attribute(out, "name", page->replay->recording.path);
	fprintf(out, "%s>\n", counts);
	for (size_t i = 0; i < all->nr_rulings; i++)
		test_case(out, page, &all->ruling[i]);
	if (nr_errors) {
		fputs("\t\t<testcase classname=\"recording\" name=\"could be judged\" time=\"0\">\n\t\t\t<error", out);
		attribute(out, "message", all->reason);
		fputs(" type=\"unknown\"/>\n\t\t</testcase>\n", out);
	}
	fputs("\t</testsuite>\n</testsuites>\n", out);
}
