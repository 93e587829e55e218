/* SPDX-License-Identifier: MIT */
/*
 * Asks libcuda.so.1 for every entry point of hooks.def in every way, before cuInit and after it, and prints a line for
 * each answer: `WAY NAME VERSION FLAGS: rc R status S = #N OWNER SYMBOL`. N numbers the addresses in the order in which
 * they first appear, so that two runs can be compared: where one has equal numbers, so must the other. OWNER is `ours`
 * for an address inside the recorder, `driver` for one of the driver's own, `nobody` for no answer; SYMBOL is what is
 * exported at exactly that address, `-` if nothing is. A few functions that are no rows are asked for as well.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct row {
	const char *symbol, *base;
	int version;
};

static const struct row rows[] = {
#define DRIVER(symbol, base, version, stream, records) { #symbol, base, version },
#include "libinterpose/hooks.def"
	{ "cuDriverGetVersion", "cuDriverGetVersion", 2020 },
	{ "cuDeviceGet", "cuDeviceGet", 2000 },
	{ "cuGetExportTable", "cuGetExportTable", 3000 },
	{ "cuNoSuchFunction", "cuNoSuchFunction", 12000 },
};
enum { NR_ROWS = sizeof(rows) / sizeof(*rows) };

/* Besides the rows' own versions: older than any, between two, newer than every header and driver. */
static const int more_versions[] = { 0, 1000, 2010, 3010, 11010, 11080, 12020, 12040, 12060, 12090, 13020, 14000, 99990 };
enum { NR_MORE = sizeof(more_versions) / sizeof(*more_versions) };

/* The default stream: as the library pleases, the legacy one, the thread's own; and both at once, which is no answer. */
static const uint64_t flags[] = { 0, 1, 2, 3 };

typedef int (*get_v1)(const char *, void **, int, uint64_t);
typedef int (*get_v2)(const char *, void **, int, uint64_t, int *);

static void *seen[4096];

static int number_of(void *address)
{
	int n = 0;

	while (seen[n] && seen[n] != address)
		if (++n == sizeof(seen) / sizeof(*seen) - 1)
			exit(3);
	seen[n] = address;
	return n;
}

static void show(void *address)
{
	Dl_info info = { .dli_fname = "" };

	if (!address) {
		puts("nobody");
		return;
	}
	dladdr(address, &info);
	printf("#%d %s %s\n", number_of(address), strstr(info.dli_fname, "libinterpose.so") ? "ours" : "driver",
	       info.dli_sname && info.dli_saddr == address ? info.dli_sname : "-");
}

static void ask_both(void *driver, const char *when, const char *base, int version, uint64_t flag)
{
	get_v1 v1 = (get_v1)dlsym(driver, "cuGetProcAddress");
	get_v2 v2 = (get_v2)dlsym(driver, "cuGetProcAddress_v2");
	int status = -1, rc;
	void *p = NULL;

	if (v1) {
		rc = v1(base, &p, version, flag);
		printf("%s v1 %s %d %d: rc %d = ", when, base, version, (int)flag, rc);
		show(p);
	}
	if (v2) {
		p = NULL;
		rc = v2(base, &p, version, flag, &status);
		printf("%s v2 %s %d %d: rc %d status %d = ", when, base, version, (int)flag, rc, status);
		show(p);
		p = NULL;
		rc = v2(base, &p, version, flag, NULL);
		printf("%s v2-no-status %s %d %d: rc %d = ", when, base, version, (int)flag, rc);
		show(p);
	}
}

static int is_first_of_its_base(int row)
{
	for (int i = 0; i < row; i++)
		if (!strcmp(rows[i].base, rows[row].base))
			return 0;
	return 1;
}

static int is_first_of_its_version(int row)
{
	for (int i = 0; i < row; i++)
		if (rows[i].version == rows[row].version)
			return 0;
	return 1;
}

static void ask_versions(void *driver, const char *when, const char *base)
{
	for (unsigned f = 0; f < sizeof(flags) / sizeof(*flags); f++) {
		for (int i = 0; i < NR_ROWS; i++)
			if (is_first_of_its_version(i))
				ask_both(driver, when, base, rows[i].version, flags[f]);
		for (int i = 0; i < NR_MORE; i++)
			ask_both(driver, when, base, more_versions[i], flags[f]);
	}
}

static void ask_all(void *driver, const char *when)
{
	for (int i = 0; i < NR_ROWS; i++) {
		printf("%s dlsym %s: ", when, rows[i].symbol);
		show(dlsym(driver, rows[i].symbol));
	}
	for (int i = 0; i < NR_ROWS; i++)
		if (is_first_of_its_base(i))
			ask_versions(driver, when, rows[i].base);
}

int main(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned), (*get_version)(int *), version = 0, rc;

	if (!driver) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	init = (int (*)(unsigned))dlsym(driver, "cuInit");
	get_version = (int (*)(int *))dlsym(driver, "cuDriverGetVersion");
	ask_all(driver, "before");
	rc = get_version(&version);
	printf("cuDriverGetVersion: %d, %d\n", rc, version);
	printf("cuInit: %d\n", init(0));
	ask_all(driver, "after");
	return 0;
}
