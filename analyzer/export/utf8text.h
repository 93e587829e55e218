/* SPDX-License-Identifier: MIT */
/* Texts of a recording may hold any byte; formats that demand UTF-8 get '?' for what is none. */
#ifndef VT_UTF8TEXT_H
#define VT_UTF8TEXT_H

#include <stddef.h>

/* Replace what of the text is not UTF-8, in place. */
void utf8text_clean(char *text, size_t len);

#endif
