/* SPDX-License-Identifier: MIT */
/* Inputs as files, results looked at; see hostile_file.h. */
#include "tests/fuzz/hostile_file.h"
#include "tracefmt/tracefmt.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/command.h"

#define JSON_DEPTH_MAX 64

const char *hostile_file(const uint8_t *data, size_t size)
{
	static char path[64];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("hostile", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size) {
		perror("memfd");
		exit(2);
	}
	return path;
}

void hostile_quiet(void)
{
	static FILE *nowhere;

	if (!nowhere)
		stderr = nowhere = fopen("/dev/null", "we");
}

static void check_json(const char *text, size_t size)
{
	struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX);
	struct json_object *top;

	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	top = json_tokener_parse_ex(tokener, text, (int)size + 1);
	if (json_tokener_get_error(tokener) != json_tokener_success ||
	    !json_object_object_get(top, "schema")) {
		fwrite(text, 1, size, stdout);
		printf("\nnot JSON: %s\n", json_tokener_error_desc(json_tokener_get_error(tokener)));
		fflush(stdout);
		abort();
	}
	json_object_put(top);
	json_tokener_free(tokener);
}

void hostile_run(hostile_command *command, int argc, const char **argv, int is_json)
{
	FILE *screen = stdout;
	char *text = NULL;
	size_t size = 0;
	int status;

	hostile_quiet();
	stdout = open_memstream(&text, &size);
	status = command(argc, argv);
	fclose(stdout);
	stdout = screen;
	if (status < CMD_FINE || status > CMD_TROUBLE)
		abort();
	/* A recording that cannot be opened at all leaves some commands with nothing to print. */
	if (is_json && size)
		check_json(text, size);
	if (is_json && !size && status != CMD_TROUBLE)
		abort();
	free(text);
}

void hostile_check_trace(int fd, uint64_t nr_events)
{
	struct tfmt_reader *reader;
	struct tfmt_event ev;
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (tfmt_reader_open(&reader, path, NULL))
		abort();
	while (tfmt_reader_next(reader, &ev) > 0)
		nr_events--;
	if (nr_events || !tfmt_reader_summary(reader)->complete)
		abort();
	tfmt_reader_close(reader);
}
