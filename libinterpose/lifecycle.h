/* SPDX-License-Identifier: MIT */
/* How the recorder of a process begins and ends; see enum ip_state in interpose.h. */
#ifndef IP_LIFECYCLE_H
#define IP_LIFECYCLE_H

#include <stdbool.h>
#include <stdint.h>

/* CLOCK_REALTIME when this program image started; in a fork child, when its recorder was prepared. */
uint64_t ip_image_start_ns(void);

/* Find the real functions of hooks_process.c, once: those wrappers run in vfork children and signal handlers. */
void ip_process_init(void);

/* Main's thread has left: a thread of ours ends the process when no other of the program's is left. */
void ip_process_end_last(void);

/* Note how the process is about to end without ending the recording (abort, exec): one store, undone by OPEN. */
void ip_note_end(int end, int status);

#endif
