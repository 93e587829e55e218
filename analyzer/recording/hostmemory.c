/* SPDX-License-Identifier: MIT */
/* What the kernel tells of a control group's memory, and the notes about it. */
#include "analyzer/recording/hostmemory.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/recording/generation.h"
#include "analyzer/recording/job.h"

#define NO_LIMIT_BYTES (1ull << 60) /* version 1 says LONG_MAX in whole pages where there is none */
#define SUFFIX ".host"
#define KILLS "oom_kills"
#define MACHINE "machine"
#define LIMIT "limit_bytes"
#define SHARED "shared_bytes"

/* ---- the kernel's files ---------------------------------------------------------------------- */

/* The number after a word that begins a line ("" = of the first line); false if there is none. */
static bool read_number(const char *path, const char *word, uint64_t *out)
{
	FILE *f = fopen(path, "re");
	size_t len = strlen(word);
	bool found = false;
	char line[256];

	while (f && !found && fgets(line, sizeof(line), f)) {
		const char *p = line + len;

		if (strncmp(line, word, len) || (len && *p != ' '))
			continue;
		p += strspn(p, " ");
		found = *p >= '0' && *p <= '9';
		if (found)
			*out = strtoull(p, NULL, 10);
		else if (!len)
			break;
	}
	if (f)
		fclose(f);
	return found;
}

/* Where a hierarchy lies: version 2's, or version 1's with the memory controller. */
static const char *const mounts[] = { "sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/memory" };

/* The names of one version's files. */
static const struct version {
	const char *kills, *limit, *shared;
} versions[] = { { "memory.events", "memory.max", "shmem" },
		 { "memory.oom_control", "memory.limit_in_bytes", "total_shmem" } };

static bool read_group(struct hostmemory *h, const char *folder, const struct version *v)
{
	char path[PATH_MAX];

	if (generation_join(path, folder, v->kills) || !read_number(path, "oom_kill", &h->nr_kills))
		return false;
	h->is_known = true;
	if (!generation_join(path, folder, v->limit) && read_number(path, "", &h->limit_bytes) &&
	    h->limit_bytes >= NO_LIMIT_BYTES)
		h->limit_bytes = 0;
	if (!generation_join(path, folder, "memory.stat"))
		read_number(path, v->shared, &h->shared_bytes);
	return true;
}

/* A group by its name in its hierarchy; in a container the name may be the one that it has outside. */
static bool read_named(struct hostmemory *h, const char *root, const char *name)
{
	static const char own[] = "";
	const char *names[] = { name, own };
	char folder[PATH_MAX];

	for (size_t n = 0; n < sizeof(names) / sizeof(*names); n++)
		for (size_t i = 0; i < sizeof(mounts) / sizeof(*mounts); i++)
			for (size_t v = 0; v < sizeof(versions) / sizeof(*versions); v++)
				if (snprintf(folder, sizeof(folder), "%s/%s%s", root, mounts[i], names[n]) <
					    (int)sizeof(folder) &&
				    read_group(h, folder, &versions[v]))
					return true;
	return false;
}

/* "4:memory:/docker/0123": the group's name if the line is about the memory controller, or version 2's ("0::/..."). */
static const char *name_in(char *line)
{
	char *controllers = strchr(line, ':'), *name = controllers ? strchr(controllers + 1, ':') : NULL;

	line[strcspn(line, "\n")] = 0;
	if (!name)
		return NULL;
	*name++ = 0;
	controllers++;
	return !strcmp(controllers, "memory") || (!*controllers && !strncmp(line, "0:", 2)) ? name : NULL;
}

void hostmemory_read(struct hostmemory *h, const char *root)
{
	char path[PATH_MAX], line[PATH_MAX];
	const char *name;
	FILE *f = NULL;

	*h = (struct hostmemory){ 0 };
	if (snprintf(path, sizeof(path), "%s/proc/self/cgroup", root) < (int)sizeof(path))
		f = fopen(path, "re");
	while (f && !h->is_known && fgets(line, sizeof(line), f)) {
		name = name_in(line);
		if (name)
			read_named(h, root, strcmp(name, "/") ? name : "");
	}
	if (f)
		fclose(f);
	if (!h->is_known && snprintf(path, sizeof(path), "%s/proc/vmstat", root) < (int)sizeof(path))
		h->is_known = h->is_machine = read_number(path, "oom_kill", &h->nr_kills);
}

void hostmemory_follow(void *context)
{
	struct hostmemory *before = context, now;

	hostmemory_read(&now, "");
	if (before->is_known && now.nr_kills == before->nr_kills)
		before->shared_bytes = now.shared_bytes;
}

/* ---- notes ----------------------------------------------------------------------------------- */

bool hostmemory_is_note(const char *name)
{
	size_t len = strlen(name);

	return len > strlen(SUFFIX) && !strcmp(name + len - strlen(SUFFIX), SUFFIX);
}

void hostmemory_note(const char *dir, const struct hostmemory *before)
{
	char name[512], path[PATH_MAX], host[256];
	struct hostmemory now;
	int fd;

	hostmemory_read(&now, "");
	if (!before->is_known || !now.is_known || now.nr_kills < before->nr_kills)
		return;
	job_host(host, sizeof(host));
	snprintf(name, sizeof(name), "%s.%d" SUFFIX, host, (int)getpid());
	if (generation_join(path, dir, name))
		return;
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	dprintf(fd, KILLS " %" PRIu64 "\n" MACHINE " %d\n" LIMIT " %" PRIu64 "\n" SHARED " %" PRIu64 "\n",
		now.nr_kills - before->nr_kills, now.is_machine, now.limit_bytes,
		now.nr_kills > before->nr_kills ? before->shared_bytes : now.shared_bytes);
	close(fd);
}

/* A word's number in a note's text; 0 if it is not there. */
static bool noted_number(const struct hostmemory_note *note, const char *word, uint64_t *out)
{
	size_t len = strlen(word);
	const char *p = note->text;

	*out = 0;
	while (p && (strncmp(p, word, len) || p[len] != ' ')) {
		p = strchr(p, '\n');
		p = p ? p + 1 : NULL;
	}
	if (p)
		*out = strtoull(p + len, NULL, 10);
	return p;
}

bool hostmemory_read_note(struct hostmemory_note *note, const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *dot, *end;
	int fd = hostmemory_is_note(name) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, note->text, sizeof(note->text) - 1);
	close(fd);
	note->text[n > 0 ? n : 0] = 0;
	if (n > 0 && note->text[n - 1] == '\n')
		note->text[n - 1] = 0;
	end = name + strlen(name) - strlen(SUFFIX);
	for (dot = end; dot > name && dot[-1] != '.';)
		dot--;
	if (n <= 0 || dot == name)
		return false;
	snprintf(note->host, sizeof(note->host), "%.*s", (int)(dot - 1 - name), name);
	snprintf(note->pid, sizeof(note->pid), "%.*s", (int)(end - dot), dot);
	return true;
}

void hostmemory_noted(struct hostmemory *h, const char *trace, const char *host)
{
	const char *slash = strrchr(trace, '/');
	char dir[PATH_MAX], path[PATH_MAX];
	struct hostmemory_note note;
	struct dirent *entry;
	uint64_t nr, machine;
	DIR *d;

	*h = (struct hostmemory){ 0 };
	snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - trace) : 1, slash ? trace : ".");
	d = opendir(*dir ? dir : "/");
	while (d && (entry = readdir(d))) {
		if (generation_join(path, dir, entry->d_name) || !hostmemory_read_note(&note, path) ||
		    strcmp(note.host, host) || !noted_number(&note, KILLS, &nr) ||
		    (h->is_known && h->nr_kills >= nr))
			continue;
		*h = (struct hostmemory){ .is_known = true, .nr_kills = nr };
		noted_number(&note, MACHINE, &machine);
		h->is_machine = machine;
		noted_number(&note, LIMIT, &h->limit_bytes);
		noted_number(&note, SHARED, &h->shared_bytes);
	}
	if (d)
		closedir(d);
}
