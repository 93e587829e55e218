/* SPDX-License-Identifier: MIT */
/* Descendants by the parents that /proc/PID/stat tells. */
#include "analyzer/maxfit/proctree.h"

#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct process {
	pid_t pid, parent;
};

/* The parent stands after the state, after the name, which may hold anything, parentheses, too. */
static bool read_parent(pid_t pid, pid_t *parent)
{
	char path[64], line[1024], *name_end;
	FILE *f;
	bool done;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	done = fgets(line, sizeof(line), f) != NULL;
	fclose(f);
	name_end = done ? strrchr(line, ')') : NULL;
	return name_end && sscanf(name_end + 1, " %*c %d", parent) == 1;
}

static struct process *list_all(size_t *nr)
{
	struct process *list = NULL, *grown;
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	size_t room = 0;

	*nr = 0;
	while (proc && (entry = readdir(proc))) {
		struct process p = { .pid = atoi(entry->d_name) };

		if (p.pid <= 0 || !read_parent(p.pid, &p.parent))
			continue;
		if (*nr == room) {
			grown = realloc(list, (2 * room + 256) * sizeof(*list));
			if (!grown)
				break;
			list = grown;
			room = 2 * room + 256;
		}
		list[(*nr)++] = p;
	}
	if (proc)
		closedir(proc);
	return list;
}

static bool is_among(pid_t pid, const pid_t *list, size_t nr)
{
	for (size_t i = 0; i < nr; i++)
		if (list[i] == pid)
			return true;
	return false;
}

static pid_t parent_of(const struct process *list, size_t nr, pid_t pid)
{
	for (size_t i = 0; i < nr; i++)
		if (list[i].pid == pid)
			return list[i].parent;
	return 0;
}

void proctree_kill_below(pid_t root, const pid_t *spare, size_t nr)
{
	size_t nr_listed;
	struct process *list = list_all(&nr_listed);

	for (size_t i = 0; i < nr_listed; i++) {
		pid_t at = list[i].pid;
		/* Parents change while they are listed: there could be a ring. */
		size_t depth = 0;

		while (at > 0 && at != root && !is_among(at, spare, nr) && depth++ < nr_listed)
			at = parent_of(list, nr_listed, at);
		if (at == root && list[i].pid != root)
			kill(list[i].pid, SIGKILL);
	}
	free(list);
}
