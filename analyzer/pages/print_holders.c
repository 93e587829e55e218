/* SPDX-License-Identifier: MIT */
/* Holders of memory as table rows: figures, shapes, and the stack that allocated them. */
#include "analyzer/pages/print_holders.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analyzer/base/human.h"
#include "analyzer/pages/print_names.h"
#include "analyzer/pages/print_ranges.h"
#include "analyzer/pages/print_recording.h"
#include "analyzer/pages/print_said.h"
#include "analyzer/recording/basename.h"
#include "analyzer/stacks/element.h"
#include "analyzer/stacks/framekind.h"
#include "analyzer/ui/print_wrapped.h"

#define TEXT_MAX 1024
#define FRAMES_SHOWN 6 /* of the program's own, unless verbose */
#define PAGE_WIDTH 80
#define ORIGIN_WIDTH 62 /* of a frame on the first page, so that its line has 80 columns */
#define ORIGIN_LINE (ORIGIN_WIDTH + 13) /* of all that is said of it */

static const char *const space_names[16] = {
	[TFMT_SPACE_DEVICE] = "device",
	[TFMT_SPACE_PINNED] = "pinned",
	[TFMT_SPACE_MANAGED] = "managed",
	[TFMT_SPACE_REGISTERED] = "registered",
	[TFMT_SPACE_HANDLE] = "virtual",
	[TFMT_SPACE_POOL] = "pool",
	[TFMT_SPACE_ARRAY] = "array",
	[TFMT_SPACE_IPC] = "imported",
	[TFMT_SPACE_GRAPH] = "graph",
	[TFMT_SPACE_MULTICAST] = "multicast",
	[TFMT_SPACE_POOL_HOST] = "pool on the host",
	[TFMT_SPACE_HANDLE_HOST] = "virtual, on the host",
	[TFMT_SPACE_HANDLE_IMPORTED] = "imported",
	[TFMT_SPACE_RESERVED] = "address range",
};

static const struct emit_column columns[] = {
	{ "bytes", "bytes", EMIT_RIGHT, false },
	{ "share", "share", EMIT_RIGHT, true },
	{ "count", "blocks", EMIT_RIGHT, false },
	{ "device", NULL, EMIT_RIGHT, false },
	{ "pid", NULL, EMIT_RIGHT, false },
	{ "what", "what", EMIT_LEFT, true },
	{ "file", NULL, EMIT_LEFT, false },
	{ "line", NULL, EMIT_RIGHT, false },
	{ "function", NULL, EMIT_LEFT, false },
	{ NULL, NULL, EMIT_LEFT, false },
};

/* A frame in text: short file name unless verbose. Returns buf. */
static const char *frame_text(char *buf, size_t size, const struct stack_frame *frame, bool verbose)
{
	struct stack_frame shown = *frame;

	if (!verbose && shown.file)
		shown.file = print_short_path(shown.file);
	return stack_frame_text(buf, size, &shown);
}

/* Why a holder has no frames at all. */
static const char *no_frames_text(char *buf, size_t size, const struct replay_process *p,
				  const struct group *g)
{
	struct tfmt_thread thread;

	if (g->unrecorded) {
		snprintf(buf, size, "by how much events that the damaged trace lacks have changed the total");
		return buf;
	}
	if (g->before) {
		snprintf(buf, size, "unknown: that was before the part of the recording that was kept");
		return buf;
	}
	if (g->python_stack != TFMT_STACK_NO_PYTHON) {
		snprintf(buf, size, "allocated at an unknown place: its stack was not %s",
			 g->python_stack >= TFMT_STACK_FIRST ? "found in the trace" : "captured");
		return buf;
	}
	if (!tfmt_reader_thread(p->reader, g->thread, &thread))
		snprintf(buf, size, "allocated on a thread that runs no Python");
	else if (!strncmp(thread.name, "pt_autograd", strlen("pt_autograd")))
		snprintf(buf, size, "allocated in PyTorch's backward (thread %s runs no Python)",
			 thread.name);
	else
		snprintf(buf, size, "allocated on thread '%s', which runs no Python", thread.name);
	return buf;
}

static void expand(struct stack *stack, const struct replay *m, struct replay_process *p, const struct group *g)
{
	struct stack_source source = replay_stack_source(m, p);

	stack_expand(stack, &source, g->python_stack, g->native_stack);
}

/* A frame in at most so many characters, if leaving out folders does it. Returns buf. */
static const char *narrow_frame_text(char *buf, size_t size, struct stack_frame *frame, size_t width)
{
	frame_text(buf, size, frame, false);
	if (strlen(buf) > width && frame->file) {
		frame->file = basename_of(frame->file);
		frame_text(buf, size, frame, true);
	}
	return buf;
}

/* What a node of backward allocated: the node, and the line of forward that made it where both fit. */
static void backward_origin(char *buf, size_t size, const struct stack_frame *node, struct stack_frame *site)
{
	char text[TEXT_MAX / 2];

	if (!site) {
		snprintf(buf, size, "in backward of %s", node->function);
		return;
	}
	narrow_frame_text(text, sizeof(text), site, ORIGIN_WIDTH);
	snprintf(buf, size, "%s, from forward %s", node->function, text);
	if (strlen(buf) > ORIGIN_LINE)
		snprintf(buf, size, "in backward, from forward %s", text);
	if (strlen(buf) > ORIGIN_LINE)
		snprintf(buf, size, "from forward %s", text);
}

/* "some_long_fi...:17 in f": too long a text in so many characters; of a place the line's number stays. Returns buf. */
static const char *cut_origin(char buf[static TEXT_MAX], const char *origin, int width)
{
	const char *in = strstr(origin, " in "), *line = in;
	int tail;

	while (line && line > origin && *line != ':')
		line--;
	tail = line && *line == ':' ? (int)(in - line) : 0;
	if (!tail || in - origin + 3 <= width || tail + 3 >= width)
		snprintf(buf, TEXT_MAX, "%.*s...", width - 3, origin);
	else
		snprintf(buf, TEXT_MAX, "%.*s...%.*s", width - 3 - tail, origin, tail, line);
	return buf;
}

static void whole_origin(char buf[static TEXT_MAX], const struct replay *m, struct replay_process *p,
			 const struct holder *h)
{
	struct stack stack = { 0 };
	char text[TEXT_MAX / 2];
	const struct stack_frame *node;
	struct stack_frame *frame;
	int site;

	expand(&stack, m, p, h->largest);
	site = stack_site(&stack);
	frame = site < 0 ? NULL : &stack.frame[site];
	node = stack_node(&stack);
	if (node && (!frame || frame->from_forward || !frame->python))
		backward_origin(buf, TEXT_MAX, node, frame && frame->from_forward ? frame : NULL);
	else if (!frame)
		no_frames_text(buf, TEXT_MAX, p, h->largest);
	else
		snprintf(buf, TEXT_MAX, "allocated at %s", narrow_frame_text(text, sizeof(text), frame, ORIGIN_WIDTH));
	stack_release(&stack);
}

const char *print_origin(char *buf, size_t size, const struct replay *m, struct replay_process *p,
			 const struct holder *h)
{
	char whole[TEXT_MAX], cut[TEXT_MAX];

	whole_origin(whole, m, p, h);
	snprintf(buf, size, "%s", strlen(whole) > ORIGIN_LINE ? cut_origin(cut, whole, ORIGIN_LINE) : whole);
	return buf;
}

/* "float32 [32, 1024]", "float32 [32, 1024], and 2 others", "without a shape"; returns buf. */
static const char *print_shapes(char *buf, size_t size, const struct replay_process *p, const struct holder *h)
{
	struct tfmt_shape shape;
	char text[SHAPE_TEXT_MAX];

	if (h->nr_shapes && h->shape[0].shape && tfmt_reader_shape(p->reader, h->shape[0].shape, &shape))
		shape_text(text, &shape);
	else
		snprintf(text, sizeof(text), "without a shape"); /* workspaces, mostly */
	if (h->nr_shapes > 1)
		snprintf(buf, size, "%s, and %" PRIu32 " other%s", text, h->nr_shapes - 1,
			 h->nr_shapes > 2 ? "s" : "");
	else
		snprintf(buf, size, "%s", text);
	return buf;
}

/* What the blocks are: shape and type of tensors; entry point, kind of memory and caller of driver memory. */
static const char *what_text(char *buf, size_t size, const struct replay_process *p, const struct holder *h)
{
	const struct group *g = h->largest;
	const char *function = tfmt_reader_function(p->reader, g->function);

	if (g->unrecorded || g->before) {
		snprintf(buf, size, g->before ? "not kept" : "not recorded");
		return buf;
	}
	if (g->tensor)
		return print_shapes(buf, size, p, h);
	if (g->modelled) {
		snprintf(buf, size, "%s (modelled)", *function ? function : owner_titles[h->owner]);
		return buf;
	}
	snprintf(buf, size, "%s%s%s%s%s", *function ? function : space_names[g->space & TFMT_SPACE_MASK],
		 g->space == TFMT_SPACE_DEVICE ? "" : ", ",
		 g->space == TFMT_SPACE_DEVICE ? "" : space_names[g->space & TFMT_SPACE_MASK],
		 h->owner > OWNER_PROGRAM ? ", by " : "",
		 h->owner > OWNER_PROGRAM ? owner_names[h->owner] : "");
	return buf;
}

static void print_shape_list(struct emit *e, const struct replay_process *p, const struct holder *h)
{
	emit_array_begin(e, "shapes", NULL);
	for (uint32_t i = 0; i < h->nr_shapes; i++) {
		const struct holder_shape *s = &h->shape[i];
		struct tfmt_shape shape;

		emit_object_begin(e, NULL, NULL);
		if (s->shape && tfmt_reader_shape(p->reader, s->shape, &shape)) {
			emit_string(e, "dtype", NULL, element_name(shape.element_type));
			emit_array_begin(e, "dims", NULL);
			for (uint32_t k = 0; k < shape.nr_dims; k++)
				emit_uint(e, NULL, NULL, shape.dims[k]);
			emit_array_end(e);
			emit_uint(e, "storage_bytes", NULL, shape.bytes);
		} else {
			emit_null(e, "dtype", NULL);
			emit_null(e, "dims", NULL);
			emit_null(e, "storage_bytes", NULL);
		}
		emit_uint(e, "bytes", NULL, s->figures.bytes);
		emit_uint(e, "count", NULL, s->figures.blocks);
		emit_object_end(e);
	}
	emit_array_end(e);
}

static void print_frame(struct emit *e, const struct stack_frame *f)
{
	emit_object_begin(e, NULL, NULL);
	emit_string(e, "language", NULL, f->cut ? NULL : f->node ? "autograd" : f->python ? "python" : "native");
	emit_string(e, "file", NULL, f->file);
	if (f->line)
		emit_uint(e, "line", NULL, f->line);
	else
		emit_null(e, "line", NULL);
	emit_string(e, "function", NULL, f->function);
	emit_string(e, "module", NULL, f->module);
	if (f->python || f->cut || f->node)
		emit_null(e, "offset", NULL);
	else
		emit_uint(e, "offset", NULL, f->offset);
	emit_bool(e, "framework", NULL, f->framework);
	emit_bool(e, "from_forward", NULL, f->from_forward);
	emit_bool(e, "cut", NULL, f->cut);
	if (f->cut == STACK_CUT_UNKNOWN)
		emit_null(e, "frames_left_out", NULL);
	else
		emit_uint(e, "frames_left_out", NULL, f->cut);
	emit_object_end(e);
}

static void frames_left_text(struct emit *e, uint32_t folded, uint32_t hidden, bool torch)
{
	const char *s = folded == 1 ? "" : "s", *of = torch ? "PyTorch" : "libraries";

	if (folded && hidden)
		emit_text(e, "... %" PRIu32 " frame%s of %s, %" PRIu32 " more of the program (-v)", folded, s, of, hidden);
	else if (folded)
		emit_text(e, "... %" PRIu32 " frame%s of %s (-v)", folded, s, of);
	else if (hidden)
		emit_text(e, "... %" PRIu32 " more of the program (-v)", hidden);
}

/* Which part of PyTorch it was: the innermost Python frame, where that is not the site itself. */
static const struct stack_frame *innermost_part(const struct stack *stack, int site)
{
	int i = 0;

	while (i < site && (stack->frame[i].simulation || !stack->frame[i].python))
		i++;
	return i < site ? &stack->frame[i] : NULL;
}

static bool has_python_or_node(const struct stack *stack)
{
	for (uint32_t i = 0; i < stack->nr_frames; i++)
		if (stack->frame[i].python || stack->frame[i].node)
			return true;
	return false;
}

/*
 * What stands before a frame: the first is where memory was allocated, or the call of forward to whose gradient it
 * belongs; the others are callers. A node speaks for itself. A native stack that is apart from the Python one, because
 * they do not match, comes after it.
 */
static const char *frame_label(const struct stack_frame *f, const struct stack_frame *before)
{
	if (f->node)
		return "";
	if (f->from_forward && (!before || !before->from_forward || before->node))
		return "from forward ";
	if (before && !f->python && !f->cut && !f->runs_python && (before->python || before->node))
		return "   native at ";
	return before && !before->node ? "          by " : "allocated at ";
}

/* A frame below a row: all of it if verbose, else what 80 columns hold. Returns buf. */
static const char *row_frame_text(char *buf, size_t size, const struct stack_frame *f,
				  const struct print_holders_options *o)
{
	struct stack_frame shown = *f;

	if (o->verbose)
		return frame_text(buf, size, f, !o->tidy);
	narrow_frame_text(buf, size, &shown, ORIGIN_WIDTH);
	if (strlen(buf) > ORIGIN_WIDTH)
		strcpy(buf + ORIGIN_WIDTH - 3, "...");
	return buf;
}

/* A wrapper of a module's call that stands between two other frames of its part of the stack. */
static bool is_between(const struct stack_frame *f, const struct stack_frame *before)
{
	return before && !before->node && before->from_forward == f->from_forward && frame_wraps_module(f);
}

/* The frames below a row: the site first, its callers, PyTorch's own folded. */
static void stack_text(struct emit *e, const struct stack *stack, const struct print_holders_options *o)
{
	bool verbose = o->verbose;
	int site = stack_site(stack);
	const struct stack_frame *inside = innermost_part(stack, site), *before = NULL;
	uint32_t shown = 0, folded = 0, hidden = 0, wrappers = 0;
	bool told = has_python_or_node(stack), torch = false;
	char text[TEXT_MAX];

	for (uint32_t i = 0; i < stack->nr_frames; i++) {
		const struct stack_frame *f = &stack->frame[i];
		/* Native frames are the way from the interpreter to the driver: told by the Python ones. */
		bool aside = f->framework || (!f->python && !f->node && told);

		if (!verbose && aside && (int)i != site) {
			torch |= f->torch;
			folded++;
			continue;
		}
		if (!verbose && shown == (o->frames ? o->frames : FRAMES_SHOWN)) {
			hidden++;
			continue;
		}
		if (o->tidy && is_between(f, before)) {
			wrappers++;
			continue;
		}
		emit_text(e, "%s%s", frame_label(f, before), row_frame_text(text, sizeof(text), f, o));
		if ((int)i == site && inside && !verbose)
			emit_text(e, "     through %s", row_frame_text(text, sizeof(text), inside, o));
		before = f;
		shown++;
	}
	frames_left_text(e, folded, hidden, torch);
	if (wrappers)
		emit_text(e, "... %" PRIu32 " frame%s around calls of modules (-vv)", wrappers,
			  wrappers == 1 ? "" : "s");
}

/* A row's machine-readable side: who, where, which shapes, the whole stack. */
static void print_row_details(struct emit *e, const struct replay_process *p, const struct holder *h,
			      const struct stack *stack)
{
	const struct group *g = h->largest;
	const char *function = tfmt_reader_function(p->reader, g->function);
	int site = stack_site(stack);

	emit_string(e, "host", NULL, p->header->host);
	emit_uint(e, "pid", NULL, p->header->pid);
	if (g->device == GROUP_HOST)
		emit_null(e, "device", NULL);
	else
		emit_uint(e, "device", NULL, g->device);
	emit_string(e, "kind", NULL, g->tensor ? "tensor" : space_names[g->space & TFMT_SPACE_MASK]);
	emit_string(e, "call", NULL, *function ? function : NULL);
	emit_string(e, "owner", NULL, owner_names[h->owner]);
	emit_bool(e, "modelled", NULL, g->modelled);
	emit_bool(e, "unrecorded", NULL, g->unrecorded);
	emit_bool(e, "before", NULL, g->before);
	emit_uint(e, "stacks", NULL, h->nr_stacks);
	print_site_of(e, site < 0 ? NULL : &stack->frame[site]);
	emit_string(e, "phase", NULL, phase_names[g->phase]);
	emit_string(e, "node", NULL, stack_node(stack) ? stack_node(stack)->function : NULL);
	emit_bool(e, "from_forward", NULL, site >= 0 && stack->frame[site].from_forward);
	print_shape_list(e, p, h);
	emit_array_begin(e, "frames", NULL);
	for (uint32_t i = 0; i < stack->nr_frames; i++)
		print_frame(e, &stack->frame[i]);
	emit_array_end(e);
}

/* A row of the CSV has its site in columns of its own; in JSON they are members of "site". */
static void print_csv_site(struct emit *e, const struct stack *stack)
{
	int site = stack_site(stack);
	const struct stack_frame *f = site < 0 ? NULL : &stack->frame[site];

	if (!emit_is_csv(e) || !f)
		return;
	emit_string(e, "file", NULL, f->file);
	emit_uint(e, "line", NULL, f->line);
	emit_string(e, "function", NULL, f->function);
}

void print_holders_begin(struct emit *e)
{
	emit_table_begin(e, "groups", columns);
}

void print_holders_page_begin(struct emit *e, const char *what)
{
	static struct emit_column page[sizeof(columns) / sizeof(*columns)];

	memcpy(page, columns, sizeof(columns));
	for (size_t i = 0; page[i].key; i++)
		if (!strcmp(page[i].key, "what"))
			page[i].head = what;
	emit_table_begin(e, "groups", page);
}

/* What the figures of the rows that are shown leave of 80 columns. */
static int origin_width(const struct holders *h, const struct print_holders_options *o)
{
	int bytes = (int)strlen("bytes"), share = (int)strlen("share"), count = (int)strlen("blocks");
	char text[HUMAN_MAX];

	for (uint32_t i = 0; i < h->nr_holders && (!o->top || i < o->top); i++) {
		const struct group_figures *f = &h->holder[i].figures;

		bytes = emit_wider(bytes, human_signed_bytes(text, (int64_t)f->bytes));
		share = emit_wider(share, human_percent(text, (double)(int64_t)f->bytes, (double)h->total.bytes));
		count = emit_wider(count, human_count(text, f->blocks));
	}
	return PAGE_WIDTH - (bytes + 2 + share + 2 + count + 2);
}

/* A place in buf gets a name: "train.py:42 in fit (self.history[*])", or without the function, as there is room. */
static void add_name(char buf[static TEXT_MAX], const char *name, size_t width)
{
	size_t len = strlen(buf), room = strlen(name) + strlen(" ()"), site = strcspn(buf, " ");

	if (len + room > width && site && buf[site - 1] >= '0' && buf[site - 1] <= '9') /* file:line */
		len = site;
	if (len + room <= width)
		snprintf(buf + len, TEXT_MAX - len, " (%s)", name);
}

/* The origin in as many characters as a line of the first page has left for it. Returns buf. */
static const char *page_origin(char buf[static TEXT_MAX], const struct replay *m, struct replay_process *p,
			       const struct holder *h, int width)
{
	static const char at[] = "allocated at ", forward[] = ", from forward ";
	char text[TEXT_MAX], shape[SHAPE_TEXT_MAX + 32];
	const char *from = text, *line;

	if (holder_has_no_stack(h->largest))
		snprintf(text, sizeof(text), "no stack: %s", print_shapes(shape, sizeof(shape), p, h));
	else
		whole_origin(text, m, p, h);
	line = strstr(text, forward);
	if (!strncmp(from, at, sizeof(at) - 1))
		from += sizeof(at) - 1;
	if (line && strlen(from) > (size_t)width)
		from = line + 2;
	if (strlen(from) > (size_t)width)
		return cut_origin(buf, from, width);
	snprintf(buf, TEXT_MAX, "%s", from);
	if (h->named)
		add_name(buf, namegroup_text(h->named), (size_t)width);
	return buf;
}

/* The NVTX ranges that the newest block was allocated in. */
static void print_newest_ranges(struct emit *e, const struct holders_query *q, const struct holder *h, bool verbose)
{
	const struct books *books = q->process->books;
	uint32_t range = group_figures_at(h->largest, q->mark).range;
	char text[TEXT_MAX];

	print_range_array(e, "ranges", books, range);
	if (verbose && range)
		emit_text(e, "   in range %s", print_range_path(text, sizeof(text), books, range));
}

void print_holders_rows(struct emit *e, const struct replay *m, const struct holders_query *q,
			const struct holders *h, const struct print_holders_options *o)
{
	int width = o->by_site ? origin_width(h, o) : 0;
	struct stack stack = { 0 };
	bool told = false;
	char text[TEXT_MAX];

	for (uint32_t i = 0; i < h->nr_holders && (!o->top || i < o->top); i++) {
		const struct holder *holder = &h->holder[i];

		if (o->min_bytes && (int64_t)holder->figures.bytes < (int64_t)o->min_bytes)
			break;
		expand(&stack, m, q->process, holder->largest);
		emit_row_begin(e);
		emit_signed_bytes(e, "bytes", NULL, (int64_t)holder->figures.bytes);
		emit_label(e, "share", NULL, "%s",
			   human_percent(text, (double)(int64_t)holder->figures.bytes, (double)h->total.bytes));
		emit_uint(e, "count", NULL, holder->figures.blocks);
		emit_label(e, "what", NULL, "%s",
			   o->by_site ? page_origin(text, m, q->process, holder, width)
				      : what_text(text, sizeof(text), q->process, holder));
		print_csv_site(e, &stack);
		print_row_details(e, q->process, holder, &stack);
		print_newest_ranges(e, q, holder, o->verbose);
		if (holder->named)
			json_name(e, holder->named);
		if (holder_has_no_stack(holder->largest) && !o->by_site) {
			if (!told)
				emit_text(e, "no stack was captured: it is not known where these were allocated");
			told = true;
		} else if (!stack.nr_frames && !o->by_site)
			emit_text(e, "%s", no_frames_text(text, sizeof(text), q->process, holder->largest));
		else if (!o->by_site)
			stack_text(e, &stack, o);
		if (holder->named && !o->by_site)
			print_said(e, "", "  ", named_said(holder->named));
		emit_row_end(e);
	}
	stack_release(&stack);
}

void print_holders_end(struct emit *e)
{
	emit_table_end(e);
}
