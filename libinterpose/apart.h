/* SPDX-License-Identifier: MIT */
/*
 * apart: a thread with a descriptor table of its own, so that the program may close, reuse and count its own as it
 * likes, and none of our files is ever its output.
 */
#ifndef IP_APART_H
#define IP_APART_H

#include <stdbool.h>

/*
 * Run serve() with an empty descriptor table and return when it has; on the calling thread, which keeps that table, or,
 * where the system forbids that (a kernel before 5.9 under a container's seccomp profile), on one of its own, while the
 * calling thread, a pthread with all its signals blocked, waits. False and errno when there can be none.
 */
bool apart_serve(void (*serve)(void));

/* For serve(), now and then: the C library does not know a thread of its own kind, and changes only the others' user. */
void apart_follow_user(void);

#endif
