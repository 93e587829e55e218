/* SPDX-License-Identifier: MIT */
/*
 * Cause: matrices of attention, one weight for each query and key. They are known by the queries and keys that they are
 * the product of: [.., rows, width] and [.., columns, width], or, where those are views of what one layer made,
 * [batch, rows, heads * width]. As many columns as rows are a sequence that looks at itself; else it looks at another.
 */
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/oom/oom_thresholds.h"
#include "analyzer/stacks/element.h"

#define WIDTHS_MAX 16 /* that are compared */

/* So many matrices, each rows x columns. */
struct product {
	uint64_t nr, rows, columns;
	uint64_t batch; /* of [batch, heads, rows, columns]; else 0 */
};

static uint64_t batch_of(const struct tfmt_shape *s)
{
	return s->nr_dims == 4 ? s->dims[0] : 0;
}

static bool product_of(const struct tfmt_shape *s, struct product *p)
{
	if (s->nr_dims < 3)
		return false;
	*p = (struct product){ autopsy_elements(s, s->nr_dims - 2), s->dims[s->nr_dims - 2], s->dims[s->nr_dims - 1],
			       batch_of(s) };
	return p->nr && p->rows >= MATRIX_MIN && p->columns >= MATRIX_MIN;
}

static bool is_square(const struct product *p)
{
	return p->rows == p->columns;
}

/* What is no square is only told from other tensors by its heads: [batch, heads, rows, columns] or [both, ..]. */
static bool has_heads(const struct product *p)
{
	return p->nr > (p->batch ? p->batch : 1);
}

/* ---- factors --------------------------------------------------------------------------------- */

/* What has been found of a product's two factors: the widths each comes in. */
struct factors {
	uint64_t width[2][WIDTHS_MAX];
	unsigned nr[2];
	bool has_view[2];
};

static void add_width(struct factors *f, int side, uint64_t width)
{
	for (unsigned i = 0; i < f->nr[side]; i++)
		if (f->width[side][i] == width)
			return;
	if (f->nr[side] < WIDTHS_MAX)
		f->width[side][f->nr[side]++] = width;
}

/* Heads side by side in one tensor: [batch, length, heads * width]. Of one sequence [heads, ..] may be views of it, too. */
static bool is_view(const struct tfmt_shape *s, const struct product *p, uint64_t length)
{
	uint64_t heads, batch = p->batch ? p->batch : 1, width = s->dims[s->nr_dims - 1];

	if (s->nr_dims != 3 || s->dims[0] != batch || s->dims[1] != length || width == length)
		return false;
	heads = p->nr / batch;
	return heads >= 2 && width % heads == 0 && width / heads >= HEAD_WIDTH_MIN;
}

static void look_for(struct factors *f, const struct tfmt_shape *s, const struct product *p)
{
	uint64_t rows = s->dims[s->nr_dims - 2], columns = s->dims[s->nr_dims - 1];
	uint64_t least = p->rows < p->columns ? p->rows : p->columns;
	bool is_one = autopsy_elements(s, s->nr_dims - 2) == p->nr;

	for (int side = 0; side < 2; side++) {
		uint64_t length = side ? p->columns : p->rows;

		if (is_one && rows == length && columns < least)
			add_width(f, side, columns);
		if (is_one && columns == length && rows < least)
			add_width(f, side, rows);
		f->has_view[side] |= is_view(s, p, length);
	}
}

/*
 * Of a square one factor tells enough. An image that is as wide as high has none, nor have hidden states that are as wide
 * as their sequence is long: what their layers make of them is wider.
 */
static bool has_factors(const struct autopsy *a, const struct product *p)
{
	const struct books *books = a->device->process->books;
	struct factors f = { 0 };
	struct tfmt_shape s;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		/* A spectrum of real numbers has half as many columns as its image: it is no factor. */
		if (g->tensor && g->shape && tfmt_reader_shape(books_reader(books), g->shape, &s) && s.nr_dims >= 3 &&
		    !strstr(element_name(s.element_type), "complex"))
			look_for(&f, &s, p);
	}
	if (is_square(p))
		return f.nr[0] || f.has_view[0];
	for (unsigned i = 0; i < f.nr[0]; i++)
		for (unsigned k = 0; k < f.nr[1]; k++)
			if (f.width[0][i] == f.width[1][k] && f.width[0][i] >= HEAD_WIDTH_MIN)
				return true;
	return f.has_view[0] && f.has_view[1];
}

/* ---- who made it ----------------------------------------------------------------------------- */

/* Logarithms are taken of a loss's classes. */
static bool is_of_attention(const char *name)
{
	static const char *const words[] = { "attention", "attn", "softmax", "bmm", "matmul", "scaleddot" };

	if (strcasestr(name, "logsoftmax") || strcasestr(name, "log_softmax"))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (strcasestr(name, words[i]))
			return true;
	return false;
}

/* The node that a block was made by in backward; false: by none, or not for a forward at this stack. */
static bool node_of(const struct books *books, const struct group *g, uint32_t forward, const char **name)
{
	struct tfmt_frame frame;

	if (!g->tensor || !tfmt_reader_frame(books_reader(books), g->python_stack, &frame) ||
	    frame.kind != TFMT_FRAME_NODE || frame.parent != forward)
		return false;
	*name = tfmt_reader_string(books_reader(books), (uint32_t)frame.a);
	return true;
}

/* By the nodes that went back through what a stack has made, or, before any backward, by its innermost function. */
static bool is_made_by_attention(const struct autopsy *a, uint32_t stack)
{
	const struct books *books = a->device->process->books;
	struct tfmt_frame frame;
	struct tfmt_code code;
	bool has_node = false;
	const char *name;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		if (!node_of(books, books_group(books, i), stack, &name))
			continue;
		if (is_of_attention(name))
			return true;
		has_node = true;
	}
	return !has_node && tfmt_reader_frame(books_reader(books), stack, &frame) &&
	       (frame.kind == TFMT_FRAME_PYTHON || frame.kind == TFMT_FRAME_PYTHON_ENTRY) &&
	       tfmt_reader_code(books_reader(books), (uint32_t)frame.a, &code) && is_of_attention(code.name);
}

/* Did fused attention run there? Backward went through its node before. It makes no matrices but its mask. */
static bool is_fused(const struct autopsy *a, uint32_t stack)
{
	const struct books *books = a->device->process->books;
	const char *name;

	for (uint32_t i = 0; i < books_nr_groups(books); i++)
		if (node_of(books, books_group(books, i), stack, &name) && strstr(name, "ScaledDotProduct"))
			return true;
	return false;
}

/* Is a parameter as wide as the sequence is long? Then [batch, length, length] may be hidden states as well. */
static bool may_be_hidden(const struct autopsy *a, const struct product *p)
{
	if (!is_square(p) || p->batch)
		return false;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (a->categories.block[i].category != CATEGORY_PARAMETER || !a->block[i].is_shaped)
			continue;
		for (uint32_t k = 0; k < s->nr_dims; k++)
			if (s->dims[k] == p->rows)
				return true;
	}
	return false;
}

/* Is it one, beyond what its factors tell? Of [batch, words, vocabulary] there are as many by chance. */
static bool is_told(const struct autopsy *a, const struct product *p, uint32_t stack)
{
	bool is_sure = (is_square(p) || p->batch) && !may_be_hidden(a, p);

	return is_sure || is_made_by_attention(a, stack);
}

/* ---- matrices -------------------------------------------------------------------------------- */

struct matrices {
	struct product each; /* of the largest kind */
	uint64_t bytes;
	uint64_t masks; /* bytes of those with fewer than `each`: what is added to several, a mask or bias */
	uint32_t nr_blocks;
	size_t largest;
	bool is_asked; /* the request is one more, or the first */
	bool varies;   /* masks have fewer than `each` */
	bool has_scores; /* not all of them are masks of fused attention */
};

static bool same_matrices(const struct product *a, const struct product *b)
{
	return a->rows == b->rows && a->columns == b->columns;
}

static void find_matrices(const struct autopsy *a, struct matrices *m)
{
	struct product known = { 0 }, p;
	bool is_known = false;

	*m = (struct matrices){ 0 };
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct category_block *b = &a->categories.block[i];
		const struct tfmt_shape *s = &a->block[i].shape;

		if (!a->block[i].is_shaped || !autopsy_is_passing(b->category) || !product_of(s, &p) ||
		    p.rows * p.columns < m->each.rows * m->each.columns ||
		    (!is_square(&p) && (!has_heads(&p) || b->life.size < a->failure->allocated / ATTENTION_SMALL_PART)))
			continue;
		if (!same_matrices(&p, &known) || p.nr != known.nr)
			is_known = has_factors(a, &p);
		known = p;
		if (!is_known || !is_told(a, &p, b->life.birth.stack))
			continue;
		if (!same_matrices(&p, &m->each))
			*m = (struct matrices){ .each = p, .largest = i };
		m->varies |= p.nr != m->each.nr;
		if (p.nr > m->each.nr)
			m->masks = m->bytes;
		else if (p.nr < m->each.nr)
			m->masks += b->life.size;
		m->each.nr = p.nr > m->each.nr ? p.nr : m->each.nr;
		m->bytes += b->life.size;
		m->nr_blocks++;
		m->has_scores |= strcmp(element_name(s->element_type), "bool") && !is_fused(a, b->life.birth.stack);
		m->is_asked |= torch_rounded(s->bytes) == torch_rounded(a->failure->asked);
	}
}

/* Is the request for a mask: one matrix for each sample, asked for by fused attention? */
static bool is_mask_asked(const struct autopsy *a, const struct product *p)
{
	return is_fused(a, a->failure->python_stack) ||
	       (p->batch && p->nr == p->batch && strstr(a->operation, "scaled_dot_product"));
}

/* Is the request for what queries of this block's shape make with keys of that one's? */
static bool is_asked(const struct autopsy *a, size_t query, size_t key, struct product *p)
{
	const struct tfmt_shape *q = &a->block[query].shape, *k = &a->block[key].shape;
	uint64_t width, each;

	if (!a->block[query].is_shaped || !a->block[key].is_shaped || q->nr_dims < 3 || k->nr_dims < 3 ||
	    !autopsy_elements(q, q->nr_dims) || q->element_type != k->element_type)
		return false;
	each = q->bytes / autopsy_elements(q, q->nr_dims);
	p->nr = autopsy_elements(q, q->nr_dims - 2);
	p->batch = batch_of(q);
	p->rows = q->dims[q->nr_dims - 2];
	width = q->dims[q->nr_dims - 1];
	/* Keys are often turned already: [.., width, columns]. */
	if (k->dims[k->nr_dims - 1] == width)
		p->columns = k->dims[k->nr_dims - 2];
	else if (k->dims[k->nr_dims - 2] == width)
		p->columns = k->dims[k->nr_dims - 1];
	else
		return false;
	return autopsy_elements(k, k->nr_dims - 2) == p->nr && width >= HEAD_WIDTH_MIN && width < p->rows &&
	       width < p->columns && p->rows >= MATRIX_MIN && p->columns >= MATRIX_MIN &&
	       torch_rounded(p->nr * p->rows * p->columns * each) == torch_rounded(a->failure->asked);
}

/* A request for what queries of this block's shape make with keys alike, whose own block may be a view. */
static bool is_square_asked(const struct autopsy *a, size_t i, struct product *p)
{
	const struct tfmt_shape *s = &a->block[i].shape;
	uint64_t each, rows, columns, length;

	if (!a->block[i].is_shaped || s->nr_dims < 3 || !autopsy_elements(s, s->nr_dims))
		return false;
	each = s->bytes / autopsy_elements(s, s->nr_dims);
	rows = s->dims[s->nr_dims - 2];
	columns = s->dims[s->nr_dims - 1];
	length = rows > columns ? rows : columns;
	*p = (struct product){ autopsy_elements(s, s->nr_dims - 2), length, length, batch_of(s) };
	return length >= MATRIX_MIN && rows != columns &&
	       torch_rounded(p->nr * length * length * each) == torch_rounded(a->failure->asked);
}

static bool is_of_forward(const struct autopsy *a, size_t i)
{
	return a->categories.block[i].life.birth.phase == PHASE_FORWARD;
}

/* What multiplies matrices in batches. Other operations ask for as many bytes by chance; unknown ones may be any. */
static bool may_multiply(const char *operation)
{
	static const char *const names[] = { "bmm", "matmul", "einsum", "attention" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strstr(operation, names[i]))
			return true;
	return !*operation;
}

/* The first matrices of their kind have been asked for; what of? */
static bool find_asked(const struct autopsy *a, struct product *p)
{
	size_t nr = a->categories.nr_blocks, first = nr > ATTENTION_RECENT ? nr - ATTENTION_RECENT : 0;

	if (a->failure->phase != PHASE_FORWARD || !may_multiply(a->operation))
		return false;
	for (size_t i = 0; i < nr; i++)
		if (is_of_forward(a, i) && is_square_asked(a, i, p) && is_told(a, p, a->failure->python_stack))
			return true;
	for (size_t i = first; i < nr; i++)
		for (size_t k = first; k < nr && is_of_forward(a, i); k++)
			if (i != k && is_of_forward(a, k) && is_asked(a, i, k, p) &&
			    is_told(a, p, a->failure->python_stack))
				return true;
	return false;
}

/* Masks alone are what is wrong only where they are most of it. */
static bool say_masks(const struct autopsy *a, struct autopsy_finding *f, const struct matrices *m, uint64_t bytes)
{
	if (2 * bytes < a->failure->allocated + (m->is_asked ? a->failure->asked : 0))
		return false;
	autopsy_say(f, SAID(attention_masks, fact_count("rows", m->each.rows), fact_count("columns", m->each.columns),
			    fact_bytes("taken", m->bytes), fact_if(m->is_asked, fact_bytes("asked", a->failure->asked))));
	autopsy_evidence(f, SAID(attention_masks_of_layers, NO_FACTS));
	autopsy_advise(f, SAID(attention_masks_advice, fact_bytes("bytes", bytes)));
	return true;
}

/* How many there are, and how they grow: those of a square by both of its sides. */
static void say_tensors(struct autopsy_finding *f, const struct matrices *m)
{
	const struct fact facts[] = {
		fact_count("tensors", m->nr_blocks),
		fact_flag("is_up_to", m->varies),
		fact_count("matrices", m->each.nr),
	};

	autopsy_evidence(f, said_of(is_square(&m->each) ? SAY_attention_grows_by_length : SAY_attention_grows_by_keys, facts,
				    sizeof(facts) / sizeof(*facts)));
	if (!is_square(&m->each))
		autopsy_evidence(f, SAID(attention_is_cross, fact_count("rows", m->each.rows),
					 fact_count("columns", m->each.columns)));
}

bool autopsy_is_attention_matrix(const struct autopsy *a, struct autopsy_finding *f)
{
	struct matrices m;
	struct product p;
	uint64_t bytes;

	find_matrices(a, &m);
	if (!m.is_asked && find_asked(a, &p)) {
		m.is_asked = true;
		m.each = p;
	}
	bytes = m.bytes + (m.is_asked ? a->failure->asked : 0);
	if (!bytes || !autopsy_matters(a, bytes))
		return false;
	f->bytes = bytes;
	if (m.is_asked)
		autopsy_at_request(a, f);
	else
		autopsy_at_place(a, f, a->block[m.largest].place);
	if (!m.has_scores && (!m.is_asked || is_mask_asked(a, &m.each)))
		return say_masks(a, f, &m, bytes);
	autopsy_say(f, SAID(attention_matrices, fact_count("rows", m.each.rows), fact_count("columns", m.each.columns),
			    fact_bytes("taken", m.bytes), fact_if(m.is_asked, fact_bytes("asked", a->failure->asked))));
	say_tensors(f, &m);
	/* Masks stay: it takes them as attn_mask. */
	autopsy_advise(f, SAID(attention_advice, fact_bytes("saved", bytes - m.masks),
			       fact_if(m.masks, fact_bytes("masks", m.masks))));
	return true;
}
