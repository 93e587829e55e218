/* SPDX-License-Identifier: MIT */
/* Matrices of attention, by the queries and keys that they are products of. */
#include "analyzer/patterns/attention.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/allocator/torch.h"
#include "analyzer/base/heap.h"
#include "analyzer/patterns/patterns_thresholds.h"
#include "analyzer/stacks/element.h"

#define WIDTHS_MAX 16    /* that are compared */

static uint64_t batch_of(const struct tfmt_shape *s)
{
	return s->nr_dims == 4 ? s->dims[0] : 0;
}

/* [n, n, n] has a value for each three of n rows, as a loss of triplets makes. */
static bool is_of_threes(const struct tfmt_shape *s)
{
	return s->nr_dims == 3 && s->dims[0] == s->dims[1] && s->dims[1] == s->dims[2];
}

static bool product_of(const struct tfmt_shape *s, struct attention_product *p)
{
	if (s->nr_dims < 3 || is_of_threes(s))
		return false;
	*p = (struct attention_product){ moment_elements(s, s->nr_dims - 2), s->dims[s->nr_dims - 2], s->dims[s->nr_dims - 1],
			       batch_of(s) };
	return p->nr && p->rows >= MATRIX_MIN && p->columns >= MATRIX_MIN;
}

bool attention_is_square(const struct attention_product *p)
{
	return p->rows == p->columns;
}

/* What is no square is only told from other tensors by its heads: [batch, heads, rows, columns] or [both, ..]. */
static bool has_heads(const struct attention_product *p)
{
	return p->nr > (p->batch ? p->batch : 1);
}

/* ---- where it is made ------------------------------------------------------------------------ */

/* The calls of modules in which queries and keys are made for what a stack multiplies: of the innermost, and the one around it. */
struct making {
	const struct modulepaths *paths; /* NULL: it runs in no module that is known */
	uint32_t call[MODULEPATHS_INNERMOST];
};

static struct making making_of(const struct moment *at, uint32_t stack)
{
	struct making m = { .paths = at->device->process->modulepaths };

	if (m.paths)
		modulepaths_innermost_calls(m.paths, stack, m.call);
	if (!m.call[0])
		m.paths = NULL;
	return m;
}

/* May it have been made for that? Where no module is known, all may. */
static bool is_made_in(const struct making *m, uint32_t stack)
{
	if (!m->paths)
		return true;
	for (uint32_t i = 0; i < MODULEPATHS_INNERMOST && m->call[i]; i++)
		if (modulepaths_is_in_call(m->paths, stack, m->call[i]))
			return true;
	return false;
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
static bool is_view(const struct tfmt_shape *s, const struct attention_product *p, uint64_t length)
{
	uint64_t heads, batch = p->batch ? p->batch : 1, width = s->dims[s->nr_dims - 1];

	if (s->nr_dims != 3 || s->dims[0] != batch || s->dims[1] != length || width == length)
		return false;
	heads = p->nr / batch;
	return heads >= 2 && width % heads == 0 && width / heads >= HEAD_WIDTH_MIN;
}

/* What a linear layer makes of [batch, length, ..], before it is looked at as that: [batch * length, heads * width]. */
static bool is_flat(const struct tfmt_shape *s, const struct attention_product *p, uint64_t length)
{
	uint64_t batch = p->batch ? p->batch : p->nr, heads = p->nr / batch;

	return s->nr_dims == 2 && s->dims[0] == batch * length && s->dims[1] != length && s->dims[1] % heads == 0 &&
	       s->dims[1] / heads >= HEAD_WIDTH_MIN;
}

static void look_for(struct factors *f, const struct tfmt_shape *s, const struct attention_product *p)
{
	uint64_t rows = s->dims[s->nr_dims - 2], columns = s->dims[s->nr_dims - 1];
	uint64_t least = p->rows < p->columns ? p->rows : p->columns;
	bool is_one = s->nr_dims > 2 && moment_elements(s, s->nr_dims - 2) == p->nr;

	for (int side = 0; side < 2; side++) {
		uint64_t length = side ? p->columns : p->rows;

		if (is_one && rows == length && columns < least)
			add_width(f, side, columns);
		if (is_one && columns == length && rows < least)
			add_width(f, side, rows);
		f->has_view[side] |= is_view(s, p, length) || is_flat(s, p, length);
	}
}

/* Of so many matrices, or a view of heads: for the others it need not be asked where they were made. */
static bool may_be_factor(const struct tfmt_shape *s, const struct attention_product *p)
{
	return s->nr_dims <= 3 || moment_elements(s, s->nr_dims - 2) == p->nr;
}

/*
 * Of a square one factor tells enough. An image that is as wide as high has none, nor have hidden states that are as wide
 * as their sequence is long: what their layers make of them is wider.
 */
static bool has_factors(const struct moment *at, const struct attention_product *p, uint32_t stack)
{
	const struct books *books = at->device->process->books;
	struct making making = making_of(at, stack);
	struct factors f = { 0 };
	struct tfmt_shape s;

	for (uint32_t i = 0; i < books_nr_groups(books); i++) {
		const struct group *g = books_group(books, i);

		/* A spectrum of real numbers has half as many columns as its image: it is no factor. */
		if (g->tensor && g->shape && tfmt_reader_shape(books_reader(books), g->shape, &s) && s.nr_dims >= 2 &&
		    !strstr(element_name(s.element_type), "complex") && may_be_factor(&s, p) &&
		    is_made_in(&making, g->python_stack))
			look_for(&f, &s, p);
	}
	for (unsigned i = 0; attention_is_square(p) && i < f.nr[0]; i++)
		if (f.width[0][i] >= HEAD_WIDTH_MIN)
			return true;
	if (attention_is_square(p))
		return f.has_view[0];
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

/* The node that a block was made by in backward; false: by none. */
static bool find_node(const struct books *books, const struct group *g, struct tfmt_frame *node)
{
	return g->tensor && tfmt_reader_frame(books_reader(books), g->python_stack, node) && node->kind == TFMT_FRAME_NODE;
}

/* The same, for a forward at this stack: its name. */
static bool node_of(const struct books *books, const struct group *g, uint32_t forward, const char **name)
{
	struct tfmt_frame frame;

	if (!find_node(books, g, &frame) || frame.parent != forward)
		return false;
	*name = tfmt_reader_string(books_reader(books), (uint32_t)frame.a);
	return true;
}

/* By the nodes that went back through what a stack has made, or, before any backward, by its innermost function. */
static bool is_made_by_attention(const struct moment *at, uint32_t stack)
{
	const struct books *books = at->device->process->books;
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
static bool is_fused(const struct moment *at, uint32_t stack)
{
	const struct books *books = at->device->process->books;
	const char *name;

	for (uint32_t i = 0; i < books_nr_groups(books); i++)
		if (node_of(books, books_group(books, i), stack, &name) && strstr(name, "ScaledDotProduct"))
			return true;
	return false;
}

/* Is a parameter as wide as the sequence is long? Then [batch, length, length] may be hidden states as well. */
static bool may_be_hidden(const struct moment *at, const struct attention_product *p)
{
	if (!attention_is_square(p) || p->batch)
		return false;
	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct tfmt_shape *s = &at->block[i].shape;

		if (at->live[i].category != CATEGORY_PARAMETER || !at->block[i].is_shaped)
			continue;
		for (uint32_t k = 0; k < s->nr_dims; k++)
			if (s->dims[k] == p->rows)
				return true;
	}
	return false;
}

/* Is it one, beyond what its factors tell? Of [batch, words, vocabulary] there are as many by chance. */
static bool is_told(const struct moment *at, const struct attention_product *p, uint32_t stack)
{
	bool is_sure = (attention_is_square(p) || p->batch) && !may_be_hidden(at, p);

	return is_sure || is_made_by_attention(at, stack);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static bool same_matrices(const struct attention_product *a, const struct attention_product *b)
{
	return a->rows == b->rows && a->columns == b->columns;
}

/* Products that were asked about, by where they were made: each of a model's layers has the same few. */
struct answers {
	struct answer {
		struct attention_product p;
		uint32_t stack;
		bool has_factors;
	} *answer;
	size_t nr, room;
};

static bool has_known_factors(struct answers *known, const struct moment *at, const struct attention_product *p, uint32_t stack)
{
	for (size_t i = known->nr; i-- > 0;) {
		const struct answer *one = &known->answer[i];

		if (one->stack == stack && one->p.nr == p->nr && same_matrices(&one->p, p) && one->p.batch == p->batch)
			return one->has_factors;
	}
	known->answer = heap_grow(known->answer, &known->room, known->nr + 1, sizeof(*known->answer));
	known->answer[known->nr] = (struct answer){ *p, stack, has_factors(at, p, stack) };
	return known->answer[known->nr++].has_factors;
}

static void find_matrices(const struct moment *at, struct attention *m)
{
	struct answers known = { 0 };
	struct attention_product p;
	uint32_t stack;

	*m = (struct attention){ 0 };
	for (size_t i = 0; i < at->nr_blocks; i++) {
		const struct category_block *b = &at->live[i];
		const struct tfmt_shape *s = &at->block[i].shape;

		if (!at->block[i].is_shaped || !moment_is_passing(b->category) || !product_of(s, &p) ||
		    p.rows * p.columns < m->each.rows * m->each.columns ||
		    (!attention_is_square(&p) && (!has_heads(&p) || b->life.size < at->allocated / ATTENTION_SMALL_PART)))
			continue;
		stack = b->life.birth.stack;
		if (!has_known_factors(&known, at, &p, stack) || !is_told(at, &p, stack))
			continue;
		if (!same_matrices(&p, &m->each))
			*m = (struct attention){ .each = p, .largest = i };
		m->varies |= p.nr != m->each.nr;
		if (p.nr > m->each.nr)
			m->masks = m->bytes;
		else if (p.nr < m->each.nr)
			m->masks += b->life.size;
		m->each.nr = p.nr > m->each.nr ? p.nr : m->each.nr;
		m->bytes += b->life.size;
		m->nr_blocks++;
		m->has_scores |= strcmp(element_name(s->element_type), "bool") && !is_fused(at, stack);
		m->is_asked |= torch_rounded(s->bytes) == torch_rounded(at->request.bytes);
	}
	free(known.answer);
}

/* Is the request for a mask: one matrix for each sample, asked for by fused attention? */
static bool is_mask_asked(const struct moment *at, const struct attention_product *p)
{
	return is_fused(at, at->request.python_stack) ||
	       (p->batch && p->nr == p->batch && strstr(at->request.operation, "scaled_dot_product"));
}

/* Is the request for what queries of this block's shape make with keys of that one's? */
static bool is_asked(const struct moment *at, size_t query, size_t key, struct attention_product *p)
{
	const struct tfmt_shape *q = &at->block[query].shape, *k = &at->block[key].shape;
	uint64_t width, each;

	if (!at->block[query].is_shaped || !at->block[key].is_shaped || q->nr_dims < 3 || k->nr_dims < 3 ||
	    !moment_elements(q, q->nr_dims) || q->element_type != k->element_type)
		return false;
	each = q->bytes / moment_elements(q, q->nr_dims);
	p->nr = moment_elements(q, q->nr_dims - 2);
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
	return moment_elements(k, k->nr_dims - 2) == p->nr && width >= HEAD_WIDTH_MIN && width < p->rows &&
	       width < p->columns && p->rows >= MATRIX_MIN && p->columns >= MATRIX_MIN &&
	       torch_rounded(p->nr * p->rows * p->columns * each) == torch_rounded(at->request.bytes);
}

/* A request for what queries of this block's shape make with keys alike, whose own block may be a view. */
static bool is_square_asked(const struct moment *at, size_t i, struct attention_product *p)
{
	const struct tfmt_shape *s = &at->block[i].shape;
	uint64_t each, rows, columns, length;

	if (!at->block[i].is_shaped || s->nr_dims < 3 || !moment_elements(s, s->nr_dims))
		return false;
	each = s->bytes / moment_elements(s, s->nr_dims);
	rows = s->dims[s->nr_dims - 2];
	columns = s->dims[s->nr_dims - 1];
	length = rows > columns ? rows : columns;
	*p = (struct attention_product){ moment_elements(s, s->nr_dims - 2), length, length, batch_of(s) };
	return length >= MATRIX_MIN && rows != columns &&
	       torch_rounded(p->nr * length * length * each) == torch_rounded(at->request.bytes);
}

/* May a block have been made to be multiplied there? */
static bool is_for(const struct moment *at, const struct making *m, size_t i)
{
	return at->live[i].life.birth.phase == PHASE_FORWARD && is_made_in(m, at->live[i].life.birth.stack);
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
static bool find_asked(const struct moment *at, struct attention_product *p)
{
	size_t nr = at->nr_blocks, first = nr > ATTENTION_RECENT ? nr - ATTENTION_RECENT : 0;
	struct making making;

	if (at->request.phase != PHASE_FORWARD || !may_multiply(at->request.operation))
		return false;
	making = making_of(at, at->request.python_stack);
	for (size_t i = 0; i < nr; i++)
		if (is_for(at, &making, i) && is_square_asked(at, i, p) && is_told(at, p, at->request.python_stack))
			return true;
	for (size_t i = first; i < nr; i++)
		for (size_t k = first; k < nr && is_for(at, &making, i); k++)
			if (i != k && is_for(at, &making, k) && is_asked(at, i, k, p) &&
			    is_told(at, p, at->request.python_stack))
				return true;
	return false;
}

/* ---- what backward has found it to be -------------------------------------------------------------- */

enum said_by_nodes { NODES_UNKNOWN, NODES_OF_ATTENTION, NODES_OF_OTHERS };

/* The code of the Python function that a stack is innermost in; 0: it is in none, or in a node of backward. */
static uint64_t function_of(const struct books *books, uint32_t stack)
{
	struct tfmt_frame frame;

	return tfmt_reader_frame(books_reader(books), stack, &frame) &&
			       (frame.kind == TFMT_FRAME_PYTHON || frame.kind == TFMT_FRAME_PYTHON_ENTRY) ?
		       frame.a :
		       0;
}

/* What nodes have gone back through what a function made, whoever called it? Not all of them make something. */
static enum said_by_nodes said_by_nodes(const struct books *books, uint64_t function)
{
	enum said_by_nodes said = NODES_UNKNOWN;
	struct tfmt_frame node;

	for (uint32_t i = 0; function && i < books_nr_groups(books); i++) {
		if (!find_node(books, books_group(books, i), &node) || function_of(books, node.parent) != function)
			continue;
		if (is_of_attention(tfmt_reader_string(books_reader(books), (uint32_t)node.a)))
			return NODES_OF_ATTENTION;
		said = NODES_OF_OTHERS;
	}
	return said;
}

/*
 * Backward passes have gone through all that makes such tensors, and met neither a product nor a softmax: a field on a square grid has the shape
 * of them, and differences of its cells that of a factor.
 */
static bool is_refuted(const struct moment *at, const struct attention *m)
{
	const struct books *books = at->device->process->books;
	uint64_t *known = NULL, function; /* known: which have made them */
	struct attention_product p;
	size_t nr = 0, room = 0, k;
	bool refuted = true;

	for (size_t i = 0; i < at->nr_blocks && refuted; i++) {
		if (!at->block[i].is_shaped || !moment_is_passing(at->live[i].category) || !product_of(&at->block[i].shape, &p) ||
		    !same_matrices(&p, &m->each))
			continue;
		function = function_of(books, at->live[i].life.birth.stack);
		for (k = 0; k < nr && known[k] != function; k++)
			;
		if (k < nr)
			continue;
		known = heap_grow(known, &room, nr + 1, sizeof(*known));
		known[nr++] = function;
		refuted = said_by_nodes(books, function) == NODES_OF_OTHERS;
	}
	free(known);
	return nr && refuted;
}

void attention_find(struct attention *m, const struct moment *at)
{
	struct attention_product p;

	find_matrices(at, m);
	if (m->nr_blocks && is_refuted(at, m))
		*m = (struct attention){ 0 };
	if (!m->is_asked && find_asked(at, &p)) {
		m->is_asked = true;
		m->each = p;
	}
	m->is_mask_asked = m->is_asked && is_mask_asked(at, &m->each);
}
