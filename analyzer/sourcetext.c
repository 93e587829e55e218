/* SPDX-License-Identifier: MIT */
/* Files read once, cut into lines. */
#include "analyzer/sourcetext.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (8 << 20) /* bytes of a source file */

struct sourcetext_file {
	char *path;
	char *text; /* NULL: it cannot be read */
	size_t size;
	uint32_t *start; /* of lines, and the end */
	uint32_t nr_lines;
};

static bool is_newer(const struct stat *st, uint64_t realtime_ns)
{
	return (uint64_t)st->st_mtim.tv_sec * 1000000000 + (uint64_t)st->st_mtim.tv_nsec > realtime_ns;
}

bool sourcetext_is_newer(const char *path, uint64_t realtime_ns)
{
	struct stat st;

	return *path == '/' && !stat(path, &st) && S_ISREG(st.st_mode) && is_newer(&st, realtime_ns);
}

/* The whole of a regular file; a trace's paths are not trusted to name one. */
static char *read_all(const char *path, uint64_t recorded_ns, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = NULL;
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= FILE_MAX &&
	    !(recorded_ns && is_newer(&st, recorded_ns)))
		text = malloc((size_t)st.st_size);
	*size = 0;
	while (text && *size < (size_t)st.st_size && (got = read(fd, text + *size, (size_t)st.st_size - *size)) > 0)
		*size += (size_t)got;
	close(fd);
	return text;
}

static void find_lines(struct sourcetext_file *f)
{
	uint32_t nr = 0;

	for (size_t i = 0; i < f->size; i++)
		nr += f->text[i] == '\n';
	f->start = malloc((nr + 2) * sizeof(*f->start));
	if (!f->start)
		return;
	f->start[f->nr_lines++] = 0;
	for (size_t i = 0; i < f->size; i++)
		if (f->text[i] == '\n')
			f->start[f->nr_lines++] = (uint32_t)i + 1;
	f->start[f->nr_lines] = (uint32_t)f->size + 1;
}

static struct sourcetext_file *file_of(struct sourcetext *s, const char *path)
{
	struct sourcetext_file *grown, *f;

	for (size_t i = s->nr_files; i; i--)
		if (!strcmp(s->file[i - 1].path, path))
			return &s->file[i - 1];
	grown = realloc(s->file, (s->nr_files + 1) * sizeof(*grown));
	if (!grown)
		return NULL;
	s->file = grown;
	f = &s->file[s->nr_files];
	*f = (struct sourcetext_file){ .path = strdup(path) };
	if (!f->path)
		return NULL;
	s->nr_files++;
	if (*path == '/') /* "<string>", and what was relative to a folder nobody knows */
		f->text = read_all(path, s->recorded_ns, &f->size);
	if (f->text)
		find_lines(f);
	return f;
}

const char *sourcetext_line(struct sourcetext *s, const char *path, uint32_t line, size_t *len)
{
	const struct sourcetext_file *f = file_of(s, path);

	if (!f || !line || line > f->nr_lines)
		return NULL;
	*len = f->start[line] - 1 - f->start[line - 1];
	return f->text + f->start[line - 1];
}

void sourcetext_release(struct sourcetext *s)
{
	for (size_t i = 0; i < s->nr_files; i++) {
		free(s->file[i].path);
		free(s->file[i].text);
		free(s->file[i].start);
	}
	free(s->file);
	*s = (struct sourcetext){ 0 };
}
