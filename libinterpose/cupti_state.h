/* SPDX-License-Identifier: MIT */
/*
 * What the files of our CUPTI client share: its functions, its state, its counters.
 *
 * The state hangs on the recorder's, which a fork child finds zeroed: callbacks that a child inherits do
 * nothing. Callbacks run on the program's threads, inside its calls. They make no CUDA and no CUPTI call,
 * but for asking the current device when a call returns.
 */
#ifndef IP_CUPTI_STATE_H
#define IP_CUPTI_STATE_H

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
/* Not cupti.h itself: it declares old structures that cuda.h has already. */
#include <cupti_result.h>
#include <cupti_version.h>
#include <cupti_callbacks.h>
#include <cupti_activity.h>
#include <cupti_driver_cbid.h>

#include "cupti.h"

/* Functions of CUPTI, from the library that the process uses; what is not needed may be NULL. */
#define CUPTI_FUNCTIONS(F)                                  \
	F(cuptiGetVersion, true)                            \
	F(cuptiGetResultString, true)                       \
	F(cuptiSubscribe, true)                             \
	F(cuptiSubscribe_v2, false)                         \
	F(cuptiUnsubscribe, true)                           \
	F(cuptiEnableCallback, true)                        \
	F(cuptiGetDeviceId, false)                          \
	F(cuptiActivityRegisterCallbacks, false)            \
	F(cuptiActivityEnable, false)                       \
	F(cuptiActivityDisable, false)                      \
	F(cuptiActivityFlushAll, false)                     \
	F(cuptiActivityFlushPeriod, false)                  \
	F(cuptiActivityGetNextRecord, false)                \
	F(cuptiActivityGetNumDroppedRecords, false)

struct cupti_functions {
#define F(name, is_needed) __typeof__(&name) name;
	CUPTI_FUNCTIONS(F)
#undef F
};

#define CUPTI_NR_CALLS 1024   /* callback ids of driver functions; today's end below 900 */
#define CUPTI_NR_CONTEXTS 64  /* more at one time have no device */
#define CUPTI_NR_PENDING 256  /* objects made before anything is recorded; more are counted */
#define CUPTI_NR_MODULES 65536 /* ids of modules whose end is recorded */
#define CUPTI_NR_BUFFERS 4
#define CUPTI_BUFFER_BYTES (64u << 10)
#define CUPTI_NR_KINDS 8      /* CUpti_ActivityMemoryKind */

struct cupti_memory {
	_Atomic uint64_t allocs, frees, alloc_bytes, free_bytes;
};

struct cupti_object {
	struct tfmt_record record;
	CUcontext context;
};

struct cupti_context {
	_Atomic(CUcontext) context; /* NULL = a free row; rows are taken under object_lock */
	_Atomic uint8_t device;
	bool is_hooked;    /* made by a call that has a hook */
};

struct ip_cupti {
	struct cupti_functions api;
	CUpti_SubscriberHandle subscriber;
	_Atomic bool is_subscribed;   /* callbacks are ours to handle */
	_Atomic bool has_activities;
	bool has_begun;               /* to tell, whether it goes on or not: there are sums */
	uint32_t version;
	uint64_t start_ns;
	const char *_Atomic status;   /* for the trace, one of texts */
	_Atomic uint32_t nr_texts;
	char texts[4][192];
	const char *written_status;   /* in the trace; drain thread */
	uint64_t written_unhooked, written_told_of;

	/* cupti_crosscheck.c */
	uint8_t row[CUPTI_NR_CALLS];  /* by callback id: index of the call + 1, 0 = none */
	bool is_expected[FN_NR];      /* hooks whose calls CUPTI has to tell of */
	_Atomic uint64_t calls;       /* that were told of */
	_Atomic uint64_t unhooked;    /* of which no hook saw */
	_Atomic uint64_t untold;      /* calls of hooks that CUPTI did not tell of */

	/* cupti_objects.c */
	_Atomic uint32_t object_lock;
	struct cupti_context context[CUPTI_NR_CONTEXTS];
	struct cupti_object pending[CUPTI_NR_PENDING];
	unsigned nr_pending;
	_Atomic bool has_pending;
	_Atomic uint64_t contexts, modules, module_bytes, objects_lost;
	_Atomic uint64_t known_module[CUPTI_NR_MODULES / 64];

	/* cupti_records.c */
	uint8_t *buffers;
	_Atomic uint32_t buffers_taken; /* bits */
	_Atomic uint64_t records, records_lost, pools, pool_peak_bytes, pool_used_peak_bytes;
	struct cupti_memory memory[CUPTI_NR_KINDS];
};

/* What CUPTI's status is from now on, printf-like. Kept until the process ends. */
void cupti_status(struct ip_cupti *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Enable what each part wants; before anything of the program can be told of. */
void cupti_crosscheck_start(struct ip_cupti *c);
void cupti_objects_start(struct ip_cupti *c);
void cupti_activity_start(struct ip_cupti *c);

/* Have CUPTI hand over all records, and want no more. Not in a callback. */
void cupti_activity_stop(struct ip_cupti *c);

/* A driver call begins or returns. */
void cupti_crosscheck(struct ip_cupti *c, CUpti_CallbackId id, const CUpti_CallbackData *data);

/* A context or module comes or goes. */
void cupti_object(struct ip_cupti *c, CUpti_CallbackIdResource what, const CUpti_ResourceData *data);

/* CONTEXT has been seen to be one of DEVICE. */
void cupti_context_on(struct ip_cupti *c, CUcontext context, unsigned device);

/* The device of CONTEXT; TFMT_DEVICE_NONE while it is not known. */
unsigned cupti_context_device(struct ip_cupti *c, CUcontext context);

/* Record the objects that had to wait and whose device is known by now; with ANY, also the others. */
void cupti_objects_record(struct ip_cupti *c, bool any);

/* The process ends, outside of callbacks: find out what was not known, and record what still waits. */
void cupti_objects_end(struct ip_cupti *c);

#endif
