/* SPDX-License-Identifier: MIT */
/*
 * One HTML file that needs nothing else: the page that was built into the program (page/), and in it a JSON text,
 * compressed, which the browser inflates and draws.
 */
#ifndef VT_WEBPAGE_H
#define VT_WEBPAGE_H

#include <stddef.h>
#include <stdio.h>

/* A JSON text as it lies in the page: compressed and in characters. */
struct webpage {
	char *data;
	size_t len;
};

/* To be released. */
void webpage_pack(struct webpage *w, const char *json, size_t len);
void webpage_release(struct webpage *w);

/* How large the whole file is, in bytes. */
size_t webpage_size(const struct webpage *w);

/* Write it; errors stay in the FILE. */
void webpage_write(FILE *out, const struct webpage *w);

#endif
