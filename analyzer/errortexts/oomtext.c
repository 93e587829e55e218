/* SPDX-License-Identifier: MIT */
/* PyTorch's messages about memory that ran out: taking them out of a text; see oomtext.h. */
#include "analyzer/errortexts/oomtext.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyzer/base/heap.h"

/* ---- figures --------------------------------------------------------------------------------- */

struct oom_figure oom_figure_minus(struct oom_figure a, struct oom_figure b)
{
	b.bytes = -b.bytes;
	return oom_figure_plus(a, b);
}

struct oom_figure oom_figure_plus(struct oom_figure a, struct oom_figure b)
{
	return (struct oom_figure){
		.known = a.known && b.known,
		.unit = a.unit > b.unit ? a.unit : b.unit,
		.bytes = a.bytes + b.bytes,
		.slack = a.slack + b.slack,
	};
}

/* ---- one message, its white space taken out -------------------------------------------------- */

/* In capitals or not: people retype what they have read. */
static bool take(const char **p, const char *words)
{
	size_t n = strlen(words);

	if (strncasecmp(*p, words, n))
		return false;
	*p += n;
	return true;
}

static bool take_number(const char **p, uint64_t *number)
{
	const char *start = *p;

	*number = 0;
	for (; isdigit((unsigned char)**p); (*p)++) {
		if (__builtin_mul_overflow(*number, 10u, number) ||
		    __builtin_add_overflow(*number, (uint64_t)(**p - '0'), number))
			return false;
	}
	return *p != start;
}

static bool take_figure(const char **p, struct oom_figure *f)
{
	static const struct {
		const char *name;
		int unit;
	} units[] = { { "bytes", 0 }, { "KiB", 1 }, { "MiB", 2 }, { "GiB", 3 }, { "TiB", 4 },
		      { "KB", 1 },    { "MB", 2 },  { "GB", 3 },  { "TB", 4 } };
	const char *at = *p;
	double value = 0, digit = 1;

	if (!isdigit((unsigned char)*at))
		return false;
	for (; isdigit((unsigned char)*at); at++)
		value = value * 10 + (*at - '0');
	if (*at == '.') {
		for (at++; isdigit((unsigned char)*at); at++) {
			digit /= 10;
			value += (*at - '0') * digit;
		}
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++) {
		double scale = (double)(UINT64_C(1) << 10 * units[i].unit);

		if (value * scale < 1e30 && take(&at, units[i].name)) {
			*f = (struct oom_figure){ true, units[i].unit, value * scale,
						  units[i].unit ? digit / 2 * scale : 0 };
			*p = at;
			return true;
		}
	}
	return false;
}

/* A figure between two texts; nothing is taken, nor set, if one of the three is not there. */
static bool take_between(const char **p, const char *before, struct oom_figure *f, const char *after)
{
	const char *at = *p;
	struct oom_figure found;

	if (!take(&at, before) || !take_figure(&at, &found) || !take(&at, after))
		return false;
	*f = found;
	*p = at;
	return true;
}

static bool take_device(const char **p, struct oom_message *m)
{
	const char *at = *p;
	uint64_t number;

	while (isalpha((unsigned char)*at))
		at++;
	if (at == *p || !take_number(&at, &number) || number > INT32_MAX)
		return false;
	m->device = (int64_t)number;
	*p = at;
	return true;
}

/* A figure with the words after it, of which texts have several spellings: the longest of each kind first. */
static bool take_field(const char **p, struct oom_message *m)
{
	const struct {
		const char *words;
		struct oom_figure *figure; /* NULL: of no use here */
	} fields[] = {
		{ "totalcapacity", &m->capacity },
		{ "totalcapacty", &m->capacity },
		{ "total", &m->capacity },
		{ "alreadyallocated", &m->allocated },
		{ "allocated", &m->allocated },
		{ "free", &m->free },
		{ "cached", &m->unused },
		{ "allowed", &m->allowed },
		{ "reservedintotalbyPyTorch", &m->reserved },
		{ "reservedbyPyTorch", &m->reserved },
		{ "reservedintotal", &m->reserved },
		{ "reserved", &m->reserved },
		{ "currentactive", NULL },
	};
	struct oom_figure found;
	const char *at = *p;

	if (!take_figure(&at, &found))
		return false;
	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		const char *end = at;

		if (!take(&end, fields[i].words) || !strchr(";,)", *end))
			continue;
		if (fields[i].figure)
			*fields[i].figure = found;
		*p = end;
		return true;
	}
	return false;
}

#define UNKNOWN_MAX 80      /* characters between two figures that are known; without white space */
#define UNKNOWN_SENTENCES 2 /* in one message */

/* A field that no version had when this was written: what comes after it still counts. */
static bool skip_field(const char **p)
{
	size_t n = strcspn(*p, ";,()");

	if (!n || n > UNKNOWN_MAX || !strchr(";,)", (*p)[n]))
		return false;
	*p += n;
	return true;
}

/* 1.0 to 2.0: "(GPU0;7.93GiBtotalcapacity;6.00GiBalreadyallocated;14.88MiBfree;6.00GiBreservedintotal...)".
 */
static bool read_fields(const char **p, struct oom_message *m)
{
	const char *at = *p;

	if (!take(&at, "(") || !take_device(&at, m))
		return false;
	m->wording = OOM_FIELDS;
	for (*p = at; take(&at, ";") || take(&at, ","); *p = at) {
		if (!take_field(&at, m) && !skip_field(&at))
			break;
	}
	return true;
}

static void take_process(const char **p, struct oom_message *m, bool *more)
{
	struct oom_process found;
	const char *at = *p;

	*more = take(&at, "Process") && take_number(&at, &found.pid) &&
		take_between(&at, "has", &found.used, "memoryinuse.");
	if (!*more)
		return;
	if (m->nr_processes < OOM_PROCESSES_MAX)
		m->process[m->nr_processes++] = found;
	*p = at;
}

/* "ofwhich1.89GiBisfree", "with30.00MiBallocatedinprivatepools(e.g.,CUDAGraphs)": with "is" or "are", after a
 * comma or not. */
static bool take_said(const char **p, const char *before, struct oom_figure *f, const char *after)
{
	const char *at = *p;
	struct oom_figure found;

	take(&at, ",");
	if (!take(&at, before))
		return false;
	take(&at, ",");
	if (!take_figure(&at, &found) || !(take(&at, "is") || take(&at, "are")) || !take(&at, after))
		return false;
	*f = found;
	*p = at;
	return true;
}

#define PYTORCHS "Oftheallocatedmemory"

/* "Oftheallocatedmemory14.12GiBisallocatedbyPyTorch,with...,and410.41MiBisreservedbyPyTorchbut...". */
static bool take_pytorchs(const char **p, struct oom_message *m)
{
	if (!take_said(p, PYTORCHS, &m->allocated, "allocatedbyPyTorch"))
		return false;
	take(p, ",");
	if (take_between(p, "with", &m->private_pools, "allocatedinprivatepools(e.g.,"))
		*p += strcspn(*p, ",") + ((*p)[strcspn(*p, ",")] == ',');
	take_said(p, "and", &m->unused, "reservedbyPyTorchbutunallocated");
	return true;
}

static bool take_sentence(const char **p, struct oom_message *m)
{
	bool is_process;

	take_process(p, m, &is_process);
	return is_process ||
	       take_between(p, "Includingnon-PyTorchmemory,thisprocesshas", &m->own, "memoryinuse.") ||
	       take_between(p, "", &m->allowed, "allowed;") || take_pytorchs(p, m);
}

/* A sentence that no version had when this was written, up to its full stop; never into another message. */
static bool skip_sentence(const char **p)
{
	const char *end = *p;

	do {
		end += strcspn(end, ".:");
		if (*end != '.' || end - *p > UNKNOWN_MAX)
			return false;
		end++;
	} while (isdigit((unsigned char)*end)); /* "1.89" */
	if (memmem(*p, (size_t)(end - *p), "outofmemory", strlen("outofmemory")))
		return false;
	*p = end;
	return true;
}

/* What follows a GPU's capacity. */
static void read_details(const char **p, struct oom_message *m)
{
	unsigned nr_unknown = 0;

	m->wording = OOM_SENTENCES;
	take_said(p, "ofwhich", &m->free, "free");
	take(p, ".");
	while (take_sentence(p, m) || (!m->allocated.known && nr_unknown++ < UNKNOWN_SENTENCES && skip_sentence(p)))
		;
}

/* Since 2.1: ".GPU0hasatotalcapacityof23.69GiBofwhich1.89GiBisfree....". */
static bool read_sentences(const char **p, struct oom_message *m)
{
	const char *at = *p;

	if (!take(&at, ".") || !take_device(&at, m))
		return false;
	/* "capacty" is 2.1's spelling. */
	if (!take_between(&at, "hasatotalcapacityof", &m->capacity, "") &&
	    !take_between(&at, "hasatotalcapactyof", &m->capacity, ""))
		return false;
	read_details(&at, m);
	*p = at;
	return true;
}

/* "...GPU0hasatotalcapacityof23.69GiBofwhich": a log has left out what was before. */
static bool read_cut_capacity(const char **p, struct oom_message *m)
{
	if (!take_figure(p, &m->capacity))
		return false;
	read_details(p, m);
	return true;
}

/* The same, cut further on. */
static bool read_cut_pytorchs(const char **p, struct oom_message *m)
{
	const char *at = *p - strlen(PYTORCHS);

	if (!take_pytorchs(&at, m))
		return false;
	*p = at;
	return true;
}

/* What comes after "Tried to allocate". */
static bool read_request(const char **p, struct oom_message *m)
{
	if (take(p, "morethan1EBmemory")) {
		m->wording = OOM_OVERSIZE;
		return true;
	}
	if (!take_figure(p, &m->requested))
		return false;
	if (!read_fields(p, m) && !read_sentences(p, m))
		m->wording = OOM_CUT;
	return true;
}

static bool read_async(const char **p, struct oom_message *m)
{
	m->wording = OOM_ASYNC;
	take_between(p, "Currentlyallocated:", &m->allocated, "");
	take_between(p, "Requested:", &m->requested, "");
	take_between(p, "Devicelimit:", &m->capacity, "");
	take_between(p, "Free(accordingtoCUDA):", &m->free, "");
	take_between(p, "PyTorchlimit(setbyuser-suppliedmemoryfraction):", &m->allowed, "");
	return true;
}

/* Between "out of memory (" and "). Tried to allocate" it has the same figures under other names. */
static bool read_mps(const char **p, struct oom_message *m)
{
	struct oom_figure ignored;

	m->wording = OOM_MPS;
	take_between(p, "(MPSallocated:", &m->allocated, ",");
	take_between(p, "otherallocations:", &ignored, ",");
	take_between(p, "maxallowed:", &m->allowed, ").");
	take_between(p, "Triedtoallocate", &m->requested, "");
	return true;
}

static bool read_host(const char **p, struct oom_message *m)
{
	struct oom_figure f;

	m->wording = OOM_HOST;
	if (take_figure(p, &f))
		m->requested = f;
	return true;
}

#define CHECK_MAX 512 /* from a failed check to its error: a file's name and a line are between */

/* "THCudaCheck FAIL file=... line=58 error=2 : out of memory", up to 1.4: other errors are none of ours. */
static bool read_check(const char **p, struct oom_message *m)
{
	static const char error[] = "error=2:outofmemory";
	const char *at = strstr(*p, error);

	if (!at || at - *p > CHECK_MAX) /* another check's */
		return false;
	m->wording = OOM_DRIVER;
	*p = at + sizeof(error) - 1;
	return true;
}

/* ---- where messages begin -------------------------------------------------------------------- */

static const struct anchor {
	const char *text; /* white space taken out */
	bool (*read)(const char **p, struct oom_message *m);
	enum oom_wording wording; /* where there is nothing more to read */
} anchors[] = {
	{ "Triedtoallocate", read_request, 0 },
	{ "wouldexceedallowedmemory.(outofmemory)", read_async, 0 },
	{ "MPSbackendoutofmemory", read_mps, 0 },
	{ "DefaultCPUAllocator:can'tallocatememory:youtriedtoallocate", read_host, 0 },
	{ "DefaultCPUAllocator:notenoughmemory:youtriedtoallocate", read_host, 0 },
	{ "Torch:notenoughmemory:youtriedtoallocate", read_host, 0 },
	{ "CUDAerror:outofmemory", NULL, OOM_DRIVER },
	{ "HIPerror:outofmemory", NULL, OOM_DRIVER },
	{ "cudaruntimeerror(2):outofmemory", NULL, OOM_DRIVER },
	{ "THCudaCheckFAIL", read_check, OOM_DRIVER },
	{ "CUDNN_STATUS_ALLOC_FAILED", NULL, OOM_LIBRARY },
	{ "CUBLAS_STATUS_ALLOC_FAILED", NULL, OOM_LIBRARY },
	{ "Cudafailure'outofmemory'", NULL, OOM_LIBRARY },
	{ "Cudafailure2'outofmemory'", NULL, OOM_LIBRARY },
	{ "RESOURCE_EXHAUSTED:", NULL, OOM_NOT_PYTORCH },
	{ "OOMwhenallocatingtensor", NULL, OOM_NOT_PYTORCH },
	{ "hasatotalcapacityof", read_cut_capacity, OOM_SENTENCES },
	{ PYTORCHS, read_cut_pytorchs, OOM_SENTENCES },
};
#define NR_ANCHORS (sizeof(anchors) / sizeof(anchors[0]))

/* The word before "out of memory.": "CUDA", with "OutOfMemoryError:" glued to its front. */
static void read_backend(const char *text, const char *at, struct oom_message *m)
{
	static const char words[] = "outofmemory.";
	const char *end = at - (sizeof(words) - 1), *start = end;

	if (end < text || strncmp(end, words, sizeof(words) - 1))
		return;
	while (start > text && isupper((unsigned char)start[-1]))
		start--;
	if (end > start && (size_t)(end - start) < sizeof(m->backend))
		memcpy(m->backend, start, (size_t)(end - start));
}

static void read_async_device(const char *text, const char *at, struct oom_message *m)
{
	uint64_t number;
	const char *start = at;

	while (start > text && isdigit((unsigned char)start[-1]))
		start--;
	if (take_number(&start, &number) && number <= INT32_MAX)
		m->device = (int64_t)number;
}

/* Is it what a log has left of a message whose beginning it has cut out? */
static bool is_rest(const struct anchor *a)
{
	return a->read == read_cut_capacity || a->read == read_cut_pytorchs;
}

/* Does it come after "...", or after "...GPU0"? */
static bool follows_cut(const char *text, const char *at, struct oom_message *m)
{
	static const char ellipsis[] = "\xe2\x80\xa6";
	const char *gpu = at;

	while (gpu > text && isdigit((unsigned char)gpu[-1]))
		gpu--;
	if (gpu - text >= 3 && gpu < at && !strncmp(gpu - 3, "GPU", 3)) {
		read_async_device(text, at, m);
		at = gpu - 3;
	}
	return at - text >= 3 && (!strncmp(at - 3, "...", 3) || !strncmp(at - 3, ellipsis, 3));
}

static bool read_message(const struct anchor *a, const char *text, const char **p, struct oom_message *m)
{
	const char *at = *p;

	*m = (struct oom_message){ .wording = a->wording, .rank = -1, .device = -1, .count = 1 };
	*p += strlen(a->text);
	if (is_rest(a) && !follows_cut(text, at, m))
		return false;
	if (a->read && !a->read(p, m))
		return false;
	if (a->read == read_request)
		read_backend(text, at, m);
	else if (a->read == read_async)
		read_async_device(text, at, m);
	return true;
}

/* ---- the messages of a text ------------------------------------------------------------------ */

static bool same_figure(const struct oom_figure *a, const struct oom_figure *b)
{
	return a->known == b->known && (!a->known || (a->bytes == b->bytes && a->unit == b->unit));
}

/* A launcher repeats what a rank has printed, with a prefix: those are the same. */
static bool same_message(const struct oom_message *a, const struct oom_message *b)
{
	return a->wording == b->wording && a->device == b->device &&
	       (a->rank == b->rank || a->rank < 0 || b->rank < 0) &&
	       same_figure(&a->requested, &b->requested) && same_figure(&a->capacity, &b->capacity) &&
	       same_figure(&a->free, &b->free) && same_figure(&a->allocated, &b->allocated) &&
	       same_figure(&a->reserved, &b->reserved) && same_figure(&a->unused, &b->unused) &&
	       same_figure(&a->allowed, &b->allowed) && same_figure(&a->own, &b->own);
}

static void text_add(struct oom_text *t, const struct oom_message *m)
{
	for (size_t i = t->nr_messages; i-- > 0;) {
		if (!same_message(&t->message[i], m))
			continue;
		t->message[i].count++;
		if (t->message[i].rank < 0)
			t->message[i].rank = m->rank;
		return;
	}
	if (t->nr_messages == OOM_MESSAGES_MAX) {
		/* The last one is what gets explained: it takes the place of the one before. */
		t->nr_left_out++;
		t->nr_messages--;
	}
	if (!t->message)
		t->message = heap_alloc(OOM_MESSAGES_MAX, sizeof(*m));
	t->message[t->nr_messages++] = *m;
}

/* ---- the stream ------------------------------------------------------------------------------ */

#define WINDOW_MAX (1 << 16)
#define MESSAGE_MAX (1 << 13) /* no message is longer without its white space: 64 processes, 40 bytes each   \
			       */
#define HEAD_MAX 64           /* of a line: where launchers put their prefixes */

struct stream {
	struct oom_text *text;
	char window[WINDOW_MAX + 1];
	int64_t rank_at[WINDOW_MAX]; /* of the line that a byte of the window comes from */
	size_t nr, scanned;          /* bytes in the window; those already searched */
	int64_t rank;
	char head[HEAD_MAX + 1];
	size_t nr_head;
	bool in_head, in_escape, after_backslash;
};

/* The first anchor at p or after it, with where each of them is next: every byte is searched once for each.
 */
static const struct anchor *next_anchor(const char *p, const char *next[NR_ANCHORS], const char **where)
{
	static const char nowhere[] = "";
	const struct anchor *first = NULL;

	for (size_t i = 0; i < NR_ANCHORS; i++) {
		if (!next[i] || (next[i] != nowhere && next[i] < p)) {
			next[i] = strstr(p, anchors[i].text);
			if (!next[i])
				next[i] = nowhere;
		}
		if (next[i] != nowhere && (!first || next[i] < *where)) {
			first = &anchors[i];
			*where = next[i];
		}
	}
	return first;
}

/* Search the window; but for `is_end`, what may go on beyond it waits. */
static void stream_scan(struct stream *s, bool is_end)
{
	size_t limit = is_end ? s->nr : s->nr > MESSAGE_MAX ? s->nr - MESSAGE_MAX : 0;
	const char *p = s->window + s->scanned, *next[NR_ANCHORS] = { NULL }, *where = NULL;
	const struct anchor *a;
	struct oom_message m;
	size_t keep;

	s->window[s->nr] = 0;
	while ((a = next_anchor(p, next, &where)) && where < s->window + limit) {
		p = where;
		if (read_message(a, s->window, &p, &m)) {
			m.rank = s->rank_at[where - s->window];
			text_add(s->text, &m);
		}
	}
	if (p < s->window + limit)
		p = s->window + limit;
	/* What stands before an anchor belongs to it: the backend's name, the device. */
	keep = (size_t)(p - s->window);
	keep = keep > HEAD_MAX ? keep - HEAD_MAX : 0;
	s->scanned = (size_t)(p - s->window) - keep;
	memmove(s->window, s->window + keep, s->nr - keep);
	memmove(s->rank_at, s->rank_at + keep, (s->nr - keep) * sizeof(*s->rank_at));
	s->nr -= keep;
}

/* A byte that is no prefix of a line. White space, control characters and colours are left out, and "\n"
 * spelt out. */
static void stream_push(struct stream *s, char c)
{
	if (s->in_escape) {
		s->in_escape = c == '[' || c == ';' || isdigit((unsigned char)c);
		return;
	}
	if (c == '\033')
		s->in_escape = true;
	if ((unsigned char)c <= ' ')
		return;
	if (s->after_backslash && c == 'n') {
		s->nr -= s->nr > 0;
		s->after_backslash = false;
		return;
	}
	if (c == '\xa0' && s->nr &&
	    s->window[s->nr - 1] == '\xc2') { /* U+00A0, the space that web pages do not break */
		s->nr--;
		return;
	}
	s->after_backslash = c == '\\';
	s->window[s->nr] = c;
	s->rank_at[s->nr++] = s->rank;
	if (s->nr == WINDOW_MAX)
		stream_scan(s, false);
}

/* "[rank3]: " (PyTorch), "[default3]:" (torchrun), "[1,3]<stderr>: " (mpirun): length, and the rank. 0: none.
 */
static size_t rank_prefix(const char *head, int64_t *rank)
{
	const char *p = head;
	uint64_t number, job;
	bool is_mpi = false;

	while (*p == ' ')
		p++;
	if (take(&p, "[rank") || take(&p, "[default")) {
		if (!take_number(&p, &number))
			return 0;
	} else if (take(&p, "[")) {
		is_mpi = take_number(&p, &job) && take(&p, ",") && take_number(&p, &number);
		if (!is_mpi)
			return 0;
	} else {
		return 0;
	}
	if (!take(&p, "]") || (is_mpi && !take(&p, "<stderr>") && !take(&p, "<stdout>")) || !take(&p, ":") ||
	    number > INT32_MAX)
		return 0;
	*rank = (int64_t)number;
	return (size_t)(p - head);
}

/* "2025-11-12T11:25:13.496Z ", "> ", "| ": what log collectors and mails put before a line. */
static size_t plain_prefix(const char *head)
{
	size_t n = strspn(head, " >|");

	if (strspn(head + n, "0123456789") == 4 && head[n + 4] == '-')
		n += strspn(head + n, "0123456789-:.,TZ+");
	return n;
}

/* The head of a line is whole: its prefixes are left out, the rest goes on. */
static void stream_end_head(struct stream *s)
{
	size_t at = 0, n;

	s->in_head = false;
	s->head[s->nr_head] = 0;
	s->rank = -1;
	do {
		n = plain_prefix(s->head + at);
		n += rank_prefix(s->head + at + n, &s->rank);
		at += n;
	} while (n);
	for (; at < s->nr_head; at++)
		stream_push(s, s->head[at]);
	s->nr_head = 0;
}

static void stream_take(struct stream *s, char c)
{
	if (!c)
		return;
	if (c == '\n' || c == '\r') {
		stream_end_head(s);
		s->in_head = true;
	} else if (s->in_head) {
		s->head[s->nr_head++] = c;
		if (s->nr_head == HEAD_MAX)
			stream_end_head(s);
	} else {
		stream_push(s, c);
	}
}

int oomtext_read(struct oom_text *t, FILE *in)
{
	struct stream *s = heap_alloc(1, sizeof(*s));
	char chunk[4096];
	size_t n;
	int err = 0;

	*t = (struct oom_text){ 0 };
	s->text = t;
	s->in_head = true;
	errno = 0;
	while ((n = fread(chunk, 1, sizeof(chunk), in)) > 0) {
		t->nr_bytes += n;
		for (size_t i = 0; i < n; i++)
			stream_take(s, chunk[i]);
	}
	if (ferror(in)) {
		err = errno ? -errno : -EIO;
	} else {
		stream_end_head(s);
		stream_scan(s, true);
	}
	free(s);
	return err;
}

void oomtext_release(struct oom_text *t)
{
	free(t->message);
	*t = (struct oom_text){ 0 };
}
