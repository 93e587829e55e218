/* SPDX-License-Identifier: MIT */
/*
 * The functions of one file in order of address. elfutils looks through the whole symbol table at every question, which
 * takes 10 ms in PyTorch's largest library; sorted once, a question takes 20 steps.
 */
#ifndef VT_SYMBOLTABLE_H
#define VT_SYMBOLTABLE_H

#include <elfutils/libdwfl.h>
#include <stdbool.h>
#include <stddef.h>

struct symbol_entry;

struct symbol_table {
	struct symbol_entry *entry;
	size_t nr;
	bool made;
};

/* Read the module's symbols; without memory the table stays empty. The names are the module's. */
void symbol_table_make(struct symbol_table *t, Dwfl_Module *module);
void symbol_table_release(struct symbol_table *t);

/*
 * The name of the function whose bytes hold the address (of the module's session), NULL if there is none: symbols
 * without a size have no bytes. Of several names the one that other files can see.
 */
const char *symbol_table_find(const struct symbol_table *t, GElf_Addr address);

#endif
