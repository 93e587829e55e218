/* SPDX-License-Identifier: MIT */
/*
 * A libcuda.so.1 with every entry point of rows.def (rows of libinterpose/hooks.def, written by the test), none of
 * which does anything. cuGetProcAddress answers as documented: the newest ABI up to the version asked for.
 *
 * Compiled with -DTHUNKS it answers with other addresses than those it exports, which a driver may do.
 * DRIVER_LOG names a file that gets, at the end, how often it was asked, and how often through the recorder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum stream { ANY, LEGACY, PER_THREAD };

struct row {
	const char *base;
	int version;
	enum stream stream;
	int (*function)(void);
};

/* Each function is another: the linker must not fold them. */
#define DRIVER(symbol, base, version, stream, records)             \
	int symbol(void);                                          \
	int symbol(void) { return __LINE__; }                      \
	static int thunk_##symbol(void) { return -__LINE__; }
#define ALIAS(symbol, base, version)
#include "rows.def"
#undef DRIVER
#undef ALIAS

#ifdef THUNKS
#define ANSWER(symbol) thunk_##symbol
#else
#define ANSWER(symbol) ((void)thunk_##symbol, symbol)
#endif

static unsigned nr_asked, nr_by_recorder;

static __attribute__((destructor)) void write_log(void)
{
	const char *path = getenv("DRIVER_LOG");
	FILE *f = path ? fopen(path, "w") : NULL;

	if (f) {
		fprintf(f, "%u %u\n", nr_asked, nr_by_recorder);
		fclose(f);
	}
}

/*
 * Runtimes since CUDA 13.2 look this one up by dlsym, and ask for nothing else where it is missing. They ask an older
 * driver for less: this one is newer than all of them.
 */
int cuDriverGetVersion(int *version);
int cuDriverGetVersion(int *version)
{
	*version = 99000;
	return 0;
}

/* Stands for all those that the recorder does not know; runtimes see that there is no device, and stop. */
static int other(void)
{
	return 100;
}

int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status);
int cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags);

static void *find(const char *symbol, int version, uint64_t flags)
{
	const struct row rows[] = {
#define DRIVER(symbol, base, version, stream, records) { base, version, stream, ANSWER(symbol) },
#define ALIAS(symbol, base, version) { base, version, ANY, ANSWER(symbol) },
#include "rows.def"
		{ "cuGetProcAddress", 11030, ANY, (int (*)(void))cuGetProcAddress },
		{ "cuGetProcAddress", 12000, ANY, (int (*)(void))cuGetProcAddress_v2 },
	};
	const struct row *best = NULL;

	for (const struct row *r = rows; r < rows + sizeof(rows) / sizeof(*rows); r++)
		if (!strcmp(r->base, symbol) && r->version <= version &&
		    r->stream != (flags & 2 ? LEGACY : PER_THREAD) && (!best || r->version > best->version))
			best = r;
	if (best)
		return (void *)best->function;
	if (!strcmp(symbol, "cuDriverGetVersion"))
		return (void *)cuDriverGetVersion;
	return strstr(symbol, "NoSuch") ? NULL : (void *)other;
}

int cuGetProcAddress_v2(const char *symbol, void **pfn, int version, uint64_t flags, int *status)
{
	Dl_info info;

	if (!*symbol) /* how the runtime finds out whether this is the toolkit's stub library */
		return 0;
	nr_asked++;
	nr_by_recorder += dladdr(__builtin_return_address(0), &info) && strstr(info.dli_fname, "libinterpose.so");
	*pfn = find(symbol, version, flags);
	if (status)
		*status = *pfn ? 0 : 1;
	return *pfn ? 0 : 500;
}

int cuGetProcAddress(const char *symbol, void **pfn, int version, uint64_t flags)
{
	*pfn = find(symbol, version, flags);
	return *pfn ? 0 : 500;
}
