/* SPDX-License-Identifier: MIT */
/*
 * Writes a trace that is small in the file and large in memory: the same 64 KiB of text, compressed to nothing, defined
 * again and again. usage: definition_bomb TRACE NUMBER
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "tracefmt/tracefmt.h"

#define TEXT_BYTES 64900
#define LEVEL 19 /* of zstd: as small as it gets */

int main(int argc, char **argv)
{
	struct tfmt_header header = { .pid = 1, .host = "some-host", .job = "job" };
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	static char text[TEXT_BYTES];
	static uint8_t payload[TEXT_BYTES + 64];
	uint8_t *end = tfmt_put_string(payload, "note", 4);
	uint32_t nr = argc == 3 ? (uint32_t)atoi(argv[2]) : 0;
	struct tfmt_writer *writer;
	int fd = nr ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;

	if (fd < 0 || tfmt_writer_open(&writer, fd, &header, LEVEL))
		return 1;
	memset(text, 'A', sizeof(text));
	end = tfmt_put_string(end, text, sizeof(text));
	for (uint32_t id = 0; id < nr; id++) {
		if (tfmt_writer_definition(writer, TFMT_DEF_INFO, id, payload, (size_t)(end - payload)) ||
		    tfmt_writer_flush(writer, NULL, 0))
			return 2;
	}
	return tfmt_writer_end(writer, &status) != 0;
}
