/* SPDX-License-Identifier: MIT */
/* Files read once, cut into lines. */
#include "analyzer/base/heap.h"
#include "analyzer/stacks/sourcetext.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sourcetext_file {
	char *path;
	char *text; /* NULL: it cannot be read */
	size_t size;
	uint32_t *start; /* of lines, and the end */
	uint32_t nr_lines;
	bool is_edited;
};

static bool is_edited(const struct tfmt_reader *reader, const char *path)
{
	struct tfmt_source then, now;
	struct stat st;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	if (tfmt_reader_source(reader, path, &then))
		return tfmt_source_read(path, &now) && (now.bytes != then.bytes || now.hash != then.hash);
	return (uint64_t)st.st_mtim.tv_sec * 1000000000 + (uint64_t)st.st_mtim.tv_nsec >
	       tfmt_reader_header(reader)->start_real_ns;
}

/* The whole of a regular file; a trace's paths are not trusted to name one. */
static char *read_all(const char *path, size_t *size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char *text = NULL;
	struct stat st;
	ssize_t got;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 && st.st_size <= TFMT_SOURCE_MAX)
		text = heap_alloc((size_t)st.st_size, 1);
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
	f->start = heap_alloc(nr + (size_t)2, sizeof(*f->start));
	f->start[f->nr_lines++] = 0;
	for (size_t i = 0; i < f->size; i++)
		if (f->text[i] == '\n')
			f->start[f->nr_lines++] = (uint32_t)i + 1;
	f->start[f->nr_lines] = (uint32_t)f->size + 1;
}

static struct sourcetext_file *file_of(struct sourcetext *s, const char *path)
{
	struct sourcetext_file *f;

	for (size_t i = s->nr_files; i; i--)
		if (!strcmp(s->file[i - 1].path, path))
			return &s->file[i - 1];
	s->file = heap_need(realloc(s->file, (s->nr_files + 1) * sizeof(*s->file)));
	f = &s->file[s->nr_files++];
	*f = (struct sourcetext_file){ .path = heap_copy(path) };
	if (*path != '/') /* "<string>", and what was relative to a folder nobody knows */
		return f;
	f->is_edited = s->reader && is_edited(s->reader, path);
	if (!f->is_edited)
		f->text = read_all(path, &f->size);
	if (f->text)
		find_lines(f);
	return f;
}

bool sourcetext_is_edited(struct sourcetext *s, const char *path)
{
	const struct sourcetext_file *f = file_of(s, path);

	return f && f->is_edited;
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
