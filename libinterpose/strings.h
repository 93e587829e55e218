/* SPDX-License-Identifier: MIT */
/*
 * Texts that events name by id: ranges, domains, autograd nodes, and functions that no table lists. A text's
 * definition is committed before its id is given out. Any thread, while recording; takes none of the program's
 * locks and memory. Call with the thread's `busy` set: a signal handler must find it so.
 */
#ifndef IP_STRINGS_H
#define IP_STRINGS_H

#include <stddef.h>
#include <stdint.h>

/* The TFMT_DEF_STRING id of a text (not NUL-terminated); 0 = not to be had: too many, or it could not be written. */
uint32_t ip_string(const char *text, size_t len);

/*
 * ip_string() of a text of a kind of which there are few, such as names of classes: there is room for it when the
 * program has used up the rest.
 */
uint32_t ip_string_few(const char *text, size_t len);

/* The TFMT_DEF_FUNCTION id of a name that hooks.def does not list; 0 = not to be had. */
uint16_t ip_function_named(const char *name);

#endif
