/* SPDX-License-Identifier: MIT */
/*
 * Ask the recorder of a process that runs for a census: a file HOST.PID.START.ask beside its trace, which it takes away when
 * it begins one.
 */
#ifndef VT_ASKCENSUS_H
#define VT_ASKCENSUS_H

#include <limits.h>
#include <stddef.h>

/*
 * The trace that a process writes, by the descriptors of its threads. 0, or an errno: ESRCH if there is no such process,
 * ENOENT if no thread of it writes one; EACCES if it is somebody else's.
 */
int askcensus_find(char trace[PATH_MAX], long pid);

/* Why there is none. */
enum askcensus_end {
	ASKCENSUS_DONE,
	ASKCENSUS_CANNOT_ASK, /* the folder cannot be written, see errno */
	ASKCENSUS_NO_ANSWER,  /* the recorder has not taken the question: it is an older one, or stands still */
	ASKCENSUS_REFUSED,    /* it has taken the question, and no census came of it */
};

/* Ask, and wait until the census is written: its path is then in `census`. Nobody else must ask meanwhile. */
enum askcensus_end askcensus(char census[PATH_MAX], const char *trace);

#endif
