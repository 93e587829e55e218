/* SPDX-License-Identifier: MIT */
/*
 * tracker: what PyTorch's caching allocator tells of itself, if it lets us listen (VRAMTRACE_TRACKER).
 *
 * Its reports (hooks_torch.c) say which block was handed out and taken back. To a *trace tracker* it also
 * tells what was asked for, when memory in use by other streams has really become free, and every segment
 * that it takes from the driver. There is no exported function to attach one: see tracker.c.
 */
#ifndef IP_TRACKER_H
#define IP_TRACKER_H

/*
 * A tensor is about to be made by this c10::Allocator: attaches to it if it is PyTorch's for CUDA. Called
 * outside the allocator's locks; returns at once when there is nothing more to do.
 */
void ip_tracker_try(const void *allocator);

/*
 * For info: "attached", or why it is not; NULL while that is open, or nobody wants it. Any thread; static
 * storage.
 */
const char *ip_tracker_support(void);

#endif
