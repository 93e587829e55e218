/* SPDX-License-Identifier: MIT */
/* The job that `run` is part of. */
#include "analyzer/recording/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "analyzer/recording/environment.h"

static const char *first_of(const char *const *names)
{
	const char *value = NULL;

	while (!value && *names)
		value = environment_value(*names++);
	return value;
}

/* An id becomes part of file names and of a one-line file. */
static void make_file_name(char *text)
{
	for (; *text; text++) {
		if (*text == '/' || (unsigned char)*text < ' ')
			*text = '_';
	}
}

static void own_id(char *out)
{
	time_t now = time(NULL);
	char stamp[32] = "";
	struct tm tm;

	if (localtime_r(&now, &tm))
		strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	snprintf(out, JOB_ID_MAX, "%s-%d", stamp, (int)getpid());
}

/* The launcher's id; false if there is none. */
static bool given_id(char *out)
{
	static const char *const before_elastic[] = { "VRAMTRACE_JOB", "SLURM_JOB_ID", NULL };
	static const char *const after_elastic[] = { "PBS_JOBID", "LSB_JOBID", NULL };
	const char *id = first_of(before_elastic), *elastic = environment_value("TORCHELASTIC_RUN_ID");
	const char *restart = environment_value("TORCHELASTIC_RESTART_COUNT");

	/* torchrun says "none" when it was not given an id. */
	if (!id && elastic && strcmp(elastic, "none") != 0) {
		bool again = restart && atoi(restart) > 0;

		snprintf(out, JOB_ID_MAX, again ? "%s.r%s" : "%s", elastic, restart);
		return true;
	}
	if (!id)
		id = first_of(after_elastic);
	if (id)
		snprintf(out, JOB_ID_MAX, "%s", id);
	return id != NULL;
}

void job_id(char out[static JOB_ID_MAX])
{
	if (!given_id(out))
		own_id(out);
	make_file_name(out);
}

void job_id_of_run(char out[static JOB_ID_MAX], const char *job, unsigned run, unsigned of)
{
	char end[40];
	size_t len = (size_t)snprintf(end, sizeof(end), ".run%uof%u", run, of);

	snprintf(out, JOB_ID_MAX, "%.*s%s", (int)(JOB_ID_MAX - 1 - len), job, end);
}

bool job_run(const char *id, size_t *len, unsigned *run, unsigned *of)
{
	const char *end = strrchr(id, '.');
	int used = 0;

	if (!end || sscanf(end, ".run%9uof%9u%n", run, of, &used) != 2 || end[used] || !*run || *run > *of)
		return false;
	*len = (size_t)(end - id);
	return true;
}

bool job_is_shared(void)
{
	char id[JOB_ID_MAX];

	return given_id(id);
}

const char *job_rank(void)
{
	static const char *const names[] = { "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", NULL };
	const char *rank = first_of(names);

	return rank ? rank : "0";
}

bool job_is_interactive(void)
{
	static const char *const launchers[] = { "SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", "PBS_JOBID",
						 "LSB_JOBID", NULL };

	return !first_of(launchers) && (isatty(STDIN_FILENO) || isatty(STDERR_FILENO));
}

/* ---- the program's name ---------------------------------------------------------------------- */

void job_host(char *out, size_t size)
{
	out[size - 1] = 0;
	if (gethostname(out, size - 1) || !out[0])
		snprintf(out, size, "localhost");
}

/* Of a path that ends with '/', all of it. */
static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/*
 * What an interpreter is to run: the script or module among its arguments, NULL for -c CODE, standard input
 * or an interactive session. The recorder has the same for jobs that `run` does not start (libinterpose/env.c): the
 * two parts share nothing but the format, which knows no interpreter.
 */
static const char *python_script(const char *const *argv)
{
	for (; *argv; argv++) {
		const char *word = *argv;

		if (!strcmp(word, "--"))
			return argv[1];
		if (word[0] != '-')
			return word;
		if (word[1] == '-') {
			/* The one long option whose value is a word of its own. */
			if (!strcmp(word, "--check-hash-based-pycs") && argv[1])
				argv++;
			continue;
		}
		for (const char *letter = word + 1; *letter; letter++) {
			if (*letter == 'm')
				return letter[1] ? letter + 1 : argv[1];
			if (*letter == 'c')
				return NULL;
			if (*letter == 'W' || *letter == 'X') {
				if (!letter[1] && argv[1])
					argv++;
				break;
			}
		}
		if (!word[1])
			return NULL;
	}
	return NULL;
}

void job_program_name(const char *const *argv, char *out, size_t size)
{
	const char *name = base_name(argv[0]), *script = NULL;
	size_t len;

	if (!strncmp(name, "python", 6) || !strncmp(name, "pypy", 4))
		script = python_script(argv + 1);
	if (script && *script)
		name = base_name(script);
	len = strlen(name);
	if (len > 3 && !strcmp(name + len - 3, ".py"))
		len -= 3;
	snprintf(out, size, "%.*s", (int)len, name);
	make_file_name(out);
}
