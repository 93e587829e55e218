/* SPDX-License-Identifier: MIT */
/* scenes SCENE ARGUMENT...: what libraries do to find functions; prints what came of it. The table is at the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef void *(*look_up_fn)(void *, const char *);
typedef void *(*open_fn)(const char *, int);
typedef int (*alloc_fn)(uint64_t *, size_t);
typedef int (*reduce_fn)(const void *, void *, size_t, int, int, void *, void *);

/* There without a driver, too, for the recorder exports them. */
extern int cuMemAlloc_v2(uint64_t *, size_t) __attribute__((weak));
extern int cuMemFree_v2(uint64_t) __attribute__((weak));
extern int cuMemHostAlloc(void **, size_t, unsigned) __attribute__((weak));

static void show(const char *what, void *p)
{
	Dl_info info;
	const char *slash;

	if (!p || !dladdr(p, &info)) {
		printf("%s: none\n", what);
		return;
	}
	slash = strrchr(info.dli_fname, '/');
	printf("%s: %s in %s\n", what, info.dli_sname ? info.dli_sname : "?", slash ? slash + 1 : info.dli_fname);
}

static void show_error(const char *what)
{
	const char *message = dlerror();

	printf("%s: %s\n", what, message ? message : "no error");
}

static void *symbol(void *handle, const char *name)
{
	return dlsym(handle, name);
}

/* LIBRARY: it looks up names like the driver's, by its own handle. */
static int own_names(char **argv)
{
	void *h = dlopen(argv[0], RTLD_NOW);
	look_up_fn look_up = (look_up_fn)symbol(h, "visitor_look_up");

	show("cudnnCreate", look_up(h, "cudnnCreate"));
	show("cuFoo", look_up(h, "cuFoo"));
	show("cuMemAlloc_v2", look_up(h, "cuMemAlloc_v2"));
	show("cuMemAlloc_v2 for the program", symbol(h, "cuMemAlloc_v2"));
	return 0;
}

/* LIBRARY: what dlerror() says, after lookups from there and from here, and with calls of the driver in between. */
static int errors(char **argv)
{
	void *h = dlopen(argv[0], RTLD_NOW);
	look_up_fn look_up = (look_up_fn)symbol(h, "visitor_look_up");
	uint64_t address = 0;

	dlerror();
	look_up(RTLD_DEFAULT, "cuMemAlloc_v2");
	show_error("default from the library");
	symbol(h, "cuMemAlloc_v2");
	show_error("handle");
	symbol(h, "no_such_function");
	show_error("unknown");
	dlvsym(h, "cuMemAlloc_v2", "V1");
	show_error("version");
	dlopen("no_such_library.so", RTLD_NOW);
	if (cuMemAlloc_v2)
		cuMemAlloc_v2(&address, 100);
	show_error("library, and a call");
	symbol(h, "no_such_function");
	if (cuMemFree_v2)
		cuMemFree_v2(address);
	show_error("unknown, and a call");
	symbol(h, "visitor_open");
	show_error("found");
	return 0;
}

/* LIBRARY: what dlerror() says of functions that are there because of the recorder alone, or not at all. */
static int missing(char **argv)
{
	static const char *const names[] = { "cuMemAlloc_v2", "cudaMalloc", "ncclAllReduce", "ncclGetVersion",
					     "cuptiSubscribe", "cuptiActivityEnable", "no_such_function",
					     "_ZN2at15sequence_number17get_and_incrementEv" };
	void *h = dlopen(argv[0], RTLD_NOW), *program = dlopen(NULL, RTLD_NOW);
	look_up_fn look_up = (look_up_fn)symbol(h, "visitor_look_up");

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++) {
		printf("%s: %d%d%d%d\n", names[i], !!symbol(RTLD_DEFAULT, names[i]), !!symbol(program, names[i]),
		       !!look_up(RTLD_DEFAULT, names[i]), !!look_up(program, names[i]));
		symbol(RTLD_DEFAULT, names[i]);
		show_error("from the program");
		symbol(program, names[i]);
		show_error("by its handle");
		look_up(RTLD_DEFAULT, names[i]);
		show_error("from the library");
		show_error("asked again");
		dlvsym(RTLD_DEFAULT, names[i], "V1");
		show_error("version");
		symbol(RTLD_DEFAULT, names[i]);
		symbol(RTLD_DEFAULT, "malloc");
		show_error("found another");
	}
	return 0;
}

/* ROOT NAME...: a library that ROOT needs looks up what others that ROOT needs may have. */
static int loaded_with(char **argv)
{
	void *h = dlopen(argv[0], RTLD_NOW | RTLD_LOCAL);
	look_up_fn look_up = (look_up_fn)symbol(h, "visitor_look_up");

	dlerror();
	for (argv++; *argv; argv++) {
		show(*argv, look_up(RTLD_DEFAULT, *argv));
		show_error("says");
	}
	return 0;
}

/* NCCL...: each is opened for everybody, used from one place and closed; nothing may come to lie where it lay. */
static int collectives(char **argv)
{
	for (; *argv; argv++) {
		void *h = dlopen(*argv, RTLD_NOW | RTLD_GLOBAL), *own = symbol(h, "ncclAllReduce");
		reduce_fn reduce = (reduce_fn)symbol(RTLD_DEFAULT, "ncclAllReduce");
		void *page = (void *)((uintptr_t)own & ~(uintptr_t)4095);

		printf("call: %d\n", reduce(NULL, NULL, 0, 0, 0, NULL, NULL));
		printf("close: %d\n", dlclose(h));
		mmap(page, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	}
	return 0;
}

/* NCCL: it makes a communicator out of another, and takes memory. */
static int collective_memory(char **argv)
{
	void *h = dlopen(argv[0], RTLD_NOW | RTLD_GLOBAL), *comm = NULL, *p = NULL;
	int (*shrink)(void *, int *, int, void **, void *, int) = (__typeof__(shrink))symbol(RTLD_DEFAULT, "ncclCommShrink");
	int (*alloc)(void **, size_t) = (__typeof__(alloc))symbol(RTLD_DEFAULT, "ncclMemAlloc");
	int (*window)(void *, void *, size_t, void **, int) =
		(__typeof__(window))symbol(RTLD_DEFAULT, "ncclCommWindowRegister");

	if (!h || alloc(&p, 1000) || shrink(NULL, NULL, 0, &comm, NULL, 0) || window(comm, NULL, 2000, &p, 0))
		return 1;
	printf("made: %p\n", comm);
	return 0;
}

/* FUNCTION LIBRARY...: what the function returns in each, all of them loaded. */
static int answers(char **argv)
{
	for (const char *name = *argv++; *argv; argv++) {
		void *h = dlopen(*argv, RTLD_NOW | RTLD_LOCAL);
		int (*function)(void *) = (int (*)(void *))symbol(h, name);

		printf("%d\n", function(NULL));
	}
	return 0;
}

/* LIBRARY NAME: the library opens another by a name that only its own DT_RUNPATH leads to. */
static int runpath(char **argv)
{
	open_fn open = (open_fn)symbol(dlopen(argv[0], RTLD_NOW), "visitor_open");

	printf("opened: %s\n", open(argv[1], RTLD_NOW) ? "yes" : dlerror());
	return 0;
}

/* LIBRARY...: what each finds in the driver. */
static int callers(char **argv)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	for (; *argv; argv++)
		show(strrchr(*argv, '/') + 1,
		     ((look_up_fn)symbol(dlopen(*argv, RTLD_NOW), "visitor_look_up"))(driver, "cuMemAlloc_v2"));
	return 0;
}

/* LIBRARY: it has a driver in its own scope, which is not the program's. */
static int local_scope(char **argv)
{
	void *h = dlopen(argv[0], RTLD_NOW | RTLD_LOCAL);
	alloc_fn alloc = (alloc_fn)((look_up_fn)symbol(h, "visitor_look_up"))(RTLD_DEFAULT, "cuMemAlloc_v2");
	uint64_t address = 0;

	show("for the library", (void *)alloc);
	show("for the program", symbol(RTLD_DEFAULT, "cuMemAlloc_v2"));
	printf("call: %d\n", alloc(&address, 4096));
	return 0;
}

/* Calls by symbol. */
static int calls(char **argv)
{
	unsigned *nr = symbol(RTLD_DEFAULT, "visitor_calls");
	uint64_t address = 0;

	(void)argv;
	for (int i = 0; i < 3 && cuMemAlloc_v2; i++)
		printf("call: %d\n", cuMemAlloc_v2(&address, 4096));
	if (nr)
		printf("through the trampoline: %u\n", *nr);
	return 0;
}

/* A function that the fake driver does not have. */
static int lacking(char **argv)
{
	void *p = NULL;

	(void)argv;
	if (cuMemHostAlloc)
		printf("call: %d\n", cuMemHostAlloc(&p, 4096, 0));
	return p != NULL;
}

/* DRIVER...: each is loaded, used and unloaded before the next. */
static int drivers(char **argv)
{
	for (; *argv; argv++) {
		void *h = dlopen(*argv, RTLD_NOW);
		alloc_fn alloc = (alloc_fn)symbol(h, "cuMemAlloc_v2");
		uint64_t address = 0;
		int result = alloc(&address, 4096);

		printf("call: %d %s\n", result, address ? "address" : "nothing");
		if (cuMemFree_v2)
			printf("free: %d\n", cuMemFree_v2(address));
		printf("close: %d\n", dlclose(h));
	}
	return 0;
}

/* DRIVER: one is here, the other in a namespace of its own. */
static int namespaces(char **argv)
{
	void *here = dlopen(argv[0], RTLD_NOW), *there = dlmopen(LM_ID_NEWLM, argv[0], RTLD_NOW);
	alloc_fn alloc = (alloc_fn)symbol(here, "cuMemAlloc_v2"), apart;
	uint64_t address = 0;

	if (!there) {
		printf("dlmopen: %s\n", dlerror());
		return 1;
	}
	apart = (alloc_fn)symbol(there, "cuMemAlloc_v2");
	show("here", (void *)alloc);
	show("there", (void *)apart);
	printf("call: %d\n", alloc(&address, 4096));
	printf("call: %d\n", apart(&address, 4096));
	return 0;
}

/* LIBRARY...: loaded with RTLD_DEEPBIND; then one allocation here, so that there is a recording. */
static int deep(char **argv)
{
	alloc_fn alloc = (alloc_fn)symbol(dlopen("libcuda.so.1", RTLD_NOW), "cuMemAlloc_v2");
	uint64_t address = 0;

	for (; *argv; argv++)
		printf("opened: %s\n", dlopen(*argv, RTLD_NOW | RTLD_DEEPBIND) ? "yes" : dlerror());
	printf("call: %d\n", alloc(&address, 4096));
	return 0;
}

/* Allocations and frees that an interposer makes of other ones; the last of either fails. */
static int swapped(char **argv)
{
	uint64_t large = 0, small = 0, none = 0;

	(void)argv;
	if (!cuMemAlloc_v2 || !cuMemFree_v2)
		return 1;
	printf("call: %d\n", cuMemAlloc_v2(&large, 4096));
	printf("call: %d\n", cuMemAlloc_v2(&small, 600));
	printf("call: %d\n", cuMemAlloc_v2(&none, (size_t)1 << 40));
	printf("free: %d\n", cuMemFree_v2(large));
	printf("free: %d\n", cuMemFree_v2(0xbad));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*play)(char **);
	} scenes[] = {
		{ "own_names", own_names }, { "errors", errors },   { "runpath", runpath },
		{ "callers", callers },     { "calls", calls },     { "local_scope", local_scope },
		{ "drivers", drivers },     { "deep", deep },       { "namespaces", namespaces },
		{ "lacking", lacking },     { "swapped", swapped },     { "missing", missing }, { "loaded_with", loaded_with },
		{ "answers", answers },     { "collectives", collectives },
		{ "collective_memory", collective_memory },
	};

	for (unsigned i = 0; argc > 1 && i < sizeof(scenes) / sizeof(*scenes); i++)
		if (!strcmp(argv[1], scenes[i].name))
			return scenes[i].play(argv + 2);
	return 2;
}
