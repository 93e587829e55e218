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

struct symboltable_entry;

struct symboltable {
	struct symboltable_entry *entry;
	size_t nr;
	bool made;
};

/* Read the module's symbols; without memory the table stays empty. The names are the module's. */
void symboltable_make(struct symboltable *t, Dwfl_Module *module);
void symboltable_release(struct symboltable *t);

/*
 * The name of the function whose bytes hold the address (of the module's session), NULL if there is none: symbols
 * without a size have no bytes. Of several names the one that other files can see.
 */
const char *symboltable_find(const struct symboltable *t, GElf_Addr address);

#endif
