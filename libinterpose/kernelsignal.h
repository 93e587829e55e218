/* SPDX-License-Identifier: MIT */
/* kernelsignal: what a signal does, said to the kernel itself, for others may have wrapped sigaction(). */
#ifndef IP_KERNELSIGNAL_H
#define IP_KERNELSIGNAL_H

#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/*
 * NULL is the default action. A handler runs with no signal held back, and must not return: there is nothing to return to.
 * Async-signal-safe.
 */
static inline void kernel_signal(int number, void (*handler)(int))
{
	/* struct sigaction as the kernel has it, and its flag for the word that the C library returns by. */
	enum { HAS_RESTORER = 0x04000000, SIGNAL_SET_BYTES = 8 };
	const struct {
		void (*handler)(int);
		unsigned long flags;
		void (*restorer)(int);
		uint64_t mask;
	} action = { handler, handler ? (unsigned long)(SA_NODEFER | HAS_RESTORER) : 0ul, handler, 0 };

	syscall(SYS_rt_sigaction, (long)number, &action, NULL, (long)SIGNAL_SET_BYTES);
}

#endif
