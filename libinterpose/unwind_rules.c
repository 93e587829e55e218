/* SPDX-License-Identifier: MIT */
/*
 * What is made of call frame information (unwind_cfi.h): a rule of the table walker, the verdict on a step of
 * another unwinder, and what tells a loaded object from another.
 */
#include "unwind_rules.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "unwind_cfi.h"

#define NOTES_MAX 1024     /* bytes */
#define SMALL_FUNCTIONS 32 /* of a small object */

static bool fits(int64_t offset)
{
	return !(offset & 7) && offset / 8 >= INT16_MIN && offset / 8 <= INT16_MAX;
}

static struct unwind_rule other(void)
{
	return (struct unwind_rule){ .kind = UNWIND_OTHER };
}

static struct unwind_rule condense(const struct cfi_frame *f)
{
	struct unwind_rule rule = { .kind = (uint8_t)f->cfa };

	if (f->ra.where == CFI_UNDEFINED)
		return (struct unwind_rule){ .kind = UNWIND_END };
	if (f->cfa == UNWIND_OTHER || f->sp.where != CFI_UNCHANGED || f->ra.where != CFI_ON_CFA || !fits(f->ra.offset) ||
	    f->ra.offset >= 0 || !fits(f->cfa_offset))
		return other();
	rule.cfa_offset = (int16_t)(f->cfa_offset / 8);
	rule.ra_offset = (int16_t)(f->ra.offset / 8);
	if (f->fp.where == CFI_ON_CFA || f->fp.where == CFI_ON_FP) {
		if (!fits(f->fp.offset))
			return other();
		rule.fp_where = f->fp.where == CFI_ON_CFA ? UNWIND_FP_ON_CFA : UNWIND_FP_ON_FP;
		rule.fp_offset = (int16_t)(f->fp.offset / 8);
	} else if (f->fp.where != CFI_UNCHANGED) {
		return other();
	}
	return rule;
}

struct unwind_rule unwind_rule(const struct unwind_object *object, uint64_t pc)
{
	struct cfi_frame f;

	return cfi_frame_at(object, pc, &f) && !f.is_signal ? condense(&f) : other();
}

/* ---- where a frame leads ------------------------------------------------------------------------- */

/* The address of what is stored relative to the frame; 0 if that is no place on the stack. */
static uint64_t place_of(struct cfi_place p, const struct unwind_registers *r, uint64_t cfa)
{
	switch (p.where) {
	case CFI_ON_CFA:
		return cfa + (uint64_t)p.offset;
	case CFI_ON_FP:
		return r->fp + (uint64_t)p.offset;
	case CFI_ON_SP:
		return r->sp + (uint64_t)p.offset;
	default:
		return 0;
	}
}

/* The CFA; false if it is stored where nothing can be read, or comes from somewhere else. */
static bool find_cfa(const struct cfi_frame *f, const struct unwind_registers *r, bool (*readable)(uint64_t address),
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
	struct cfi_frame f;

	if (!unwind_object_find(pc, &object) || !cfi_frame_at(&object, pc, &f) ||
	    !find_cfa(&f, r, readable, &cfa))
		return false;
	if (f.sp.where != CFI_UNCHANGED && f.sp.where != CFI_ON_CFA && !f.is_signal)
		return false;
	slot = place_of(f.fp, r, cfa);
	if (f.fp.where != CFI_UNCHANGED && f.fp.where != CFI_UNDEFINED && !readable(slot))
		return false;
	if (f.ra.where == CFI_UNDEFINED)
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
		uint32_t bytes;
		const uint8_t *entry = cfi_entry(o, o->header + table[2 * i + 1], &bytes);

		hash = mix(hash, (uint64_t)(int64_t)table[2 * i]);
		if (entry)
			hash = mix_bytes(hash, entry, bytes);
	}
	return hash;
}

/* Fills the object but for its place. */
static bool describe(struct unwind_object *o, const void *header, uint64_t map)
{
	uint64_t sizes; /* where .eh_frame is and how many functions it describes */

	if (!header || !cfi_header_is_usual(header))
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
