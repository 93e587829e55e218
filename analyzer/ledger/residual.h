/* SPDX-License-Identifier: MIT */
/*
 * What is in use of a device beyond the driver ledger, in parts: context, code, local memory, what pools keep without
 * lending it out, other processes, and the unknown rest. Source: the samples of a recording (MEMORY_INFO, PROCESS_INFO,
 * POOL_INFO), and what a simulated device models of the driver itself.
 *
 * On a real device context, code and local memory are *steps*: the first sample shows the context; what later samples
 * show in addition is code if modules were loaded since the sample before, local memory if a limit of the context was
 * set, else unknown (code that is loaded at first use, for one). Steps need to know the other processes' memory.
 * A simulated device says what it models, and nothing is inferred there.
 *
 * The ledger at the peak and all parts add up to what the driver says is in use, exactly: `unknown` is what is left,
 * and below 0 when the ledger holds more than the driver counts.
 */
#ifndef VT_RESIDUAL_H
#define VT_RESIDUAL_H

#include <stdbool.h>
#include <stdint.h>

#include "tracefmt/tracefmt.h"

#define RESIDUAL_POOLS 16 /* of a device; more are not told apart from what is unknown */

/* A device at one moment. Bytes. */
struct residual_parts {
	uint64_t time_ns;
	uint64_t total, used; /* what the driver says: capacity, and capacity less what is free */
	uint64_t ledger;      /* taken by calls that were recorded */
	uint64_t pool_cached; /* reserved by pools and not lent out */
	uint64_t pool_reserved;
	uint64_t context, code, local_memory;
	uint64_t other_processes;
	int64_t unknown;
	uint64_t own;         /* of this process, as NVML has it; 0 = it does not */
	bool knows_driver;    /* context, code and local memory are told apart */
	bool knows_processes; /* other_processes is known */
	bool is_fresh;        /* other_processes was asked for with the rest, where nothing is inferred from steps */
};

struct residual {
	uint64_t nr_samples;
	uint64_t peak; /* the most that a sample, or the model, showed beyond the ledger */

	/* the ledger as it stands */
	uint64_t ledger, pool_live;
	uint64_t modelled_context, modelled_code;
	bool is_modelled;

	/* what was told since the recording began */
	uint64_t context, code, local_memory; /* steps */
	int64_t own_rest; /* of what NVML says of this process, what is not known otherwise */
	uint64_t other_processes;
	bool knows_own, knows_processes, processes_told, has_context, module_loaded, limit_set;
	struct {
		uint64_t address, reserved;
	} pool[RESIDUAL_POOLS];
	unsigned nr_pools;

	/* the driver's peak, and the sample nearest to it */
	struct residual_parts last, last_fresh, nearest;
	bool has_last, has_nearest, peak_passed;
	uint64_t peak_ns, peak_ledger, peak_pool_live, peak_context, peak_code;
};

/* Memory of the device came into, or left, the driver ledger; `space` is an enum tfmt_space. */
void residual_ledger(struct residual *r, unsigned space, int64_t bytes);

/* What a simulated device models of the driver itself came, or went. */
void residual_modelled(struct residual *r, bool is_code, int64_t bytes);

/* The driver ledger reaches a new peak. */
void residual_peak(struct residual *r, uint64_t time_ns);

/* An event of the device of a kind that matters here: samples, objects, resets. Others are ignored. */
void residual_event(struct residual *r, const struct tfmt_event *ev);

/*
 * The device at the driver's peak: the sample nearest to it in time, brought to the peak by what the ledger changed in
 * between; on a simulated device, of those that came with what other processes have: they go on taking memory, which
 * would pass for unknown. False if there is no sample; then context and code are what is modelled and all else is 0.
 */
bool residual_at_peak(const struct residual *r, struct residual_parts *out);

/* What nvidia-smi shows for this process at that moment; false if nothing tells it. *measured: NVML told it. */
bool residual_process(const struct residual_parts *parts, uint64_t *bytes, bool *measured);

#endif
