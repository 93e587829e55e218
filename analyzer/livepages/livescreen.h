/* SPDX-License-Identifier: MIT */
/* The page of `top` on a terminal, drawn anew every second until the user has seen enough. */
#ifndef VT_LIVESCREEN_H
#define VT_LIVESCREEN_H

#include "analyzer/live/livealert.h"

/* Needs a terminal on stdin and stdout. Returns CMD_FINE, or CMD_TROUBLE after a message: curses does not know it. */
int livescreen_run(struct live *l, struct livealert *a);

#endif
