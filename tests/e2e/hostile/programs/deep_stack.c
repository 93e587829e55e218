/* SPDX-License-Identifier: MIT */
/*
 * Writes a trace of one chain of frames, each the caller of the next, and tensors allocated at its newest ones: each
 * stack has as many frames as there are, less a few. usage: deep_stack TRACE FRAMES TENSORS
 */
#include <fcntl.h>
#include <stdlib.h>

#include "tracefmt/tracefmt.h"

static int define_frame(struct tfmt_writer *writer, uint32_t id)
{
	uint8_t payload[64], *end = payload;

	end = tfmt_put_varint(end, id == TFMT_STACK_FIRST ? 0 : id - 1);
	end = tfmt_put_varint(end, TFMT_FRAME_NATIVE);
	end = tfmt_put_varint(end, 16 * (uint64_t)id);
	end = tfmt_put_zigzag(end, 0);
	return tfmt_writer_definition(writer, TFMT_DEF_FRAME, id, payload, (size_t)(end - payload));
}

static int allocate(struct tfmt_writer *writer, uint32_t nth, uint32_t stack)
{
	struct tfmt_event ev = {
		.kind = TFMT_TENSOR_ALLOC,
		.time_ns = 1000 + nth,
		.address = 4096 * ((uint64_t)nth + 1),
		.size = 512,
		.python_stack = stack,
		.native_stack = stack,
		.order = nth,
		.alloc_ordinal = TFMT_NO_ORDINAL,
	};
	int full = tfmt_writer_event(writer, &ev);

	return full > 0 ? tfmt_writer_flush(writer, NULL, 0) : full;
}

int main(int argc, char **argv)
{
	struct tfmt_header header = { .pid = 1, .host = "some-host", .job = "job" };
	struct tfmt_status status = { .end = TFMT_END_EXIT };
	uint32_t frames = argc == 4 ? (uint32_t)atoi(argv[2]) : 0, tensors = argc == 4 ? (uint32_t)atoi(argv[3]) : 0;
	struct tfmt_writer *writer;
	int fd = frames ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600) : -1;

	if (fd < 0 || tfmt_writer_open(&writer, fd, &header, 3))
		return 1;
	for (uint32_t i = 0; i < frames; i++) {
		if (define_frame(writer, TFMT_STACK_FIRST + i))
			return 2;
	}
	for (uint32_t i = 0; i < tensors; i++) {
		if (allocate(writer, i, TFMT_STACK_FIRST + frames - 1 - i % frames))
			return 2;
	}
	return tfmt_writer_end(writer, &status) != 0;
}
