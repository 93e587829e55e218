/* SPDX-License-Identifier: MIT */
/* Not causes: of one request for more than all other tensors take, what it makes and of what; and what was looked up. */
#include <stdlib.h>
#include <string.h>

#include "analyzer/oom/autopsy_causes.h"
#include "analyzer/stacks/element.h"

/* It is made as a whole, to be filled: how much of it would fit, and what it would be in the narrowest type. */
static void say_buffer(const struct autopsy *a, struct autopsy_finding *f)
{
	char shape[SHAPE_TEXT_MAX];
	struct tfmt_shape asked;
	uint64_t elements = 1, rows;

	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked) || asked.nr_dims < 2)
		return;
	for (unsigned i = 0; i < asked.nr_dims; i++)
		elements *= asked.dims[i];
	rows = (uint64_t)((double)a->largest_fit / (double)a->failure->asked * (double)asked.dims[0]);
	autopsy_evidence(f, SAID(buffer_is, fact_name("shape", shape_text(shape, &asked))));
	if (rows && rows < asked.dims[0])
		autopsy_advise(f, SAID(buffer_advice, fact_count("rows", rows), fact_count("all", asked.dims[0]),
				       fact_if(elements <= a->largest_fit, fact_bytes("narrow", elements))));
}

/* Does it make a matrix that is 0 but for its diagonal? */
static bool is_diagonal(const char *operation)
{
	return !strcmp(operation, "diag") || !strcmp(operation, "diag_embed") || !strcmp(operation, "diagflat");
}

/* Tensor.to(), float(), half(), ...: elements of another type, and nothing else. */
static bool is_conversion(const char *operation)
{
	return !strcmp(operation, "to") || !strncmp(operation, "to_", strlen("to_")) || !strcmp(operation, "_to_copy");
}

/* Of the same shape as what is asked for, in elements half as wide at most. */
static bool is_narrower(const struct tfmt_shape *s, const struct tfmt_shape *asked)
{
	return s->nr_dims && s->nr_dims == asked->nr_dims && s->bytes && 2 * s->bytes <= asked->bytes &&
	       !memcmp(s->dims, asked->dims, s->nr_dims * sizeof(*s->dims));
}

/*
 * The operand that an operation makes wider elements of, as float32 of the bytes of pictures; SIZE_MAX: there is none. What is made anew has
 * no operand, and a mask chooses between others, unless it is converted.
 */
static size_t find_widened(const struct autopsy *a, const struct tfmt_shape *asked)
{
	bool converts = is_conversion(a->operation);

	if (autopsy_is_creation(a->operation) && !converts)
		return SIZE_MAX;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		bool may_be = converts || strcmp(element_name(a->block[i].shape.element_type), "bool") != 0;

		if (a->block[i].is_shaped && may_be && is_narrower(&a->block[i].shape, asked))
			return i;
	}
	return SIZE_MAX;
}

static void advise_widened(const struct autopsy *a, struct autopsy_finding *f, const struct tfmt_shape *asked, size_t i)
{
	struct named named;
	bool is_named;

	is_named = a->device->process->names && namedblocks_name(&named, a->device->process, &a->categories.block[i].life, LIVES_OOM) &&
		   *named.name.text;
	autopsy_advise_first(f, SAID(widened_advice, fact_if(is_named, fact_name("name", is_named ? named.name.text : NULL)),
				     fact_flag("other", !is_named), fact_name("operation", a->operation),
				     fact_name("wide", element_name(asked->element_type)),
				     fact_name("narrow", element_name(a->block[i].shape.element_type)),
				     fact_ratio("times", (double)asked->bytes / (double)a->block[i].shape.bytes)));
}

/* Of one sample, so that there are no fewer to be taken at a time: what is to be enlarged, as by interpolate(), by how many times. 0: it is not that. */
static uint64_t times_enlarged(const struct autopsy *a, const struct tfmt_shape *asked)
{
	uint64_t most = 0;

	if (strncmp(a->operation, "upsample", strlen("upsample")) != 0 || asked->nr_dims < 3 || asked->dims[0] != 1)
		return 0;
	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (a->block[i].is_shaped && s->nr_dims == asked->nr_dims && s->dims[0] == 1 && s->dims[1] == asked->dims[1] &&
		    s->element_type == asked->element_type && s->bytes < asked->bytes && s->bytes > most)
			most = s->bytes;
	}
	return most ? asked->bytes / most : 0;
}

void autopsy_advise_enlarged(const struct autopsy *a, struct autopsy_finding *f)
{
	struct tfmt_shape asked;
	uint64_t times;

	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		return;
	times = times_enlarged(a, &asked);
	if (times > 1)
		autopsy_advise(f, SAID(enlarged_advice, fact_site("site", &a->site), fact_count("times", times),
				       fact_bytes("bytes", a->failure->asked - a->failure->asked / times)));
}

/* How many rows the table has that rows of so many elements were looked up in; 0: it is not known, or there are several. */
static uint64_t rows_of_table(const struct autopsy *a, uint64_t columns)
{
	uint64_t rows = 0;

	for (size_t i = 0; i < a->categories.nr_blocks; i++) {
		const struct tfmt_shape *s = &a->block[i].shape;

		if (a->categories.block[i].category != CATEGORY_PARAMETER || !a->block[i].is_shaped || s->nr_dims != 2 || s->dims[1] != columns)
			continue;
		if (rows && s->dims[0] != rows)
			return 0;
		rows = s->dims[0];
	}
	return rows;
}

/* Where most of it was looked up in tables, the same rows are there many times. */
void autopsy_say_looked_up(const struct autopsy *a, struct autopsy_finding *f)
{
	const struct autopsy_place *place = autopsy_main_place(a);
	const struct tfmt_shape *s = place ? &a->block[place->largest].shape : NULL;
	uint64_t rows, looked_up;
	char shape[SHAPE_TEXT_MAX];

	if (!place || !a->block[place->largest].is_shaped || s->nr_dims < 2 ||
	    !autopsy_is_looked_up(a, autopsy_group(a, place->largest)->python_stack))
		return;
	rows = rows_of_table(a, s->dims[s->nr_dims - 1]);
	looked_up = moment_elements(s, s->nr_dims - 1);
	if (rows >= looked_up)
		return;
	f->bytes = place->bytes;
	autopsy_at_place(a, f, 0);
	autopsy_say(f, SAID(looked_up, fact_bytes("bytes", place->bytes), fact_bytes("allocated", a->failure->allocated),
			    fact_count("tensors", place->blocks), fact_name("shape", shape_text(shape, s)),
			    fact_bytes("asked", a->failure->asked)));
	if (rows)
		autopsy_evidence(f, SAID(looked_up_in, fact_count("rows", rows), fact_count("times", looked_up / rows)));
	autopsy_advise_first(f, SAID(looked_up_advice, fact_site("site", &f->site), fact_bytes("bytes", place->bytes)));
}

void autopsy_say_whole(const struct autopsy *a, struct autopsy_finding *f)
{
	char shape[SHAPE_TEXT_MAX] = "";
	struct tfmt_shape asked = { .nr_dims = 0 };
	uint64_t most = 0, rows;
	size_t widened;

	if (a->failure->asked <= a->failure->allocated || !*a->operation)
		return;
	if (!strcmp(a->operation, "to_dense"))
		autopsy_advise(f, SAID(sparse_advice, fact_bytes("bytes", a->failure->asked)));
	if (!a->failure->shape || !tfmt_reader_shape(a->device->process->reader, a->failure->shape, &asked))
		asked.nr_dims = 0;
	widened = find_widened(a, &asked);
	if (autopsy_is_creation(a->operation) && widened == SIZE_MAX) {
		say_buffer(a, f);
		return;
	}
	for (size_t i = 0; i < a->categories.nr_blocks; i++)
		most = a->categories.block[i].life.size > most ? a->categories.block[i].life.size : most;
	if (asked.nr_dims)
		shape_text(shape, &asked);
	if (most)
		autopsy_evidence(f, SAID(whole_exceeds_all, fact_name("operation", a->operation),
					 fact_if(*shape, fact_name("shape", shape)), fact_bytes("most", most)));
	if (is_diagonal(a->operation))
		autopsy_advise(f, SAID(diagonal_advice, fact_name("operation", a->operation), fact_bytes("bytes", a->failure->asked)));
	autopsy_advise_enlarged(a, f);
	autopsy_advise_parts(a, f, a->failure->asked, 0);
	if (widened != SIZE_MAX)
		advise_widened(a, f, &asked, widened);
	rows = is_diagonal(a->operation) ? 0 : autopsy_square_of(a, -1);
	if (rows)
		autopsy_advise_square(a, f, rows);
}
