/* SPDX-License-Identifier: MIT */
/* Moving a threshold, in builds that are made for it; see threshold.h. */
#include "analyzer/base/threshold.h"

#ifdef VT_MOVE_THRESHOLDS
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAMES_MAX 1024
#define MOVES_MAX 1024

/* One line of a list. */
struct move {
	char names[1024], output[4096]; /* names: with commas between */
	double factor;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char moved[1024]; /* names, with commas between */
static double factor = 1;
static const char *asked_path;
static const char *asked[NAMES_MAX]; /* a name that two files have may be there twice */
static size_t nr_asked;
static struct move *move;
static size_t nr_moves; /* none once they are made */

static void read_moves(const char *path)
{
	FILE *f = fopen(path, "r");

	move = calloc(MOVES_MAX, sizeof(*move));
	while (f && move && nr_moves < MOVES_MAX &&
	       fscanf(f, "%1023s %lf %4095s", move[nr_moves].names, &move[nr_moves].factor, move[nr_moves].output) == 3)
		nr_moves++;
	if (f)
		fclose(f);
}

static void read_environment(void)
{
	const char *text = getenv("VT_MOVED_THRESHOLD"), *equals = text ? strchr(text, '=') : NULL;

	if (getenv("VT_MOVED_THRESHOLDS"))
		read_moves(getenv("VT_MOVED_THRESHOLDS"));
	asked_path = getenv("VT_ASKED_THRESHOLDS");
	if (!equals)
		return;
	snprintf(moved, sizeof(moved), "%.*s", (int)(equals - text), text);
	factor = strtod(equals + 1, NULL);
}

static void note(const char *name)
{
	FILE *f;

	for (size_t i = 0; i < nr_asked; i++)
		if (asked[i] == name)
			return;
	if (nr_asked == NAMES_MAX)
		return;
	asked[nr_asked++] = name;
	f = fopen(asked_path, "a");
	if (!f)
		return;
	fprintf(f, "%s\n", name);
	fclose(f);
}

static bool is_among(const char *names, const char *name)
{
	size_t len = strlen(name);

	for (const char *at = strstr(names, name); at; at = strstr(at + 1, name))
		if ((at == names || at[-1] == ',') && (!at[len] || at[len] == ','))
			return true;
	return false;
}

static bool is_listed(const char *name)
{
	for (size_t i = 0; i < nr_moves; i++)
		if (is_among(move[i].names, name))
			return true;
	return false;
}

/* A process for each move. What stdout holds by now, each of them writes to its own output. */
static void make_moves(void)
{
	size_t nr = nr_moves;
	int fd;

	nr_moves = 0;
	for (size_t i = 0; i < nr; i++) {
		pid_t pid = fork();

		if (pid > 0) {
			waitpid(pid, NULL, 0);
			continue;
		}
		fd = pid ? -1 : open(move[i].output, O_WRONLY | O_CREAT | O_TRUNC, 0644);
		if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0)
			_exit(1);
		snprintf(moved, sizeof(moved), "%s", move[i].names);
		factor = move[i].factor;
		return;
	}
}

double threshold_moved(const char *name, double value, bool is_whole)
{
	double whole;

	pthread_once(&once, read_environment);
	if (asked_path) {
		pthread_mutex_lock(&lock);
		note(name);
		pthread_mutex_unlock(&lock);
	}
	if (nr_moves && is_listed(name))
		make_moves();
	if (!is_among(moved, name))
		return value;
	if (value > 0.5 && value < 1 && factor > 1) /* a share of nearly all */
		return 1 - (1 - value) / factor;
	if (!is_whole)
		return value * factor;
	whole = round(value * factor);
	if (whole == value && factor != 1)
		whole += factor > 1 ? 1 : -1;
	return whole;
}
#endif
