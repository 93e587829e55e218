/* SPDX-License-Identifier: MIT */
/*
 * Thresholds: numbers that decide what is said of a recording. Each room has one table of them, with units and
 * reasons: analyzer/ROOM/ROOM_thresholds.h. There
 *
 *	#define LIST_MIN THRESHOLD(LIST_MIN, 4)
 *	#define MATTERS_PART THRESHOLD_RATIO(MATTERS_PART, 5)
 *
 * are the constants 4 and 5, at no cost. In a build with -DVT_MOVE_THRESHOLDS, as `make thresholds` makes one, each is
 * a double that threshold_moved() is asked for every time: multiplied, if it is the one that the environment names, as
 * in VT_MOVED_THRESHOLD=LIST_MIN=1.25. THRESHOLD is for figures that count or measure: whole ones, of steps or of
 * tensors, stay whole, and move by one at least. THRESHOLD_RATIO is for factors and divisors that are whole by chance,
 * such as a fifth of what is allocated.
 *
 * No array may be of a threshold's size. Its name is the only one in all rooms. What the allocator or CUDA prescribes,
 * how large a buffer is and how much fits on a screen are no thresholds.
 */
#ifndef VT_THRESHOLD_H
#define VT_THRESHOLD_H

#ifdef VT_MOVE_THRESHOLDS
#include <stdbool.h>

/*
 * The value times the factor that VT_MOVED_THRESHOLD has for this name; is_whole: rounded, but not to what it was.
 * A share above a half never gets to be all: what it leaves is divided by a factor above 1. With
 * VT_ASKED_THRESHOLDS=FILE the names that are asked for are appended to a file, one a line, some twice. Threads
 * may ask at the same time.
 *
 * VT_MOVED_THRESHOLDS=FILE tries many: of each line, "NAME,NAME,.. FACTOR OUTPUT", one process is made where the
 * first of all names is asked for, goes on with those of its line moved, and prints to OUTPUT. The process itself goes
 * on after all of them, with none moved. What came before, such as reading the recording, is done once.
 */
double threshold_moved(const char *name, double value, bool is_whole);

#define THRESHOLD(name, value)                                                                                \
	threshold_moved(#name, (double)(value), _Generic((value), float: false, double: false, default: true))
#define THRESHOLD_RATIO(name, value) threshold_moved(#name, (double)(value), false)
#else
#define THRESHOLD(name, value) (value)
#define THRESHOLD_RATIO(name, value) (value)
#endif

#endif
