/* SPDX-License-Identifier: MIT */
/*
 * A set of texts, each with what it is: the strings of a recording, or the names that stand for them. Texts have a
 * length and may hold any byte. Pointers to members stay valid. Single-threaded; memory running out ends the process
 * with a message.
 */
#ifndef VT_TEXTSET_H
#define VT_TEXTSET_H

#include <stddef.h>
#include <stdint.h>

struct textset_member {
	unsigned kind;
	unsigned number;   /* among those of its kind, from 1, in the order of arrival */
	size_t len;
	char *replacement; /* the caller's, NULL at first; freed with the set */
	char text[];       /* terminated, too */
};

struct textset {
	struct textset_member **member; /* in the order of arrival */
	size_t nr_members;
	uint32_t *slot; /* by hash: index + 1 */
	size_t nr_slots, room;
	unsigned nr_of_kind[32];
};

/* The member with this kind (below 32) and text, a new one if need be. */
struct textset_member *textset_add(struct textset *s, unsigned kind, const char *text, size_t len);
void textset_release(struct textset *s);

/* Terminated text with this format, never NULL. The caller's to free(). */
char *textset_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
