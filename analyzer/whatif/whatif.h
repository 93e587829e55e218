/* SPDX-License-Identifier: MIT */
/*
 * A recording's requests served once more: while its events pass by once, each request and free of a device is given to
 * every setting that is tried there, and to the recorded settings on the recorded GPU, which must reserve what PyTorch
 * reported.
 *
 * What a recording does not tell: the bytes that were asked for, where neither the allocator nor a shape told them (then
 * they lie between two bounds, is_least tries the lower one); when memory that another stream uses is free, without the
 * tracker (it is taken to be at once); calls of empty_cache() that gave nothing back. Single-threaded.
 */
#ifndef VT_WHATIF_H
#define VT_WHATIF_H

#include "analyzer/allocator/blockslots.h"
#include "analyzer/ledger/series.h"
#include "analyzer/replay/replay.h"
#include "analyzer/whatif/arenas.h"
#include "analyzer/whatif/edits.h"
#include "analyzer/whatif/ideal.h"
#include "analyzer/whatif/torchengine.h"
#include "analyzer/whatif/tried.h"

/* Values of a series over time, in bytes. */
enum whatif_value {
	WHATIF_RECORDED, /* reserved, as PyTorch reported */
	WHATIF_RESERVED, WHATIF_ALLOCATED, WHATIF_UNUSED, /* under the first setting; reserved, and no tensor's */
};

/* One setting to be tried on all devices. */
struct whatif_setting {
	const char *text;   /* as PYTORCH_CUDA_ALLOC_CONF; NULL: the recorded ones */
	unsigned version;   /* ALLOCCONF_VERSION() of PyTorch, 0 = the recorded one */
	bool is_uncached;   /* PYTORCH_NO_CUDA_MEMORY_CACHING=1 */
	uint64_t capacity;  /* bytes; 0 = that of each device */
	bool is_endless;   /* a GPU that never runs out, whatever capacity says */
	bool is_least;     /* (struct tried) */
};

struct whatif_device {
	struct torchengine *torch; /* NULL: it serves nothing */
	const struct replay_process *process;
	uint32_t ordinal;
	const struct device_books *books;
	struct edits *edits; /* what other code would have asked for, of all settings; NULL: the same */
	size_t failed_step; /* of these: whose request ended the first setting's replay; SIZE_MAX: none did */
	struct tried recorded; /* the recorded settings on the recorded GPU, and the recorded requests */
	struct tried *tried;   /* one for each setting */
	size_t nr_tried;

	uint64_t requests;
	uint64_t unknown;       /* of them: the bytes asked for are not known */
	uint64_t unknown_bytes; /* the bytes of their blocks */
	uint64_t compared, differing; /* events with a report of what is reserved; of them: the model had something else */
	uint64_t differing_event;     /* ordinal of the first of these */
	bool is_kept;           /* what came before the recording's kept part is not there */
	struct ideal ideal;     /* what every setting is given, if somebody wants to know (struct whatif) */
	bool wants_ideal;
	bool is_pooled;         /* its tensors come from the driver's pool: nobody reports what is reserved */

	/* private */
	struct blockslots slots;
	struct arenas arenas;
	uint64_t told_address, told_bytes, completed_address; /* by the allocator, just now */
	bool has_tracker;
	uint64_t taking_event; /* the first call since the latest tensor's event that took memory; TFMT_NO_ORDINAL: none */
	bool is_emptied;      /* the cache was emptied, and nothing was asked for since */
	bool was_capturing;
	uint32_t nr_captures; /* each may have a pool of its own */
	uint32_t capture;     /* the private pool of the graph being captured, of the latest one */
	uint32_t refused_thread; /* has been refused memory, and tries again */
	bool is_refused;
};

/* A program has given its allocator other settings than it had at first. */
struct whatif_given {
	const struct replay_process *process;
	const char *text;  /* in effect now, the reader's */
	uint64_t times;
};

struct whatif {
	const struct whatif_setting *setting; /* the caller's */
	size_t nr_settings;
	struct edits *edits; /* the caller's, of some devices, closed */
	size_t nr_edits;
	struct whatif_device **device;
	size_t nr_devices, devices_room;
	struct torchengine *torch; /* is given the requests, too; may be NULL */
	struct series *series; /* enum whatif_value over time, on the recording's clock; NULL: nobody asks */
	bool wants_ideal; /* keep the blocks of each device (ideal.h): memory follows their number */
	struct whatif_given *given; /* what the processes have given their allocators; private */
	size_t nr_given, given_room;
	char wrong[256]; /* what the recorded version of PyTorch says of a setting; "" = nothing */
};

/* The version of PyTorch that a process ran with, as far as it is known of. */
unsigned whatif_version(const struct replay_process *p);

/* Zero it but for the settings. */
void whatif_release(struct whatif *w);

/* A struct replay_options observer; ctx is the struct whatif. It wants frees, and the past (observe_past). */
void whatif_observe(void *ctx, const struct replay_process *process, const struct tfmt_event *ev, uint64_t time_ns);

/* What is known of a device of the replay; NULL: no framework asked for memory there. */
struct whatif_device *whatif_of(const struct whatif *w, const struct replay_device *d);

/* How often the device's program has given its allocator other settings. */
uint64_t whatif_times_given(const struct whatif *w, const struct whatif_device *d);

/* Did the model, given the recorded settings, reserve at every event what PyTorch reported? */
bool whatif_is_exact(const struct whatif_device *d);

#endif
