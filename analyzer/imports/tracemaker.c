/* SPDX-License-Identifier: MIT */
/* The trace's writer, flushed when a frame is full. */
#include "analyzer/imports/tracemaker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/base/heap.h"

#define LEVEL 1 /* of zstd */

static void note(struct tracemaker *t, int err)
{
	if (err == TFMT_E_NOMEM)
		heap_need(NULL);
	if (err >= 0 || t->err)
		return;
	t->err = err;
	t->error = t->writer ? tfmt_writer_errno(t->writer) : errno;
}

void tracemaker_open(struct tracemaker *t, int fd, const struct tfmt_header *header)
{
	*t = (struct tracemaker){ .time_ns = header->start_mono_ns };
	note(t, tfmt_writer_open(&t->writer, fd, header, LEVEL));
}

int tracemaker_close(struct tracemaker *t)
{
	const struct tfmt_status end = { .end = TFMT_END_OPEN };

	if (!t->err)
		note(t, tfmt_writer_flush(t->writer, NULL, 0));
	if (!t->err)
		note(t, tfmt_writer_end(t->writer, &end));
	if (t->writer)
		tfmt_writer_close(t->writer);
	t->writer = NULL;
	return t->err;
}

void tracemaker_define(struct tracemaker *t, uint32_t type, uint32_t id, const void *payload, size_t len)
{
	if (!t->err)
		note(t, tfmt_writer_definition(t->writer, type, id, payload, len));
}

void tracemaker_text(struct tracemaker *t, uint32_t type, uint32_t id, const char *text)
{
	size_t len = strlen(text);
	uint8_t *buf = heap_alloc(len + 10, 1);

	tracemaker_define(t, type, id, buf, (size_t)(tfmt_put_string(buf, text, len) - buf));
	free(buf);
}

void tracemaker_info(struct tracemaker *t, const char *key, const char *value)
{
	size_t key_len = strlen(key), len = strlen(value);
	uint8_t *buf = heap_alloc(key_len + len + 20, 1), *p;

	p = tfmt_put_string(tfmt_put_string(buf, key, key_len), value, len);
	tracemaker_define(t, TFMT_DEF_INFO, t->nr_infos++, buf, (size_t)(p - buf));
	free(buf);
}

void tracemaker_device(struct tracemaker *t, uint32_t ordinal)
{
	uint8_t buf[16], *p = tfmt_put_varint(buf, 0);

	for (int i = 0; i < 3; i++)
		p = tfmt_put_string(p, "", 0);
	p = tfmt_put_varint(p, 0);
	p = tfmt_put_varint(p, 0);
	tracemaker_define(t, TFMT_DEF_DEVICE, ordinal, buf, (size_t)(p - buf));
}

static bool is_of_tensors(const struct tfmt_event *ev)
{
	return ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_TENSOR_FREE || ev->kind == TFMT_TENSOR_OOM;
}

void tracemaker_event(struct tracemaker *t, struct tfmt_event *ev)
{
	int ret;

	if (t->err)
		return;
	ev->order = t->order[is_of_tensors(ev) ? ev->device : TFMT_NR_DEVICES]++;
	if (ev->time_ns < t->time_ns)
		ev->time_ns = t->time_ns;
	t->time_ns = ev->time_ns;
	t->nr_events++;
	ret = tfmt_writer_event(t->writer, ev);
	if (ret > 0)
		ret = tfmt_writer_flush(t->writer, NULL, 0);
	note(t, ret);
}
