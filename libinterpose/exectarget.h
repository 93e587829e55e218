/* SPDX-License-Identifier: MIT */
/*
 * What a program is about to become, or to start: can that be recorded? A program for another processor or word size, or
 * of another C library, cannot load this one: its loader complains, or ends it. One that runs with another user's
 * rights must not. They are started without us.
 *
 * Threading: any thread, vfork children and signal handlers among them: no memory is taken, and what is written
 * belongs to the caller. A descriptor is open for the moment of a call.
 */
#ifndef IP_EXECTARGET_H
#define IP_EXECTARGET_H

#include <stdbool.h>
#include <stddef.h>

/* The file at path, below the folder unless it is absolute; path NULL: the file that is open as `folder`. */
bool ip_target_refuses(int folder, const char *path);

/* ip_target_refuses() of the file that execvp() would find by this name. */
bool ip_target_named_refuses(const char *file);

/*
 * Bytes of room for an environment without us: 0 if there is nothing of us in it. ip_target_strip() writes it there,
 * pointer-aligned: as envp, without our entries of LD_PRELOAD and without NVTX_INJECTION64_PATH where that names us.
 */
size_t ip_target_room(char *const envp[]);
char **ip_target_strip(void *room, char *const envp[]);

#endif
