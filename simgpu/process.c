/* SPDX-License-Identifier: MIT */
/* Which processes still run, from /proc (process.h). */
#include "simgpu/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What /proc/PID/stat tells; proc(5) has the fields. */
struct stat_line {
	char state;
	unsigned long nr_threads;
	unsigned long long start;
};

static bool read_stat(unsigned pid, struct stat_line *line)
{
	char path[32], text[1024], *after_name;
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	if (n <= 0)
		return false;
	text[n] = 0;
	/* The name stands in parentheses and may contain some. */
	after_name = strrchr(text, ')');
	return after_name &&
	       sscanf(after_name + 1,
		      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %lu %*d %llu",
		      &line->state, &line->nr_threads, &line->start) == 3;
}

static uint32_t own_pid_space(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) ? 0 : (uint32_t)st.st_ino;
}

struct sim_process sim_process_self(void)
{
	struct sim_process self = { .pid = (uint32_t)getpid(), .pid_space = own_pid_space() };
	struct stat_line line;

	if (read_stat(self.pid, &line))
		self.start = line.start;
	return self;
}

bool sim_process_ended(const struct sim_process *process)
{
	struct stat_line line;

	if (process->pid_space != own_pid_space())
		return false;
	if (kill((pid_t)process->pid, 0) && errno == ESRCH)
		return true;
	if (!process->start || !read_stat(process->pid, &line))
		return false;
	/* A main thread that has ended before the others looks like a zombie, but for their number. */
	return line.start != process->start || line.state == 'X' ||
	       (line.state == 'Z' && line.nr_threads <= 1);
}
