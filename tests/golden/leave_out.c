/* SPDX-License-Identifier: MIT */
/*
 * leave_out [-d] IN OUT EVENT...: write the trace IN once more with checkpoints before these events, and an index of them; with
 * -d as a flight recorder would that has dropped what comes before the first of them.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tracefmt/tracefmt.h"

static struct tfmt_writer *writer;

static void must(int error, const char *what)
{
	if (error < 0)
		errx(1, "%s: %s", what, tfmt_strerror(error));
}

static void define(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len)
{
	(void)context;
	must(tfmt_writer_definition(writer, type, id, payload, len), "definition");
}

static int create(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		err(1, "'%s'", path);
	return fd;
}

static void drop(const char *path)
{
	char next[4096];
	int fd, done;

	snprintf(next, sizeof(next), "%s.new", path);
	fd = create(next);
	must(tfmt_writer_drop_begin(writer, fd, 0, 0), "drop");
	while (!(done = tfmt_writer_drop_step(writer, 65536)))
		;
	must(done, "drop");
	if (rename(next, path))
		err(1, "'%s'", next);
	tfmt_writer_drop_commit(writer);
}

/* Is the number of this event among the arguments? */
static bool is_place(char *const *argument, uint64_t nr)
{
	while (*argument && strtoull(*argument, NULL, 10) != nr)
		argument++;
	return *argument != NULL;
}

int main(int argc, char **argv)
{
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	bool drops = argc > 1 && !strcmp(argv[1], "-d");
	uint64_t nr = 0;
	struct tfmt_header header;
	struct tfmt_reader *reader;
	struct tfmt_event event;
	int got;

	argv += drops;
	if (argc - drops < 4)
		errx(2, "leave_out [-d] IN OUT EVENT...");
	must(tfmt_reader_open(&reader, argv[1], NULL), argv[1]);
	header = *tfmt_reader_header(reader);
	must(tfmt_writer_open(&writer, create(argv[2]), &header, 3), argv[2]);
	must(tfmt_writer_keep(writer), "keep");
	tfmt_reader_hear(reader, define, NULL);
	while ((got = tfmt_reader_next(reader, &event)) > 0) {
		if (is_place(&argv[3], nr)) {
			must(tfmt_writer_flush(writer, NULL, 0), "flush");
			must(tfmt_writer_checkpoint(writer, 0), "checkpoint");
			if (drops)
				drop(argv[2]);
			drops = false;
		}
		nr++;
		got = tfmt_writer_event(writer, &event);
		must(got, "event");
		if (got)
			must(tfmt_writer_flush(writer, NULL, 0), "flush");
	}
	must(got, argv[1]);
	must(tfmt_writer_end(writer, &status), "end");
	tfmt_writer_close(writer);
	tfmt_reader_close(reader);
	return 0;
}
