/* SPDX-License-Identifier: MIT */
/* Memory of the analyzer's own: there is enough, or the process ends with one message and CMD_TROUBLE. */
#ifndef VT_OWNMEMORY_H
#define VT_OWNMEMORY_H

/* What malloc(), strdup() and the like have returned; does not return if that is NULL. */
void *ownmemory_need(void *memory);

#endif
