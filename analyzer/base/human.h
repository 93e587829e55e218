/* SPDX-License-Identifier: MIT */
/*
 * Numbers as people read them: binary sizes, durations, grouped counts; and sizes as people type them.
 * Output functions write into the caller's buffer and return it, so that they can stand in a printf call.
 */
#ifndef VT_HUMAN_H
#define VT_HUMAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HUMAN_MAX 32 /* room for any result, NUL included */

/* "0 B", "512 B", "1.50 KiB", "79.2 GiB", "1023 MiB": three significant digits, never a rounded-up 1024. */
const char *human_bytes(char buf[static HUMAN_MAX], uint64_t bytes);

/* "1.50 GiB", "-12 B". */
const char *human_signed_bytes(char buf[static HUMAN_MAX], int64_t bytes);

/* The same with a sign: "+1.50 GiB", "-12 B", "0 B". */
const char *human_bytes_delta(char buf[static HUMAN_MAX], int64_t bytes);

/* "0 s", "850 ns", "12.3 us", "4.56 ms", "7.89 s", "12 min 05 s", "3 h 04 min", "2 d 03 h". */
const char *human_ns(char buf[static HUMAN_MAX], uint64_t ns);

/* "1,234,567". */
const char *human_count(char buf[static HUMAN_MAX], uint64_t count);

/* "12.3%" of part/whole; "-" when whole is 0. */
const char *human_percent(char buf[static HUMAN_MAX], double part, double whole);

/* "2026-11-21 09:28:00" in the local time zone (TZ honoured). */
const char *human_unix_ns(char buf[static HUMAN_MAX], uint64_t unix_ns);

/*
 * Read "20GiB", "20G", "1.5 MiB", "512k", "4096", "4096B"; 1000-based with "GB", "MB", "kB".
 * false if it is not a size or does not fit 64 bits; *bytes is then untouched.
 */
bool human_parse_bytes(const char *text, uint64_t *bytes);

/* Read "12.5", "12.5s", "300ms", "40us", "1000ns", "2min". false if it is not a time; *ns is then untouched. */
bool human_parse_time(const char *text, uint64_t *ns);

#endif
