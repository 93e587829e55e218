/* SPDX-License-Identifier: MIT */
/*
 * Reading the architectures and the size of its code out of an image: a cubin, PTX or a fat binary.
 *
 * CUB, in PyTorch's kernels among others, asks the architecture of a kernel's code and picks its parameters
 * by it; an architecture that the program was not compiled for is an error to it. The wrapper is declared in
 * CUDA's fatbinary_section.h. The container that it points to is data of the program, and no header describes it;
 * fields are as they show in files made by nvcc 12 and 13. What looks different is left alone.
 */
#include "simgpu/image.h"

#include <elf.h>
#include <stdint.h>
#include <string.h>

#define WRAPPER_MAGIC 0x466243b1	/* FATBINC_MAGIC */
#define CONTAINER_MAGIC 0xba55ed50

enum {
	KIND_PTX = 1,
	KIND_BINARY = 2,
	ENTRIES_MAX = 1000,	/* a container has about ten */
	WHOLE_BYTES_AT = 56	/* in the head of an entry: the bytes of compressed code when it is not */
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

struct part {
	int architecture;	/* 0: there is none */
	const char *head;
	size_t head_bytes, bytes;
};

/* The binary and the PTX that a device of CC would take, and the oldest code of all. */
static void look(const void *image, int cc, struct part *binary, struct part *ptx, struct part *oldest)
{
	const struct container *c = container_of(image);
	const char *at = c ? (const char *)c + c->header_bytes : NULL, *end = c ? at + c->bytes : NULL;
	struct part p;
	struct entry e;

	*binary = *ptx = *oldest = (struct part){ 0 };
	for (int i = 0; i < ENTRIES_MAX && at && end - at >= (ptrdiff_t)sizeof(e); i++) {
		memcpy(&e, at, sizeof(e));
		if (e.header_bytes < sizeof(e) || e.architecture > 999 || e.header_bytes > end - at ||
		    e.bytes > (uint64_t)(end - at) - e.header_bytes)
			break;
		p = (struct part){ (int)e.architecture, at, e.header_bytes, e.bytes };
		if (e.kind == KIND_BINARY && runs_binary(p.architecture, cc) &&
		    p.architecture > binary->architecture)
			*binary = p;
		else if (e.kind == KIND_PTX && p.architecture <= cc && p.architecture > ptx->architecture)
			*ptx = p;
		if (p.architecture && (!oldest->architecture || p.architecture < oldest->architecture))
			*oldest = p;
		at += e.header_bytes + e.bytes;
	}
}

int sim_image_architecture(const void *image, int cc, int *compiled)
{
	struct part binary, ptx, oldest;

	look(image, cc, &binary, &ptx, &oldest);
	*compiled = binary.architecture ? binary.architecture : cc;
	if (binary.architecture)
		return binary.architecture;
	if (ptx.architecture)
		return ptx.architecture;
	return oldest.architecture ? oldest.architecture : cc;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* A cubin is an ELF file that ends with its tables; else it is PTX, a string. 0: neither. */
static size_t code_bytes(const char *code, size_t most)
{
	Elf64_Ehdr elf;
	size_t n = 0;

	if (most >= sizeof(elf) && *code == ELFMAG[0]) {
		memcpy(&elf, code, sizeof(elf));
		return memcmp(elf.e_ident, ELFMAG, SELFMAG)
			       ? 0
			       : larger(elf.e_shoff + (size_t)elf.e_shnum * elf.e_shentsize,
					elf.e_phoff + (size_t)elf.e_phnum * elf.e_phentsize);
	}
	while (n < most && code[n] && (unsigned char)code[n] < 0x80)
		n++;
	return n < most && code[n] ? 0 : n + (n < most);
}

static size_t part_bytes(const struct part *p)
{
	uint64_t whole = 0;

	if (p->head_bytes >= WHOLE_BYTES_AT + sizeof(whole))
		memcpy(&whole, p->head + WHOLE_BYTES_AT, sizeof(whole));
	return whole ? whole : code_bytes(p->head + p->head_bytes, p->bytes);
}

static const char linked_mark[8] = "\001linked";

void sim_image_set_linked(void *image, size_t bytes)
{
	memcpy(image, linked_mark, sizeof(linked_mark));
	memcpy((char *)image + sizeof(linked_mark), &bytes, sizeof(bytes));
}

/* Bytes of an image that was linked here; 0: it was not. */
static size_t linked_bytes(const void *image)
{
	size_t bytes = 0;

	if (!strncmp(image, linked_mark, sizeof(linked_mark)))
		memcpy(&bytes, (const char *)image + sizeof(linked_mark), sizeof(bytes));
	return bytes;
}

const void *sim_image_next_linked(const void *image, const void *part)
{
	size_t bytes = linked_bytes(image), room;
	const char *at = (const char *)image + SIM_LINKED_HEAD;

	if (part) {
		memcpy(&room, (const char *)part - SIM_LINKED_PART, sizeof(room));
		at = (const char *)part + room;
	}
	return bytes && at < (const char *)image + bytes ? at + SIM_LINKED_PART : NULL;
}

size_t sim_image_bytes(const void *image, int cc)
{
	struct part binary, ptx, oldest;

	if (linked_bytes(image))
		return linked_bytes(image);

	if (!container_of(image))
		return code_bytes(image, SIZE_MAX);
	look(image, cc, &binary, &ptx, &oldest);
	if (!binary.architecture)
		binary = ptx.architecture ? ptx : oldest;
	return binary.architecture ? part_bytes(&binary) : 0;
}

bool sim_image_is_cubin(const void *image)
{
	return *(const char *)image == ELFMAG[0];
}

size_t sim_image_binary_bytes(const void *image, int cc)
{
	const void *linked = sim_image_next_linked(image, NULL);
	struct part binary, ptx, oldest;
	size_t sum = 0;

	for (; linked; linked = sim_image_next_linked(image, linked))
		sum += sim_image_binary_bytes(linked, cc);
	if (sum || linked_bytes(image))
		return sum;

	if (sim_image_is_cubin(image))
		return code_bytes(image, SIZE_MAX);
	look(image, cc, &binary, &ptx, &oldest);
	return binary.architecture ? part_bytes(&binary) : 0;
}

bool sim_image_is_collection(const void *image)
{
	return container_of(image);
}

const char *sim_image_code(const void *image, int cc, size_t *bytes)
{
	struct part binary, ptx, oldest;
	uint64_t whole = 0;

	if (!container_of(image)) {
		*bytes = code_bytes(image, SIZE_MAX);
		return *bytes ? image : NULL;
	}
	look(image, cc, &binary, &ptx, &oldest);
	if (!binary.architecture)
		binary = ptx.architecture ? ptx : oldest;
	if (binary.head_bytes >= WHOLE_BYTES_AT + sizeof(whole))
		memcpy(&whole, binary.head + WHOLE_BYTES_AT, sizeof(whole));
	if (whole || !binary.architecture)
		return NULL;
	*bytes = code_bytes(binary.head + binary.head_bytes, binary.bytes);
	return *bytes && *bytes <= binary.bytes ? binary.head + binary.head_bytes : NULL;
}
