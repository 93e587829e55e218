/* SPDX-License-Identifier: MIT */
/* One message about memory that ran out; see oommessage.h. */
#include "analyzer/errortexts/oommessage.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

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
bool oommessage_take(const char **p, const char *words)
{
	size_t n = strlen(words);

	if (strncasecmp(*p, words, n))
		return false;
	*p += n;
	return true;
}

bool oommessage_take_number(const char **p, uint64_t *number)
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

		if (value * scale < 1e30 && oommessage_take(&at, units[i].name)) {
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

	if (!oommessage_take(&at, before) || !take_figure(&at, &found) || !oommessage_take(&at, after))
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
	if (at == *p || !oommessage_take_number(&at, &number) || number > INT32_MAX)
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

		if (!oommessage_take(&end, fields[i].words) || !strchr(";,)", *end))
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

	if (!oommessage_take(&at, "(") || !take_device(&at, m))
		return false;
	m->wording = OOM_FIELDS;
	for (*p = at; oommessage_take(&at, ";") || oommessage_take(&at, ","); *p = at) {
		if (!take_field(&at, m) && !skip_field(&at))
			break;
	}
	return true;
}

static void take_process(const char **p, struct oom_message *m, bool *more)
{
	struct oom_process found;
	const char *at = *p;

	*more = oommessage_take(&at, "Process") && oommessage_take_number(&at, &found.pid) &&
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

	oommessage_take(&at, ",");
	if (!oommessage_take(&at, before))
		return false;
	oommessage_take(&at, ",");
	if (!take_figure(&at, &found) || !(oommessage_take(&at, "is") || oommessage_take(&at, "are")) || !oommessage_take(&at, after))
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
	oommessage_take(p, ",");
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
	oommessage_take(p, ".");
	while (take_sentence(p, m) || (!m->allocated.known && nr_unknown++ < UNKNOWN_SENTENCES && skip_sentence(p)))
		;
}

/* Since 2.1: ".GPU0hasatotalcapacityof23.69GiBofwhich1.89GiBisfree....". */
static bool read_sentences(const char **p, struct oom_message *m)
{
	const char *at = *p;

	if (!oommessage_take(&at, ".") || !take_device(&at, m))
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
	if (oommessage_take(p, "morethan1EBmemory")) {
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
static_assert(sizeof(anchors) / sizeof(anchors[0]) == OOM_BEGINNINGS, "a place for each in a search");

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
	if (oommessage_take_number(&start, &number) && number <= INT32_MAX)
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

/* The first anchor at p or after it. */
static const struct anchor *next_anchor(struct oommessage_search *search, const char *p, const char **where)
{
	static const char nowhere[] = "";
	const char **next = search->next;
	const struct anchor *first = NULL;

	for (size_t i = 0; i < OOM_BEGINNINGS; i++) {
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

bool oommessage_next(struct oommessage_search *search, const char *text, const char **p, const char *limit, const char **where,
		     struct oom_message *m)
{
	const struct anchor *a;

	while ((a = next_anchor(search, *p, where)) && *where < limit) {
		*p = *where;
		if (read_message(a, text, p, m))
			return true;
	}
	return false;
}
