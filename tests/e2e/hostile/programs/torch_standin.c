/* SPDX-License-Identifier: MIT */
/* PyTorch's functions as far as the recorder sees them: each runs what it is given. Compiled with -fexceptions. */
#include "torch_standin.h"

void torch_report(void *address, int64_t bytes, size_t allocated, size_t reserved, struct torch_device device)
{
	(void)address, (void)bytes, (void)allocated, (void)reserved, (void)device;
}

void *torch_empty(void *place, const int64_t *sizes, size_t nr_dims, torch_inside inside, void *argument, int8_t type,
		  uint16_t format)
{
	(void)sizes, (void)nr_dims, (void)type, (void)format;
	inside(argument);
	return place;
}

void *torch_empty_strided(void *place, const int64_t *sizes, size_t nr_dims, const int64_t *strides, size_t nr_strides,
			  torch_inside inside, void *argument, int8_t type)
{
	(void)sizes, (void)nr_dims, (void)strides, (void)nr_strides, (void)type;
	inside(argument);
	return place;
}

torch_bool torch_resize(const struct torch_tensor *tensor, const int64_t *sizes, size_t nr_dims)
{
	(void)sizes, (void)nr_dims;
	tensor->inside(tensor->argument);
	return 1;
}

void *torch_execute(void *place, torch_inside inside, void *argument, const void *inputs, torch_bool keep,
		    torch_bool create, torch_bool accumulate, const void *outputs)
{
	(void)inputs, (void)keep, (void)create, (void)accumulate, (void)outputs;
	inside(argument);
	return place;
}

void torch_evaluate(torch_inside inside, void *argument, void *node, void *inputs, const void *ready)
{
	(void)node, (void)inputs, (void)ready;
	inside(argument);
}

uint64_t torch_number(void)
{
	static uint64_t number;

	return number++;
}
