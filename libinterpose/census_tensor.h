/* SPDX-License-Identifier: MIT */
/*
 * census_tensor: the memory of a PyTorch tensor, from its Python object. In a copy of the process.
 *
 * PyTorch's classes have changed their layout; of the few that there were, the one holds by which the tensors met first
 * lead to what is an object of c10::TensorImpl and has a c10::StorageImpl: an object is known by its class's table of
 * virtual functions, which the libraries export.
 */
#ifndef IP_CENSUS_TENSOR_H
#define IP_CENSUS_TENSOR_H

#include <stdbool.h>
#include <stdint.h>

/* Symbols of PyTorch's libraries; all NULL: it is not loaded. From a thread of the program (objects.h). */
#define CENSUS_NR_STORAGE_TABLES 3
struct census_torch {
	const void *const *tensor_class; /* THPVariableClass: where the class torch.Tensor is */
	const char *tensor_table, *storage_table[CENSUS_NR_STORAGE_TABLES], *autograd_table, *view_table;
};
void census_torch_find(struct census_torch *t);

/* A word of memory that may not be there: false then. */
bool census_read_word(const void *at, const void **out);

struct census_layout {
	const struct census_torch *torch;
	const char *storage_table; /* of those that the libraries have, the one that counts */
	int16_t impl;              /* Python object: its TensorImpl; 0 = not known yet */
	int16_t base;              /* TensorImpl: its storage; StorageImpl: its data */
	int16_t self;              /* TensorImpl: its Python object, before its sizes; 0 = not known yet */
	int16_t gradient;          /* AutogradMeta: the gradient, a TensorImpl; 0 = not known yet */
};

struct census_memory {
	uint64_t address, bytes; /* of the storage */
	uint8_t device;
	const void *node; /* of autograd's, its grad_fn; NULL: it has none */
	bool is_in_graph; /* a node is there that sums up its gradient: a graph begins with it */
};

/* Where a tensor's object has its TensorImpl, NULL: it has none, or it cannot be told. Sets the layout if need be. */
const void *census_impl(struct census_layout *l, const void *object);

/* The Python object of a TensorImpl, NULL if it has none: which leads back to it. */
const void *census_object(struct census_layout *l, const void *impl);

/*
 * The bytes that a tensor's own elements take, which may be a small part of its storage: hidden[:, 0]. 0: not known, where it
 * is laid out in another way, or its elements have no type of a known size.
 */
uint64_t census_own_bytes(struct census_layout *l, const void *impl);

/* The gradient that a tensor has, a TensorImpl; NULL without one. */
const void *census_gradient(struct census_layout *l, const void *impl);

/* False if it has no memory on a CUDA device. */
bool census_memory(struct census_layout *l, const void *impl, struct census_memory *out);

#endif
