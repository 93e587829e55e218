/* SPDX-License-Identifier: MIT */
/*
 * Write a trace with libtracefmt: from a log of an allocator of your own, so that vramtrace can explain it.
 *
 *   cc from_log.c $(pkg-config --cflags --libs tracefmt) -o from_log
 *   mkdir pool.vtr && ./from_log pool.vtr/here.1.1.vtr <pool.log && vramtrace leaks pool.vtr
 *
 * The log: `SECONDS alloc ADDRESS BYTES WHAT` or `SECONDS free ADDRESS`, a line each, WHAT without spaces.
 * Exit status: 0, or 2 with the reason on stderr.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tracefmt/tracefmt.h>

#define NR_NAMES 1000 /* different WHATs */

static int fail(const char *what, int err, const struct tfmt_writer *w)
{
	int reason = w ? tfmt_writer_errno(w) : errno;

	fprintf(stderr, "from_log: '%s': %s%s%s\n", what, tfmt_strerror(err), reason ? ": " : "",
		reason ? strerror(reason) : "");
	return 2;
}

/* The function id of a name, defined at its first use; 0 (none) when there are too many. */
static uint16_t function_of(struct tfmt_writer *w, const char *name)
{
	static char names[NR_NAMES][32];
	static uint16_t nr;
	uint8_t payload[64];
	uint16_t i;

	for (i = 0; i < nr; i++) {
		if (!strcmp(names[i], name))
			return (uint16_t)(i + 1);
	}
	if (nr == NR_NAMES)
		return 0;
	strcpy(names[nr++], name);
	tfmt_writer_definition(w, TFMT_DEF_FUNCTION, nr, payload,
			       (size_t)(tfmt_put_string(payload, name, strlen(name)) - payload));
	return nr;
}

/* One line; false if it is none. */
static bool read_line(struct tfmt_writer *w, const char *line, struct tfmt_event *event)
{
	char kind[8], name[32] = "";
	double seconds;

	*event = (struct tfmt_event){ .kind = TFMT_NONE };
	if (sscanf(line, "%lf %7s %" SCNx64 " %" SCNu64 " %31s", &seconds, kind, &event->address, &event->size,
		   name) < 3)
		return false;
	event->time_ns = (uint64_t)(seconds * 1e9);
	if (!strcmp(kind, "alloc"))
		event->kind = TFMT_DRIVER_ALLOC;
	else if (!strcmp(kind, "free"))
		event->kind = TFMT_DRIVER_FREE;
	event->flags = TFMT_SPACE_DEVICE;
	event->function = name[0] ? function_of(w, name) : 0;
	return event->kind != TFMT_NONE;
}

int main(int argc, char **argv)
{
	struct tfmt_header header = { .pid = 1, .image_start_ns = 1, .host = "here" };
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	struct tfmt_writer *w = NULL;
	struct tfmt_event event;
	uint64_t order = 0;
	char line[256];
	int fd, err;

	if (argc != 2) {
		fprintf(stderr, "usage: from_log TRACE <LOG\n");
		return 2;
	}
	fd = open(argv[1], O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
	err = fd < 0 ? TFMT_E_IO : tfmt_writer_open(&w, fd, &header, 1);
	while (!err && fgets(line, sizeof(line), stdin)) {
		if (!read_line(w, line, &event)) {
			fprintf(stderr, "from_log: not a line of the log: '%.*s'\n", (int)strcspn(line, "\n"), line);
			continue;
		}
		event.order = order++;
		err = tfmt_writer_event(w, &event);
		if (err == 1) /* the frame is full */
			err = tfmt_writer_flush(w, NULL, 0);
	}
	if (!err)
		err = tfmt_writer_end(w, &status);
	if (err)
		return fail(argv[1], err, w);
	tfmt_writer_close(w);
	return close(fd) ? fail(argv[1], TFMT_E_IO, NULL) : 0;
}
