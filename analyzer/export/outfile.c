/* SPDX-License-Identifier: MIT */
/* A file that is written beside its place, and renamed into it. */
#include "analyzer/export/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"

#define BUFFER_BYTES (1u << 20)

/* What is to be removed if the process ends early: read by a signal handler. */
static char *volatile unfinished;

static void remove_unfinished(void)
{
	if (unfinished)
		unlink(unfinished);
	unfinished = NULL;
}

static void end_by_signal(int number)
{
	if (unfinished)
		unlink(unfinished);
	signal(number, SIG_DFL);
	raise(number);
}

static const int ending[] = { SIGINT, SIGTERM, SIGHUP };

/* A signal that the caller has ignored stays so. */
static void watch_signals(void)
{
	struct sigaction now, ends = { .sa_handler = end_by_signal };

	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		if (!sigaction(ending[i], NULL, &now) && now.sa_handler == SIG_DFL)
			sigaction(ending[i], &ends, NULL);
	atexit(remove_unfinished);
}

/* mkostemp() of a file that a signal removes: one that comes as it is made waits until that is known. */
static int make_unfinished(char *template)
{
	sigset_t ends, before;
	int fd, error;

	sigemptyset(&ends);
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++)
		sigaddset(&ends, ending[i]);
	sigprocmask(SIG_BLOCK, &ends, &before);
	fd = mkostemp(template, O_CLOEXEC);
	error = errno;
	if (fd >= 0) {
		unfinished = template;
		watch_signals();
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return fd;
}

static int cannot_write(const char *name)
{
	return message_error("cannot write '%s': %s", name, strerror(errno));
}

/* The mode of the file that is replaced, else that of a new one. */
static mode_t mode_of(const char *target)
{
	mode_t mask = umask(0);
	struct stat st;

	umask(mask);
	return stat(target, &st) ? 0666 & ~mask : st.st_mode & 07777;
}

/* A new empty file, in the folder of `target` with a name like it. Returns its descriptor, or -1 with errno set. */
static int open_beside(struct outfile *f)
{
	const char *slash = strrchr(f->target, '/');
	size_t folder = slash ? (size_t)(slash + 1 - f->target) : 0;
	int fd;

	if (asprintf(&f->beside, "%.*s.%.100s.XXXXXX", (int)folder, f->target, f->target + folder) < 0)
		f->beside = heap_need(NULL);
	fd = make_unfinished(f->beside);
	if (fd >= 0)
		fchmod(fd, mode_of(f->target));
	return fd;
}

/* For what a library writes by its path and goes to stdout, or to what is no regular file. */
static int open_apart(struct outfile *f)
{
	const char *folder = getenv("TMPDIR");

	if (asprintf(&f->beside, "%s/vramtrace-export.XXXXXX", folder && *folder ? folder : "/tmp") < 0)
		f->beside = heap_need(NULL);
	return make_unfinished(f->beside);
}

static void forget(struct outfile *f)
{
	unfinished = NULL;
	free(f->beside);
	free(f->target);
	f->beside = f->target = NULL;
}

/* The file that a name stands for: a link's own target, which need not be there. NULL: it is no regular file. */
static char *target_of(const char *name)
{
	char *real = realpath(name, NULL);
	struct stat st;

	if (real && (stat(real, &st) || !S_ISREG(st.st_mode))) {
		free(real);
		return NULL;
	}
	return real ? real : heap_copy(name);
}

int outfile_open(struct outfile *f, const char *name, bool needs_path)
{
	const char *said = name ? name : "the result";
	struct stat st;
	int fd;

	*f = (struct outfile){ .name = name };
	if (name && !stat(name, &st) && S_ISDIR(st.st_mode)) {
		errno = EISDIR;
		return cannot_write(name);
	}
	if (name)
		f->target = target_of(name);
	if (f->target && !access(f->target, F_OK) && access(f->target, W_OK))
		fd = -1;
	else if (f->target)
		fd = open_beside(f);
	else if (needs_path)
		fd = open_apart(f);
	else
		fd = name ? open(name, O_WRONLY | O_CLOEXEC) : -1;
	if (fd < 0 && (name || needs_path)) {
		cannot_write(said);
		forget(f);
		return CMD_TROUBLE;
	}
	if (needs_path) {
		close(fd);
		f->path = f->beside;
		return CMD_FINE;
	}
	f->stream = name ? heap_need(fdopen(fd, "w")) : stdout;
	setvbuf(f->stream, NULL, _IOFBF, BUFFER_BYTES);
	return CMD_FINE;
}

/* The file that was filled by its path, to where it is to go. Returns 0, or -1 with errno set. */
static int copy_out(struct outfile *f)
{
	FILE *from = fopen(f->beside, "re"), *to = f->name ? fopen(f->name, "we") : stdout;
	char buffer[1 << 16];
	size_t nr;
	int ret = from && to ? 0 : -1;

	while (!ret && (nr = fread(buffer, 1, sizeof(buffer), from)) > 0)
		if (fwrite(buffer, 1, nr, to) != nr)
			ret = -1;
	if (to && (f->name ? fclose(to) : fflush(to)))
		ret = -1;
	if (from)
		fclose(from);
	return ret;
}

/* Is all that was written where it was written to? */
static bool is_flushed(struct outfile *f)
{
	bool good = !f->stream || (!fflush(f->stream) && !ferror(f->stream));

	if (f->stream && f->name && fclose(f->stream))
		good = false;
	return good;
}

int outfile_close(struct outfile *f, bool is_good)
{
	const char *said = f->name ? f->name : "the result";
	int ret = is_good ? CMD_FINE : CMD_TROUBLE;

	/* What stdout cannot take, main() says; of a reader that has seen enough it says nothing. */
	if (!is_flushed(f) && is_good)
		ret = f->name ? cannot_write(said) : CMD_TROUBLE;
	if (!ret && f->beside && (f->target ? rename(f->beside, f->target) : copy_out(f)))
		ret = cannot_write(said);
	if (f->beside && (ret || !f->target))
		unlink(f->beside);
	forget(f);
	return ret;
}
