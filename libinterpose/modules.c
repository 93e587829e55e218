/* SPDX-License-Identifier: MIT */
/* The executable mappings of the process; see modules.h. */
#include "modules.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interpose.h"

#define MODULE_MAX 4096
#define PATHS_BYTES (1u << 20)

struct module {
	uint64_t start, end, offset;
	const char *path;
	bool mapped; /* found by the last scan */
};

static struct {
	uint32_t generation; /* whose modules these are: a fork child begins anew */
	unsigned nr;
	struct module *module;
	char *paths;
	size_t paths_used;
} modules;

/* The tables of this process; those that a fork child inherits the pointers of are not mapped there. */
static bool modules_ready(void)
{
	if (modules.generation == ip_recorder->generation)
		return modules.module && modules.paths;
	modules.generation = ip_recorder->generation;
	modules.nr = 0;
	modules.paths_used = 0;
	modules.module = ip_map(MODULE_MAX * sizeof(*modules.module));
	modules.paths = ip_map(PATHS_BYTES);
	return modules.module && modules.paths;
}

bool modules_cover(uint64_t address)
{
	if (!modules_ready())
		return false;
	for (unsigned i = 0; i < modules.nr; i++)
		if (modules.module[i].mapped &&
		    address - modules.module[i].start < modules.module[i].end - modules.module[i].start)
			return true;
	return false;
}

const char *modules_find(const char *name)
{
	if (!modules_ready())
		return NULL;
	for (unsigned i = 0; i < modules.nr; i++) {
		const char *slash = strrchr(modules.module[i].path, '/');

		if (slash && !strncmp(slash + 1, name, strlen(name)))
			return modules.module[i].path;
	}
	return NULL;
}

/* Find the GNU build id among the notes in [note, note+len) and write it as hex. */
static bool note_build_id(const uint8_t *note, size_t len, char *hex, size_t hex_size)
{
	size_t at = 0;

	while (at + sizeof(Elf64_Nhdr) <= len) {
		Elf64_Nhdr n;
		size_t name, desc;

		memcpy(&n, note + at, sizeof(n));
		name = at + sizeof(n);
		desc = name + ((n.n_namesz + 3) & ~3u);
		if (desc + n.n_descsz > len || desc < name)
			return false;
		if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(note + name, "GNU", 4) &&
		    2 * n.n_descsz < hex_size) {
			for (size_t i = 0; i < n.n_descsz; i++)
				snprintf(hex + 2 * i, 3, "%02x", note[desc + i]);
			return true;
		}
		at = desc + ((n.n_descsz + 3) & ~3u);
	}
	return false;
}

/* The build id of the ELF file at path as hex, "" if it has none or cannot be read. */
static void read_build_id(const char *path, char *hex, size_t hex_size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr eh;

	hex[0] = 0;
	if (fd < 0)
		return;
	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_phentsize != sizeof(Elf64_Phdr))
		goto out;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		uint8_t notes[1024];
		Elf64_Phdr ph;
		ssize_t n;

		if (pread(fd, &ph, sizeof(ph), (off_t)(eh.e_phoff + i * sizeof(ph))) != sizeof(ph))
			goto out;
		if (ph.p_type != PT_NOTE)
			continue;
		n = pread(fd, notes, ph.p_filesz < sizeof(notes) ? ph.p_filesz : sizeof(notes), (off_t)ph.p_offset);
		if (n > 0 && note_build_id(notes, (size_t)n, hex, hex_size))
			goto out;
	}
out:
	close(fd);
}

/*
 * Where a mapping is to be noted; NULL if it is known, or there is no room. A known address range with another file
 * has been reused: replaced in place.
 */
static struct module *module_slot(const struct module *found, bool has_room)
{
	for (unsigned i = 0; i < modules.nr; i++) {
		struct module *m = &modules.module[i];

		if (m->start >= found->end || found->start >= m->end)
			continue;
		m->mapped = m->start == found->start && m->end == found->end && !strcmp(m->path, found->path);
		return m->mapped || !has_room ? NULL : m;
	}
	return has_room && modules.nr < MODULE_MAX ? &modules.module[modules.nr++] : NULL;
}

static void module_define(struct tfmt_writer *w, const struct module *found)
{
	uint8_t payload[PATH_MAX + 128], *p = payload;
	size_t len = strlen(found->path) + 1;
	struct module *m = module_slot(found, modules.paths_used + len <= PATHS_BYTES);
	char build_id[128];

	if (!m)
		return;
	*m = *found;
	m->mapped = true;
	m->path = memcpy(modules.paths + modules.paths_used, found->path, len);
	modules.paths_used += len;
	read_build_id(m->path, build_id, sizeof(build_id));
	p = tfmt_put_varint(p, m->start);
	p = tfmt_put_varint(p, m->end);
	p = tfmt_put_varint(p, m->offset);
	p = tfmt_put_string(p, m->path, len - 1);
	p = tfmt_put_string(p, build_id, strlen(build_id));
	tfmt_writer_definition(w, TFMT_DEF_MODULE, ip_next_id(TFMT_DEF_MODULE), payload, (size_t)(p - payload));
}

/* One line of /proc/self/maps: START-END perms OFFSET dev inode PATH; executable mappings of files only. */
static void scan_line(struct tfmt_writer *w, char *line)
{
	char *at = line, *path = strchr(line, '/'), *deleted;
	struct module m;

	m.start = strtoull(at, &at, 16);
	if (*at++ != '-')
		return;
	m.end = strtoull(at, &at, 16);
	if (!path || strlen(at) < 6 || at[3] != 'x')
		return;
	m.offset = strtoull(at + 6, NULL, 16);
	deleted = strstr(path, " (deleted)");
	if (deleted)
		*deleted = 0;
	m.path = path;
	module_define(w, &m);
}

void modules_scan(struct tfmt_writer *w)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	static char buf[16384];
	size_t used = 0;
	ssize_t n;

	if (fd < 0)
		return;
	for (unsigned i = 0; modules_ready() && i < modules.nr; i++)
		modules.module[i].mapped = false;
	while (modules_ready() && (n = read(fd, buf + used, sizeof(buf) - 1 - used)) > 0) {
		char *line = buf, *end;

		used += (size_t)n;
		buf[used] = 0;
		while ((end = strchr(line, '\n'))) {
			*end = 0;
			scan_line(w, line);
			line = end + 1;
		}
		used -= (size_t)(line - buf);
		memmove(buf, line, used);
		if (used == sizeof(buf) - 1)
			used = 0;
	}
	close(fd);
}
