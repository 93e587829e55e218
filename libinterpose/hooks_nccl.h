/* SPDX-License-Identifier: MIT */
/*
 * Which NCCL communicator memory is taken for.
 *
 * While a call into NCCL is in progress on a thread, what that thread takes from the driver is recorded with a
 * function of the form "ncclAllReduce, communicator 1 of 8 ranks". Communicators are numbered in the order in which
 * this process begins to make them; the number of ranks is left out where it is not known yet. ncclGroupEnd(), where
 * NCCL connects what the group needs, counts for the communicator that the group used, if it was one.
 */
#ifndef IP_HOOKS_NCCL_H
#define IP_HOOKS_NCCL_H

#include "interpose.h"
#include "opencall.h"

/* The function to record instead of `entry` ("ncclAllReduce", or NULL: that of the call in progress). */
uint16_t ip_nccl_named(const char *entry);

/*
 * The function of what t records now, 0 outside NCCL. Call with t->busy set: it may commit a definition.
 */
static inline uint16_t ip_nccl_function(struct ip_thread *t)
{
	return open_nccl(t) ? ip_nccl_named(NULL) : 0;
}

#endif
