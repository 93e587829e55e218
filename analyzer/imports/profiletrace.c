/* SPDX-License-Identifier: MIT */
/* Memory events by time, each with the spans of its thread that were open. */
#include "analyzer/imports/profiletrace.h"

#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "analyzer/base/heap.h"
#include "analyzer/imports/addressmap.h"
#include "analyzer/imports/jsonevents.h"
#include "analyzer/imports/snapshotdefine.h"

#define DEVICE_CUDA 1 /* c10::DeviceType */
#define HEAD 4096
#define BEFORE_ADDRESS 0x1000 /* of what was there before, as a sum: no driver puts anything there */
#define PACKAGES "/site-packages/"

struct profiletrace_event {
	uint64_t time_ns, address;
	int64_t bytes; /* a free's are negative */
	uint64_t allocated, reserved; /* after it */
	uint64_t thread;
	size_t order; /* in the file */
	uint32_t stack; /* number of a pair + 1, 0 = none */
	uint8_t device;
};

/* A function or an operator that ran. */
struct profiletrace_span {
	uint64_t thread, from_ns, to_ns;
	uint32_t frame;
};

/* ---- events of the file -------------------------------------------------------------------------- */

static struct json_object *member(struct json_object *o, const char *key)
{
	struct json_object *value = NULL;

	return o && json_object_object_get_ex(o, key, &value) ? value : NULL;
}

static const char *text_of(struct json_object *o, const char *key)
{
	const char *text = json_object_is_type(member(o, key), json_type_string) ? json_object_get_string(member(o, key)) : NULL;

	return text ? text : "";
}

/* Microseconds with a fraction. false: it is no time. */
static bool time_of(struct json_object *o, const char *key, uint64_t *ns)
{
	double us = json_object_get_double(member(o, key));

	*ns = us >= 0 && us < 9e15 ? (uint64_t)llround(us * 1000) : 0;
	return us >= 0 && us < 9e15;
}

static uint64_t whole(struct json_object *o, const char *key)
{
	int64_t value = json_object_get_int64(member(o, key));

	return value < 0 ? 0 : (uint64_t)value;
}

static void take_memory(struct profiletrace *p, struct json_object *o)
{
	struct json_object *args = member(o, "args");
	struct profiletrace_event ev = { .address = json_object_get_uint64(member(args, "Addr")),
					 .bytes = json_object_get_int64(member(args, "Bytes")),
					 .allocated = whole(args, "Total Allocated"),
					 .reserved = whole(args, "Total Reserved"),
					 .thread = whole(o, "tid"),
					 .order = p->nr_events };
	uint64_t device = whole(args, "Device Id");

	if (json_object_get_int64(member(args, "Device Type")) != DEVICE_CUDA || device >= TFMT_NR_DEVICES ||
	    !time_of(o, "ts", &ev.time_ns) || !ev.address || !ev.bytes || llabs(ev.bytes) > INT64_MAX / 1024)
		return;
	ev.device = (uint8_t)device;
	if (device >= p->names.nr_devices)
		p->names.nr_devices = (uint32_t)device + 1;
	p->event = heap_grow(p->event, &p->events_room, p->nr_events + 1, sizeof(*p->event));
	p->event[p->nr_events++] = ev;
}

/*
 * "train.py(12): step" as file, line and function. The profiler leaves out the folder of Python's search path: what of PyTorch is
 * left is put back into a folder for packages, by which it is known.
 */
static bool python_frame(struct profiletrace *p, const char *name, uint32_t *frame)
{
	const char *end = strstr(name, "): "), *open = end;
	char file[1024];
	bool is_torch;

	while (open && open > name && *open != '(')
		open--;
	if (!open || *open != '(' || !isdigit((unsigned char)open[1]))
		return false;
	is_torch = !strncmp(name, "torch/", 6) || !strncmp(name, "torchvision/", 12);
	snprintf(file, sizeof(file), "%s%.*s", is_torch ? PACKAGES : "", (int)(open - name < 900 ? open - name : 900), name);
	*frame = framestacks_frame(&p->names.stacks, end + 3, strlen(end + 3), file, strlen(file),
				   (uint32_t)strtoul(open + 1, NULL, 10));
	return true;
}

static void take_span(struct profiletrace *p, struct json_object *o, bool is_python)
{
	struct profiletrace_span span = { .thread = whole(o, "tid") };
	const char *name = text_of(o, "name");
	uint64_t duration;

	if (!time_of(o, "ts", &span.from_ns) || !time_of(o, "dur", &duration))
		return;
	span.to_ns = span.from_ns + duration;
	if (!is_python)
		span.frame = framestacks_frame(&p->names.stacks, name, strlen(name), "", 0, 0);
	else if (!python_frame(p, name, &span.frame))
		return;
	p->span = heap_grow(p->span, &p->spans_room, p->nr_spans + 1, sizeof(*p->span));
	p->span[p->nr_spans++] = span;
}

/* Most events are of kernels and the like: only those that may be wanted are read. */
static bool take_event(void *ctx, char *text)
{
	bool is_memory = strstr(text, "\"[memory]\""), is_op = strstr(text, "\"cpu_op\""),
	     is_python = strstr(text, "\"python_function\"");
	struct json_object *o;

	if (!is_memory && !is_op && !is_python)
		return true;
	o = json_tokener_parse(text);
	if (!o)
		return false;
	if (is_memory && !strcmp(text_of(o, "name"), "[memory]"))
		take_memory(ctx, o);
	else if (!strcmp(text_of(o, "ph"), "X") && (is_op || is_python))
		take_span(ctx, o, !strcmp(text_of(o, "cat"), "python_function"));
	json_object_put(o);
	return true;
}

/* ---- stacks -------------------------------------------------------------------------------------- */

static int by_thread(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_spans(const void *va, const void *vb)
{
	const struct profiletrace_span *a = va, *b = vb;

	if (a->thread != b->thread)
		return by_thread(a->thread, b->thread);
	if (a->from_ns != b->from_ns)
		return a->from_ns < b->from_ns ? -1 : 1;
	return a->to_ns > b->to_ns ? -1 : a->to_ns < b->to_ns; /* the outer one first */
}

static int compare_times(const struct profiletrace_event *a, const struct profiletrace_event *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->order < b->order ? -1 : a->order > b->order;
}

static int compare_by_thread(const void *va, const void *vb)
{
	const struct profiletrace_event *a = va, *b = vb;

	return a->thread != b->thread ? by_thread(a->thread, b->thread) : compare_times(a, b);
}

static int compare_by_time(const void *a, const void *b)
{
	return compare_times(a, b);
}

/* The open spans of a thread, the outermost first. */
struct open_spans {
	size_t *span, nr, room;
};

static void open_until(struct open_spans *o, const struct profiletrace *p, size_t *next, const struct profiletrace_event *ev)
{
	for (; *next < p->nr_spans; ++*next) {
		const struct profiletrace_span *s = &p->span[*next];

		if (s->thread > ev->thread || (s->thread == ev->thread && s->from_ns > ev->time_ns))
			break;
		while (o->nr && (p->span[o->span[o->nr - 1]].thread != s->thread || p->span[o->span[o->nr - 1]].to_ns < s->from_ns))
			o->nr--;
		o->span = heap_grow(o->span, &o->room, o->nr + 1, sizeof(*o->span));
		o->span[o->nr++] = *next;
	}
	while (o->nr && (p->span[o->span[o->nr - 1]].thread != ev->thread || p->span[o->span[o->nr - 1]].to_ns < ev->time_ns))
		o->nr--;
}

static void find_stacks(struct profiletrace *p)
{
	struct open_spans open = { 0 };
	size_t next = 0;

	if (p->nr_spans)
		qsort(p->span, p->nr_spans, sizeof(*p->span), compare_spans);
	if (p->nr_events)
		qsort(p->event, p->nr_events, sizeof(*p->event), compare_by_thread);
	for (size_t i = 0; i < p->nr_events; i++) {
		open_until(&open, p, &next, &p->event[i]);
		for (size_t k = open.nr; k-- > 0;)
			framestacks_push(&p->names.stacks, p->span[open.span[k]].frame);
		p->event[i].stack = framestacks_end(&p->names.stacks);
	}
	free(open.span);
	if (p->nr_events)
		qsort(p->event, p->nr_events, sizeof(*p->event), compare_by_time);
}

/* ---- reading ------------------------------------------------------------------------------------- */

bool profiletrace_is_trace(const char *path)
{
	char head[HEAD + 1] = "";
	struct stat st;
	gzFile file;
	int got;

	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	file = gzopen(path, "re");
	if (!file)
		return false;
	got = gzread(file, head, HEAD);
	gzclose(file);
	return got > 0 && head[strspn(head, " \t\r\n")] == '{' &&
	       (strstr(head, "\"traceEvents\"") || strstr(head, "\"schemaVersion\""));
}

int profiletrace_read(struct profiletrace *p, const char *path)
{
	struct jsonevents j = { .take = take_event, .ctx = p };

	*p = (struct profiletrace){ 0 };
	framestacks_init(&p->names.stacks);
	p->names.has_times = true;
	p->names.origin = "trace of PyTorch's profiler";
	if (jsonevents_read(&j, path, p->why, sizeof(p->why)))
		return -1;
	p->base_ns = j.base_ns;
	if (!p->nr_events) {
		snprintf(p->why, sizeof(p->why), "the trace has no memory events of a GPU; was it recorded with profile_memory=True?");
		return -1;
	}
	find_stacks(p);
	return 0;
}

void profiletrace_release(struct profiletrace *p)
{
	snapshot_release(&p->names);
	free(p->event);
	free(p->span);
	*p = (struct profiletrace){ 0 };
}

/* ---- the trace ----------------------------------------------------------------------------------- */

struct tfmt_header profiletrace_header(const struct profiletrace *p)
{
	uint64_t first = p->event[0].time_ns;

	return (struct tfmt_header){ .start_mono_ns = first,
				     .start_real_ns = p->base_ns + first,
				     .image_start_ns = p->base_ns + first,
				     .storage = TFMT_STORAGE_ANONYMOUS };
}

struct writing {
	const struct profiletrace *p;
	struct tracemaker t;
	struct addressmap live[TFMT_NR_DEVICES];
	struct keyset threads;
	uint64_t nr_unexplained;
};

static uint32_t thread_of(struct writing *w, uint64_t thread)
{
	bool is_new;
	uint32_t number = keyset_add(&w->threads, (struct keyset_key){ { (uint32_t)thread, (uint32_t)(thread >> 32) } }, &is_new);
	uint8_t buf[32], *end;

	if (is_new) {
		end = tfmt_put_string(tfmt_put_varint(buf, thread <= UINT32_MAX ? thread : 0), "", 0);
		tracemaker_define(&w->t, TFMT_DEF_THREAD, number, buf, (size_t)(end - buf));
	}
	return number;
}

static void write_event(struct writing *w, const struct profiletrace_event *ev, enum tfmt_kind kind, uint64_t size,
			uint64_t reserved)
{
	struct tfmt_event out = { .time_ns = ev->time_ns, .kind = (uint8_t)kind, .device = ev->device, .address = ev->address,
				  .size = size, .aux = reserved, .thread = thread_of(w, ev->thread) };

	snapshotdefine_stack(&w->p->names, ev->stack, &out);
	tracemaker_event(&w->t, &out);
}

static void write_alloc(struct writing *w, const struct profiletrace_event *ev, uint64_t bytes, uint64_t reserved)
{
	addressmap_put(&w->live[ev->device], (struct addressmap_entry){ .address = ev->address, .size = bytes });
	write_event(w, ev, TFMT_TENSOR_ALLOC, bytes, reserved);
}

/* What ends of what was there: of the size that it had. false: nothing was. */
static bool write_free(struct writing *w, const struct profiletrace_event *ev)
{
	const struct addressmap_entry *b = addressmap_find(&w->live[ev->device], ev->address);
	uint64_t size = b ? b->size : 0;

	if (!b)
		return false;
	addressmap_remove(&w->live[ev->device], ev->address);
	write_event(w, ev, TFMT_TENSOR_FREE, size, ev->reserved);
	return true;
}

/* What a device had before: blocks that go later without having come, and the rest as one. */
static void write_before(struct writing *w, uint8_t device)
{
	struct addressmap come = { 0 };
	const struct profiletrace_event *first = NULL;
	uint64_t before = 0;

	for (size_t i = 0; i < w->p->nr_events; i++) {
		struct profiletrace_event ev = w->p->event[i];
		bool has_come = addressmap_find(&come, ev.address);

		if (ev.device != device)
			continue;
		if (!first) {
			first = &w->p->event[i];
			before = (uint64_t)((int64_t)first->allocated - first->bytes);
		}
		if (ev.bytes < 0 && !has_come && (uint64_t)-ev.bytes <= before) {
			before -= (uint64_t)-ev.bytes;
			ev.time_ns = first->time_ns;
			ev.stack = 0;
			write_alloc(w, &ev, (uint64_t)-ev.bytes, first->reserved);
		}
		addressmap_put(&come, (struct addressmap_entry){ .address = ev.address, .size = 1 });
	}
	if (first && before && before <= INT64_MAX / 1024) {
		struct profiletrace_event rest = { .time_ns = first->time_ns, .address = BEFORE_ADDRESS, .device = device,
						   .thread = first->thread };

		write_alloc(w, &rest, before, first->reserved);
	}
	addressmap_release(&come);
}

int profiletrace_write(struct profiletrace *p, const struct tfmt_header *header, int fd, struct profiletrace_result *result)
{
	struct writing *w = heap_alloc(1, sizeof(*w));
	int err;

	w->p = p;
	tracemaker_open(&w->t, fd, header);
	snapshotdefine_all(&p->names, &w->t);
	for (uint32_t i = 0; i < p->names.nr_devices; i++)
		write_before(w, (uint8_t)i);
	for (size_t i = 0; i < p->nr_events && !w->t.err; i++) {
		const struct profiletrace_event *ev = &p->event[i];

		if (ev->bytes < 0) {
			w->nr_unexplained += !write_free(w, ev);
			continue;
		}
		w->nr_unexplained += write_free(w, ev);
		write_alloc(w, ev, (uint64_t)ev->bytes, ev->reserved);
	}
	err = tracemaker_close(&w->t);
	*result = (struct profiletrace_result){ w->t.nr_events, w->nr_unexplained, w->t.error };
	for (uint32_t i = 0; i < TFMT_NR_DEVICES; i++)
		addressmap_release(&w->live[i]);
	keyset_release(&w->threads);
	free(w);
	return err;
}
