/* SPDX-License-Identifier: MIT */
/*
 * Does something to the files around it while it takes GPU memory. Usage: hostile_places WHAT PAIRS ARGUMENT
 *
 *   command  run ARGUMENT by a shell after the first 1000 pairs
 *   first    the same before any
 *   root     make ARGUMENT the root of the file system before any
 *   user     become user 65534 after 1000 pairs; prints how many of its threads are still root's in the end
 */
#include <cuda_runtime_api.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long take(long pairs)
{
	long failed = 0;

	for (long i = 0; i < pairs; i++) {
		void *p;

		failed += cudaMalloc(&p, 4096) != cudaSuccess || cudaFree(p) != cudaSuccess;
	}
	return failed;
}

static int uid_of(const char *task)
{
	char path[300], line[256];
	int uid = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "Uid:", 4))
			uid = atoi(line + 4);
	if (f)
		fclose(f);
	return uid;
}

static void print_roots(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *entry;
	int nr = 0, nr_roots = 0;

	while (d && (entry = readdir(d)))
		if (entry->d_name[0] != '.') {
			nr++;
			nr_roots += uid_of(entry->d_name) == 0;
		}
	if (d)
		closedir(d);
	printf("%d of %d\n", nr_roots, nr);
}

int main(int argc, char **argv)
{
	const char *what = argc > 3 ? argv[1] : "";
	long pairs = argc > 3 ? atol(argv[2]) : 0, failed = 0;

	if (!strcmp(what, "first") && system(argv[3]))
		return 2;
	if (!strcmp(what, "root") && (chroot(argv[3]) || chdir("/")))
		return 2;
	if (!strcmp(what, "command") || !strcmp(what, "user")) {
		failed += take(1000);
		pairs -= 1000;
	}
	if (!strcmp(what, "command") && system(argv[3]))
		return 2;
	if (!strcmp(what, "user") && setuid(65534))
		return 2;
	failed += take(pairs);
	if (!strcmp(what, "user")) {
		usleep(500000);
		print_roots();
	}
	return failed ? 1 : 0;
}
