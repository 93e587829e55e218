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
 */
#ifndef VT_RESIDUAL_H
#define VT_RESIDUAL_H

#include "analyzer/ledger/books.h"

#define RESIDUAL_POOLS 16 /* of a device; more are not told apart from what is unknown */

struct residual {
	struct residual_figures figures;
	uint64_t pool_live; /* of the ledger as it stands */
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
	struct residual_parts last_fresh, nearest;
	bool has_nearest, peak_passed;
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

/* See books_residual_at_peak(). */
bool residual_at_peak(const struct residual *r, struct residual_parts *out);

#endif
