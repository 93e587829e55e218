/* SPDX-License-Identifier: MIT */
/*
 * A program that loads its interpreter privately while it runs: embedder LIBPYTHON LIBSTACKPROBE. Three times, in an
 * interpreter that begins and ends, frees an object in Python code, whose destructor captures. Prints the depths seen,
 * and what interpreter was found.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

static const char program[] = "def drop():\n"
			      "    del globals()['tensor']\n"
			      "drop()\n";

/* dlsym's pointer as a function of any type. */
static void (*function(void *library, const char *name))(void)
{
	void (*f)(void) = (void (*)(void))dlsym(library, name);

	if (!f)
		fprintf(stderr, "embedder: no '%s'\n", name);
	return f;
}

#define CALL(library, type, name) ((type)function(library, #name))

/* Nodes from this one to the root. */
static unsigned depth(void *probe, uint32_t id)
{
	typedef const uint8_t *definition_fn(unsigned, uint32_t, uint32_t *);
	unsigned n = 0;
	uint32_t len;

	for (; id > 1; n++) {
		const uint8_t *p = CALL(probe, definition_fn *, probe_definition)(0, id, &len);
		unsigned shift = 0;

		if (!p)
			return 0;
		id = 0;
		do {
			id |= (uint32_t)(*p & 127) << shift;
			shift += 7;
		} while (*p++ & 128);
	}
	return n;
}

/* Frees the object in an interpreter that begins and ends; also looks where there is none any more. */
static void live(void *python, void *probe)
{
	void *capsule, *module;

	CALL(python, void (*)(void), Py_Initialize)();
	CALL(probe, void (*)(void), probe_start)();
	capsule = CALL(python, void *(*)(void *, const char *, void (*)(void)), PyCapsule_New)(
		&module, NULL, function(probe, "probe_capsule"));
	module = CALL(python, void *(*)(const char *), PyImport_AddModule)("__main__");
	CALL(python, int (*)(void *, const char *, void *), PyObject_SetAttrString)(module, "tensor", capsule);
	CALL(python, void (*)(void *), Py_DecRef)(capsule);
	CALL(python, int (*)(const char *, void *), PyRun_SimpleStringFlags)(program, NULL);
	printf("%u frames\n", depth(probe, CALL(probe, uint32_t(*)(void), probe_capsule_stack)()));
	CALL(python, int (*)(void), Py_FinalizeEx)();
	CALL(probe, void (*)(void *), probe_capsule)(NULL);
	printf("then %u\n", depth(probe, CALL(probe, uint32_t(*)(void), probe_capsule_stack)()));
}

int main(int argc, char **argv)
{
	void *python = argc == 3 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
	void *probe = argc == 3 ? dlopen(argv[2], RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!python || !probe) {
		fprintf(stderr, "embedder: %s\n", dlerror());
		return 2;
	}
	for (int i = 0; i < 3; i++)
		live(python, probe);
	puts(CALL(probe, const char *(*)(void), probe_support)());
	return 0;
}
