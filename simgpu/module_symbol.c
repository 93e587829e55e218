/* SPDX-License-Identifier: MIT */
/* The kernels and variables of a module. A variable gets memory when somebody asks where it is. */
#include <stdlib.h>
#include <string.h>

#include "simgpu/image_symbol.h"
#include "simgpu/module.h"

struct sim_variable {
	struct sim_variable *next;
	char *name;
	size_t bytes;
	void *init; /* NULL: zero */
	bool is_init_unknown;
	CUdeviceptr addresses[SIM_MAX_DEVICES];
};

static char *copy_name(const struct sim_image_symbol *symbol)
{
	char *name = sim_zalloc(symbol->name_bytes + 1);

	return memcpy(name, symbol->name, symbol->name_bytes);
}

static void add(void *data, const struct sim_image_symbol *symbol)
{
	struct sim_symbols *s = data;
	struct sim_variable *v;

	if (symbol->is_kernel) {
		s->kernels = sim_realloc(s->kernels, (s->nr_kernels + 1) * sizeof(*s->kernels));
		s->kernels[s->nr_kernels++] = copy_name(symbol);
		return;
	}
	v = sim_zalloc(sizeof(*v));
	v->name = copy_name(symbol);
	v->bytes = symbol->bytes;
	v->is_init_unknown = symbol->is_init_unknown;
	if (symbol->init)
		v->init = memcpy(sim_alloc(symbol->bytes), symbol->init, symbol->bytes);
	else
		s->variable_bytes += symbol->bytes;
	v->next = s->variables;
	s->variables = v;
}

void sim_symbols_read(struct sim_symbols *s, const void *image, int cc)
{
	s->is_read = sim_image_symbols(image, cc, add, s);
}

void sim_symbols_release(struct sim_symbols *s)
{
	for (size_t i = 0; i < s->nr_kernels; i++)
		free(s->kernels[i]);
	free(s->kernels);
	for (struct sim_variable *v = s->variables, *next; v; v = next) {
		next = v->next;
		for (int dev = 0; dev < SIM_MAX_DEVICES; dev++)
			if (v->addresses[dev])
				sim_global_free(v->addresses[dev]);
		free(v->name);
		free(v->init);
		free(v);
	}
}

/* Memory for V on DEV, with its first value. */
static CUdeviceptr place(const struct sim_variable *v, int dev)
{
	CUdeviceptr p = sim_global_alloc(dev, v->bytes);

	if (v->init) {
		memcpy((void *)p, v->init, v->bytes);
		sim_dirty((void *)p, v->bytes);
	}
	sim_known((void *)p, v->bytes, !v->is_init_unknown);
	return p;
}

CUresult sim_symbols_variable(struct sim_symbols *s, const char *name, int dev, CUdeviceptr *dptr,
			      size_t *bytes)
{
	CUdeviceptr none = 0, fresh;
	struct sim_variable *v = s->variables;

	while (v && strcmp(v->name, name))
		v = v->next;
	if (!v)
		return CUDA_ERROR_NOT_FOUND;
	if (!__atomic_load_n(&v->addresses[dev], __ATOMIC_ACQUIRE)) {
		fresh = place(v, dev);
		if (!__atomic_compare_exchange_n(&v->addresses[dev], &none, fresh, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE))
			sim_global_free(fresh);
	}
	if (dptr)
		*dptr = v->addresses[dev];
	if (bytes)
		*bytes = v->bytes;
	return CUDA_SUCCESS;
}
