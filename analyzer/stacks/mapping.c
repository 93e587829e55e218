/* SPDX-License-Identifier: MIT */
/* A sorted table of mapped files that follows the reader's definitions. */
#include "analyzer/stacks/mapping.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/recording/sorted.h"

#define TORCH_FOLDER "/torch/"
#define TORCH_LIBRARY TORCH_FOLDER "lib/libtorch_python.so"

void mapping_init(struct mapping *m, const struct tfmt_reader *reader)
{
	*m = (struct mapping){ .reader = reader };
}

void mapping_release(struct mapping *m)
{
	free(m->module);
	*m = (struct mapping){ 0 };
}

/* Index of the first module that ends beyond the address. */
static uint32_t lower_bound(const struct mapping *m, uint64_t address)
{
	return (uint32_t)sorted_up_to(m->module, m->nr_modules, sizeof(*m->module), offsetof(struct tfmt_module, end),
				      address);
}

/* Take the place of every older module that overlaps. */
static void mapping_insert(struct mapping *m, const struct tfmt_module *add)
{
	uint32_t from = lower_bound(m, add->start), to = from;

	while (to < m->nr_modules && m->module[to].start < add->end)
		to++;
	m->module = heap_grow(m->module, &m->room, (size_t)m->nr_modules + 1, sizeof(*m->module));
	memmove(m->module + from + 1, m->module + to, (m->nr_modules - to) * sizeof(*m->module));
	m->module[from] = *add;
	m->nr_modules = m->nr_modules - (to - from) + 1;
}

static void take_in_new(struct mapping *m)
{
	struct tfmt_module module;

	while (tfmt_reader_module(m->reader, m->nr_seen, &module)) {
		m->nr_seen++;
		if (module.start < module.end)
			mapping_insert(m, &module);
		if (strstr(module.path, TORCH_LIBRARY))
			m->torch = module.path;
	}
}

bool mapping_is_torch(struct mapping *m, const char *path)
{
	size_t len;

	if (strstr(path, "/site-packages/torch/") || strstr(path, "/dist-packages/torch/"))
		return true;
	take_in_new(m);
	if (!m->torch)
		return false;
	len = (size_t)(strstr(m->torch, TORCH_LIBRARY) - m->torch) + strlen(TORCH_FOLDER);
	return !strncmp(path, m->torch, len);
}

const struct tfmt_module *mapping_find(struct mapping *m, uint64_t address)
{
	uint32_t i;

	take_in_new(m);
	i = lower_bound(m, address);
	return i < m->nr_modules && m->module[i].start <= address ? &m->module[i] : NULL;
}
