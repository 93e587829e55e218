/* SPDX-License-Identifier: MIT */
/* Memory, or the end. */
#include "analyzer/ui/heap.h"

#include <stdlib.h>

#include "analyzer/command.h"
#include "analyzer/ui/message.h"

void *heap_need(void *memory)
{
	if (!memory) {
		message_error("out of memory");
		exit(CMD_TROUBLE);
	}
	return memory;
}
