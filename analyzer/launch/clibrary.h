/* SPDX-License-Identifier: MIT */
/* The C library that a program is linked with: what is preloaded into it needs glibc. */
#ifndef VT_CLIBRARY_H
#define VT_CLIBRARY_H

/*
 * Look at what will be executed as PROGRAM: a file, else what PATH has of that name; of a script its interpreter.
 * Returns RUN_TROUBLE after a message when it is linked with musl; 0 when it is not, and when it cannot be told.
 */
int clibrary_check(const char *program);

#endif
