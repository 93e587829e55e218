/* SPDX-License-Identifier: MIT */
/*
 * Call frame information (DWARF 5, section 6.4, as the System V ABI stores it in .eh_frame) of one address,
 * condensed to a rule. Only stack and frame pointer and return address are followed: nothing else leads to
 * a caller.
 */
#include "unwind_rules.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

enum { PE_ABSOLUTE = 0x00, PE_ULEB128 = 0x01, PE_UDATA2 = 0x02, PE_UDATA4 = 0x03, PE_UDATA8 = 0x04,
       PE_SLEB128 = 0x09, PE_SDATA2 = 0x0a, PE_SDATA4 = 0x0b, PE_SDATA8 = 0x0c,
       PE_FORMAT = 0x0f, PE_RELATION = 0x70, PE_PC_RELATIVE = 0x10, PE_INDIRECT = 0x80, PE_TABLE = 0x3b };

enum { OP_BREG = 0x70, OP_DEREF = 0x06 };

#define NOTES_MAX 1024     /* bytes */
#define SMALL_FUNCTIONS 32 /* of a small object */
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
	bool is_signal; /* a signal's frame, whose address is not behind a call */
	struct cursor program;
};

/* An entry of .eh_frame, without its length. 64-bit entries are no compiler's. */
static struct cursor entry_at(const struct unwind_object *o, const uint8_t *at)
{
	struct cursor c = { .bad = true };
	const uint8_t *end = (const uint8_t *)(uintptr_t)(o->start + o->bytes);
	uint32_t len;

	if ((uintptr_t)at < o->start || at + 8 > end)
		return c;
	memcpy(&len, at, 4);
	if (len < 4 || len == UINT32_MAX || len > (uint64_t)(end - at) - 4)
		return c;
	return (struct cursor){ .at = at + 4, .end = at + 4 + len };
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

enum where { UNCHANGED, ON_CFA, ON_FP, ON_SP, UNDEFINED, ELSEWHERE };

struct place {
	enum where where;
	int64_t offset;
};

struct frame {
	enum unwind_kind cfa;
	int64_t cfa_offset;
	struct place fp, sp, ra;
	bool saved_on_sp; /* cfa UNWIND_OTHER is what is stored at sp + offset */
};

static void set(struct frame *f, uint64_t reg, enum where where, int64_t offset)
{
	struct place *p = NULL;

	if (reg == ARCH_REG_FP)
		p = &f->fp;
	else if (reg == ARCH_REG_SP)
		p = &f->sp;
	else if (reg == ARCH_REG_RA)
		p = &f->ra;
	if (p)
		*p = (struct place){ where, offset };
}

static void restore(struct frame *f, uint64_t reg, const struct frame *initial)
{
	if (reg == ARCH_REG_FP)
		f->fp = initial->fp;
	else if (reg == ARCH_REG_SP)
		f->sp = initial->sp;
	else if (reg == ARCH_REG_RA)
		f->ra = initial->ra;
}

static void set_cfa_register(struct frame *f, uint64_t reg)
{
	f->cfa = reg == ARCH_REG_SP ? UNWIND_SP : reg == ARCH_REG_FP ? UNWIND_FP : UNWIND_OTHER;
	f->saved_on_sp = false;
}

/* An expression that is fp or sp + offset, or what is stored there: ON_FP or ON_SP, else ELSEWHERE. */
static enum where take_expression(struct cursor *c, bool stored, int64_t *offset)
{
	uint64_t bytes = take_uleb(c), base;
	struct cursor e = *c;

	skip(c, bytes);
	if (c->bad)
		return ELSEWHERE;
	e.end = c->at;
	base = take(&e, 1) - OP_BREG;
	*offset = take_sleb(&e);
	if ((stored && take(&e, 1) != OP_DEREF) || e.bad || e.at != e.end)
		return ELSEWHERE;
	return base == ARCH_REG_FP ? ON_FP : base == ARCH_REG_SP ? ON_SP : ELSEWHERE;
}

/* Instructions with the operation in the whole byte but those that advance or remember. False: unknown. */
static bool run_operation(struct frame *f, unsigned op, struct cursor *c, const struct common *common,
			  const struct frame *initial)
{
	enum where where;
	int64_t offset = 0;
	uint64_t reg;

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
		f->cfa = where == ON_FP ? UNWIND_SAVED : UNWIND_OTHER;
		f->saved_on_sp = where == ON_SP;
		f->cfa_offset = offset;
		return true;
	case 0x2e: /* GNU_args_size */
		take_uleb(c);
		return true;
	}
	reg = take_uleb(c);
	switch (op) {
	case 0x05: /* offset_extended */
		set(f, reg, ON_CFA, (int64_t)take_uleb(c) * common->data_align);
		return true;
	case 0x11: /* offset_extended_sf */
		set(f, reg, ON_CFA, take_sleb(c) * common->data_align);
		return true;
	case 0x06: /* restore_extended */
		restore(f, reg, initial);
		return true;
	case 0x07: /* undefined */
		set(f, reg, UNDEFINED, 0);
		return true;
	case 0x08: /* same_value */
		set(f, reg, UNCHANGED, 0);
		return true;
	case 0x09: /* register */
	case 0x14: /* val_offset */
		take_uleb(c);
		set(f, reg, ELSEWHERE, 0);
		return true;
	case 0x15: /* val_offset_sf */
		take_sleb(c);
		set(f, reg, ELSEWHERE, 0);
		return true;
	case 0x10: /* expression */
		where = take_expression(c, false, &offset);
		set(f, reg, where, offset);
		return true;
	case 0x16: /* val_expression */
		take_expression(c, false, &offset);
		set(f, reg, ELSEWHERE, 0);
		return true;
	}
	return false;
}

/* Runs a program from address `from` as far as it concerns pc. False: not understood. */
static bool run(struct frame *f, struct cursor c, const struct common *common, uint64_t from, uint64_t pc,
		const struct frame *initial)
{
	struct frame remembered[REMEMBERED];
	unsigned nr_remembered = 0;

	while (c.at < c.end && !c.bad) {
		unsigned op = (unsigned)take(&c, 1), low = op & 0x3f;

		if (op >> 6 == 1)
			from += low * common->code_align;
		else if (op >> 6 == 2)
			set(f, low, ON_CFA, (int64_t)take_uleb(&c) * common->data_align);
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
		else if (!run_operation(f, op, &c, common, initial))
			return false;
		if (from > pc)
			break;
	}
	return !c.bad;
}

static bool fits(int64_t offset)
{
	return !(offset & 7) && offset / 8 >= INT16_MIN && offset / 8 <= INT16_MAX;
}

static struct unwind_rule other(void)
{
	return (struct unwind_rule){ .kind = UNWIND_OTHER };
}

static struct unwind_rule condense(const struct frame *f)
{
	struct unwind_rule rule = { .kind = (uint8_t)f->cfa };

	if (f->ra.where == UNDEFINED)
		return (struct unwind_rule){ .kind = UNWIND_END };
	if (f->cfa == UNWIND_OTHER || f->sp.where != UNCHANGED || f->ra.where != ON_CFA || !fits(f->ra.offset) ||
	    f->ra.offset >= 0 || !fits(f->cfa_offset))
		return other();
	rule.cfa_offset = (int16_t)(f->cfa_offset / 8);
	rule.ra_offset = (int16_t)(f->ra.offset / 8);
	if (f->fp.where == ON_CFA || f->fp.where == ON_FP) {
		if (!fits(f->fp.offset))
			return other();
		rule.fp_where = f->fp.where == ON_CFA ? UNWIND_FP_ON_CFA : UNWIND_FP_ON_FP;
		rule.fp_offset = (int16_t)(f->fp.offset / 8);
	} else if (f->fp.where != UNCHANGED) {
		return other();
	}
	return rule;
}

/* False if nothing describes pc, or not in a way that is understood. */
static bool frame_at(const struct unwind_object *object, uint64_t pc, struct frame *f, bool *is_signal)
{
	const uint8_t *at = description_of(object, pc);
	struct common common;
	struct frame initial;
	struct cursor c;
	uint64_t start, bytes;
	int32_t back;

	*f = (struct frame){ .cfa = UNWIND_OTHER, .ra = { .where = ELSEWHERE } };
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
	initial = *f;
	*is_signal = common.is_signal;
	return run(f, c, &common, start, pc, &initial);
}

struct unwind_rule unwind_rule(const struct unwind_object *object, uint64_t pc)
{
	struct frame f;
	bool is_signal;

	return frame_at(object, pc, &f, &is_signal) && !is_signal ? condense(&f) : other();
}

/* ---- where a frame leads ------------------------------------------------------------------------- */

/* The address of what is stored relative to the frame; 0 if that is no place on the stack. */
static uint64_t place_of(struct place p, const struct unwind_registers *r, uint64_t cfa)
{
	switch (p.where) {
	case ON_CFA:
		return cfa + (uint64_t)p.offset;
	case ON_FP:
		return r->fp + (uint64_t)p.offset;
	case ON_SP:
		return r->sp + (uint64_t)p.offset;
	default:
		return 0;
	}
}

/* The CFA; false if it is stored where nothing can be read, or comes from somewhere else. */
static bool find_cfa(const struct frame *f, const struct unwind_registers *r, bool (*readable)(uint64_t address),
		     uint64_t *cfa)
{
	bool by_sp = f->cfa == UNWIND_SP || f->saved_on_sp;

	if (f->cfa == UNWIND_OTHER && !f->saved_on_sp)
		return false;
	*cfa = (by_sp ? r->sp : r->fp) + (uint64_t)f->cfa_offset;
	if (f->cfa == UNWIND_SP || f->cfa == UNWIND_FP)
		return true;
	if (!readable(*cfa))
		return false;
	*cfa = unwind_load(*cfa);
	return true;
}

bool unwind_can_step(const struct unwind_registers *r, bool interrupted, bool (*readable)(uint64_t address))
{
	uint64_t pc = r->ip - !interrupted, cfa, slot;
	struct unwind_object object;
	struct frame f;
	bool is_signal;

	if (!unwind_object_find(pc, &object) || !frame_at(&object, pc, &f, &is_signal) ||
	    !find_cfa(&f, r, readable, &cfa))
		return false;
	if (f.sp.where != UNCHANGED && f.sp.where != ON_CFA && !is_signal)
		return false;
	slot = place_of(f.fp, r, cfa);
	if (f.fp.where != UNCHANGED && f.fp.where != UNDEFINED && !readable(slot))
		return false;
	if (f.ra.where == UNDEFINED)
		return true;
	slot = place_of(f.ra, r, cfa);
	if (!readable(slot))
		return false;
	pc = arch_code_address(unwind_load(slot));
	return !pc || (readable(pc) && readable(pc + 8));
}

/* ---- objects --------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t hash, uint64_t v)
{
	hash = (hash ^ v) * 0x9e3779b97f4a7c15ull;
	return hash ^ hash >> 32;
}

static uint64_t mix_bytes(uint64_t hash, const uint8_t *at, uint64_t bytes)
{
	uint64_t v;

	for (; bytes >= 8; at += 8, bytes -= 8) {
		memcpy(&v, at, 8);
		hash = mix(hash, v);
	}
	return hash;
}

/* Notes hold the build id. */
static uint64_t mix_image(uint64_t hash, const struct unwind_object *o)
{
	const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)(uintptr_t)o->start;
	const ElfW(Phdr) *p;
	uint64_t base = 0;
	bool mapped = false;

	if (memcmp(e->e_ident, ELFMAG, SELFMAG) || e->e_phentsize != sizeof(*p))
		return hash;
	p = (const ElfW(Phdr) *)(uintptr_t)(o->start + e->e_phoff);
	for (unsigned i = 0; i < e->e_phnum; i++)
		if (p[i].p_type == PT_LOAD && p[i].p_offset == 0) {
			base = o->start - p[i].p_vaddr;
			mapped = true;
		}
	for (unsigned i = 0; mapped && i < e->e_phnum; i++)
		if (p[i].p_type == PT_NOTE && p[i].p_filesz <= NOTES_MAX)
			hash = mix_bytes(hash, (const uint8_t *)(uintptr_t)(base + p[i].p_vaddr), p[i].p_filesz);
	return hash;
}

/*
 * What compilers make at run time may lack a build id and be alike in all sizes, but it is small: so its
 * frame descriptions themselves are part of what it is.
 */
static uint64_t mix_descriptions(uint64_t hash, const struct unwind_object *o)
{
	const int32_t *table = (const int32_t *)(const void *)(o->header + 12);
	uint32_t functions;

	memcpy(&functions, o->header + 8, 4);
	for (uint32_t i = 0; functions <= SMALL_FUNCTIONS && i < functions; i++) {
		struct cursor c = entry_at(o, o->header + table[2 * i + 1]);

		hash = mix(hash, (uint64_t)(int64_t)table[2 * i]);
		if (!c.bad)
			hash = mix_bytes(hash, c.at, (uint64_t)(c.end - c.at));
	}
	return hash;
}

/* Fills the object but for its place. The header must be the one that every linker writes. */
static bool describe(struct unwind_object *o, const void *header, uint64_t map)
{
	static const uint8_t usual[4] = { 1, PE_PC_RELATIVE | PE_SDATA4, PE_UDATA4, PE_TABLE };
	uint64_t sizes; /* where .eh_frame is and how many functions it describes */

	if (!header || memcmp(header, usual, 4))
		return false;
	o->header = header;
	memcpy(&sizes, o->header + 4, 8);
	o->identity = mix(mix(mix(o->start, o->bytes), map), sizes);
	o->identity = mix_descriptions(mix_image(mix(o->identity, (uintptr_t)header), o), o);
	return true;
}

#if __GLIBC_PREREQ(2, 35)

bool unwind_object_find(uint64_t address, struct unwind_object *object)
{
	struct dl_find_object found;

	if (_dl_find_object((void *)(uintptr_t)address, &found))
		return false;
	object->start = (uintptr_t)found.dlfo_map_start;
	object->bytes = (uintptr_t)found.dlfo_map_end - object->start;
	return describe(object, found.dlfo_eh_frame, (uintptr_t)found.dlfo_link_map);
}

#else

struct search {
	uint64_t address;
	struct unwind_object *object;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	const void *header = NULL;
	uint64_t start = UINT64_MAX, end = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_GNU_EH_FRAME)
			header = (const void *)(uintptr_t)at;
		if (p->p_type != PT_LOAD)
			continue;
		start = at < start ? at : start;
		end = at + p->p_memsz > end ? at + p->p_memsz : end;
	}
	if (s->address < start || s->address >= end)
		return 0;
	s->object->start = start;
	s->object->bytes = end - start;
	return describe(s->object, header, (uintptr_t)info->dlpi_phdr ^ info->dlpi_subs << 48) ? 1 : -1;
}

/* Under a lock of the loader, as libgcc does with such a C library at every frame. */
bool unwind_object_find(uint64_t address, struct unwind_object *object)
{
	struct search s = { address, object };

	return dl_iterate_phdr(search_object, &s) > 0;
}

#endif
