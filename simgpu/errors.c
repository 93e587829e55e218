/* SPDX-License-Identifier: MIT */
/* Names and texts of error codes. */
#include "simgpu/internal.h"

static const struct error {
	int code;
	const char *driver, *runtime, *text;
} errors[] = {
#define ERROR(code_, driver_, runtime_, text_) { code_, driver_, runtime_, text_ },
#include "simgpu/errors.def"
#undef ERROR
};

static const struct error *find(int code)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (errors[i].code == code)
			return &errors[i];
	return NULL;
}

CUresult cuGetErrorName(CUresult code, const char **name)
{
	const struct error *e = find((int)code);

	if (!name)
		return CUDA_ERROR_INVALID_VALUE;
	*name = e && *e->driver ? e->driver : NULL;
	return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult code, const char **text)
{
	const struct error *e = find((int)code);

	if (!text)
		return CUDA_ERROR_INVALID_VALUE;
	*text = e && *e->driver ? e->text : NULL;
	return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

const char *cudaGetErrorName(cudaError_t code)
{
	const struct error *e = find((int)code);

	return e && *e->runtime ? e->runtime : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t code)
{
	const struct error *e = find((int)code);

	return e && *e->runtime ? e->text : "unrecognized error code";
}
