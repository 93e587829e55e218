/* SPDX-License-Identifier: MIT */
/*
 * Files that simgpu makes under the program's limit on the size of files (RLIMIT_FSIZE), which holds for files in
 * memory, too. The kernel tells who exceeds it by SIGXFSZ, which would end a program that never wrote a file: here no
 * such signal reaches it. Thread-safe.
 */
#ifndef SIMGPU_FILE_LIMIT_H
#define SIMGPU_FILE_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* As ftruncate(FD, BYTES). Returns 0 or an errno value, which errno has, too; EFBIG is the limit. */
int file_limit_grow(int fd, off_t bytes);

/* As posix_fallocate(FD, 0, BYTES), the same. */
int file_limit_allocate(int fd, off_t bytes);

/* Whether all BYTES were written in one write; else errno says why not. */
bool file_limit_write(int fd, const void *from, size_t bytes);

/* End the process as sim_host_limit() does: WHAT failed with errno, and where that is the limit, how to raise it. */
_Noreturn void file_limit_end(const char *what);

#endif
