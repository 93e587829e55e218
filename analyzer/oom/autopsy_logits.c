/* SPDX-License-Identifier: MIT */
/* Cause: logits over a vocabulary, all at once. */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/patterns/vocabulary.h"

#define FLOAT16 5
#define FLOAT32 6
#define BFLOAT16 15

struct logits {
	uint64_t wide, asked; /* in float32: bytes that are there, and of the request */
	uint64_t vocabulary, rows;
	size_t largest;	      /* block, of those that are there */
	bool are_upcast;      /* the model computed them in 16 bits */
	bool have_graph;
};

static bool is_half(const struct tfmt_shape *s)
{
	return s->element_type == FLOAT16 || s->element_type == BFLOAT16;
}

/* Was there a tensor over the same vocabulary, and of as many rows or more, in 16 bits? */
static bool has_half(const struct autopsy *a, const struct tfmt_shape *of)
{
	const struct books *books = a->device->process->books;
	struct tfmt_shape s;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		if (g->tensor && g->shape && tfmt_reader_shape(books_reader(books), g->shape, &s) && is_half(&s) &&
		    s.nr_dims >= 2 && s.dims[s.nr_dims - 1] == of->dims[of->nr_dims - 1] &&
		    moment_elements(&s, s.nr_dims) >= moment_elements(of, of->nr_dims))
			return true;
	}
	return false;
}

/* Does what was asked for copy them in 32 bits: all rows, or some less, as where labels are shifted by one? */
static bool is_upcast_asked(const struct autopsy *a, const struct tfmt_shape *s)
{
	uint64_t row = 4 * s->dims[s->nr_dims - 1], rows = moment_elements(s, s->nr_dims - 1);
	uint64_t asked_rows = a->failure->asked / row;
	bool is_copy = !strncmp(a->operation, "to_", 3) || !strcmp(a->operation, "_to_copy");

	if (torch_rounded(asked_rows * row) != torch_rounded(a->failure->asked))
		return false;
	return asked_rows == rows || (is_copy && asked_rows < rows && UPCAST_ROWS_PART * asked_rows >= rows);
}

static void add_shape(struct logits *l, const struct tfmt_shape *s)
{
	uint64_t rows = moment_elements(s, s->nr_dims - 1);

	if (rows > l->rows)
		l->rows = rows;
}

static bool is_over(const struct logits *l, const struct tfmt_shape *s)
{
	return vocabulary_are_logits(s) && s->dims[s->nr_dims - 1] == l->vocabulary;
}

/* Of the largest that have the shape of logits, the request among them, whether in 16 bits or 32. */
static void find_vocabulary(struct logits *l, const struct autopsy *a, const struct tfmt_shape *asked)
{
	uint64_t most = vocabulary_are_logits(asked) ? a->failure->asked : 0;

	l->vocabulary = most ? asked->dims[asked->nr_dims - 1] : 0;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (!a->block[i].is_shaped || !vocabulary_are_logits(s) || (!is_half(s) && s->element_type != FLOAT32) ||
		    !moment_is_passing(a->categories.block[i].category) || a->categories.block[i].life.size <= most)
			continue;
		most = a->categories.block[i].life.size;
		l->vocabulary = s->dims[s->nr_dims - 1];
	}
}

static void add_block(struct logits *l, const struct autopsy *a, size_t i)
{
	const struct tfmt_shape *s = &a->block[i].shape;
	uint64_t bytes = a->categories.block[i].life.size;

	if (is_half(s) && is_upcast_asked(a, s)) {
		l->asked = a->failure->asked;
		l->are_upcast = true;
	}
	if (s->element_type == FLOAT32) {
		if (!l->wide || bytes > a->categories.block[l->largest].life.size)
			l->largest = i;
		l->wide += bytes;
		l->are_upcast |= has_half(a, s);
		if (torch_rounded(s->bytes) == torch_rounded(a->failure->asked))
			l->asked = a->failure->asked;
	}
	if (is_half(s) || s->element_type == FLOAT32)
		add_shape(l, s);
}

static void find_logits(struct logits *l, const struct autopsy *a)
{
	struct tfmt_shape asked = { 0 };

	*l = (struct logits){ 0 };
	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		asked.nr_dims = 0;
	find_vocabulary(l, a, &asked);
	if (asked.element_type == FLOAT32 && is_over(l, &asked)) {
		add_shape(l, &asked);
		l->asked = a->failure->asked;
		l->are_upcast = has_half(a, &asked);
	}
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		l->have_graph |= a->block[i].has_graph;
		if (a->block[i].is_shaped && is_over(l, &a->block[i].shape) &&
		    moment_is_passing(a->categories.block[i].category))
			add_block(l, a, i);
	}
}

/* Half of what was there and asked for, and no layer's features: what takes in so many is not the last. */
static bool are_most(const struct logits *l, const struct autopsy *a, uint64_t bytes)
{
	return 2 * bytes > a->failure->allocated + a->failure->asked && !vocabulary_is_taken_in(&a->moment, l->vocabulary);
}

static void say_logits(struct autopsy_finding *f, const struct logits *l)
{
	struct fact asked = fact_bytes("asked", l->asked), upcast = fact_flag("are_upcast", l->are_upcast);
	struct fact rows = fact_count("rows", l->rows), vocabulary = fact_count("vocabulary", l->vocabulary);

	if (l->wide)
		autopsy_say(f, SAID(logits_are_wide, rows, vocabulary, fact_bytes("wide", l->wide), fact_if(l->asked, asked), upcast));
	else
		autopsy_say(f, SAID(logits_were_asked, rows, vocabulary, asked, upcast));
}

static struct said say_parts(const struct logits *l, uint64_t bytes)
{
	struct fact parts = fact_count("parts", AUTOPSY_PARTS), saved = fact_bytes("saved", bytes - bytes / AUTOPSY_PARTS);

	return l->have_graph ? SAID(logits_advice, parts, saved) : SAID(logits_needed_advice, parts, saved);
}

/*
 * Those that the model computed in 16 bits take a part of their memory in vain. Of others half of all must be theirs: there
 * they are no more than what the program computes.
 */
bool autopsy_is_logits_fp32(const struct autopsy *a, struct autopsy_finding *f)
{
	struct logits l;

	find_logits(&l, a);
	f->bytes = l.wide + l.asked;
	if (!f->bytes || !autopsy_matters(a, f->bytes) || !vocabulary_has_words(&a->moment, l.vocabulary) ||
	    (!l.are_upcast && !are_most(&l, a, f->bytes)))
		return false;
	if (!l.are_upcast)
		f->kind = AUTOPSY_NEED;
	if (l.wide)
		autopsy_at_place(a, f, a->block[l.largest].place);
	else
		autopsy_at_request(a, f);
	say_logits(f, &l);
	autopsy_evidence(f, SAID(logits_rows, fact_bytes("half", 2 * l.rows * l.vocabulary)));
	f->of_batch &= l.have_graph; /* else they are of positions that nobody asks for, however large the batch */
	autopsy_advise(f, say_parts(&l, f->bytes));
	return true;
}

void autopsy_say_logits(const struct autopsy *a, struct autopsy_finding *f)
{
	struct tfmt_shape asked;
	struct logits l;

	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked) || !is_half(&asked))
		return;
	find_logits(&l, a);
	if (!is_over(&l, &asked) || !vocabulary_has_words(&a->moment, l.vocabulary) || !are_most(&l, a, a->failure->asked))
		return;
	f->bytes = a->failure->asked;
	autopsy_at_request(a, f);
	autopsy_say(f, SAID(logits_in_half, fact_count("rows", moment_elements(&asked, asked.nr_dims - 1)),
			    fact_count("vocabulary", l.vocabulary), fact_bytes("asked", a->failure->asked)));
	autopsy_advise_first(f, say_parts(&l, f->bytes));
}
