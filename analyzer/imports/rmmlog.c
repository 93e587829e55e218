/* SPDX-License-Identifier: MIT */
/* Rows, one at a time; what is live is kept, to tell which frees are of it. */
#include "analyzer/imports/rmmlog.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyzer/base/keyset.h"
#include "analyzer/imports/addressmap.h"
#include "analyzer/imports/tracemaker.h"
#include "analyzer/recording/basename.h"

#define HEAD "Thread,Time,Action,Pointer,Size,Stream"
#define ROW_MAX 512
#define NR_FIELDS 6
#define NS_PER_S 1000000000ull
#define DAY_NS (86400 * NS_PER_S)
#define CUDA_OUT_OF_MEMORY 2
#define CALL 1 /* FUNCTION id */

enum { THREAD, TIME, ACTION, POINTER, SIZE, STREAM };
enum action { ALLOCATE, FREE, FAILURE };

struct row {
	uint64_t thread, time_ns, address, size, stream;
	enum action action;
};

struct writing {
	struct tracemaker t;
	struct addressmap live;
	struct keyset threads, streams;
	uint64_t nr_unexplained;
	uint64_t day_ns, latest_ns; /* midnights that have passed; time of day of the latest row */
	uint8_t device;
};

/* ---- rows ---------------------------------------------------------------------------------------- */

/* A number up to the end of the text. */
static bool read_number(const char *text, int base, uint64_t *value)
{
	char *end;

	if (!isxdigit((unsigned char)*text))
		return false;
	errno = 0;
	*value = strtoull(text, &end, base);
	return !errno && !*end;
}

/* An address or a handle; C libraries write none as "(nil)" or "nullptr". */
static bool read_handle(const char *text, uint64_t *value)
{
	*value = 0;
	return !strcmp(text, "(nil)") || !strcmp(text, "nullptr") || !strcmp(text, "default") || read_number(text, 16, value);
}

/* Digits after the point, of a second. */
static bool read_fraction(const char *text, uint64_t *ns)
{
	uint64_t value = 0, unit = NS_PER_S / 10;

	for (; isdigit((unsigned char)*text); text++, unit /= 10)
		value += (uint64_t)(*text - '0') * unit;
	*ns += value;
	return !*text;
}

/* "15:47:02.841961", of older versions "15:47:02:841961"; or seconds. */
static bool read_time(const char *text, uint64_t *ns)
{
	unsigned hour, minute, second;
	int length = 0;
	uint64_t seconds;
	char *end;

	if (sscanf(text, "%2u:%2u:%2u%n", &hour, &minute, &second, &length) == 3 && length) {
		*ns = (hour * 3600ull + minute * 60ull + second) * NS_PER_S;
		text += length;
		return !*text || ((*text == '.' || *text == ':') && read_fraction(text + 1, ns));
	}
	if (!isdigit((unsigned char)*text))
		return false;
	seconds = strtoull(text, &end, 10);
	*ns = seconds * NS_PER_S;
	return seconds < UINT64_MAX / NS_PER_S / 2 && (!*end || (*end == '.' && read_fraction(end + 1, ns)));
}

static bool read_action(const char *text, enum action *action)
{
	bool is_free = !strcmp(text, "free") || !strcmp(text, "deallocate");

	*action = is_free ? FREE : !strcmp(text, "allocate failure") ? FAILURE : ALLOCATE;
	return is_free || *action == FAILURE || !strcmp(text, "allocate");
}

static bool read_row(char *line, struct row *r)
{
	char *field[NR_FIELDS], *rest = line;

	for (int i = 0; i < NR_FIELDS; i++) {
		field[i] = strsep(&rest, ",");
		if (!field[i])
			return false;
	}
	return !rest && read_number(field[THREAD], 10, &r->thread) && read_time(field[TIME], &r->time_ns) &&
	       read_action(field[ACTION], &r->action) && read_handle(field[POINTER], &r->address) &&
	       read_number(field[SIZE], 10, &r->size) && read_handle(field[STREAM], &r->stream) && r->size <= INT64_MAX / 1024;
}

/*
 * The next row: 1, 0 at the end, -1 with l->why. A last line without an end is what a program that was killed has left of
 * its buffer.
 */
static int next_row(struct rmmlog *l, struct row *r, uint64_t *nr_lines)
{
	char line[ROW_MAX], *end;

	do {
		if (!fgets(line, sizeof(line), l->file))
			break;
		++*nr_lines;
		end = line + strcspn(line, "\r\n");
		if (!*end && feof(l->file))
			return 0;
		if (*end && end == line)
			continue;
		if (*end && (*end = 0, read_row(line, r)))
			return 1;
		snprintf(l->why, sizeof(l->why), "line %" PRIu64 " is no row of a log of RMM's", *nr_lines);
		return -1;
	} while (true);
	if (ferror(l->file))
		snprintf(l->why, sizeof(l->why), "%s", strerror(errno));
	return ferror(l->file) ? -1 : 0;
}

/* ---- events -------------------------------------------------------------------------------------- */

static void define(struct writing *w, uint8_t device)
{
	w->device = device;
	tracemaker_info(&w->t, "imported", "log of RMM");
	tracemaker_info(&w->t, "stacks", "none");
	tracemaker_device(&w->t, device);
	tracemaker_text(&w->t, TFMT_DEF_FUNCTION, CALL, "RMM allocate");
}

/* The system's number of a thread, or where that is none of its, the number as a name. */
static uint32_t thread_of(struct writing *w, uint64_t thread)
{
	bool is_new;
	uint32_t number = keyset_add(&w->threads, (struct keyset_key){ { (uint32_t)thread, (uint32_t)(thread >> 32) } }, &is_new);
	bool is_system = thread <= UINT32_MAX;
	uint8_t buf[64], *p;
	char name[32];

	if (is_new) {
		snprintf(name, sizeof(name), "%" PRIu64, thread);
		p = tfmt_put_string(tfmt_put_varint(buf, is_system ? thread : 0), name, is_system ? 0 : strlen(name));
		tracemaker_define(&w->t, TFMT_DEF_THREAD, number, buf, (size_t)(p - buf));
	}
	return number;
}

static void write_event(struct writing *w, const struct row *r, enum tfmt_kind kind)
{
	uint32_t stream =
		keyset_add(&w->streams, (struct keyset_key){ { (uint32_t)r->stream, (uint32_t)(r->stream >> 32) } }, NULL);
	struct tfmt_event ev = { .time_ns = w->day_ns + r->time_ns,
				 .kind = (uint8_t)kind,
				 .device = w->device,
				 .address = kind == TFMT_ALLOC_FAILED ? 0 : r->address,
				 .size = r->size,
				 .function = CALL,
				 .flags = kind == TFMT_ALLOC_FAILED ? 0 : TFMT_SPACE_DEVICE,
				 .aux = kind == TFMT_ALLOC_FAILED ? CUDA_OUT_OF_MEMORY : 0,
				 .stream = stream < TFMT_STREAM_OTHER ? (uint16_t)stream : TFMT_STREAM_OTHER,
				 .thread = thread_of(w, r->thread) };

	tracemaker_event(&w->t, &ev);
}

/* What is live there, if anything, ends: of the size that it had. */
static bool write_free(struct writing *w, struct row r)
{
	const struct addressmap_entry *b = addressmap_find(&w->live, r.address);

	if (!b)
		return false;
	r.size = b->size;
	addressmap_remove(&w->live, r.address);
	write_event(w, &r, TFMT_DRIVER_FREE);
	return true;
}

static void write_row(struct writing *w, const struct row *r)
{
	if (r->time_ns + DAY_NS / 2 < w->latest_ns)
		w->day_ns += DAY_NS;
	w->latest_ns = r->time_ns;
	if (r->action == FAILURE) {
		write_event(w, r, TFMT_ALLOC_FAILED);
	} else if (!r->address || !r->size) { /* nothing was asked for */
	} else if (r->action == FREE) {
		w->nr_unexplained += !write_free(w, *r);
	} else {
		w->nr_unexplained += write_free(w, *r);
		addressmap_put(&w->live, (struct addressmap_entry){ .address = r->address, .size = r->size });
		write_event(w, r, TFMT_DRIVER_ALLOC);
	}
}

/* ---- the whole ----------------------------------------------------------------------------------- */

bool rmmlog_is_log(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char head[sizeof(HEAD)] = "";
	struct stat st;
	bool is_log;

	if (fd < 0)
		return false;
	is_log = !fstat(fd, &st) && S_ISREG(st.st_mode) && read(fd, head, sizeof(head)) == sizeof(head) &&
		 !memcmp(head, HEAD, sizeof(HEAD) - 1) && strchr("\r\n", head[sizeof(HEAD) - 1]);
	close(fd);
	return is_log;
}

/* "rmm.dev1.csv": RMM makes a file for each device. */
static uint8_t device_of(const char *path)
{
	const char *mark = strstr(basename_of(path), ".dev");
	unsigned long device = mark && isdigit((unsigned char)mark[4]) ? strtoul(mark + 4, NULL, 10) : 0;

	return device < TFMT_NR_DEVICES ? (uint8_t)device : 0;
}

int rmmlog_open(struct rmmlog *l, const char *path)
{
	uint64_t nr_lines = 1;
	char head[ROW_MAX];
	struct row r;
	int got;

	*l = (struct rmmlog){ .file = fopen(path, "re"), .device = device_of(path) };
	if (!l->file || !fgets(head, sizeof(head), l->file)) {
		snprintf(l->why, sizeof(l->why), "%s", strerror(errno));
		return -1;
	}
	got = next_row(l, &r, &nr_lines);
	if (!got)
		snprintf(l->why, sizeof(l->why), "the log has no rows; was it flushed?");
	l->first_ns = got > 0 ? r.time_ns : 0;
	return got > 0 ? 0 : -1;
}

void rmmlog_close(struct rmmlog *l)
{
	if (l->file)
		fclose(l->file);
	l->file = NULL;
}

struct tfmt_header rmmlog_header(const struct rmmlog *l)
{
	return (struct tfmt_header){ .start_mono_ns = l->first_ns,
				     .start_real_ns = l->first_ns,
				     .image_start_ns = l->first_ns,
				     .storage = TFMT_STORAGE_ANONYMOUS };
}

int rmmlog_write(struct rmmlog *l, const struct tfmt_header *header, int fd, struct rmmlog_result *result)
{
	struct writing w = { .nr_unexplained = 0 };
	uint64_t nr_lines = 1;
	char head[ROW_MAX];
	struct row r;
	int got = 0, err;

	tracemaker_open(&w.t, fd, header);
	define(&w, l->device);
	keyset_add(&w.streams, (struct keyset_key){ { 0 } }, NULL);
	rewind(l->file);
	if (fgets(head, sizeof(head), l->file))
		while (!w.t.err && (got = next_row(l, &r, &nr_lines)) > 0)
			write_row(&w, &r);
	err = tracemaker_close(&w.t);
	*result = (struct rmmlog_result){ w.t.nr_events, w.nr_unexplained, w.t.error };
	addressmap_release(&w.live);
	keyset_release(&w.threads);
	keyset_release(&w.streams);
	return got < 0 ? 1 : err;
}
