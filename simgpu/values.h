/* SPDX-License-Identifier: MIT */
/*
 * The value shadow: in a Python program with PyTorch, small integer and boolean results, and known
 * numbers, are computed on the host, where a GPU's kernels would have computed them. values.py, which is
 * part of the library, says which and how; values.c starts it, values_dispatch.c stands between PyTorch
 * and it, values_memory.c gives it device memory.
 */
#ifndef SIMGPU_VALUES_H
#define SIMGPU_VALUES_H

#include "simgpu/python_api.h"

/* Forget what sim_values_answer() would have answered on this thread. */
void values_expect_nothing(void);

/*
 * For values.py, called as Python functions. Where they take (address, bytes of an element, sizes,
 * strides), that is a strided tensor on the device.
 * - values_memory(address, bytes): that memory as a buffer, once what is to be received there is there;
 * - values_known(tensor): does it hold what it would on a GPU? None of its elements may be unknown;
 * - values_written(tensor, known): its elements were written;
 * - values_cleared(tensor): its elements are 0 from now on, as on a GPU;
 * - values_unknown(tensor): a kernel would write its elements;
 * - values_install(classify, mode, number of function modes, guard, tensor type, mend): set up; returns
 *   what is to be the mode's __torch_dispatch__;
 * - values_switch_off(): from now on every operator is called as if we were not there.
 */
python_function values_memory, values_known, values_written, values_cleared, values_unknown;
python_function values_install, values_switch_off;

/*
 * The mode, once it is there; NULL before. Only an address to compare with: any thread, no interpreter's
 * lock.
 */
const void *values_mode(void);

/* None, as a new reference. */
python *values_none(void);

#endif
