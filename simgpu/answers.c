/* SPDX-License-Identifier: MIT */
/* Answers of the model file to the libraries' questions, and the log of what was asked. */
#include "simgpu/answers.h"
#include "simgpu/file_limit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "simgpu/simgpu.h"

struct answer {
	char *question;
	size_t bytes;
};

static struct answer *answers; /* in order of question once all are added */
static size_t nr_answers;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static void *asked; /* a tree of the questions in the log */

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct answer *)a)->question, ((const struct answer *)b)->question);
}

void sim_answers_add(const char *question, size_t bytes)
{
	if (!(nr_answers & (nr_answers - 1)))
		answers = sim_realloc(answers, (nr_answers ? 2 * nr_answers : 1) * sizeof(*answers));
	answers[nr_answers].question = strcpy(sim_alloc(strlen(question) + 1), question);
	answers[nr_answers++].bytes = bytes;
}

void sim_answers_added(void)
{
	if (nr_answers)
		qsort(answers, nr_answers, sizeof(*answers), compare);
}

static const char *log_path(void)
{
	const char *path = getenv("SIMGPU_QUESTIONS");

	return path && *path ? path : NULL;
}

bool sim_answers_wanted(void)
{
	sim_profile();
	return nr_answers || log_path();
}

static unsigned long zero_answers;

void sim_answered_zero(void)
{
	__atomic_fetch_add(&zero_answers, 1, __ATOMIC_RELAXED);
}

unsigned long sim_zero_answers(void)
{
	return __atomic_load_n(&zero_answers, __ATOMIC_RELAXED);
}

static int compare_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Was QUESTION logged before? It is then. */
static bool is_logged(const char *question)
{
	char *copy = strcpy(sim_alloc(strlen(question) + 1), question);
	char **found = tsearch(copy, &asked, compare_text);

	if (!found)
		sim_host_limit("malloc failed", "free some memory on this machine");
	if (*found == copy)
		return false;
	free(copy);
	return true;
}

/* One write a line: several processes may share the file. */
static void log_question(const char *path, const char *question)
{
	size_t length = strlen(question);
	char *line;
	int fd;

	pthread_mutex_lock(&mutex);
	if (!is_logged(question)) {
		line = sim_alloc(length + 2);
		memcpy(line, question, length);
		line[length] = '\n';
		fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
		if (fd < 0 || !file_limit_write(fd, line, length + 1))
			dprintf(STDERR_FILENO, "simgpu: cannot write to SIMGPU_QUESTIONS '%s': %s\n", path,
				strerror(errno));
		if (fd >= 0)
			close(fd);
		free(line);
	}
	pthread_mutex_unlock(&mutex);
}

size_t sim_answer(const char *question, size_t otherwise)
{
	struct answer key = { .question = (char *)question }, *found = NULL;
	const char *path = log_path();

	sim_profile();
	if (nr_answers)
		found = bsearch(&key, answers, nr_answers, sizeof(*answers), compare);
	if (path)
		log_question(path, question);
	if (!found && !otherwise)
		sim_answered_zero();
	return found ? found->bytes : otherwise;
}
