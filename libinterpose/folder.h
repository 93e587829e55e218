/* SPDX-License-Identifier: MIT */
/*
 * The folder that a recording lies in. All processes of a job share it: the file `job` in it holds the job's id. Where
 * another job has it already, a *generation* of it is taken: g2, g3 and so on within it.
 *
 * Threading: any thread. Descriptors are the caller's to close.
 */
#ifndef IP_FOLDER_H
#define IP_FOLDER_H

#include <errno.h>
#include <stddef.h>

#define FOLDER_NOT_OURS EOWNERDEAD /* no call on a file has this error */

/*
 * The generation of the recording that is this job's, made if need be, open once and for all; -1 and errno if none can
 * be had: FOLDER_NOT_OURS if it belongs to somebody else, or somebody else may write into it. Its path is for messages,
 * and for the ring file.
 */
int folder_open(char *path, size_t size, const char *output, const char *job);

/*
 * Make a file that is not there yet; -1 and errno if it cannot be made. Its mode is 0600 whatever the program's umask
 * is: it must be able to use what is its own.
 */
int folder_make_file(int folder, const char *path, int flags);

#endif
