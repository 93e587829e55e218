/* SPDX-License-Identifier: MIT */
/* From a tensor's Python object to its storage. */
#include "census_tensor.h"

#include <string.h>

#include "objects.h"
#include "pylayout.h"
#include "tracefmt/tracefmt.h"
#include "traverse.h"

#define TABLE_HEAD 16 /* a table of virtual functions begins so far after its symbol */
#define CUDA 1        /* c10::DeviceType */
#define HIP 20
/* After the data of a storage: its context and how to delete that, then device and size. */
#define DATA_TO_DEVICE 24
#define DATA_TO_BYTES 32
/* torch::autograd::AutogradMeta: a table, a name, the gradient, then its node; and so does that of a view begin. */
#define META_NAME 8
#define GRADIENT_TO_NODE 8
#define NODE_TO_SUMMING 24 /* a std::weak_ptr to the node that sums up its gradient: what counts its owners */
#define OWNERS 8	   /* there, an int: how many there are */

void census_torch_find(struct census_torch *t)
{
	/* Up to 2.6 each has one; which of them counts is decided by the order in which they are loaded. */
	static const char *const libraries[CENSUS_NR_STORAGE_TABLES] = { "libc10.so", "libtorch_cpu.so", "libtorch_python.so" };

	t->tensor_class = ip_symbol_of("libtorch_python.so", "THPVariableClass");
	t->tensor_table = ip_symbol_of("libc10.so", "_ZTVN3c1010TensorImplE");
	for (size_t i = 0; i < CENSUS_NR_STORAGE_TABLES; i++)
		t->storage_table[i] = ip_symbol_of(libraries[i], "_ZTVN3c1011StorageImplE");
	t->autograd_table = ip_symbol_of("libtorch_cpu.so", "_ZTVN5torch8autograd12AutogradMetaE");
	t->view_table = ip_symbol_of("libtorch_cpu.so", "_ZTVN5torch8autograd22DifferentiableViewMetaE");
}

bool census_read_word(const void *at, const void **out)
{
	return traverse_read(out, at, sizeof(*out));
}

static bool is_object_of(const void *object, const char *table)
{
	const void *word;

	return object && table && census_read_word(object, &word) && word == table + TABLE_HEAD;
}

/* The table of what is a storage, where these offsets lead from the object to one; else NULL. */
static const char *storage_table(const struct census_torch *t, const void *object, int16_t impl, int16_t base)
{
	const void *tensor, *storage;

	if (!census_read_word((const char *)object + impl, &tensor) || !is_object_of(tensor, t->tensor_table) ||
	    !census_read_word((const char *)tensor + base, &storage))
		return NULL;
	for (size_t i = 0; i < CENSUS_NR_STORAGE_TABLES; i++)
		if (is_object_of(storage, t->storage_table[i]))
			return t->storage_table[i];
	return NULL;
}

static void find_layout(struct census_layout *l, const void *object)
{
	static const struct {
		int16_t impl, base;
	} known[] = {
		{ 16, 16 }, /* 2.11 and later */
		{ 24, 24 }, { 16, 24 }, { 24, 16 },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		const char *table = storage_table(l->torch, object, known[i].impl, known[i].base);

		if (table) {
			l->storage_table = table;
			l->impl = known[i].impl;
			l->base = known[i].base;
			return;
		}
	}
}

const void *census_impl(struct census_layout *l, const void *object)
{
	if (!l->impl)
		find_layout(l, object);
	return l->impl ? py_pointer(object, l->impl) : NULL;
}

/* After the storage come some pointers, and then that to the object, of which the lowest bit says who owns it. */
#define SELF_FIRST 16
#define SELF_LAST 64

const void *census_object(struct census_layout *l, const void *impl)
{
	int from = l->self ? l->self : l->base + SELF_FIRST, to = l->self ? l->self : l->base + SELF_LAST;

	for (int at = from; l->impl && at <= to; at += 8) {
		const char *object = (const char *)((uintptr_t)py_pointer(impl, at) & ~(uintptr_t)1);
		const void *back;

		if (!object || !census_read_word(object + l->impl, &back) || back != impl)
			continue;
		l->self = (int16_t)at;
		return object;
	}
	return NULL;
}

/* After that its sizes: how many, five of them and as many strides, or where those are; its begin, its elements, their type. */
#define SELF_TO_SIZES 8
#define SIZES_INLINE 5
#define SIZES_TO_ELEMENTS 96
#define SIZES_TO_TYPE 104
#define DIMENSIONS_MAX 64

/* Bytes of an element, by c10::ScalarType; 0 = they are no whole bytes, or not known. */
static const uint8_t element_bytes[] = {
	1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4, 2, /* uint8 to bfloat16 */
	0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 4, 8,	    /* parts of bytes, float8, uint16 to uint64 */
};

/* Have these sizes so many elements? */
static bool is_product(const char *sizes, uint64_t elements)
{
	uint64_t nr = (uint64_t)py_long(sizes, 0), product = 1;
	const char *far = py_pointer(sizes, 8);

	if (nr > DIMENSIONS_MAX)
		return false;
	for (uint64_t i = 0; i < nr; i++) {
		const void *size = py_pointer(sizes, 8 + 8 * (long)(i % SIZES_INLINE));

		if ((nr > SIZES_INLINE && !census_read_word(far + 8 * i, &size)) ||
		    __builtin_mul_overflow(product, (uint64_t)(uintptr_t)size, &product))
			return false;
	}
	return product == elements;
}

uint64_t census_own_bytes(struct census_layout *l, const void *impl)
{
	const char *sizes;
	uint64_t elements, bytes;
	uint16_t type;

	if (!l->impl || (!l->self && !census_object(l, impl)))
		return 0;
	sizes = (const char *)impl + l->self + SELF_TO_SIZES;
	elements = (uint64_t)py_long(sizes, SIZES_TO_ELEMENTS);
	memcpy(&type, sizes + SIZES_TO_TYPE, sizeof(type));
	if (type >= sizeof(element_bytes) || !is_product(sizes, elements) ||
	    __builtin_mul_overflow(elements, (uint64_t)element_bytes[type], &bytes))
		return 0;
	return bytes;
}

/*
 * A name is a std::string, and nobody gives a tensor one: it points to what it has within itself, or with the older ABI,
 * of which PyTorch was up to 2.6, is a pointer to a text that is empty, after its length. Else it is not known.
 */
static int16_t gradient_offset(const char *meta)
{
	const char *text = py_pointer(meta, META_NAME);
	const void *length, *letters;

	if (text == meta + META_NAME + 16)
		return META_NAME + 32;
	if (census_read_word(text - 24, &length) && census_read_word(text, &letters) && !length && !letters)
		return META_NAME + 8;
	return 0;
}

static const char *autograd_of(struct census_layout *l, const void *impl)
{
	const char *meta = l->impl ? py_pointer(impl, l->base + 8) : NULL, *table;
	bool is_known;

	if (!meta)
		return NULL;
	table = py_pointer(meta, 0);
	is_known = (l->torch->autograd_table && table == l->torch->autograd_table + TABLE_HEAD) ||
		   (l->torch->view_table && table == l->torch->view_table + TABLE_HEAD);
	if (is_known && !l->gradient)
		l->gradient = gradient_offset(meta);
	return is_known && l->gradient ? meta : NULL;
}

const void *census_gradient(struct census_layout *l, const void *impl)
{
	const char *meta = autograd_of(l, impl);

	return meta ? py_pointer(meta, l->gradient) : NULL;
}

/* Graphs own the node, the tensor does not. */
static bool is_summed_up(const struct census_layout *l, const char *meta)
{
	const char *owners = py_pointer(meta, l->gradient + GRADIENT_TO_NODE + NODE_TO_SUMMING);
	const void *word;

	return owners && census_read_word(owners + OWNERS, &word) && (int32_t)(uintptr_t)word > 0;
}

bool census_memory(struct census_layout *l, const void *impl, struct census_memory *out)
{
	const char *storage, *data, *meta;
	int device;

	memset(out, 0, sizeof(*out));
	if (!l->impl || !impl)
		return false;
	storage = py_pointer(impl, l->base);
	if (!storage || py_pointer(storage, 0) != l->storage_table + TABLE_HEAD)
		return false;
	data = storage + l->base;
	device = *(const int8_t *)(data + DATA_TO_DEVICE);
	out->device = *(const uint8_t *)(data + DATA_TO_DEVICE + 1);
	out->address = (uint64_t)py_long(data, 0);
	out->bytes = (uint64_t)py_long(data, DATA_TO_BYTES);
	meta = autograd_of(l, impl);
	out->node = meta ? py_pointer(meta, l->gradient + GRADIENT_TO_NODE) : NULL;
	out->is_in_graph = meta && is_summed_up(l, meta);
	return (device == CUDA || device == HIP) && out->address && out->device < TFMT_NR_DEVICES;
}
