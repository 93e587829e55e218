/* SPDX-License-Identifier: MIT */
/* One trace read from front to back. */
#include "analyzer/base/heap.h"
#include "analyzer/recording/traceview.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *traceview_end_name(enum tfmt_process_end end)
{
	static const char *const names[] = {
		[TFMT_PROCESS_EXIT] = "exit",     [TFMT_PROCESS_SIGNAL] = "signal",
		[TFMT_PROCESS_EXEC] = "exec",     [TFMT_PROCESS_RUNNING] = "running",
		[TFMT_PROCESS_KILLED] = "killed", [TFMT_PROCESS_UNKNOWN] = "unknown",
	};

	return names[end];
}

/* Something that a later recorder writes only for readers that know it. */
static void say_feature(char *text, size_t size, const char *path, uint64_t offset)
{
	struct tfmt_header h;
	bool told = tfmt_header_read(path, &h) == TFMT_E_FEATURE && h.recorder[0];

	snprintf(text, size,
		 "cannot read '%s': it has what a reader must understand and this vramtrace does not (bits 0x%02x at byte "
		 "%" PRIu64 "): read it with vramtrace %s%s%s%s or a newer one",
		 path, h.must & ~TFMT_MUST_KNOWN, offset, told ? h.recorder : "of the recording's own version",
		 told && h.commit[0] ? " (commit " : "", told ? h.commit : "", told && h.commit[0] ? ")" : "");
}

void traceview_say_unreadable(char *text, size_t size, const char *path, int err, uint64_t offset)
{
	if (err == TFMT_E_NOMEM)
		heap_need(NULL);
	else if (err == TFMT_E_IO)
		snprintf(text, size, "cannot open '%s': %s", path, strerror(errno));
	else if (err == TFMT_E_FEATURE)
		say_feature(text, size, path, offset);
	else
		snprintf(text, size, "cannot read '%s': %s (at byte %" PRIu64 ")", path, tfmt_strerror(err), offset);
}

int traceview_open(struct traceview *v, const char *path)
{
	uint64_t offset = 0;
	int err;

	*v = (struct traceview){ .path = path };
	err = tfmt_reader_open(&v->reader, path, &offset);
	if (err) {
		traceview_say_unreadable(v->trouble, sizeof(v->trouble), path, err, offset);
		v->reader = NULL;
		return err;
	}
	v->header = tfmt_reader_header(v->reader);
	v->last_ns = v->header->start_mono_ns;
	return 0;
}

void traceview_close(struct traceview *v)
{
	tfmt_reader_close(v->reader);
	v->reader = NULL;
}

int traceview_next(struct traceview *v, struct tfmt_event *ev)
{
	int ret = tfmt_reader_next(v->reader, ev);

	if (ret > 0) {
		if (ev->time_ns > v->last_ns)
			v->last_ns = ev->time_ns;
		return 1;
	}
	if (!ret)
		return 0;
	v->damage = NULL;
	if (ret == TFMT_E_GIVEN_UP)
		return -1;
	if (ret == TFMT_E_NOMEM)
		heap_need(NULL);
	v->nr_damaged++;
	v->damaged_offset = tfmt_reader_offset(v->reader);
	v->damage = tfmt_reader_message(v->reader);
	if (!v->trouble[0])
		snprintf(v->trouble, sizeof(v->trouble), "'%s' is not whole: %s (at byte %" PRIu64 ")",
			 v->path, v->damage, v->damaged_offset);
	return -1;
}

bool traceview_lacks_end(struct traceview *v)
{
	const struct tfmt_summary *s = tfmt_reader_summary(v->reader);
	struct stat st;

	if (s->sealed || (s->end != TFMT_PROCESS_KILLED && s->end != TFMT_PROCESS_UNKNOWN) ||
	    tfmt_ring_exists(v->header, v->path))
		return false;
	if (!v->trouble[0])
		snprintf(v->trouble, sizeof(v->trouble),
			 "'%s' ends without its last frame (at byte %jd), and its ring file %s", v->path,
			 stat(v->path, &st) ? (intmax_t)0 : (intmax_t)st.st_size,
			 v->header->storage == TFMT_STORAGE_ANONYMOUS || v->header->storage == TFMT_STORAGE_SEALED ?
				 "was memory only" : "is missing");
	return true;
}
