/* SPDX-License-Identifier: MIT */
/* Loaded objects and their symbols, by the loader's list and their ELF tables; see objects.h. */
#include "objects.h"

#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define VERSION_HIDDEN 0x8000 /* in .gnu.version: not the default version of its symbol */

/* What the dynamic section says of an object. */
struct dynamic {
	const ElfW(Dyn) *entries;
	const char *strings;
	const ElfW(Sym) *symbols;
	const ElfW(Half) *versions;
	const uint32_t *gnu_hash;
	const uint32_t *hash;
	const char *soname;
};

/* The loader adds where the object lies to the addresses in its dynamic section; it leaves those of the vDSO alone. */
static const void *section(const struct dl_phdr_info *o, const ElfW(Dyn) *d)
{
	return (const void *)(d->d_un.d_ptr < o->dlpi_addr ? o->dlpi_addr + d->d_un.d_ptr : d->d_un.d_ptr);
}

static bool read_dynamic(const struct dl_phdr_info *o, struct dynamic *out)
{
	const ElfW(Dyn) *soname = NULL;

	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_DYNAMIC)
			out->entries = (const ElfW(Dyn) *)(o->dlpi_addr + o->dlpi_phdr[i].p_vaddr);
	for (const ElfW(Dyn) *d = out->entries; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			out->strings = section(o, d);
		else if (d->d_tag == DT_SYMTAB)
			out->symbols = section(o, d);
		else if (d->d_tag == DT_VERSYM)
			out->versions = section(o, d);
		else if (d->d_tag == DT_GNU_HASH)
			out->gnu_hash = section(o, d);
		else if (d->d_tag == DT_HASH)
			out->hash = section(o, d);
		else if (d->d_tag == DT_SONAME)
			soname = d;
	}
	if (out->strings && soname)
		out->soname = out->strings + soname->d_un.d_val;
	return out->strings && out->symbols;
}

static const char *name_of(const struct dl_phdr_info *o, const struct dynamic *d)
{
	const char *slash = strrchr(o->dlpi_name, '/');

	return d->soname ? d->soname : slash ? slash + 1 : o->dlpi_name;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool holds(const struct dl_phdr_info *o, const void *address)
{
	for (unsigned i = 0; i < o->dlpi_phnum; i++)
		if (o->dlpi_phdr[i].p_type == PT_LOAD &&
		    (uintptr_t)address - (o->dlpi_addr + o->dlpi_phdr[i].p_vaddr) < o->dlpi_phdr[i].p_memsz)
			return true;
	return false;
}

/* ---- symbols ----------------------------------------------------------------------------------- */

static void *defined(const struct dl_phdr_info *o, const struct dynamic *d, uint32_t i, const char *name)
{
	const ElfW(Sym) *s = &d->symbols[i];
	unsigned type = ELF64_ST_TYPE(s->st_info), binding = ELF64_ST_BIND(s->st_info);

	if (s->st_shndx == SHN_UNDEF || binding == STB_LOCAL || type > STT_FUNC ||
	    strcmp(d->strings + s->st_name, name))
		return NULL;
	if (d->versions && d->versions[i] & VERSION_HIDDEN)
		return NULL;
	return (void *)(o->dlpi_addr + s->st_value);
}

static void *by_gnu_hash(const struct dl_phdr_info *o, const struct dynamic *d, const char *name)
{
	uint32_t nr_buckets = d->gnu_hash[0], first = d->gnu_hash[1], nr_words = d->gnu_hash[2], h = 5381, i;
	const ElfW(Addr) *bloom = (const ElfW(Addr) *)(const void *)(d->gnu_hash + 4);
	const uint32_t *buckets = (const uint32_t *)(bloom + nr_words), *chain = buckets + nr_buckets - first;
	unsigned bits = 8 * sizeof(*bloom);
	ElfW(Addr) word;
	void *found;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++)
		h = h * 33 + *c;
	word = bloom[h / bits % nr_words];
	if (!(word >> h % bits & 1) || !(word >> (h >> d->gnu_hash[3]) % bits & 1) || !nr_buckets)
		return NULL;
	for (i = buckets[h % nr_buckets]; i; i++) {
		found = (chain[i] | 1) == (h | 1) ? defined(o, d, i, name) : NULL;
		if (found || chain[i] & 1)
			return found;
	}
	return NULL;
}

static void *by_hash(const struct dl_phdr_info *o, const struct dynamic *d, const char *name)
{
	uint32_t nr_buckets = d->hash[0], h = 0;
	const uint32_t *buckets = d->hash + 2, *chain = buckets + nr_buckets;
	void *found = NULL;

	for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
		h = (h << 4) + *c;
		h ^= h >> 24 & 0xf0;
	}
	h &= 0x0fffffff;
	for (uint32_t i = nr_buckets ? buckets[h % nr_buckets] : 0; i && !found; i = chain[i])
		found = defined(o, d, i, name);
	return found;
}

static void *symbol_in(const struct dl_phdr_info *o, const struct dynamic *d, const char *name)
{
	if (d->gnu_hash)
		return by_gnu_hash(o, d, name);
	return d->hash ? by_hash(o, d, name) : NULL;
}

/* ---- walks of the loader's list, in the order of loading ------------------------------------------ */

static _Atomic unsigned nr_first; /* objects that the program began with */

static int count_one(struct dl_phdr_info *o, size_t size, void *arg)
{
	(void)o;
	(void)size;
	++*(unsigned *)arg;
	return 0;
}

void ip_objects_init(void)
{
	unsigned nr = 0, unknown = 0;

	if (atomic_load_explicit(&nr_first, memory_order_relaxed))
		return;
	dl_iterate_phdr(count_one, &nr);
	atomic_compare_exchange_strong(&nr_first, &unknown, nr);
}

struct search {
	const char *name, *symbol; /* of the object: how its name begins */
	const void *address, *other;
	char *out;
	size_t size;
	unsigned position;
	bool passed_us;
	void *found;
	uint64_t nr_unloaded;
};

static int find_in_named(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct search *s = arg;
	struct dynamic d;

	(void)size;
	if (!read_dynamic(o, &d) || !begins(name_of(o, &d), s->name))
		return 0;
	s->found = s->symbol ? symbol_in(o, &d, s->symbol) : (void *)d.entries;
	return s->found != NULL;
}

void *ip_symbol_of(const char *name, const char *symbol)
{
	struct search s = { .name = name, .symbol = symbol };

	dl_iterate_phdr(find_in_named, &s);
	return s.found;
}

bool ip_object_loaded(const char *name)
{
	struct search s = { .name = name };

	return dl_iterate_phdr(find_in_named, &s);
}

static int find_after_us(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct search *s = arg;
	struct dynamic d;

	(void)size;
	if (s->position++ >= atomic_load_explicit(&nr_first, memory_order_relaxed))
		return 1;
	if (!s->passed_us)
		s->passed_us = holds(o, (const void *)(uintptr_t)ip_symbol_next);
	else if (read_dynamic(o, &d))
		s->found = symbol_in(o, &d, s->symbol);
	return s->found != NULL;
}

void *ip_symbol_next(const char *symbol)
{
	struct search s = { .symbol = symbol };

	ip_objects_init();
	dl_iterate_phdr(find_after_us, &s);
	return s.found;
}

void *ip_symbol_libc(const char *symbol)
{
	void *found = ip_symbol_next(symbol);

	if (!found)
		found = ip_symbol_of("libc.so", symbol);
	return found ? found : ip_symbol_of("libdl.so", symbol);
}

static int find_needed(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct search *s = arg;
	struct dynamic d;

	(void)size;
	if (!holds(o, s->address))
		return 0;
	if (!read_dynamic(o, &d))
		return 1;
	for (const ElfW(Dyn) *e = d.entries; e->d_tag != DT_NULL; e++)
		if (e->d_tag == DT_NEEDED && begins(d.strings + e->d_un.d_val, s->name)) {
			snprintf(s->out, s->size, "%s", d.strings + e->d_un.d_val);
			return 1;
		}
	return 1;
}

void *ip_symbol_needed(const void *caller, const char *name, const char *symbol)
{
	char needed[256] = "";
	struct search s = { .address = caller, .name = name, .out = needed, .size = sizeof(needed) };

	dl_iterate_phdr(find_needed, &s);
	return needed[0] ? ip_symbol_of(needed, symbol) : NULL;
}

/* ---- what a library brought along --------------------------------------------------------------- */

/* Used under the loader's own lock, which a walk of its list holds. Objects beyond so many are not looked at. */
#define MAX_OBJECTS 2048u
static struct object {
	struct dl_phdr_info info;
	struct dynamic dynamic;
	bool is_first, needs_caller, is_beside;
} objects[MAX_OBJECTS];

struct listed {
	const char *symbol;
	const void *caller;
	unsigned nr, position;
	void *found;
};

static int list_one(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct listed *l = arg;
	struct object *new = &objects[l->nr];

	(void)size;
	if (l->nr == MAX_OBJECTS)
		return 1;
	*new = (struct object){ .info = *o };
	new->is_first = l->position++ < atomic_load_explicit(&nr_first, memory_order_relaxed);
	l->nr += read_dynamic(o, &new->dynamic);
	return 0;
}

static bool needs(const struct object *o, const struct object *other)
{
	const char *name = name_of(&other->info, &other->dynamic), *needed, *slash;

	for (const ElfW(Dyn) *e = o->dynamic.entries; e->d_tag != DT_NULL; e++) {
		if (e->d_tag != DT_NEEDED)
			continue;
		needed = o->dynamic.strings + e->d_un.d_val;
		slash = strrchr(needed, '/'); /* linked with a library that has no soname */
		if (!strcmp(slash ? slash + 1 : needed, name))
			return true;
	}
	return false;
}

/* Mark those which need an object, and those which need them, and so on. */
static void mark_needing(unsigned nr, struct object *o)
{
	o->needs_caller = true;
	for (unsigned i = 0; i < nr; i++)
		if (!objects[i].needs_caller && needs(&objects[i], o))
			mark_needing(nr, &objects[i]);
}

static void mark_beside(unsigned nr, struct object *o)
{
	o->is_beside = true;
	for (unsigned i = 0; i < nr; i++)
		if (!objects[i].is_beside && needs(o, &objects[i]))
			mark_beside(nr, &objects[i]);
}

static void find_beside(struct listed *l)
{
	struct object *o = objects, *end = objects + l->nr;

	while (o < end && !holds(&o->info, l->caller))
		o++;
	if (o == end || o->is_first)
		return;
	mark_needing(l->nr, o);
	for (o = objects; o < end; o++)
		if (o->needs_caller && !o->is_first && !o->is_beside)
			mark_beside(l->nr, o);
	for (o = objects; o < end && !l->found; o++)
		if (o->is_beside && !holds(&o->info, (const void *)(uintptr_t)ip_symbol_next))
			l->found = symbol_in(&o->info, &o->dynamic, l->symbol);
}

/* Of the outer walk only the lock is used: it is held until this returns. */
static int list_and_find(struct dl_phdr_info *o, size_t size, void *arg)
{
	(void)o;
	(void)size;
	dl_iterate_phdr(list_one, arg);
	find_beside(arg);
	return 1;
}

static int find_elsewhere(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct search *s = arg;
	struct dynamic d;

	(void)size;
	if (read_dynamic(o, &d) && !holds(o, (const void *)(uintptr_t)ip_symbol_next))
		s->found = symbol_in(o, &d, s->symbol);
	return s->found != NULL;
}

void *ip_symbol_elsewhere(const char *symbol)
{
	struct search s = { .symbol = symbol };

	dl_iterate_phdr(find_elsewhere, &s);
	return s.found;
}

void *ip_symbol_beside(const void *caller, const char *symbol)
{
	struct listed l = { .symbol = symbol, .caller = caller };

	ip_objects_init();
	/* Walking the needs of hundreds of libraries is only for what one of them has. */
	if (ip_symbol_elsewhere(symbol))
		dl_iterate_phdr(list_and_find, &l);
	return l.found;
}

static int find_in_us(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct search *s = arg;
	struct dynamic d;

	(void)size;
	if (!holds(o, (const void *)(uintptr_t)ip_symbol_next))
		return 0;
	s->found = read_dynamic(o, &d) ? symbol_in(o, &d, s->symbol) : NULL;
	return 1;
}

void *ip_symbol_ours(const char *symbol)
{
	struct search s = { .symbol = symbol };

	dl_iterate_phdr(find_in_us, &s);
	return s.found;
}

static int find_holder(struct dl_phdr_info *o, size_t size, void *arg)
{
	struct search *s = arg;
	struct dynamic d;

	(void)size;
	if (!holds(o, s->address))
		return 0;
	s->found = s->other ? holds(o, s->other) ? (void *)s->other : NULL : (void *)s->address;
	if (s->out) {
		read_dynamic(o, &d);
		snprintf(s->out, s->size, "%s", name_of(o, &d));
	}
	return 1;
}

bool ip_object_name(const void *address, char *name, size_t size)
{
	struct search s = { .address = address, .out = name, .size = size };

	dl_iterate_phdr(find_holder, &s);
	return s.found;
}

bool ip_same_object(const void *a, const void *b)
{
	struct search s = { .address = a, .other = b };

	dl_iterate_phdr(find_holder, &s);
	return s.found;
}

static int read_unloaded(struct dl_phdr_info *o, size_t size, void *arg)
{
	(void)size;
	((struct search *)arg)->nr_unloaded = o->dlpi_subs;
	return 1;
}

uint64_t ip_objects_unloaded(void)
{
	struct search s = { 0 };

	dl_iterate_phdr(read_unloaded, &s);
	return s.nr_unloaded;
}
