/* SPDX-License-Identifier: MIT */
/* Which GPUs are above the share, and starting the command. */
#include "analyzer/live/livealert.h"

#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"

extern char **environ;

/* Processes of one machine share a GPU; without its UUID each process's is taken for another. */
static char *key_of(const struct liverow *r)
{
	const struct tfmt_device *info = &r->device->info;
	char *key;
	int n;

	if (info->uuid && *info->uuid)
		n = asprintf(&key, "%s %s", r->process->header->host, info->uuid);
	else
		n = asprintf(&key, "%s %" PRIu32, r->trace->path, r->device->ordinal);
	return heap_need(n < 0 ? NULL : key);
}

static struct livealert_gpu *gpu_of(struct livealert *a, const struct liverow *r)
{
	char *key = key_of(r);

	for (size_t i = 0; i < a->nr_gpus; i++) {
		if (strcmp(a->gpu[i].key, key) != 0)
			continue;
		free(key);
		return &a->gpu[i];
	}
	a->gpu = heap_grow(a->gpu, &a->room, a->nr_gpus + 1, sizeof(*a->gpu));
	a->gpu[a->nr_gpus] = (struct livealert_gpu){ .key = key };
	return &a->gpu[a->nr_gpus++];
}

/* The command's output goes to stderr: stdout is for the result. */
static void run_command(const struct livealert *a, const struct liverow *r, uint64_t used)
{
	char pid[16], device[16], bytes[32], capacity[32];
	const char *argv[] = { "sh", "-c", a->command, "vramtrace", pid, device, bytes, capacity, r->trace->path, NULL };
	posix_spawn_file_actions_t files;
	int err;
	pid_t child;

	snprintf(pid, sizeof(pid), "%" PRIu32, r->process->header->pid);
	snprintf(device, sizeof(device), "%" PRIu32, r->device->ordinal);
	snprintf(bytes, sizeof(bytes), "%" PRIu64, used);
	snprintf(capacity, sizeof(capacity), "%" PRIu64, r->device->capacity_bytes);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	if (a->is_quiet)
		posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
	err = posix_spawn(&child, "/bin/sh", &files, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&files);
	if (err)
		message_warn("cannot run the command of --alert: %s", strerror(err));
}

/* The row with the most of its GPU, of all rows with the same. */
static bool is_most(const struct live *l, const struct liverow *r)
{
	char *key = key_of(r);
	bool most = true;

	for (const struct liverow *other = l->row; other < l->row + l->nr_rows; other++) {
		char *others = other->device && other != r ? key_of(other) : NULL;

		if (others && !strcmp(others, key) &&
		    (other->most_share > r->most_share || (other->most_share == r->most_share && other < r)))
			most = false;
		free(others);
	}
	free(key);
	return most;
}

void livealert_check(struct livealert *a, const struct live *l,
		     void (*said)(void *ctx, const struct liverow *r, double share), void *ctx)
{
	while (waitpid(-1, NULL, WNOHANG) > 0)
		; /* commands that have ended */
	for (const struct liverow *r = l->row; r < l->row + l->nr_rows && a->share > 0; r++) {
		struct livealert_gpu *gpu;
		bool was_above;

		if (!r->device || !r->device->capacity_bytes || !is_most(l, r))
			continue;
		gpu = gpu_of(a, r);
		was_above = gpu->is_above;
		gpu->is_above = r->share >= a->share;
		if (was_above || r->most_share < a->share)
			continue;
		a->nr_raised++;
		said(ctx, r, r->most_share);
		if (a->command)
			run_command(a, r, (uint64_t)(r->most_share * (double)r->device->capacity_bytes + 0.5));
	}
}

void livealert_release(struct livealert *a)
{
	for (size_t i = 0; i < a->nr_gpus; i++)
		free(a->gpu[i].key);
	free(a->gpu);
	a->gpu = NULL;
}
