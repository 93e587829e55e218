/* SPDX-License-Identifier: MIT */
/*
 * holds FILE CALL...: opens a library, makes calls of it and of NVIDIA's runtime by name, prints what each returns, and
 * at the end what the process holds: a line `held LIBRARY OWNER SYMBOL` for each pointer to an entry point of hooks.def
 * that stands in the data of a library or on the heap, OWNER being `ours` for the recorder's wrapper and `driver` for
 * the driver's own function. A runtime asks for them once and keeps them; whoever holds `driver` calls past the recorder.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const rows[] = {
#define DRIVER(symbol, base, version, stream, records) #symbol,
#include "libinterpose/hooks.def"
};

struct range {
	uintptr_t from, to;
	char name[256];
};

/* ---- what is held ------------------------------------------------------------------------------ */

static struct range texts[16], datas[1024];
static int nr_texts, nr_datas;

static bool is_row(const char *name)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (!strcmp(rows[i], name))
			return true;
	return false;
}

static bool is_named(const struct range *r, const char *name)
{
	const char *slash = strrchr(r->name, '/');

	return !strncmp(slash ? slash + 1 : r->name, name, strlen(name));
}

static bool is_one_of_the_two(const struct range *r)
{
	return is_named(r, "libcuda.so") || is_named(r, "libinterpose.so");
}

/* A mapping without a name that follows a library's data is that library's, too. */
static void read_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	struct range last = { 0 }, r;
	char line[512], access[8];

	while (f && fgets(line, sizeof(line), f)) {
		memset(&r, 0, sizeof(r));
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %7s %*s %*s %*s %255s", &r.from, &r.to, access, r.name) < 3)
			continue;
		if (!r.name[0] && r.from == last.to)
			memcpy(r.name, last.name, sizeof(r.name));
		if (is_one_of_the_two(&r) && access[2] == 'x' && nr_texts < 16)
			texts[nr_texts++] = r;
		if (!is_one_of_the_two(&r) && !strncmp(access, "rw", 2) && !is_named(&r, "[stack]") && nr_datas < 1024)
			datas[nr_datas++] = r;
		last = r;
	}
	if (f)
		fclose(f);
}

static const struct range *text_of(uintptr_t p)
{
	for (int i = 0; i < nr_texts; i++)
		if (texts[i].from <= p && p < texts[i].to)
			return &texts[i];
	return NULL;
}

static void show_held(const struct range *data)
{
	const char *slash = strrchr(data->name, '/');

	for (const uintptr_t *p = (const uintptr_t *)data->from; p < (const uintptr_t *)data->to; p++) {
		const struct range *text = text_of(*p);
		Dl_info info;

		if (text && dladdr((void *)*p, &info) && info.dli_saddr == (void *)*p && is_row(info.dli_sname))
			printf("held %s %s %s\n", slash ? slash + 1 : data->name[0] ? data->name : "anonymous",
			       is_named(text, "libinterpose.so") ? "ours" : "driver", info.dli_sname);
	}
}

/* ---- calls ------------------------------------------------------------------------------------- */

static void *library;

static void *function(const char *name)
{
	void *f = dlsym(library, name);

	return f ? f : dlsym(RTLD_DEFAULT, name);
}

static void say(const char *name, int result)
{
	const char *(*text)(int) = NULL;

	if (!strncmp(name, "cuda", 4))
		*(void **)&text = function("cudaGetErrorString");
	else if (!strncmp(name, "nccl", 4))
		*(void **)&text = function("ncclGetErrorString");
	printf("%s: %d %s\n", name, result, text ? text(result) : "");
	fflush(stdout);
}

/* What is called takes places for results, or one and a size, or one and a count of GPUs. */
static void call(const char *name)
{
	static char room[4][4096];
	int (*two)(void *, size_t) = NULL;
	int (*three)(void *, int, const int *) = NULL;
	int (*four)(void *, void *, void *, void *) = NULL;
	int (*none)(void *) = NULL;

	if (!function(name)) {
		printf("%s: not there\n", name);
	} else if (strstr(name, "Malloc") || strstr(name, "HostAlloc")) {
		*(void **)&two = function(name);
		say(name, two(room[0], 1 << 20));
	} else if (!strcmp(name, "ncclCommInitAll")) {
		*(void **)&three = function(name);
		say(name, three(room[0], 1, NULL));
	} else if (!strcmp(name, "cudaFree") || strstr(name, "Synchronize")) {
		*(void **)&none = function(name);
		say(name, none(NULL));
	} else {
		*(void **)&four = function(name);
		say(name, four(room[0], room[1], NULL, NULL));
	}
}

int main(int argc, char **argv)
{
	/* A runtime that finds no GPU closes the driver again; the addresses it holds are to keep their names. */
	dlopen("libcuda.so.1", RTLD_NOW);
	library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL) : NULL;
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	for (int i = 2; i < argc; i++)
		call(argv[i]);
	read_maps();
	for (int i = 0; i < nr_datas; i++)
		show_held(&datas[i]);
	return 0;
}
