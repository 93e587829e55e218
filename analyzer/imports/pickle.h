/* SPDX-License-Identifier: MIT */
/*
 * Python's pickles of protocols 0 to 5, read without executing anything: dicts, lists, tuples, texts, integers of 64 bits,
 * floats, booleans, None. What would call or import something ends the reading.
 *
 * A *value* is a number, or the name of an *object*: a text or a container. Objects live as long as the stack, the memo or
 * another object has them. The *memo* keeps what the pickle may come back to, so that a large file would grow into a tree
 * of many times its size: hooks see each entry as it enters its container, may take out what they need, and let go of it.
 *
 * Memory is bounded by a multiple of the bytes read, nothing recurses. Single-threaded. Memory running out ends the process.
 */
#ifndef VT_PICKLE_H
#define VT_PICKLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pickle_type {
	PICKLE_NONE,
	PICKLE_BOOL,
	PICKLE_INT,
	PICKLE_FLOAT,
	PICKLE_OWN, /* a hook's own number, in the place of what it took out of */
	PICKLE_TEXT,
	PICKLE_LIST,
	PICKLE_TUPLE,
	PICKLE_DICT, /* its items are keys and values in turn, as they came; a key may come twice */
};

struct pickle_value {
	uint32_t type;   /* enum pickle_type */
	uint32_t object; /* of TEXT, LIST, TUPLE and DICT */
	union {
		int64_t integer; /* of BOOL, INT and OWN */
		double real;
	};
};

struct pickle;

struct pickle_hooks {
	void *ctx;
	/* Texts to be told by number; the first is number 1. Ends with NULL. */
	const char *const *words;
	/* A value, which is whole, is about to enter a dict; it may be changed with pickle_own(). */
	void (*set)(void *ctx, struct pickle *p, struct pickle_value key, struct pickle_value *value);
	/* An item, which is whole, is about to enter a list. True: it is not to; nothing in the pickle may name it again. */
	bool (*append)(void *ctx, struct pickle *p, struct pickle_value list, struct pickle_value item);
};

/* Read from a descriptor, which stays the caller's. `hooks` are needed until pickle_close(). */
struct pickle *pickle_open(int fd, const struct pickle_hooks *hooks);
void pickle_close(struct pickle *p);

/*
 * Read up to the pickle's end. Returns 0 and its value, which is valid until pickle_close(); or -1, and pickle_trouble()
 * says in one lower-case sentence with the byte offset why not.
 */
int pickle_read(struct pickle *p, struct pickle_value *top);
const char *pickle_trouble(const struct pickle *p);

/* Bytes read so far. */
uint64_t pickle_bytes(const struct pickle *p);

/* A text, which is terminated, too, but may hold NULs; "" of other values. */
const char *pickle_text(const struct pickle *p, struct pickle_value v, size_t *len);

/* The number of a text among the hooks' words; 0 = none of them. */
unsigned pickle_word(const struct pickle *p, struct pickle_value v);

/* Items of a container, and how many; none of other values. Valid until the next opcode, or pickle_clear(). */
const struct pickle_value *pickle_items(const struct pickle *p, struct pickle_value v, uint32_t *nr);

/* The value of a dict by the number of a word; NONE if there is none. */
struct pickle_value pickle_get(const struct pickle *p, struct pickle_value dict, unsigned word);

/* A number of the caller's with each object, 0 at first. Not of other values. */
uint32_t *pickle_tag(struct pickle *p, struct pickle_value v);

/* Take all items out of a container. */
void pickle_clear(struct pickle *p, struct pickle_value v);

#endif
