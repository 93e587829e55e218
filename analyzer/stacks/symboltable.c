/* SPDX-License-Identifier: MIT */
/* A file's functions, sorted by address; see symboltable.h. */
#include "analyzer/stacks/symboltable.h"

#include <stdlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/sorted.h"

#define NESTED_MAX 64 /* how many functions before the address are looked at for one that holds it */

struct symboltable_entry {
	GElf_Addr address;
	GElf_Xword size;
	const char *name;
	int rank; /* of names for the same bytes: global 2, weak 1, local 0 */
};

static int rank_of(const GElf_Sym *sym)
{
	unsigned binding = GELF_ST_BIND(sym->st_info);

	return binding == STB_GLOBAL ? 2 : binding == STB_WEAK ? 1 : 0;
}

/* By address; of equal ones the better name last, where a search from the end meets it first. */
static int compare(const void *a, const void *b)
{
	const struct symboltable_entry *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->rank - y->rank;
}

void symboltable_make(struct symboltable *t, Dwfl_Module *module)
{
	int nr = dwfl_module_getsymtab(module);

	t->made = true;
	t->entry = nr > 0 ? heap_alloc((size_t)nr, sizeof(*t->entry)) : NULL;
	for (int i = 1; t->entry && i < nr; i++) {
		GElf_Addr address;
		GElf_Sym sym;
		const char *name = dwfl_module_getsym_info(module, i, &sym, &address, NULL, NULL, NULL);
		unsigned type = GELF_ST_TYPE(sym.st_info);

		if (name && *name && sym.st_size && sym.st_shndx != SHN_UNDEF &&
		    (type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE))
			t->entry[t->nr++] =
				(struct symboltable_entry){ address, sym.st_size, name, rank_of(&sym) };
	}
	if (t->nr)
		qsort(t->entry, t->nr, sizeof(*t->entry), compare);
}

void symboltable_release(struct symboltable *t)
{
	free(t->entry);
	*t = (struct symboltable){ 0 };
}

const char *symboltable_find(const struct symboltable *t, GElf_Addr address)
{
	size_t after = sorted_up_to(t->entry, t->nr, sizeof(*t->entry),
				     offsetof(struct symboltable_entry, address), address);

	for (size_t i = 0; i < NESTED_MAX && i < after; i++) {
		const struct symboltable_entry *e = &t->entry[after - 1 - i];

		if (address - e->address < e->size)
			return e->name;
	}
	return NULL;
}
