/* SPDX-License-Identifier: MIT */
/* Steps by optimizers and backward passes; see flight_steps.h. */
#include "flight_steps.h"

#include <string.h>

#include "interpose.h"

#define IDS (1u << 23) /* STACKTREE_MAX; codes are fewer */
#define BITMAP_BYTES (IDS / 8)
#define FOLDER "/torch/optim/"

bool steps_begin(struct steps *s)
{
	*s = (struct steps){ .code = ip_map(BITMAP_BYTES), .stack = ip_map(BITMAP_BYTES) };
	if (s->code && s->stack)
		return true;
	steps_end(s);
	return false;
}

void steps_end(struct steps *s)
{
	if (s->code)
		ip_unmap(s->code, BITMAP_BYTES);
	if (s->stack)
		ip_unmap(s->stack, BITMAP_BYTES);
	*s = (struct steps){ 0 };
}

static bool has(const uint64_t *bitmap, uint64_t id)
{
	return id < IDS && bitmap[id / 64] >> id % 64 & 1;
}

static void set(uint64_t *bitmap, uint32_t id)
{
	if (id < IDS)
		bitmap[id / 64] |= 1ull << id % 64;
}

/* The first numbers of a payload. */
static void numbers(uint64_t *value, unsigned nr, const uint8_t *payload, size_t len)
{
	unsigned shift = 0, n = 0;

	memset(value, 0, nr * sizeof(*value));
	for (size_t i = 0; i < len && n < nr; i++) {
		value[n] |= shift < 64 ? (uint64_t)(payload[i] & 0x7f) << shift : 0;
		shift = payload[i] & 0x80 ? shift + 7 : 0;
		n += !(payload[i] & 0x80);
	}
}

/* Its names are in it as they are, in front of a table of any bytes. */
static bool is_optimizer(const uint8_t *payload, size_t len)
{
	return memmem(payload, len < 1024 ? len : 1024, FOLDER, sizeof(FOLDER) - 1);
}

void steps_define(struct steps *s, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	uint64_t frame[3]; /* parent, kind, code */

	if (type == TFMT_DEF_CODE && is_optimizer(payload, len))
		set(s->code, id);
	if (type != TFMT_DEF_FRAME)
		return;
	numbers(frame, 3, payload, len);
	if (has(s->stack, frame[0]) ||
	    ((frame[1] == TFMT_FRAME_PYTHON || frame[1] == TFMT_FRAME_PYTHON_ENTRY) && has(s->code, frame[2])))
		set(s->stack, id);
}

void steps_event(struct steps *s, const struct tfmt_event *ev)
{
	if (ev->kind == TFMT_PHASE_BEGIN && ev->address == TFMT_PHASE_BACKWARD && !ev->aux) {
		s->passes++;
		s->nr += s->has_optimized || !s->nr;
		s->has_optimized = false;
	} else if (ev->kind <= TFMT_TENSOR_FREE && has(s->stack, ev->python_stack)) {
		s->has_optimized = s->knows_optimizer = s->passes > 0;
	}
}

uint64_t steps_number(const struct steps *s)
{
	return s->knows_optimizer ? s->nr : s->passes;
}
