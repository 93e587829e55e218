/* SPDX-License-Identifier: MIT */
/*
 * Says why a program's CUDA calls fail when they reach a real CUDA runtime: it asks the driver for its private tables,
 * which are not offered, and gives up. Either the runtime was linked into the program (nvcc's default), or a shared one
 * was reached in a way that leaves no place for the simulated one.
 */
#include <execinfo.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "simgpu/handle.h"
#include "simgpu/internal.h"

#define FRAMES 16

/* The runtime's documented names of errors are in it as text; whoever only calls it has none of them. */
static const char marker[] = "cudaErrorInsufficientDriver";

struct module {
	uintptr_t address;		/* inside it */
	bool has_runtime;
	char path[4096];
};

static bool contains(const struct dl_phdr_info *info, const ElfW(Phdr) *segment, uintptr_t address)
{
	uintptr_t start = info->dlpi_addr + segment->p_vaddr;

	return segment->p_type == PT_LOAD && address >= start && address - start < segment->p_memsz;
}

/* memmem(), without what AddressSanitizer makes of it in programs: it minds the gaps between their objects. */
static bool holds_marker(const volatile char *p, size_t bytes)
{
	for (size_t i = 0; i + sizeof(marker) <= bytes; i++) {
		size_t matched = 0;

		while (matched < sizeof(marker) && p[i + matched] == marker[matched])
			matched++;
		if (matched == sizeof(marker))
			return true;
	}
	return false;
}

static bool is_in(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (contains(info, &info->dlpi_phdr[i], address))
			return true;
	return false;
}

/*
 * Modules without the marker, by where their headers are, so that who asks often does not have megabytes read each time.
 * Once a module was unloaded another may be at its place, and all are forgotten. dl_iterate_phdr() locks.
 */
static struct {
	const void *headers[32];
	unsigned nr;
	unsigned long long nr_unloaded;
} without;

static bool is_known(const struct dl_phdr_info *info)
{
	if (without.nr_unloaded != info->dlpi_subs) {
		without.nr = 0;
		without.nr_unloaded = info->dlpi_subs;
	}
	for (unsigned i = 0; i < without.nr; i++)
		if (without.headers[i] == info->dlpi_phdr)
			return true;
	return false;
}

static bool has_marker(const struct dl_phdr_info *info)
{
	if (is_known(info))
		return false;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *s = &info->dlpi_phdr[i];

		if (s->p_type == PT_LOAD && (s->p_flags & PF_R) && !(s->p_flags & PF_W) &&
		    holds_marker((const char *)(info->dlpi_addr + s->p_vaddr), s->p_filesz))
			return true;
	}
	if (without.nr < sizeof(without.headers) / sizeof(*without.headers))
		without.headers[without.nr++] = info->dlpi_phdr;
	return false;
}

static int look_into(struct dl_phdr_info *info, size_t size, void *data)
{
	struct module *m = data;

	(void)size;
	if (!is_in(info, m->address))
		return 0;
	/* The simulated libraries, which this is one of, have the names as well. */
	m->has_runtime = !is_in(info, (uintptr_t)&sim_private_tables_asked) && has_marker(info);
	snprintf(m->path, sizeof(m->path), "%s", info->dlpi_name);
	return 1;
}

static void name_program(struct module *m)
{
	ssize_t n = *m->path ? 0 : readlink("/proc/self/exe", m->path, sizeof(m->path) - 1);

	if (n > 0)
		m->path[n] = 0;
}

static void say(const char *path)
{
	if (sim_library_is_simulated(path))
		fprintf(stderr,
			"simgpu: the real '%s' was called, which cannot work on the simulated GPU (it needs undocumented "
			"tables of the driver): its CUDA calls fail; open it without RTLD_DEEPBIND and dlmopen, and look its "
			"functions up by its own handle\n",
			path);
	else
		fprintf(stderr,
			"simgpu: the CUDA runtime is linked into '%s', which the simulated GPU cannot serve "
			"(it needs undocumented tables of the driver): its CUDA calls fail; link it with "
			"'-cudart shared'\n",
			path);
}

void sim_private_tables_asked(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct module m;
	void *frames[FRAMES];
	int nr;

	/* A recorder may stand between the runtime and us. */
	nr = backtrace(frames, FRAMES);
	for (int i = 0; i < nr; i++) {
		m = (struct module){ .address = (uintptr_t)frames[i] };
		dl_iterate_phdr(look_into, &m);
		if (!m.has_runtime)
			continue;
		name_program(&m);
		if (!atomic_flag_test_and_set(&said))
			say(m.path);
		return;
	}
}
