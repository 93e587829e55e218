/* SPDX-License-Identifier: MIT */
/* Memory of the analyzer's own: there is enough, or the process ends with one message and CMD_TROUBLE. */
#ifndef VT_HEAP_H
#define VT_HEAP_H

/* What malloc(), strdup() and the like have returned; does not return if that is NULL. */
void *heap_need(void *memory);

#endif
