/* SPDX-License-Identifier: MIT */
/*
 * The driver's linker. What comes out of one binary or one piece of PTX is that; of several it is their
 * sequence (image.h), which loads like any image. How large the driver's result would be is not known: it
 * counts as the binaries among its inputs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "simgpu/image.h"
#include "simgpu/internal.h"

enum { LINK_MAGIC = 0x4c494e4b };

struct link {
	uint32_t magic;
	unsigned nr_parts;
	char *image; /* a sequence of parts */
	size_t bytes;
	unsigned nr_options; /* the program's, and its to keep until the end, as documented */
	CUjit_option *options;
	void **values;
};

static struct link *link_of(CUlinkState state)
{
	struct link *l = (struct link *)state;

	return l && l->magic == LINK_MAGIC ? l : NULL;
}

CUresult cuLinkCreate_v2(unsigned int nr, CUjit_option *options, void **values, CUlinkState *state)
{
	int device;
	CUresult ret = sim_context_need(&device);
	struct link *l;

	if (ret || !state || (nr && (!options || !values)))
		return ret ? ret : CUDA_ERROR_INVALID_VALUE;
	l = sim_zalloc(sizeof(*l));
	*l = (struct link){ .magic = LINK_MAGIC, .nr_options = nr, .options = options, .values = values };
	l->image = sim_alloc(SIM_LINKED_HEAD);
	l->bytes = SIM_LINKED_HEAD;
	*state = (CUlinkState)l;
	return CUDA_SUCCESS;
}

/* PTX is a string, and may be counted without its NUL. */
CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
			  unsigned int nr, CUjit_option *options, void **values)
{
	struct link *l = link_of(state);
	size_t room;

	(void)name;
	(void)nr;
	(void)options;
	(void)values;
	if (!l || !data || !bytes || (unsigned)type >= CU_JIT_NUM_INPUT_TYPES)
		return l ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	room = sim_round_up(bytes + 1, 8);
	l->image = sim_realloc(l->image, l->bytes + SIM_LINKED_PART + room);
	memset(l->image + l->bytes, 0, SIM_LINKED_PART + room);
	memcpy(l->image + l->bytes, &room, sizeof(room));
	memcpy(l->image + l->bytes + SIM_LINKED_PART, data, bytes);
	l->bytes += SIM_LINKED_PART + room;
	l->nr_parts++;
	return CUDA_SUCCESS;
}

CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned int nr,
			  CUjit_option *options, void **values)
{
	FILE *f = path ? fopen(path, "re") : NULL;
	CUresult ret = CUDA_ERROR_FILE_NOT_FOUND;
	struct stat st;
	char *data;

	if (f && !fstat(fileno(f), &st) && S_ISREG(st.st_mode)) {
		data = sim_zalloc((size_t)st.st_size + 1);
		ret = cuLinkAddData_v2(state, type, data, fread(data, 1, (size_t)st.st_size, f), path, nr,
				       options, values);
		free(data);
	}
	if (f)
		fclose(f);
	return path ? ret : CUDA_ERROR_INVALID_VALUE;
}

/* Logs are empty: their sizes, which the program reads back, are 0. */
static void clear_logs(const struct link *l)
{
	for (unsigned i = 0; i < l->nr_options; i++)
		if (l->options[i] == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES ||
		    l->options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
			l->values[i] = NULL;
}

CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes)
{
	struct link *l = link_of(state);
	char *first;

	if (!l || !image)
		return l ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
	if (!l->nr_parts)
		return CUDA_ERROR_INVALID_IMAGE;
	clear_logs(l);
	sim_image_set_linked(l->image, l->bytes);
	first = l->image + SIM_LINKED_HEAD + SIM_LINKED_PART;
	*image = l->nr_parts == 1 && sim_image_bytes(first, 0) ? first : l->image;
	if (bytes)
		*bytes = sim_image_bytes(*image, 0);
	return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState state)
{
	struct link *l = link_of(state);

	if (!l)
		return CUDA_ERROR_INVALID_HANDLE;
	free(l->image);
	l->magic = 0;
	free(l);
	return CUDA_SUCCESS;
}

/* Their first versions differ where a pointer has 32 bits. */
CUresult cuLinkCreate(unsigned int nr, CUjit_option *options, void **values, CUlinkState *state)
{
	return cuLinkCreate_v2(nr, options, values, state);
}

CUresult cuLinkAddData(CUlinkState state, CUjitInputType type, void *data, size_t bytes, const char *name,
		       unsigned int nr, CUjit_option *options, void **values)
{
	return cuLinkAddData_v2(state, type, data, bytes, name, nr, options, values);
}

CUresult cuLinkAddFile(CUlinkState state, CUjitInputType type, const char *path, unsigned int nr,
		       CUjit_option *options, void **values)
{
	return cuLinkAddFile_v2(state, type, path, nr, options, values);
}
