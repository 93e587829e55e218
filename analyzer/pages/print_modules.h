/* SPDX-License-Identifier: MIT */
/* Memory by module as a table (peak --by module). */
#ifndef VT_PRINT_MODULES_H
#define VT_PRINT_MODULES_H

#include "analyzer/modules/modulesums.h"
#include "analyzer/ui/emit.h"

/* At most `top` modules (0 = all); `total` is what their shares are of. */
void print_modules(struct emit *e, const struct replay_process *p, const struct modules *m, uint64_t total, uint64_t top);

#endif
