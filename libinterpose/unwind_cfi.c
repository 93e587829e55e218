/* SPDX-License-Identifier: MIT */
/*
 * Call frame information (DWARF 5, section 6.4, as the System V ABI stores it in .eh_frame): finding what
 * describes an address, and running it as far as that. Only stack and frame pointer and return address are
 * followed: nothing else leads to a caller.
 */
#include "unwind_cfi.h"

#include <string.h>

enum { PE_ABSOLUTE = 0x00, PE_ULEB128 = 0x01, PE_UDATA2 = 0x02, PE_UDATA4 = 0x03, PE_UDATA8 = 0x04,
       PE_SLEB128 = 0x09, PE_SDATA2 = 0x0a, PE_SDATA4 = 0x0b, PE_SDATA8 = 0x0c,
       PE_FORMAT = 0x0f, PE_RELATION = 0x70, PE_PC_RELATIVE = 0x10, PE_INDIRECT = 0x80, PE_TABLE = 0x3b };

enum { OP_BREG = 0x70, OP_DEREF = 0x06 };

#define REMEMBERED 8 /* nested DW_CFA_remember_state; compilers need one */

/* Bytes being read; `bad` sticks when they end too early or mean something unknown. */
struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static uint64_t take(struct cursor *c, unsigned bytes)
{
	uint64_t v = 0;

	if ((uint64_t)(c->end - c->at) < bytes) {
		c->bad = true;
		c->at = c->end;
		return 0;
	}
	memcpy(&v, c->at, bytes);
	c->at += bytes;
	return v;
}

/* A LEB128 number without its sign. *shift becomes how many bits it has, *last its last byte. */
static uint64_t take_leb(struct cursor *c, unsigned *shift, uint64_t *last)
{
	uint64_t v = 0;

	*shift = 0;
	do {
		*last = take(c, 1);
		if (*shift < 64)
			v |= (*last & 0x7f) << *shift;
		*shift += 7;
	} while (*last & 0x80);
	return v;
}

static uint64_t take_uleb(struct cursor *c)
{
	uint64_t last;
	unsigned shift;

	return take_leb(c, &shift, &last);
}

static int64_t take_sleb(struct cursor *c)
{
	uint64_t last, v;
	unsigned shift;

	v = take_leb(c, &shift, &last);
	if (shift < 64 && (last & 0x40))
		v |= ~0ull << shift;
	return (int64_t)v;
}

static uint64_t take_pointer(struct cursor *c, unsigned encoding)
{
	uint64_t place = (uintptr_t)c->at, v = 0;

	switch (encoding & PE_FORMAT) {
	case PE_ABSOLUTE:
	case PE_UDATA8:
	case PE_SDATA8:
		v = take(c, 8);
		break;
	case PE_UDATA2:
		v = take(c, 2);
		break;
	case PE_UDATA4:
		v = take(c, 4);
		break;
	case PE_SDATA2:
		v = (uint64_t)(int64_t)(int16_t)take(c, 2);
		break;
	case PE_SDATA4:
		v = (uint64_t)(int64_t)(int32_t)take(c, 4);
		break;
	case PE_ULEB128:
		v = take_uleb(c);
		break;
	case PE_SLEB128:
		v = (uint64_t)take_sleb(c);
		break;
	default:
		c->bad = true;
	}
	if ((encoding & PE_RELATION) == PE_PC_RELATIVE)
		v += place;
	else if (encoding & (PE_RELATION | PE_INDIRECT))
		c->bad = true;
	return v;
}

static void skip(struct cursor *c, uint64_t bytes)
{
	if (bytes > (uint64_t)(c->end - c->at)) {
		c->bad = true;
		c->at = c->end;
	} else {
		c->at += bytes;
	}
}

/* ---- the frame description of an address ------------------------------------------------------- */

struct common { /* a CIE: what frame descriptions share */
	uint64_t code_align;
	int64_t data_align;
	unsigned encoding; /* of addresses */
	bool augmented;
	bool is_signal; /* as struct cfi_frame's */
	struct cursor program;
};

/* 64-bit entries are no compiler's. */
const uint8_t *cfi_entry(const struct unwind_object *o, const uint8_t *at, uint32_t *bytes)
{
	const uint8_t *end = (const uint8_t *)(uintptr_t)(o->start + o->bytes);

	if ((uintptr_t)at < o->start || at + 8 > end)
		return NULL;
	memcpy(bytes, at, 4);
	if (*bytes < 4 || *bytes == UINT32_MAX || *bytes > (uint64_t)(end - at) - 4)
		return NULL;
	return at + 4;
}

static struct cursor entry_at(const struct unwind_object *o, const uint8_t *at)
{
	uint32_t bytes;
	const uint8_t *entry = cfi_entry(o, at, &bytes);

	return entry ? (struct cursor){ .at = entry, .end = entry + bytes } : (struct cursor){ .bad = true };
}

static bool parse_common(struct cursor c, struct common *common)
{
	const char *augmentation;
	unsigned version, personality;
	struct cursor data;
	uint64_t bytes;

	if (c.bad || take(&c, 4) != 0)
		return false;
	version = (unsigned)take(&c, 1);
	augmentation = (const char *)c.at;
	while (take(&c, 1))
		;
	if (version != 1 && version != 3)
		return false;
	*common = (struct common){ .code_align = take_uleb(&c), .data_align = take_sleb(&c) };
	if ((version == 1 ? take(&c, 1) : take_uleb(&c)) != ARCH_REG_RA || c.bad)
		return false;
	if (*augmentation) {
		if (*augmentation++ != 'z')
			return false;
		bytes = take_uleb(&c);
		data = c;
		skip(&c, bytes);
		common->augmented = true;
	}
	for (; *augmentation; augmentation++) {
		switch (*augmentation) {
		case 'R':
			common->encoding = (unsigned)take(&data, 1);
			break;
		case 'P': /* a personality routine, which only exceptions need */
			personality = (unsigned)take(&data, 1);
			take_pointer(&data, personality & PE_FORMAT);
			break;
		case 'L':
			take(&data, 1);
			break;
		case 'B': /* aarch64: with which key return addresses are signed */
			break;
		case 'S':
			common->is_signal = true;
			break;
		default:
			return false;
		}
	}
	common->program = c;
	return !c.bad && (!common->augmented || !data.bad);
}

bool cfi_header_is_usual(const uint8_t *header)
{
	static const uint8_t usual[4] = { 1, PE_PC_RELATIVE | PE_SDATA4, PE_UDATA4, PE_TABLE };

	return !memcmp(header, usual, sizeof(usual));
}

/* Finds pc's frame description by the table of .eh_frame_hdr, sorted pairs of offsets from the header. */
static const uint8_t *description_of(const struct unwind_object *o, uint64_t pc)
{
	const uint8_t *h = o->header;
	const int32_t *table = (const int32_t *)(const void *)(h + 12);
	int64_t key = (int64_t)(pc - (uintptr_t)h);
	uint32_t low = 0, high;

	memcpy(&high, h + 8, 4);
	if (!high || key < table[0])
		return NULL;
	while (high - low > 1) {
		uint32_t middle = low + (high - low) / 2;

		if (table[2 * (size_t)middle] <= key)
			low = middle;
		else
			high = middle;
	}
	return h + table[2 * (size_t)low + 1];
}

/* ---- running it ---------------------------------------------------------------------------------- */

static void set(struct cfi_frame *f, uint64_t reg, enum cfi_where where, int64_t offset)
{
	struct cfi_place *p = NULL;

	if (reg == ARCH_REG_FP)
		p = &f->fp;
	else if (reg == ARCH_REG_SP)
		p = &f->sp;
	else if (reg == ARCH_REG_RA)
		p = &f->ra;
	if (p)
		*p = (struct cfi_place){ where, offset };
}

static void restore(struct cfi_frame *f, uint64_t reg, const struct cfi_frame *initial)
{
	if (reg == ARCH_REG_FP)
		f->fp = initial->fp;
	else if (reg == ARCH_REG_SP)
		f->sp = initial->sp;
	else if (reg == ARCH_REG_RA)
		f->ra = initial->ra;
}

static void set_cfa_register(struct cfi_frame *f, uint64_t reg)
{
	f->cfa = reg == ARCH_REG_SP ? UNWIND_SP : reg == ARCH_REG_FP ? UNWIND_FP : UNWIND_OTHER;
	f->saved_on_sp = false;
}

/* An expression that is fp or sp + offset, or what is stored there: CFI_ON_FP or CFI_ON_SP, else CFI_ELSEWHERE. */
static enum cfi_where take_expression(struct cursor *c, bool stored, int64_t *offset)
{
	uint64_t bytes = take_uleb(c), base;
	struct cursor e = *c;

	skip(c, bytes);
	if (c->bad)
		return CFI_ELSEWHERE;
	e.end = c->at;
	base = take(&e, 1) - OP_BREG;
	*offset = take_sleb(&e);
	if ((stored && take(&e, 1) != OP_DEREF) || e.bad || e.at != e.end)
		return CFI_ELSEWHERE;
	return base == ARCH_REG_FP ? CFI_ON_FP : base == ARCH_REG_SP ? CFI_ON_SP : CFI_ELSEWHERE;
}

/* An instruction that says where the CFA is, or nothing of interest. False: it is none of these. */
static bool place_cfa(struct cfi_frame *f, unsigned op, struct cursor *c, const struct common *common)
{
	enum cfi_where where;
	int64_t offset = 0;

	switch (op) {
	case 0x00: /* nop */
	case 0x2d: /* AARCH64_negate_ra_state: return addresses are signed from here on, or no longer */
		return true;
	case 0x0c: /* def_cfa */
		set_cfa_register(f, take_uleb(c));
		f->cfa_offset = (int64_t)take_uleb(c);
		return true;
	case 0x0d: /* def_cfa_register */
		set_cfa_register(f, take_uleb(c));
		return true;
	case 0x0e: /* def_cfa_offset */
		f->cfa_offset = (int64_t)take_uleb(c);
		return true;
	case 0x12: /* def_cfa_sf */
		set_cfa_register(f, take_uleb(c));
		f->cfa_offset = take_sleb(c) * common->data_align;
		return true;
	case 0x13: /* def_cfa_offset_sf */
		f->cfa_offset = take_sleb(c) * common->data_align;
		return true;
	case 0x0f: /* def_cfa_expression */
		where = take_expression(c, true, &offset);
		f->cfa = where == CFI_ON_FP ? UNWIND_SAVED : UNWIND_OTHER;
		f->saved_on_sp = where == CFI_ON_SP;
		f->cfa_offset = offset;
		return true;
	case 0x2e: /* GNU_args_size */
		take_uleb(c);
		return true;
	}
	return false;
}

/* An instruction that says where a register's value is, with the operation in the whole byte. False: it is none. */
static bool place_register(struct cfi_frame *f, unsigned op, struct cursor *c, const struct common *common,
			   const struct cfi_frame *initial)
{
	uint64_t reg = take_uleb(c);
	int64_t offset = 0;
	enum cfi_where where;

	switch (op) {
	case 0x05: /* offset_extended */
		set(f, reg, CFI_ON_CFA, (int64_t)take_uleb(c) * common->data_align);
		return true;
	case 0x11: /* offset_extended_sf */
		set(f, reg, CFI_ON_CFA, take_sleb(c) * common->data_align);
		return true;
	case 0x06: /* restore_extended */
		restore(f, reg, initial);
		return true;
	case 0x07: /* undefined */
		set(f, reg, CFI_UNDEFINED, 0);
		return true;
	case 0x08: /* same_value */
		set(f, reg, CFI_UNCHANGED, 0);
		return true;
	case 0x09: /* register */
	case 0x14: /* val_offset */
		take_uleb(c);
		set(f, reg, CFI_ELSEWHERE, 0);
		return true;
	case 0x15: /* val_offset_sf */
		take_sleb(c);
		set(f, reg, CFI_ELSEWHERE, 0);
		return true;
	case 0x10: /* expression */
		where = take_expression(c, false, &offset);
		set(f, reg, where, offset);
		return true;
	case 0x16: /* val_expression */
		take_expression(c, false, &offset);
		set(f, reg, CFI_ELSEWHERE, 0);
		return true;
	}
	return false;
}

/* Runs a program from address `from` as far as it concerns pc. False: not understood. */
static bool run(struct cfi_frame *f, struct cursor c, const struct common *common, uint64_t from, uint64_t pc,
		const struct cfi_frame *initial)
{
	struct cfi_frame remembered[REMEMBERED];
	unsigned nr_remembered = 0;

	while (c.at < c.end && !c.bad) {
		unsigned op = (unsigned)take(&c, 1), low = op & 0x3f;

		if (op >> 6 == 1)
			from += low * common->code_align;
		else if (op >> 6 == 2)
			set(f, low, CFI_ON_CFA, (int64_t)take_uleb(&c) * common->data_align);
		else if (op >> 6 == 3)
			restore(f, low, initial);
		else if (op == 0x01) /* set_loc */
			from = take_pointer(&c, common->encoding);
		else if (op >= 0x02 && op <= 0x04) /* advance_loc1, 2, 4 */
			from += take(&c, 1u << (op - 2)) * common->code_align;
		else if (op == 0x0a && nr_remembered < REMEMBERED) /* remember_state */
			remembered[nr_remembered++] = *f;
		else if (op == 0x0b && nr_remembered) /* restore_state */
			*f = remembered[--nr_remembered];
		else if (!place_cfa(f, op, &c, common) && !place_register(f, op, &c, common, initial))
			return false;
		if (from > pc)
			break;
	}
	return !c.bad;
}

bool cfi_frame_at(const struct unwind_object *object, uint64_t pc, struct cfi_frame *f)
{
	const uint8_t *at = description_of(object, pc);
	struct common common;
	struct cfi_frame initial;
	struct cursor c;
	uint64_t start, bytes;
	int32_t back;

	*f = (struct cfi_frame){ .cfa = UNWIND_OTHER, .ra = { .where = CFI_ELSEWHERE } };
	if (!at)
		return false;
	c = entry_at(object, at);
	back = (int32_t)take(&c, 4);
	if (c.bad || !parse_common(entry_at(object, at + 4 - back), &common))
		return false;
	start = take_pointer(&c, common.encoding);
	bytes = take_pointer(&c, common.encoding & PE_FORMAT);
	if (common.augmented)
		skip(&c, take_uleb(&c));
	if (c.bad || pc - start >= bytes || !run(f, common.program, &common, start, UINT64_MAX, f))
		return false;
	f->is_signal = common.is_signal;
	initial = *f;
	return run(f, c, &common, start, pc, &initial);
}
