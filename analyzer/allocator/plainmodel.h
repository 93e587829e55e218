/* SPDX-License-Identifier: MIT */
/*
 * PyTorch without its caching allocator: a memory pool of the driver (backend:cudaMallocAsync), or the driver itself for
 * each tensor (PYTORCH_NO_CUDA_MEMORY_CACHING=1). Both by bytes alone, as NVIDIA documents no addresses: a pool takes
 * steps of 32 MiB and keeps them until the cache is emptied, so that its figure is a lower bound; the driver takes granules
 * of 2 MiB, and packs what is below 1 MiB. Single-threaded.
 */
#ifndef VT_PLAINMODEL_H
#define VT_PLAINMODEL_H

#include "analyzer/allocator/cachingmodel.h"

struct plainmodel;

/* As cachingmodel_*(), for conf->backend ALLOCCONF_ASYNC or ALLOCCONF_UNCACHED. */
struct plainmodel *plainmodel_open(const struct allocconf *conf, uint64_t capacity);
void plainmodel_close(struct plainmodel *m); /* NULL: there is nothing to close */
void plainmodel_set_others(struct plainmodel *m, uint64_t bytes);
bool plainmodel_alloc(struct plainmodel *m, uint32_t slot, uint64_t bytes);
void plainmodel_free(struct plainmodel *m, uint32_t slot);
void plainmodel_empty_cache(struct plainmodel *m);
const struct cachingmodel_figures *plainmodel_figures(const struct plainmodel *m);

#endif
