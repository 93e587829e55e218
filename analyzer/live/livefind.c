/* SPDX-License-Identifier: MIT */
/* Looking through /proc for processes that write a trace. */
#include "analyzer/live/livefind.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"
#include "analyzer/launch/askcensus.h"
#include "analyzer/recording/recording.h"

/* As the recorder names the thread that writes. */
#define WRITER_NAME "vramtrace-drain\n"

static void add_path(struct livepaths *p, const char *path)
{
	for (size_t i = 0; i < p->nr_paths; i++)
		if (!strcmp(p->path[i], path))
			return;
	p->path = heap_grow(p->path, &p->room, p->nr_paths + 1, sizeof(*p->path));
	p->path[p->nr_paths++] = heap_copy(path);
}

void livepaths_release(struct livepaths *p)
{
	for (size_t i = 0; i < p->nr_paths; i++)
		free(p->path[i]);
	free(p->path);
	*p = (struct livepaths){ 0 };
}

/* A file of /proc, as much of it as fits. False: it is gone. */
static bool read_text(char *text, size_t size, const char *path)
{
	FILE *file = fopen(path, "re");
	size_t n;

	if (!file)
		return false;
	n = fread(text, 1, size - 1, file);
	text[n] = 0;
	fclose(file);
	return n > 0;
}

/* The next entry of a folder of /proc that is a number, 0 at the end. */
static pid_t next_number(DIR *dir)
{
	struct dirent *entry;

	while ((entry = readdir(dir)) != NULL)
		if (isdigit((unsigned char)entry->d_name[0]))
			return (pid_t)strtol(entry->d_name, NULL, 10);
	return 0;
}

/* Has it a thread of the recorder's? Descriptors are many, names are quickly read. */
static bool is_recorded(pid_t pid)
{
	char path[64], name[64];
	bool found = false;
	pid_t thread;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && !found && (thread = next_number(dir)) != 0) {
		snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)thread);
		found = read_text(name, sizeof(name), path) && !strcmp(name, WRITER_NAME);
	}
	if (dir)
		closedir(dir);
	return found;
}

static void add_trace_of(struct livepaths *p, pid_t pid)
{
	char trace[PATH_MAX];

	if (is_recorded(pid) && !askcensus_find(trace, pid))
		add_path(p, trace);
}

void livefind_all(struct livepaths *p)
{
	DIR *dir = opendir("/proc");
	pid_t pid;

	while (dir && (pid = next_number(dir)) != 0)
		add_trace_of(p, pid);
	if (dir)
		closedir(dir);
}

/* 0: it is gone, or the first of all. */
static pid_t parent_of(pid_t pid)
{
	char path[64], text[512];
	const char *end;
	int parent;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (!read_text(text, sizeof(text), path))
		return 0;
	end = strrchr(text, ')'); /* of its name, which may hold anything */
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

static bool is_below(pid_t pid, pid_t root)
{
	for (int i = 0; pid > 0 && i < 256; i++) {
		if (pid == root)
			return true;
		pid = parent_of(pid);
	}
	return false;
}

bool livefind_process(struct livepaths *p, pid_t root)
{
	bool is_there = false;
	DIR *dir = opendir("/proc");
	pid_t pid;

	while (dir && (pid = next_number(dir)) != 0) {
		is_there |= pid == root;
		if (is_below(pid, root))
			add_trace_of(p, pid);
	}
	if (dir)
		closedir(dir);
	return is_there;
}

int livefind_recording(struct livepaths *p, const char *path, char *why, size_t size)
{
	struct recording r = { 0 };
	int ret = recording_open(&r, path, why, size);

	for (size_t i = 0; i < r.nr_traces && !ret; i++)
		add_path(p, r.trace[i]);
	recording_release(&r);
	return ret;
}
