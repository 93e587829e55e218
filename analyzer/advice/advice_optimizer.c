/* SPDX-License-Identifier: MIT */
/* Advice about what the optimizer keeps: in fewer bits, on the host, on other ranks. */
#include "analyzer/advice/advice_kinds.h"
#include "analyzer/advice/advice_thresholds.h"
#include "analyzer/allocator/torch.h"
#include "analyzer/changes/editpeak.h"
#include "analyzer/stacks/element.h"

/* How bitsandbytes keeps state: a byte for each value, a float for each block of values; none of small tensors. */
#define SMALL_TENSOR 4096
#define SCALE_BLOCK 256

#define OFFLOAD_SETTING "\"offload_optimizer\": {\"device\": \"cpu\"}" /* of DeepSpeed */


bool advice_is_state(const struct jobpart *j, size_t i)
{
	return j->blocks.block[i].category == CATEGORY_OPTIMIZER_STATE;
}

bool advice_is_of_step(const struct jobpart *j, size_t i)
{
	const struct category_block *b = &j->blocks.block[i];

	return b->category == CATEGORY_TEMPORARY && b->life.birth.phase == PHASE_OPTIMIZER;
}

/* A tensor of state that has as many values as a parameter has, wide ones. */
static bool is_wide(const struct jobpart *j, size_t i)
{
	const struct tfmt_shape *s = &j->shape[i];

	return advice_is_state(j, i) && s->bytes && jobpart_elements(s) >= SMALL_TENSOR &&
	       s->bytes >= 2 * jobpart_elements(s);
}

/* Many times what the parameters have: pasts of them, as L-BFGS keeps, that no other optimizer keeps in fewer bits. */
static bool is_history(const struct jobpart *j)
{
	uint64_t state = 0, parameters = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		state += is_wide(j, i) ? jobpart_elements(&j->shape[i]) : 0;
		parameters += j->blocks.block[i].category == CATEGORY_PARAMETER ? jobpart_elements(&j->shape[i]) : 0;
	}
	return parameters && state > STATE_VALUES_MAX * parameters;
}

uint64_t advice_state_bytes(const struct jobpart *j, size_t *largest)
{
	uint64_t bytes = 0, most = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;

		if (!advice_is_state(j, i))
			continue;
		bytes += life->size;
		if (life->size > most) {
			most = life->size;
			*largest = i;
		}
	}
	return bytes;
}

/*
 * The peak if wide state had so many bytes for each value; with scales or not. What keeps state like that updates one
 * parameter at a time, without the temporaries that torch.optim's steps have for all of them (foreach).
 */
static uint64_t with_state_of(const struct jobpart *j, uint64_t value_bytes, bool scales)
{
	struct edits e = { 0 };

	for (size_t i = 0; i < j->blocks.nr_blocks; i++) {
		const struct life *life = &j->blocks.block[i].life;
		uint64_t nr = jobpart_elements(&j->shape[i]);

		if (advice_is_of_step(j, i)) {
			edits_resize(&e, life->birth.ordinal, 0);
		} else if (is_wide(j, i) && j->shape[i].bytes > value_bytes * nr) {
			edits_resize(&e, life->birth.ordinal, torch_rounded(value_bytes * nr));
			if (scales)
				edits_more(&e, life->birth.ordinal, life->death.ordinal,
					   torch_rounded((nr + SCALE_BLOCK - 1) / SCALE_BLOCK * sizeof(float)));
		}
	}
	return editpeak_once(j, &e);
}

/* All but the action of smaller state. false: there is no wide state. */
static bool find_small_state(const struct jobpart *j, struct advice *a, const char *name, uint64_t value_bytes,
			     bool scales)
{
	size_t largest = 0;
	uint64_t bytes = advice_state_bytes(j, &largest);
	struct fact site;

	if (!bytes || !is_wide(j, largest) || is_history(j))
		return false;
	advice_at_program(j, a, j->blocks.block[largest].life.birth.stack);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->after_bytes = with_state_of(j, value_bytes, scales);
	a->title = SAID(state_smaller, fact_name("smaller", name), site);
	a->evidence = SAID(state_takes_mostly, fact_bytes("bytes", bytes),
			   fact_name("type", element_name(j->shape[largest].element_type)));
	a->cost = SAID(state_smaller_cost, NO_FACTS);
	return true;
}

/* bitsandbytes' of the same algorithm, by the file of torch.optim's that has made the state; NULL: Adam's, or any. */
static const char *small_class(const struct jobpart *j)
{
	static const struct {
		const char *file[2], *name;
	} rows[] = {
		{ { "/torch/optim/sgd.py" }, "SGD8bit" },
		{ { "/torch/optim/rmsprop.py" }, "RMSprop8bit" },
		{ { "/torch/optim/adagrad.py" }, "Adagrad8bit" },
	};
	size_t largest = 0;

	if (!advice_state_bytes(j, &largest))
		return NULL;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (advice_runs_in(j, j->blocks.block[largest].life.birth.stack, rows[i].file))
			return rows[i].name;
	return NULL;
}

bool advice_small_state(const struct jobpart *j, struct advice *a)
{
	const char *name = small_class(j);

	a->action = SAID(state_in_8_bits_action, fact_name("class", name ? name : "AdamW8bit"), fact_flag("is_any", !name));
	return find_small_state(j, a, "8-bit", 1, true);
}

/* Only of Adam there is one that can be told to. */
bool advice_bf16_state(const struct jobpart *j, struct advice *a)
{
	if (small_class(j))
		return false;
	a->action = SAID(state_in_bfloat16_action, NO_FACTS);
	return find_small_state(j, a, "bfloat16", 2, false);
}

static uint64_t bytes_of(const struct jobpart *j, enum category category)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (j->blocks.block[i].category == category && j->blocks.block[i].life.birth.ordinal < j->to)
			bytes += j->blocks.block[i].life.size;
	return bytes;
}

uint64_t advice_gradient_bytes(const struct jobpart *j)
{
	uint64_t gradients = bytes_of(j, CATEGORY_GRADIENT), parameters = bytes_of(j, CATEGORY_PARAMETER);

	return gradients && gradients < parameters ? gradients : parameters;
}

bool advice_offload(const struct jobpart *j, struct advice *a)
{
	struct edits e = { 0 };
	size_t largest = 0;
	uint64_t bytes = advice_state_bytes(j, &largest);
	struct fact site;

	for (size_t i = 0; i < j->blocks.nr_blocks; i++)
		if (advice_is_state(j, i) || advice_is_of_step(j, i))
			edits_resize(&e, j->blocks.block[i].life.birth.ordinal, 0);
	a->after_bytes = editpeak_once(j, &e);
	if (!bytes || is_history(j))
		return false;
	advice_at_program(j, a, j->blocks.block[largest].life.birth.stack);
	site = fact_if(a->has_site, fact_site("site", &a->site));
	a->title = SAID(state_on_host, site);
	a->action = SAID(state_on_host_action, site, fact_name("setting", OFFLOAD_SETTING));
	a->evidence = SAID(state_takes, fact_bytes("bytes", bytes));
	a->cost = SAID(state_on_host_cost, fact_bytes("moved", 2 * advice_gradient_bytes(j)));
	return true;
}
