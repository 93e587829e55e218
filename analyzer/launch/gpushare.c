/* SPDX-License-Identifier: MIT */
/* The file through which processes share simulated GPUs (gpushare.h). */
#include "analyzer/launch/gpushare.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/recording/environment.h"

#define ROOM_MIN (1u << 20) /* the file takes a third of it */

/* Are we below a `run` that simulates something else, or a GPU file? Then its GPUs are not ours. */
static bool is_other_machine(const char *gpu, unsigned nr)
{
	const char *profile = environment_value("SIMGPU_PROFILE");
	const char *devices = environment_value("SIMGPU_DEVICES");

	if (environment_value("SIMGPU_MODEL"))
		return true;
	return (profile && strcmp(profile, gpu) != 0) || (devices && strtoul(devices, NULL, 10) != nr);
}

static bool has_room(const char *folder)
{
	struct statvfs fs;

	return !access(folder, W_OK | X_OK) && !statvfs(folder, &fs) && fs.f_bavail * fs.f_bsize >= ROOM_MIN;
}

/* Memory, where it is to be had: a container's /dev/shm may be tiny, full or absent. */
static const char *choose_folder(void)
{
	const char *temporary = environment_value("TMPDIR");

	if (has_room("/dev/shm"))
		return "/dev/shm";
	return temporary && *temporary == '/' && has_room(temporary) ? temporary : "/tmp";
}

void gpushare_choose(struct gpu_share *share, const char *gpu, unsigned nr)
{
	const char *given = environment_value("SIMGPU_SHARE");
	struct timespec now;

	share->is_inherited = given && !is_other_machine(gpu, nr);
	if (share->is_inherited) {
		snprintf(share->path, sizeof(share->path), "%s", given);
		return;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	snprintf(share->path, sizeof(share->path), "%s/simgpu-share-%d-%" PRIx64, choose_folder(),
		 (int)getpid(), (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec);
}

void gpushare_remove(const struct gpu_share *share)
{
	if (*share->path && !share->is_inherited)
		unlink(share->path);
}
