/* SPDX-License-Identifier: MIT */
/* Stand-ins of functions that PyTorch exports (torch_standin.c), by the names that the recorder hooks. */
#ifndef TORCH_STANDIN_H
#define TORCH_STANDIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
typedef bool torch_bool;
#else
typedef _Bool torch_bool;
#endif

struct torch_device {
	int8_t type, index;
};

#define torch_report _ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
#define torch_empty                                                                                          \
	_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeESt8optionalINS1_12MemoryFormatEE
#define torch_empty_strided                                                                                  \
	_ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeE
#define torch_resize _ZN2at6native13resize_outputERKNS_6TensorEN3c108ArrayRefIlEE
#define torch_execute                                                                                        \
	_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_
#define torch_evaluate                                                                                       \
	_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE
#define torch_number _ZN2at15sequence_number17get_and_incrementEv

#ifdef __cplusplus
extern "C" {
#endif

/* What a call does inside: `inside(argument)`. */
typedef void (*torch_inside)(void *argument);

void torch_report(void *address, int64_t bytes, size_t allocated, size_t reserved, struct torch_device device);
/* The inside is passed as the allocator, its argument as the keys; both return `place`. */
void *torch_empty(void *place, const int64_t *sizes, size_t nr_dims, torch_inside inside, void *argument, int8_t type,
		  uint16_t format);
void *torch_empty_strided(void *place, const int64_t *sizes, size_t nr_dims, const int64_t *strides, size_t nr_strides,
			  torch_inside inside, void *argument, int8_t type);
/* The inside is what the tensor points to. */
struct torch_tensor {
	torch_inside inside;
	void *argument;
};
torch_bool torch_resize(const struct torch_tensor *tensor, const int64_t *sizes, size_t nr_dims);
/* The inside is passed as the engine, its argument as the roots or the graph's task. */
void *torch_execute(void *place, torch_inside inside, void *argument, const void *inputs, torch_bool keep, torch_bool create,
		    torch_bool accumulate, const void *outputs);
void torch_evaluate(torch_inside inside, void *argument, void *node, void *inputs, const void *ready);
uint64_t torch_number(void);

#ifdef __cplusplus
}
#endif

#endif
