/* SPDX-License-Identifier: MIT */
/* What follows the batch, or the length of its samples, by shapes. */
#include "analyzer/changes/batchcut.h"

#include <string.h>

#include "analyzer/changes/changes_thresholds.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/patterns/padding.h"
#include "analyzer/stacks/element.h"


/* ---- the input ------------------------------------------------------------------------------- */

static bool has_rows(const struct batchcut *c, uint64_t rows)
{
	for (unsigned i = 0; i < c->nr_rows; i++)
		if (c->rows[i] == rows)
			return true;
	return false;
}

static bool is_parameters(const struct jobpart *j, uint64_t size)
{
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		for (uint32_t k = 0; k < j->shape[i].nr_dims; k++)
			if (j->blocks.block[i].category == CATEGORY_PARAMETER && j->shape[i].dims[k] == size)
				return true;
	return false;
}

static uint64_t length_of(const struct jobpart *j, const struct tfmt_shape *s)
{
	bool features[2];

	if (s->nr_dims == 2 && strstr(element_name(s->element_type), "int"))
		return s->dims[1];
	if (s->nr_dims != 3)
		return 0;
	features[0] = is_parameters(j, s->dims[1]);
	features[1] = is_parameters(j, s->dims[2]);
	return features[0] == features[1] ? 0 : s->dims[features[0] ? 2 : 1];
}

/* What forward has made in two dimensions, unlike any parameter: its rows are samples, or tokens of them. */
static void find_rows(struct batchcut *c, const struct jobpart *j)
{
	for (size_t i = 0; i < j->blocks.nr_blocks && c->nr_rows < BATCHCUT_ROWS_MAX; i++) {
		const struct tfmt_shape *s = &j->shape[i];

		if (s->nr_dims == 2 && s->dims[1] > 1 && s->dims[0] % c->batch == 0 && jobpart_is_kept(j, i) &&
		    !jobpart_fits_parameter(j, i) && !has_rows(c, s->dims[0]))
			c->rows[c->nr_rows++] = s->dims[0];
	}
}

/* ---- which input ----------------------------------------------------------------------------- */

static bool is_input(const struct jobpart *j, size_t i)
{
	const struct category_block *b = &j->blocks.block[i];

	return b->category == CATEGORY_INPUT && b->life.birth.ordinal >= j->from && b->life.birth.ordinal <= j->to &&
	       j->shape[i].nr_dims;
}

static bool has_dim(const struct tfmt_shape *s, uint64_t size)
{
	for (uint32_t i = 0; i < s->nr_dims; i++)
		if (s->dims[i] == size || (!i && s->dims[i] % size == 0))
			return true;
	return false;
}

/*
 * Has forward made something with as many rows since the input was there, or nothing at all? A memory bank, or what is
 * kept of each step, is no batch; nor are all gradients in one row.
 */
static bool is_used(const struct jobpart *j, size_t input)
{
	uint64_t rows = j->shape[input].dims[0];
	bool has_made = false;

	for (size_t i = input + 1; i < j->blocks.nr_blocks; i++) {
		if (!jobpart_is_kept(j, i) || !j->shape[i].nr_dims)
			continue;
		if (has_dim(&j->shape[i], rows))
			return true;
		has_made = true;
	}
	return !has_made && j->shape[input].nr_dims > 1;
}

/* SIZE_MAX: none. */
static size_t find_input(const struct jobpart *j)
{
	size_t input = SIZE_MAX;
	uint64_t most = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		if (!is_input(j, i) || j->blocks.block[i].life.size <= most || !is_used(j, i))
			continue;
		most = j->blocks.block[i].life.size;
		input = i;
	}
	return input;
}

/* Of one place, alike but for their first dimension. */
static bool is_sequence_like(const struct jobpart *j, size_t i, size_t other)
{
	const struct tfmt_shape *a = &j->shape[i], *b = &j->shape[other];

	return is_input(j, i) && a->nr_dims == b->nr_dims &&
	       j->blocks.block[i].life.birth.stack == j->blocks.block[other].life.birth.stack &&
	       !memcmp(a->dims + 1, b->dims + 1, (a->nr_dims - 1) * sizeof(*a->dims));
}

/* [nr, longest, ...], or [longest, nr, ...], made of sequences of [..., ...]. */
static bool holds_sequences(const struct jobpart *j, size_t i, size_t sequence, const struct padding *p)
{
	const struct tfmt_shape *s = &j->shape[i], *of = &j->shape[sequence];

	if (j->blocks.block[i].life.birth.ordinal < j->from || s->nr_dims != of->nr_dims + 1u ||
	    memcmp(s->dims + 2, of->dims + 1, (of->nr_dims - 1) * sizeof(*s->dims)))
		return false;
	return padding_holds(s, p, 1);
}

/* Was the input put together with others, into one tensor that is the batch? */
static bool find_padded(struct batchcut *c, const struct jobpart *j)
{
	struct padding p = { 0 };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (is_sequence_like(j, i, c->input))
			padding_add(&p, 1, j->shape[i].dims[0]);
	for (size_t i = 0; i < j->blocks.nr_blocks && p.nr > 1; i++) {
		if (!holds_sequences(j, i, c->input, &p))
			continue;
		c->input = i;
		c->batch = p.nr;
		c->length = p.longest;
		return true;
	}
	return false;
}

/* One sample of several, that one line has made for the same batch: its sizes are not the batch's. */
static bool is_sample(const struct jobpart *j, size_t input)
{
	const struct life *of = &j->blocks.block[input].life;
	unsigned nr = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		nr += j->blocks.block[i].category == CATEGORY_INPUT && life->birth.stack == of->birth.stack &&
		      life->birth.ordinal >= j->from && life->birth.ordinal <= of->death.ordinal &&
		      life->death.ordinal >= of->birth.ordinal;
	}
	return nr >= SAMPLES_MIN;
}

bool batchcut_init(struct batchcut *c, const struct jobpart *j)
{
	*c = (struct batchcut){ .input = find_input(j) };
	if (c->input == SIZE_MAX)
		return false;
	if (!find_padded(c, j)) {
		if (is_sample(j, c->input))
			return false;
		c->batch = j->shape[c->input].dims[0];
		c->length = length_of(j, &j->shape[c->input]);
	}
	c->whole = c->part = c->batch;
	if (c->length < LENGTH_MIN || c->length == c->batch)
		c->length = 0;
	find_rows(c, j);
	c->is_feature = c->length && (is_parameters(j, c->length) || is_parameters(j, c->length - 1));
	return true;
}

bool batchcut_is_of_pairs(const struct batchcut *c, const struct jobpart *j)
{
	uint64_t pairs = 0, all = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct tfmt_shape *s = &j->shape[i];
		unsigned nr = 0;

		if (!jobpart_is_kept(j, i))
			continue;
		for (unsigned k = 0; k < s->nr_dims; k++)
			nr += s->dims[k] == c->batch;
		all += j->blocks.block[i].life.size;
		pairs += nr > 1 ? j->blocks.block[i].life.size : 0;
	}
	return 2 * pairs > all && !is_parameters(j, c->batch); /* else [n, n] may be rows of features */
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Has this module, or one that is not known, a parameter of these very sizes? */
static bool has_parameter(const struct jobpart *j, uint32_t module, const struct tfmt_shape *s)
{
	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct category_block *b = &j->blocks.block[i];

		if (b->category == CATEGORY_PARAMETER && (!b->module || b->module == module) &&
		    j->shape[i].nr_dims == s->nr_dims &&
		    !memcmp(j->shape[i].dims, s->dims, s->nr_dims * sizeof(*s->dims)))
			return true;
	}
	return false;
}

static bool is_of_same_stack(const struct jobpart *j, size_t i, size_t other)
{
	return other < j->blocks.nr_blocks &&
	       j->blocks.block[other].life.birth.stack == j->blocks.block[i].life.birth.stack;
}

/*
 * A node of backward makes one gradient for each of its operands. Where it has made the parameter's, another one is that of
 * what the batch has given, though it be by chance of a parameter's sizes.
 */
static bool is_operands_gradient(const struct jobpart *j, size_t i)
{
	bool found = false;

	if (!jobpart_is_born(j, i, PHASE_BACKWARD))
		return false;
	for (size_t other = i + 1; is_of_same_stack(j, i, other); other++)
		found |= j->blocks.block[other].category == CATEGORY_GRADIENT;
	for (size_t other = i - 1; is_of_same_stack(j, i, other); other--)
		found |= j->blocks.block[other].category == CATEGORY_GRADIENT;
	return found;
}

/*
 * Is this a parameter, what is made of one (in another type, with its norm), or a gradient? The tokens that are an
 * expert's may by chance be as many as its weight has rows: there are others with so many.
 */
static bool is_parameter_like(const struct batchcut *c, const struct jobpart *j, size_t i)
{
	const struct tfmt_shape *s = &j->shape[i];

	if (!jobpart_fits_parameter(j, i))
		return false;
	if (s->nr_dims != 2 || !has_rows(c, s->dims[0]))
		return true;
	if (jobpart_is_born(j, i, PHASE_FORWARD))
		return has_parameter(j, j->blocks.block[i].module, s);
	return !is_operands_gradient(j, i);
}

/*
 * A vector that is made beside forward, and is not as long as what is known of the batch: a table, not one of its samples.
 * A table of so many positions may be a multiple of the batch's tokens.
 */
static bool is_table(const struct batchcut *c, const struct tfmt_shape *s, enum phase phase)
{
	uint64_t length = c->length;

	return phase == PHASE_OTHER && s->nr_dims == 1 && s->dims[0] != c->batch && !has_rows(c, s->dims[0]) &&
	       !(length && (s->dims[0] == c->batch * length || s->dims[0] == c->batch * (length - 1)));
}

/* Can the block hold something of the batch at all? */
static bool is_of_step(const struct batchcut *c, const struct jobpart *j, size_t i)
{
	const struct category_block *b = &j->blocks.block[i];

	if (b->life.birth.ordinal < j->from || !j->shape[i].nr_dims || b->life.birth.phase == PHASE_OPTIMIZER ||
	    b->life.birth.phase == PHASE_INIT)
		return false;
	if (b->category != CATEGORY_ACTIVATION && b->category != CATEGORY_INPUT && b->category != CATEGORY_TEMPORARY)
		return false;
	return !is_parameter_like(c, j, i) && !is_table(c, &j->shape[i], b->life.birth.phase);
}

/*
 * Samples, or tokens of them, as rows for each of several: [experts, rows, features]. Of one sample they are the
 * length.
 */
static bool is_of_rows(const struct batchcut *c, const struct tfmt_shape *s)
{
	uint64_t rows = s->dims[1];

	if (s->nr_dims != 3 || rows == c->length)
		return false;
	return has_rows(c, rows) || (c->length && rows > c->length && rows % c->batch == 0);
}

/* The batch comes first, or after the length and the parts of attention: [3, length, batch, features]. */
static bool follows_batch(const struct batchcut *c, const struct tfmt_shape *s)
{
	bool found = s->dims[0] % c->batch == 0 || (s->nr_dims == 2 && s->dims[1] == c->batch) || is_of_rows(c, s);

	for (uint32_t i = 1; i + 1 < s->nr_dims; i++)
		found |= s->dims[i] == c->batch;
	return found;
}

/* A language model's logits may be for all tokens but one. */
static bool is_length(const struct batchcut *c, uint64_t size)
{
	return size == c->length || size + 1 == c->length;
}

/* Samples one after the other, as rows. */
static bool is_flattened(const struct batchcut *c, uint64_t rows)
{
	return rows % (c->batch * c->length) == 0 || rows % (c->batch * (c->length - 1)) == 0;
}

/* How many of a block's dimensions are the length: two of an attention matrix. */
static unsigned nr_lengths(const struct batchcut *c, const struct tfmt_shape *s)
{
	uint32_t nr_dims = s->nr_dims;
	bool is_square = nr_dims >= 3 && is_length(c, s->dims[nr_dims - 2]) && is_length(c, s->dims[nr_dims - 1]);
	unsigned nr = !is_length(c, s->dims[0]) && is_flattened(c, s->dims[0]);

	/* [batch, length, features] is none where features are as many; [batch, heads, length, length] is. */
	if (c->is_feature && nr_dims >= 2 && !(is_square && (nr_dims > 3 || s->dims[0] != c->batch)))
		nr_dims--;
	for (uint32_t i = 0; i < nr_dims; i++)
		nr += is_length(c, s->dims[i]);
	return nr < 2 ? nr : 2;
}

static unsigned power_of(const struct batchcut *c, const struct tfmt_shape *s)
{
	return c->of_length ? nr_lengths(c, s) : follows_batch(c, s);
}

static uint64_t cut(const struct batchcut *c, unsigned power, uint64_t size)
{
	for (unsigned k = 0; k < power; k++)
		size = size * c->part / c->whole;
	return power ? torch_rounded(size) : size;
}

/* What an operation takes for itself, as to add up rows in several places: there are as many as it has samples. */
static bool is_scratch(const struct jobpart *j, size_t i)
{
	const struct category_block *b = &j->blocks.block[i];

	return b->category == CATEGORY_WORKSPACE && !j->shape[i].nr_dims && b->life.death.ordinal <= j->to &&
	       (jobpart_is_born(j, i, PHASE_FORWARD) || jobpart_is_born(j, i, PHASE_BACKWARD));
}

unsigned batchcut_power(const struct batchcut *c, const struct jobpart *j, size_t i)
{
	if (is_scratch(j, i))
		return 1;
	return is_of_step(c, j, i) ? power_of(c, &j->shape[i]) : 0;
}

uint64_t batchcut_size(const struct batchcut *c, const struct jobpart *j, size_t i)
{
	return cut(c, batchcut_power(c, j, i), j->blocks.block[i].life.size);
}

/* ---- the request ----------------------------------------------------------------------------- */

/* The latest block of its size, of its own line if there is one. SIZE_MAX: none. */
static size_t like_request(const struct jobpart *j)
{
	size_t like = SIZE_MAX;

	for (size_t i = j->blocks.nr_blocks; i-- > 0;) {
		const struct life *life = &j->blocks.block[i].life;

		if (life->birth.ordinal < j->from || life->size != j->asked)
			continue;
		if (life->birth.stack == j->asked_stack)
			return i;
		like = like == SIZE_MAX ? i : like;
	}
	return like;
}

static bool is_parameter_sized(const struct jobpart *j)
{
	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (j->blocks.block[i].category == CATEGORY_PARAMETER && j->blocks.block[i].life.size == j->asked)
			return true;
	return false;
}

uint64_t batchcut_asked(const struct batchcut *c, const struct jobpart *j)
{
	size_t like = like_request(j);

	if (!j->asked || j->asked_phase == PHASE_OPTIMIZER || j->asked_phase == PHASE_INIT)
		return j->asked;
	if (like != SIZE_MAX)
		return batchcut_size(c, j, like);
	if (j->asked_shape.nr_dims)
		return jobpart_is_parameters(j, jobpart_key(&j->asked_shape)) ? j->asked :
									      cut(c, power_of(c, &j->asked_shape), j->asked);
	if (is_parameter_sized(j))
		return j->asked;
	return torch_rounded(j->asked * c->part / c->whole);
}
