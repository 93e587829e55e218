/* SPDX-License-Identifier: MIT */
/*
 * C++ exceptions out of each of PyTorch's calls (stand-ins: torch_standin.c), nested in each other, and caught outside.
 * Prints what stacks.c prints, and "caught N" at the end.
 */
#include <cstdint>
#include <cstdio>
#include <typeinfo>

#include "torch_standin.h"

extern "C" {
int cuInit(unsigned flags);
/* A driver that needs no context may have neither. */
int cuDevicePrimaryCtxRetain(void **context, int device) __attribute__((weak));
int cuCtxSetCurrent(void *context) __attribute__((weak));
int cuMemAlloc_v2(uint64_t *out, size_t bytes);
}

struct Node {
	virtual ~Node() = default;
	uint64_t word[15] = {};
};

static void allocate(const char *node, const char *first_size)
{
	static uintptr_t address = 0x7000000000;
	static size_t last;

	last += 512;
	std::printf("%zu %s %s\n", last, node, first_size);
	torch_report(reinterpret_cast<void *>(address += 1 << 20), int64_t(last), last, last, torch_device{ 1, 0 });
}

/* What is inside what, from the outermost on; after the last one, the exception. */
enum call { EMPTY, STRIDED, RESIZE, EXECUTE, EVALUATE, NR_CALLS };
struct nest {
	const call *next;
	unsigned nr;
	const char *node, *first_size;
};

static void enter(void *argument)
{
	const nest outer = *static_cast<nest *>(argument);
	nest inner = { outer.next + 1, outer.nr - 1, outer.node, outer.first_size };
	const int64_t sizes[2] = { 5 + outer.nr, 3 }, strides[2] = { 3, 1 };
	static const char *const text[] = { "5", "6", "7", "8", "9" };
	torch_tensor tensor = { enter, &inner };
	Node node;

	allocate(outer.node, outer.first_size);
	if (!outer.nr)
		throw 7;
	if (*outer.next <= RESIZE)
		inner.first_size = text[outer.nr];
	else if (*outer.next == EVALUATE)
		inner.node = "Node";
	switch (*outer.next) {
	case EMPTY:
		torch_empty(nullptr, sizes, 2, enter, &inner, 6, 0);
		break;
	case STRIDED:
		torch_empty_strided(nullptr, sizes, 2, strides, 2, enter, &inner, 6);
		break;
	case RESIZE:
		torch_resize(&tensor, sizes, 2);
		break;
	case EXECUTE:
		torch_execute(nullptr, enter, &inner, nullptr, false, false, false, nullptr);
		break;
	default:
		torch_evaluate(enter, &inner, &node, nullptr, nullptr);
	}
}

/* The type of a resized tensor, float. */
extern "C" int32_t aoti_torch_get_dtype(const void *tensor, int32_t *type);
int32_t aoti_torch_get_dtype(const void *, int32_t *type)
{
	*type = 6;
	return 0;
}

int main()
{
	unsigned caught = 0;
	uint64_t address;
	void *primary = nullptr;

	cuInit(0);
	if (cuDevicePrimaryCtxRetain && !cuDevicePrimaryCtxRetain(&primary, 0))
		cuCtxSetCurrent(primary);
	if (cuMemAlloc_v2(&address, 1 << 20))
		return 1;
	for (unsigned i = 0; i < NR_CALLS * NR_CALLS * NR_CALLS; i++) {
		const call calls[3] = { call(i % NR_CALLS), call(i / NR_CALLS % NR_CALLS),
					call(i / NR_CALLS / NR_CALLS) };
		nest all = { calls, 3, "-", "-" };

		try {
			enter(&all);
		} catch (int thrown) {
			caught += thrown == 7;
		}
		allocate("-", "-");
	}
	std::printf("caught %u\n", caught);
	return 0;
}
