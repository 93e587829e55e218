/* SPDX-License-Identifier: MIT */
/*
 * What the programs share that go through hooks.def row by row: each case makes calls, good ones and bad
 * ones, and prints, one JSON object a line, the events that must be in the trace, in order, and what must be
 * live. usage: PROGRAM [CASE]; without a case it prints the names of all.
 */
#ifndef TEST_ROWS_H
#define TEST_ROWS_H

#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)
#define TOO_MUCH ((size_t)1 << 50)
#define INVALID 1
#define NO_MEMORY 2

struct test_case {
	const char *name;
	void (*run)(void);
};
#define CASE(name)                                                                                           \
	{                                                                                                    \
#name, name                                                                                  \
	}

static void returns(int result, int wanted, const char *call, int line)
{
	if (result == wanted)
		return;
	fprintf(stderr, "line %d: %s returned %d, not %d\n", line, call, result, wanted);
	exit(1);
}
#define OK(call) returns((int)(call), 0, #call, __LINE__)
#define FAILS(error, call) returns((int)(call), error, #call, __LINE__)

/* An event: `what` is its space or object, `more` further fields (", \"key\": value" each). */
static void expect_more(const char *kind, const char *what, const char *call, uint64_t address, uint64_t size,
			const char *more)
{
	printf("{\"kind\": \"%s\", \"what\": \"%s\", \"call\": \"%s\", \"address\": %" PRIu64
	       ", \"size\": %" PRIu64 "%s}\n",
	       kind, what, call, address, size, more);
}

static inline void expect(const char *kind, const char *what, const char *call, uint64_t address,
			  uint64_t size)
{
	expect_more(kind, what, call, address, size, "");
}

/* The driver's memory live now, as the analyzer must count it; of several the last holds. */
static inline void live(uint64_t bytes)
{
	printf("{\"live\": %" PRIu64 "}\n", bytes);
}

static inline void allocated(const char *space, const char *call, uint64_t address, uint64_t size)
{
	expect("driver_alloc", space, call, address, size);
}

static inline void freed(const char *space, const char *call, uint64_t address, uint64_t size)
{
	expect("driver_free", space, call, address, size);
}

static inline void refused(const char *space, const char *call, uint64_t size)
{
	expect("alloc_failed", space, call, 0, size);
}

/* A free of what is none: recorded before the call, and taken back. */
static inline void not_freed(const char *space, const char *call, uint64_t address)
{
	expect("driver_free", space, call, address, 0);
	expect("free_failed", "", call, address, 0);
}

static inline void born(const char *object, const char *call, const void *handle, uint64_t size)
{
	expect("object_new", object, call, (uintptr_t)handle, size);
}

static inline void gone(const char *object, const char *call, const void *handle)
{
	expect("object_gone", object, call, (uintptr_t)handle, 0);
}

static int run_case(int argc, char **argv, const struct test_case *cases, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (argc < 2) {
			puts(cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return 0;
		}
	}
	return argc < 2 ? 0 : 2;
}
#define RUN_CASES(argc, argv, ...)                                                                           \
	({                                                                                                   \
		const struct test_case cases_[] = { __VA_ARGS__ };                                           \
		run_case(argc, argv, cases_, sizeof(cases_) / sizeof(*cases_));                              \
	})

/* The primary context of device 0, current. */
static inline CUcontext use_primary(void)
{
	CUcontext context;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, 0));
	OK(cuCtxSetCurrent(context));
	return context;
}

#endif
