/* SPDX-License-Identifier: MIT */
/* The options that fill a struct limit_opts, but for --force. */
#ifndef VT_LIMIT_OPTIONS_H
#define VT_LIMIT_OPTIONS_H

#include "analyzer/gate/limits.h"
#include "analyzer/ui/options.h"

#define LIMIT_OPTIONS(type, field) \
	OPT_STRING(0, "max-peak", type, field.max_peak, "SIZE", "held by tensors; SIZE, or rank0=SIZE,gpu1=SIZE"), \
	OPT_STRING(0, "max-reserved", type, field.max_reserved, "SIZE", "reserved by PyTorch's allocator"), \
	OPT_STRING(0, "max-device-used", type, field.max_device_used, "SIZE", "what nvidia-smi would show"), \
	OPT_STRING(0, "max-growth-per-step", type, field.max_growth, "SIZE", "allocated more from step to step"), \
	OPT_STRING(0, "max-fragmentation", type, field.max_fragmentation, "PCT", \
		   "of what is reserved at its peak, not allocated"), \
	OPT_STRING(0, "max-category", type, field.max_category, "LIST", "at the peak: activation=12GiB,gradient=2GiB"), \
	OPT_FLAG(0, "no-leaks", type, field.no_leaks, "nothing may grow from step to step"), \
	OPT_FLAG(0, "no-oom", type, field.no_oom, "it may not fail for want of memory"), \
	OPT_FLAG(0, "any-oom", type, field.any_oom, "... nor run out of memory and get over it"), \
	OPT_STRING(0, "baseline", type, field.baseline, "FILE", "no more than in this baseline"), \
	OPT_STRING(0, "tolerance", type, field.tolerance, "PCT|SIZE", "how much more: 2%, 64MiB (default: 0B)"), \
	OPT_STRING(0, "limits", type, field.file, "FILE", "limits from this file (" LIMITS_FILE ")")

#endif
