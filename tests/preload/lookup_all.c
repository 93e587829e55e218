/* SPDX-License-Identifier: MIT */
/*
 * lookup_all WAY: looks every entry point of rows.def up in one way and prints, a line each, what it got:
 * `wrapped` for the recorder's wrapper of exactly that symbol, `wrapper of SYMBOL` for another, `real SYMBOL` for a
 * function that is not the recorder's, `none`. The ways are in the table at the end; two of them need the program
 * linked with driver and runtime (-DLINKED).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum stream { ANY, LEGACY, PER_THREAD };

struct row {
	const char *symbol, *base;
	int version;
	enum stream stream;
	void *direct;
};

#ifdef LINKED
#define DRIVER(symbol, base, version, stream, records) extern void symbol(void);
#define ALIAS(symbol, base, version)
#include "rows.def"
#undef DRIVER
#undef ALIAS
#define ADDRESS(symbol) (void *)symbol
extern int cudaGetDriverEntryPointByVersion(const char *, void **, unsigned, uint64_t, int *);
extern int cudaGetDriverEntryPointByVersion_ptsz(const char *, void **, unsigned, uint64_t, int *);
#else
#define ADDRESS(symbol) NULL
#endif

static const struct row rows[] = {
#define DRIVER(symbol, base, version, stream, records) { #symbol, base, version, stream, ADDRESS(symbol) },
#define ALIAS(symbol, base, version) { #symbol, base, version, ANY, NULL },
#include "rows.def"
};

typedef int (*get_v1)(const char *, void **, int, uint64_t);
typedef int (*get_v2)(const char *, void **, int, uint64_t, int *);
typedef int (*entry_point)(const char *, void **, uint64_t, int *);

static void *driver, *runtime;

static void *by_handle(const struct row *r)
{
	return dlsym(driver, r->symbol);
}

static void *by_version(const struct row *r)
{
	return dlvsym(driver, r->symbol, "DRIVER_1");
}

static void *by_default(const struct row *r)
{
	return dlsym(RTLD_DEFAULT, r->symbol);
}

static void *direct(const struct row *r)
{
	return r->direct;
}

static uint64_t flags_of(const struct row *r)
{
	return r->stream == PER_THREAD ? 2 : 0;
}

static void *by_v1(const struct row *r)
{
	get_v1 get = (get_v1)dlsym(driver, "cuGetProcAddress");
	void *p = NULL;

	return get(r->base, &p, r->version, flags_of(r)) ? NULL : p;
}

static void *by_v2(const struct row *r)
{
	get_v2 get = (get_v2)dlsym(driver, "cuGetProcAddress_v2");
	void *p = NULL;

	return get(r->base, &p, r->version, flags_of(r), NULL) ? NULL : p;
}

/* As libcudart does: cuGetProcAddress is asked for itself, for the form of CUDA 11 and for that of CUDA 12. */
static void *by_itself(const struct row *r, int version)
{
	get_v2 first = (get_v2)dlsym(driver, "cuGetProcAddress_v2");
	void *self = NULL, *p = NULL;
	int status;

	if (first("", &p, 0, 0, NULL) || first("cuGetProcAddress", &self, version, 0, NULL))
		return NULL;
	if (version < 12000)
		return ((get_v1)self)(r->base, &p, r->version, flags_of(r)) ? NULL : p;
	return ((get_v2)self)(r->base, &p, r->version, flags_of(r), &status) || status ? NULL : p;
}

static void *by_itself_11(const struct row *r)
{
	return by_itself(r, 11030);
}

static void *by_itself_12(const struct row *r)
{
	return by_itself(r, 12000);
}

static void *by_runtime(const struct row *r)
{
	int (*get)(const char *, void **, unsigned, uint64_t, int *) = NULL;
	void *p = NULL;

	*(void **)&get = dlsym(runtime, r->stream == PER_THREAD ? "cudaGetDriverEntryPointByVersion_ptsz" :
								  "cudaGetDriverEntryPointByVersion");
	return get(r->base, &p, (unsigned)r->version, 0, NULL) ? NULL : p;
}

/* The newest ABI: an older row gets the wrapper of a newer one, if that is the answer. */
static void *by_newest(const struct row *r)
{
	entry_point get = (entry_point)dlsym(runtime, r->stream == PER_THREAD ? "cudaGetDriverEntryPoint_ptsz" :
										 "cudaGetDriverEntryPoint");
	void *p = NULL;

	return get(r->base, &p, 0, NULL) ? NULL : p;
}

#ifdef LINKED
/* Through the recorder's wrapper of the runtime's door. */
static void *by_door(const struct row *r)
{
	void *p = NULL;
	int error = r->stream == PER_THREAD ?
			    cudaGetDriverEntryPointByVersion_ptsz(r->base, &p, (unsigned)r->version, 0, NULL) :
			    cudaGetDriverEntryPointByVersion(r->base, &p, (unsigned)r->version, 0, NULL);

	return error ? NULL : p;
}
#endif

static const struct {
	const char *name;
	void *(*look_up)(const struct row *);
} ways[] = {
	{ "handle", by_handle },       { "dlvsym", by_version },      { "default", by_default },
	{ "v1", by_v1 },               { "v2", by_v2 },               { "itself-11", by_itself_11 },
	{ "itself-12", by_itself_12 }, { "runtime", by_runtime },     { "newest", by_newest },
	{ "direct", direct },
#ifdef LINKED
	{ "door", by_door },
#endif
};

static void show(const struct row *r, void *p)
{
	Dl_info info = { .dli_fname = "" };
	bool ours = p && dladdr(p, &info) && strstr(info.dli_fname, "libinterpose.so");
	const char *name = info.dli_sname ? info.dli_sname : "?";

	printf("%s %s %d: ", r->symbol, r->base, r->version);
	if (!p)
		printf("none\n");
	else if (ours && !strcmp(name, r->symbol))
		printf("wrapped\n");
	else
		printf("%s %s\n", ours ? "wrapper of" : "real", name);
}

int main(int argc, char **argv)
{
	driver = dlopen("libcuda.so.1", RTLD_NOW);
	runtime = dlopen("libcudart.so.13", RTLD_NOW);
	for (unsigned i = 0; argc > 1 && i < sizeof(ways) / sizeof(*ways); i++)
		if (!strcmp(argv[1], ways[i].name))
			for (unsigned n = 0; n < sizeof(rows) / sizeof(*rows); n++)
				show(&rows[n], ways[i].look_up(&rows[n]));
	return 0;
}
