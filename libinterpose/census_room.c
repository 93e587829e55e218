/* SPDX-License-Identifier: MIT */
/* Limits of control groups, of the kernel's first interface for them and of the second. */
#include "census_room.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_BYTES 8192
#define NO_LIMIT (1ull << 60)  /* the first interface says the greatest number in whole pages where there is none */
#define MUCH (1ull << 30)      /* with so much left, what could be had besides is not asked for */

/* The files of a kind of limit, and where their hierarchy lies. */
static const struct kind {
	const char *controller; /* as /proc/self/cgroup has it; "" = the second interface */
	const char *mount, *limit, *usage, *idle;
} memory_kinds[] = {
	{ "", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file" },
	{ "", "/sys/fs/cgroup", "memory.high", "memory.current", "inactive_file" },
	{ "", "/sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file" },
	{ "memory", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file" },
	{ NULL, NULL, NULL, NULL, NULL },
}, task_kinds[] = {
	{ "", "/sys/fs/cgroup", "pids.max", "pids.current", NULL },
	{ "", "/sys/fs/cgroup/unified", "pids.max", "pids.current", NULL },
	{ "pids", "/sys/fs/cgroup/pids", "pids.max", "pids.current", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static const char *read_text(const char *path)
{
	static char text[TEXT_BYTES]; /* for one thread, which has no large stack */
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return NULL;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	return n > 0 ? text : NULL;
}

/* The number after a word that begins a line, or the one that begins the text; NO_LIMIT: there is none. */
static uint64_t number_of(const char *text, const char *word)
{
	size_t len = word ? strlen(word) : 0;

	while (text && word && (strncmp(text, word, len) || text[len] != ' ')) {
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
	if (text && word)
		text += len + 1;
	return text && *text >= '0' && *text <= '9' ? strtoull(text, NULL, 10) : NO_LIMIT;
}

static bool join(char path[CENSUS_ROOM_PATH], const char *folder, const char *name)
{
	int n = snprintf(path, CENSUS_ROOM_PATH, "%s/%s", folder, name);

	return n > 0 && n < CENSUS_ROOM_PATH;
}

/* Add a group's limit, if it has one. */
static void add(struct census_group *group, uint32_t *nr, const char *folder, const struct kind *k)
{
	struct census_group *g = &group[*nr];

	if (*nr == CENSUS_ROOM_GROUPS || !join(g->limit, folder, k->limit) || !join(g->usage, folder, k->usage) ||
	    !join(g->stat, folder, "memory.stat"))
		return;
	g->idle = k->idle;
	if (number_of(read_text(g->limit), NULL) < NO_LIMIT && number_of(read_text(g->usage), NULL) < NO_LIMIT)
		++*nr;
}

/* The group of this name and those it lies in; in a container its name may be the one that it has outside. */
static void add_named(struct census_group *group, uint32_t *nr, const char *root, const struct kind *k, const char *name)
{
	char folder[CENSUS_ROOM_PATH];
	int head = snprintf(folder, sizeof(folder), "%s%s", root, k->mount);
	int n = snprintf(folder, sizeof(folder), "%s%s%s", root, k->mount, strcmp(name, "/") ? name : "");

	if (n >= (int)sizeof(folder))
		folder[head] = 0;
	for (;;) {
		char *slash;

		add(group, nr, folder, k);
		slash = strrchr(folder, '/');
		if (slash < folder + head)
			return;
		*slash = 0;
	}
}

/* "4:memory:/docker/0123": the name of the group, if it is one of this controller. */
static bool name_in(const char *line, const char *controller, char name[CENSUS_ROOM_PATH])
{
	const char *begin = strchr(line, ':'), *end;
	size_t len;

	if (!begin || strncmp(++begin, controller, strlen(controller)) || begin[strlen(controller)] != ':')
		return false;
	begin += strlen(controller) + 1;
	end = strchr(begin, '\n');
	len = end ? (size_t)(end - begin) : strlen(begin);
	if (len >= CENSUS_ROOM_PATH)
		return false;
	memcpy(name, begin, len);
	name[len] = 0;
	return true;
}

static void look(struct census_group *group, uint32_t *nr, const char *root, const struct kind *kinds)
{
	char path[CENSUS_ROOM_PATH], name[CENSUS_ROOM_PATH];

	*nr = 0;
	for (const struct kind *k = kinds; k->mount; k++) {
		const char *line = join(path, root, "proc/self/cgroup") ? read_text(path) : NULL;

		while (line && !name_in(line, k->controller, name)) {
			line = strchr(line, '\n');
			line = line ? line + 1 : NULL;
		}
		if (line)
			add_named(group, nr, root, k, name);
	}
}

void census_room_look(struct census_room *r, const char *root)
{
	look(r->memory, &r->nr_memory, root, memory_kinds);
	look(r->tasks, &r->nr_tasks, root, task_kinds);
}

static uint64_t left_of(const struct census_group *g)
{
	uint64_t limit = number_of(read_text(g->limit), NULL), usage = number_of(read_text(g->usage), NULL), idle = 0;

	if (limit >= NO_LIMIT || usage >= NO_LIMIT)
		return UINT64_MAX;
	if (g->idle && limit < usage + MUCH)
		idle = number_of(read_text(g->stat), g->idle);
	if (idle < NO_LIMIT)
		usage -= idle < usage ? idle : usage;
	return usage < limit ? limit - usage : 0;
}

static uint64_t least(const struct census_group *group, uint32_t nr)
{
	uint64_t left = UINT64_MAX;

	for (uint32_t i = 0; i < nr; i++) {
		uint64_t of_this = left_of(&group[i]);

		left = of_this < left ? of_this : left;
	}
	return left;
}

uint64_t census_room_memory(const struct census_room *r)
{
	return least(r->memory, r->nr_memory);
}

uint64_t census_room_tasks(const struct census_room *r)
{
	return least(r->tasks, r->nr_tasks);
}

uint64_t census_room_resident(void)
{
	const char *text = read_text("/proc/self/statm"), *second = text ? strchr(text, ' ') : NULL;

	return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}
