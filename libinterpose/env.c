/* SPDX-License-Identifier: MIT */
/* Settings from the environment and the launcher's facts; see env.h. */
#include "env.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "filter.h"
#include "interpose.h"
#include "reason.h"
#include "settings.h"

struct ip_env ip_env;

/* Of a program's arguments, as many as are looked at where main() has not got them yet. */
#define ARGUMENTS_MAX 16383u
#define ARGUMENT_TEXT_BYTES (2u << 20)
#define ARGUMENT_BYTES (ARGUMENT_TEXT_BYTES + (ARGUMENTS_MAX + 1) * sizeof(char *))

extern char **environ;

static const char *const stacks_names[] = { "python", "full", "none" };
static const char *const tracker_names[] = { "off", "on" };
static const char *const rings_names[] = { "auto", "shm", "memory", "folder" };
static const char *const names_names[] = { "auto", "oom", "off" };
static const char *const argv_names[] = { "off", "on" };
static const char *const cupti_names[] = { "off", "on", "auto" };
static const char *const unwinder_names[] = { "auto", "rules", "libgcc", "libunwind" };

const char *ip_stacks_name(enum ip_stacks s)
{
	return stacks_names[s];
}

/* Copy the first variable of the list that is set and not empty; false if none is. */
static bool first_of(char *out, size_t size, const char *const *names)
{
	for (; *names; names++) {
		const char *v = getenv(*names);

		if (v && *v) {
			snprintf(out, size, "%s", v);
			return true;
		}
	}
	out[0] = 0;
	return false;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * What an interpreter is to run: the script or module among its arguments, NULL for -c CODE, standard input or an
 * interactive session. As `run` has it (analyzer/recording/job.c): a word that is no name must never pass for one.
 */
static const char *python_script(char **argv)
{
	for (; *argv; argv++) {
		const char *word = *argv;

		if (!strcmp(word, "--"))
			return argv[1];
		if (word[0] != '-')
			return word;
		if (word[1] == '-') {
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

/* program and script from the command line; arguments are nobody's business but the program's. */
static void read_command_line(int argc, char **argv)
{
	const char *script;

	snprintf(ip_env.program, sizeof(ip_env.program), "%.255s", argc > 0 ? base_name(argv[0]) : "");
	script = argc > 0 && !strncmp(ip_env.program, "python", 6) ? python_script(argv + 1) : NULL;
	snprintf(ip_env.script, sizeof(ip_env.script), "%.255s", script ? base_name(script) : "");
}

/* Write a word as a shell takes it; returns the byte after it. At most 4 bytes for each of the word's, and 2. */
static char *shell_quote(char *out, const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789%+,-./:=@_";
	size_t len = strlen(word);

	if (len && strspn(word, plain) == len) {
		memcpy(out, word, len);
		return out + len;
	}
	*out++ = '\'';
	for (; *word; word++) {
		if (*word == '\'') {
			memcpy(out, "'\\'", 3);
			out += 3;
		}
		*out++ = *word;
	}
	*out++ = '\'';
	return out;
}

/* VRAMTRACE_ARGV=on: all of the command line. Copied at once: programs write over theirs. */
static void keep_arguments(int argc, char **argv)
{
	size_t bytes = 1;
	char *p;

	for (int i = 0; i < argc; i++)
		bytes += 4 * strlen(argv[i]) + 3;
	/* Not ip_map(): a fork child records it, too. */
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return;
	ip_env.argv = p;
	for (int i = 0; i < argc; i++) {
		if (i)
			*p++ = ' ';
		p = shell_quote(p, argv[i]);
	}
	*p = 0;
}

/* The launcher's job id, or one of our own from the start time and pid. */
static void choose_job(void)
{
	static const char *const schedulers[] = { "VRAMTRACE_JOB", "SLURM_JOB_ID", NULL };
	static const char *const others[] = { "PBS_JOBID", "LSB_JOBID", NULL };
	const char *elastic = getenv("TORCHELASTIC_RUN_ID"), *restart = getenv("TORCHELASTIC_RESTART_COUNT");
	time_t now = time(NULL);
	struct tm tm;

	if (first_of(ip_env.job, sizeof(ip_env.job), schedulers)) {
		/* It is a line in the recording's file of that name. */
		for (char *c = ip_env.job; *c; c++)
			if (*c == '\n')
				*c = '_';
		return;
	}
	if (elastic && *elastic && strcmp(elastic, "none")) {
		bool again = restart && atoi(restart) > 0;

		snprintf(ip_env.job, sizeof(ip_env.job), again ? "%s.r%s" : "%s", elastic, restart);
		return;
	}
	if (first_of(ip_env.job, sizeof(ip_env.job), others))
		return;
	/* UTC: localtime_r would read the time zone database through malloc. */
	gmtime_r(&now, &tm);
	snprintf(ip_env.job, sizeof(ip_env.job), "%04d%02d%02d-%02d%02d%02d-%d", tm.tm_year + 1900, tm.tm_mon + 1,
		 tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)getpid());
}

/* Append to a bounded string. */
static void append(char *out, size_t size, const char *text)
{
	size_t n = strlen(out);

	snprintf(out + n, size - n, "%s", text);
}

/* %p pid, %h host, %j job, %r rank, %% itself. */
static void expand(char *out, size_t size, const char *pattern)
{
	char one[2] = "", pid[16];

	out[0] = 0;
	for (; *pattern; pattern++) {
		const char *with = one;

		one[0] = *pattern;
		if (*pattern == '%' && pattern[1]) {
			switch (*++pattern) {
			case 'p':
				snprintf(pid, sizeof(pid), "%d", (int)getpid());
				with = pid;
				break;
			case 'h':
				with = ip_env.host;
				break;
			case 'j':
				with = ip_env.job;
				break;
			case 'r':
				with = ip_env.rank[0] ? ip_env.rank : "0";
				break;
			case '%':
				break;
			default: /* nothing that we know: as it is */
				pattern--;
				break;
			}
		}
		append(out, size, with);
	}
}

static void choose_output(void)
{
	const char *pattern = getenv("VRAMTRACE_OUTPUT");
	char name[PATH_MAX], stem[256];

	if (pattern && *pattern) {
		expand(name, sizeof(name), pattern);
	} else {
		snprintf(stem, sizeof(stem), "%s", ip_env.script[0] ? ip_env.script : ip_env.program);
		if (strlen(stem) > 3 && !strcmp(stem + strlen(stem) - 3, ".py"))
			stem[strlen(stem) - 3] = 0;
		snprintf(name, sizeof(name), "vramtrace-%s-%s.vtr", stem, ip_env.job);
	}
	ip_env.output[0] = 0;
	if (name[0] != '/') {
		if (!getcwd(ip_env.output, sizeof(ip_env.output))) { /* deleted: there is nowhere to write */
			ip_env.output[0] = 0;
			return;
		}
		append(ip_env.output, sizeof(ip_env.output), "/");
	}
	append(ip_env.output, sizeof(ip_env.output), name);
}

/* A new array of pointers, and the text, in mapped memory. */
void ip_env_export(const char *name, const char *value)
{
	size_t n = 0, len = strlen(name) + strlen(value) + 2;
	char **grown, *text;

	if (getenv(name) && !strcmp(getenv(name), value))
		return;
	while (environ && environ[n])
		n++;
	/* Not ip_map(): a fork child needs its environment. */
	grown = mmap(NULL, (n + 2) * sizeof(*grown) + len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (grown == MAP_FAILED)
		return;
	text = (char *)(grown + n + 2);
	snprintf(text, len, "%s=%s", name, value);
	grown[0] = text;
	n = 1;
	for (char **e = environ; e && *e; e++)
		if (strncmp(*e, text, strlen(name) + 1))
			grown[n++] = *e;
	grown[n] = NULL;
	environ = grown;
}

/* A name as a pattern that expands to it. */
static void double_percent(char *out, size_t size, const char *name)
{
	size_t n = 0;

	for (; *name && n + 2 < size; name++) {
		if (*name == '%')
			out[n++] = '%';
		out[n++] = *name;
	}
	out[n] = 0;
}

/* VRAMTRACE_SAMPLE_MIB: a number; 0 takes no samples. */
static void choose_samples(void)
{
	const char *v = getenv("VRAMTRACE_SAMPLE_MIB");
	unsigned long mib = 64;
	char *end;

	if (v && *v) {
		mib = strtoul(v, &end, 10);
		if (*v < '0' || *v > '9' || *end || mib > 1u << 24) {
			ip_env_note("VRAMTRACE_SAMPLE_MIB='%.60s' is no number of MiB: 64 taken", v);
			mib = 64;
		}
	}
	ip_env.sample_bytes = (uint64_t)mib << 20;
}

void ip_env_read_allocator(void)
{
	static const char *const conf[] = { "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", NULL };

	first_of(ip_env.allocator_conf, sizeof(ip_env.allocator_conf), conf);
	ip_settings_before(ip_env.allocator_conf, sizeof(ip_env.allocator_conf));
}

bool ip_env_is_chosen(void)
{
	const char *filter = getenv("VRAMTRACE_FILTER");
	const char *const names[] = { ip_env.program, ip_env.script, base_name(ip_env.exe) };

	return !filter || ip_filter_admits(filter, names, sizeof(names) / sizeof(names[0]));
}

char **ip_env_arguments(int *argc)
{
	static char *none[1];
	int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
	size_t used = 0, nr = 0;
	ssize_t n = 0;
	char **argv, *text;

	*argc = 0;
	argv = mmap(NULL, ARGUMENT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (argv == MAP_FAILED) {
		argv = none;
	} else if (fd >= 0) {
		text = (char *)(argv + ARGUMENTS_MAX + 1);
		while (used < ARGUMENT_TEXT_BYTES - 1 &&
		       (n = read(fd, text + used, ARGUMENT_TEXT_BYTES - 1 - used)) > 0)
			used += (size_t)n;
		for (char *at = text; at < text + used && nr < ARGUMENTS_MAX; at += strlen(at) + 1)
			argv[nr++] = at;
	}
	if (fd >= 0)
		close(fd);
	*argc = (int)nr;
	return argv;
}

void ip_env_init(int argc, char **argv)
{
	static const char *const rank[] = { "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", NULL };
	static const char *const local[] = { "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", NULL };
	static const char *const world[] = { "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", NULL };
	static const char *const simulate[] = { "VRAMTRACE_SIMULATE", NULL };
	static const char *const ranks_run[] = { "SIMGPU_RANKS", NULL };
	static const char *const keeper[] = { "VRAMTRACE_KEEPER", NULL };
	char name[2 * PATH_MAX];
	const char *temporary = getenv("TMPDIR"), *witness = getenv("VRAMTRACE_WITNESS");
	ssize_t n = readlink("/proc/self/exe", ip_env.exe, sizeof(ip_env.exe) - 1);

	ip_env.exe[n > 0 ? n : 0] = 0;
	if (gethostname(ip_env.host, sizeof(ip_env.host) - 1) || !ip_env.host[0])
		snprintf(ip_env.host, sizeof(ip_env.host), "localhost");
	read_command_line(argc, argv);
	/* Here, for the drain cannot: the program's setenv() may be moving the environment just then. */
	snprintf(ip_env.temporary, sizeof(ip_env.temporary), "%s",
		 temporary && temporary[0] == '/' && strlen(temporary) < sizeof(ip_env.temporary) ? temporary : "/tmp");
	first_of(ip_env.rank, sizeof(ip_env.rank), rank);
	first_of(ip_env.local_rank, sizeof(ip_env.local_rank), local);
	first_of(ip_env.world_size, sizeof(ip_env.world_size), world);
	first_of(ip_env.ranks_run, sizeof(ip_env.ranks_run), ranks_run);
	first_of(ip_env.simulate, sizeof(ip_env.simulate), simulate);
	ip_env.stacks = (enum ip_stacks)ip_env_choose("VRAMTRACE_STACKS", stacks_names, 3, IP_STACKS_PYTHON);
	ip_env.rings = (enum ip_rings)ip_env_choose("VRAMTRACE_RINGS", rings_names, 4, IP_RINGS_AUTO);
	first_of(ip_env.keeper, sizeof(ip_env.keeper), keeper);
	ip_env.names = (enum ip_names)ip_env_choose("VRAMTRACE_NAMES", names_names, 3, IP_NAMES_AUTO);
	ip_env.names_bytes = ip_env_size("VRAMTRACE_NAMES_MEMORY", IP_NAMES_LEAST);
	ip_env.names_seconds = ip_env_number("VRAMTRACE_NAMES_SECONDS", 3600);
	ip_env.tracker = ip_env_choose("VRAMTRACE_TRACKER", tracker_names, 2, false);
	ip_env.cupti = (enum ip_cupti_mode)ip_env_choose("VRAMTRACE_CUPTI", cupti_names, 3, IP_CUPTI_OFF);
	ip_env.unwinder = ip_env_choose("VRAMTRACE_UNWINDER", unwinder_names, 4, 0);
	if (ip_env_choose("VRAMTRACE_ARGV", argv_names, 2, false))
		keep_arguments(argc, argv);
	choose_samples();
	ip_env.keep_bytes = ip_env_size("VRAMTRACE_KEEP", IP_KEEP_LEAST);
	ip_env.keep_steps = ip_env_number("VRAMTRACE_KEEP_STEPS", UINT32_MAX);
	ip_reason_init(witness ? witness : "");
	choose_job();
	choose_output();
	ip_env_export("VRAMTRACE_JOB", ip_env.job);
	ip_env_check_names();
	double_percent(name, sizeof(name), ip_env.output);
	ip_env_export("VRAMTRACE_OUTPUT", name);
}
