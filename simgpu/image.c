/* SPDX-License-Identifier: MIT */
/*
 * Reading the architectures out of a fat binary.
 *
 * CUB, in PyTorch's kernels among others, asks the architecture of a kernel's code and picks its parameters
 * by it; an architecture that the program was not compiled for is an error to it. The wrapper is declared in
 * CUDA's fatbinary_section.h. The container behind it is data of the program, and no header describes it;
 * fields are as they show in files made by nvcc 12 and 13. What looks different is left alone.
 */
#include "simgpu/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243b1	/* FATBINC_MAGIC */
#define CONTAINER_MAGIC 0xba55ed50

enum {
	KIND_PTX = 1,
	KIND_BINARY = 2,
	ENTRIES_MAX = 1000	/* a container has about ten */
};

struct wrapper {
	uint32_t magic, version;
	const void *container;
};

struct container {
	uint32_t magic;
	uint16_t version, header_bytes;
	uint64_t bytes;		/* of the entries that follow */
};

/* The head of an entry; its code follows after header_bytes. */
struct entry {
	uint16_t kind, version;
	uint32_t header_bytes;
	uint64_t bytes;
	uint32_t unused[3];
	uint32_t architecture;
};

static const struct container *container_of(const void *image)
{
	struct wrapper wrapper;
	uint32_t magic;

	memcpy(&magic, image, sizeof(magic));
	if (magic == WRAPPER_MAGIC) {
		memcpy(&wrapper, image, sizeof(wrapper));
		image = wrapper.container;
		if (!image)
			return NULL;
		memcpy(&magic, image, sizeof(magic));
	}
	return magic == CONTAINER_MAGIC ? image : NULL;
}

/* Whether a device of CC runs binaries for ARCHITECTURE. */
static bool runs_binary(int architecture, int cc)
{
	return architecture / 10 == cc / 10 && architecture <= cc;
}

int sim_image_architecture(const void *image, int cc, int *compiled)
{
	const struct container *c = container_of(image);
	const char *at = c ? (const char *)c + c->header_bytes : NULL, *end = c ? at + c->bytes : NULL;
	int architecture, binary = 0, ptx = 0, oldest = 0;
	struct entry e;

	for (int i = 0; i < ENTRIES_MAX && at && end - at >= (ptrdiff_t)sizeof(e); i++) {
		memcpy(&e, at, sizeof(e));
		if (e.header_bytes < sizeof(e) || e.architecture > 999 || e.bytes > (uint64_t)(end - at))
			break;
		architecture = (int)e.architecture;
		if (e.kind == KIND_BINARY && runs_binary(architecture, cc) && architecture > binary)
			binary = architecture;
		else if (e.kind == KIND_PTX && architecture <= cc && architecture > ptx)
			ptx = architecture;
		if (architecture && (!oldest || architecture < oldest))
			oldest = architecture;
		at += e.header_bytes + e.bytes;
	}
	*compiled = binary ? binary : cc;
	if (binary)
		return binary;
	if (ptx)
		return ptx;
	return oldest ? oldest : cc;
}
