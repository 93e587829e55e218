/* SPDX-License-Identifier: MIT */
/* Why an allocation failed, in words; see print_oom.h. */
#include "analyzer/pages/print_oom.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "analyzer/pages/print_oom_figures.h"

#define SENTENCE_MAX 400
#define SENTENCES_MAX 8
#define PAGE_LINES 24

/* ---- words ----------------------------------------------------------------------------------- */

struct sentences {
	size_t nr;
	char text[SENTENCES_MAX][SENTENCE_MAX];
};

__attribute__((format(printf, 2, 3))) static void say(struct sentences *to, const char *format, ...)
{
	va_list args;

	if (to->nr == SENTENCES_MAX)
		return;
	va_start(args, format);
	vsnprintf(to->text[to->nr++], SENTENCE_MAX, format, args);
	va_end(args);
}

/* Buffers for the figures of one sentence. */
struct figures {
	char a[32], b[32], c[32];
	char range_a[64], range_b[64];
};

#define FIG(field, figure) print_oom_figure(f.field, figure)

static void say_largest_process(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	const struct oom_process *largest = NULL;
	struct figures f;

	for (size_t i = 0; i < m->nr_processes; i++)
		if (&m->process[i] != s->self && m->process[i].used.bytes <= s->others.bytes &&
		    (!largest || m->process[i].used.bytes > largest->used.bytes))
			largest = &m->process[i];
	if (largest)
		say(to, "process %" PRIu64 " alone holds %s", largest->pid, FIG(a, largest->used));
}

static void say_verdict(struct sentences *to, const struct oom_message *m, const struct oom_story *s,
			const struct oom_reason *r)
{
	struct figures f;

	switch (r->verdict) {
	case VERDICT_TOO_BIG:
		if (oom_surely_above(s->requested, m->capacity))
			say(to, "Plain too big: %s asked of a GPU that has %s.", FIG(a, s->requested),
			    FIG(b, m->capacity));
		else
			say(to, "Plain too big%s: %s%s short. PyTorch's tensors hold %s%s%s.",
			    s->nr_missing && !r->is_firm ? ", as far as the text goes" : "",
			    s->lacking.known ? "" : "at least ",
			    FIG(a, s->lacking.known ? s->lacking : s->least_lacking), FIG(b, s->allocated),
			    m->capacity.known ? " of " : "", m->capacity.known ? FIG(c, m->capacity) : "");
		break;
	case VERDICT_FRAGMENTATION:
		if (s->unused.bytes >= s->requested.bytes)
			say(to,
			    "Fragmentation: %s reserved but unused would hold the %s asked, in no one piece.",
			    FIG(a, s->unused), FIG(b, s->requested));
		else
			say(to, "Fragmentation: %s reserved but unused and %s free would hold the %s asked.",
			    FIG(a, s->unused), FIG(b, s->free), FIG(c, s->requested));
		break;
	case VERDICT_OTHER_PROCESS:
		say(to, "Another process: others hold %s of this GPU; %s short.",
		    FIG(a, s->others.known ? s->others : s->unlisted), FIG(b, s->lacking));
		break;
	case VERDICT_NON_TORCH:
		say(to, "Not PyTorch: %s held outside %s; %s short.",
		    FIG(a, s->own_outside.known ? s->own_outside : s->outside),
		    s->own_outside.known ? "PyTorch by this process" : "this process's PyTorch",
		    FIG(b, s->lacking));
		break;
	case VERDICT_USER_LIMIT:
		say(to, "A limit that was set: %s allowed, %s of it reserved; the GPU had %s free.",
		    FIG(a, m->allowed), FIG(b, s->reserved.known ? s->reserved : s->allocated),
		    FIG(c, s->free));
		break;
	case VERDICT_HOST_OOM:
		say(to, "Host memory, not GPU memory: the CPU allocator had no %s.",
		    s->requested.known ? FIG(a, s->requested) : "more");
		break;
	default:
		break;
	}
}

/* ---- figures that are missing ---------------------------------------------------------------- */

#define MISSING_TEXT_MAX 200

static const char *missing_name(const struct oom_missing *missing)
{
	static const struct {
		const char *figure, *words;
	} names[] = { { "capacity", "how much memory the GPU has" },
		      { "free", "how much was free" },
		      { "allocated", "how much tensors held" },
		      { "reserved", "how much PyTorch had reserved" } };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(names[i].figure, missing->figure))
			return names[i].words;
	return missing->figure;
}

/* "how much was free and how much PyTorch had reserved" */
static const char *missing_names(char buf[static MISSING_TEXT_MAX], const struct oom_story *s)
{
	size_t n = 0;

	for (size_t i = 0; i < s->nr_missing; i++) {
		const char *before = !i ? "" : i + 1 == s->nr_missing ? " and " : ", ";

		n += (size_t)snprintf(buf + n, MISSING_TEXT_MAX - n, "%s%s", before,
				      missing_name(&s->missing[i]));
	}
	return buf;
}

static const char *outcome_name(enum verdict verdict)
{
	switch (verdict) {
	case VERDICT_TOO_BIG:
		return "plain too big";
	case VERDICT_FRAGMENTATION:
		return "fragmentation";
	case VERDICT_OTHER_PROCESS:
		return "another process";
	case VERDICT_NON_TORCH:
		return "memory outside PyTorch";
	case VERDICT_USER_LIMIT:
		return "the limit that was set";
	default:
		return "none of the usual reasons";
	}
}

/* "below 9.41 GiB memory outside PyTorch, from 9.41 GiB plain too big, from 11.62 GiB fragmentation" */
static void say_missing(struct sentences *to, const struct oom_story *s)
{
	const struct oom_missing *missing = &s->missing[0];
	char text[SENTENCE_MAX / 2], size[32];
	size_t n = 0;

	if (s->nr_missing != 1 || !missing->nr_outcomes)
		return;
	if (missing->nr_outcomes == 1) {
		say(to, "it is not known %s; whatever it was, it is %s", missing_name(missing),
		    outcome_name(missing->outcome[0].verdict));
		return;
	}
	for (size_t i = 0; i < missing->nr_outcomes && n < sizeof(text); i++) {
		struct oom_figure from = { true, 3, missing->outcome[i + !i].from_bytes, 0 };

		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %s %s", i ? ", " : "",
				      i ? "from" : "below", print_oom_figure(size, from),
				      outcome_name(missing->outcome[i].verdict));
	}
	say(to, "it is not known %s, which decides: %s", missing_name(missing), text);
}

/* Without figures that explain it. */
static void say_unexplained(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	struct figures f;
	char names[MISSING_TEXT_MAX];

	switch (m->wording) {
	case OOM_CUT:
		say(to, "%s did not fit; the text ends there, without the figures that would say why.",
		    s->requested.known ? FIG(a, s->requested) : "The request");
		break;
	case OOM_OVERSIZE:
		say(to,
		    "More than 1 EiB was asked: a size was computed wrong (a negative or wrapped dimension).");
		break;
	case OOM_DRIVER:
		say(to,
		    "The driver ran out outside PyTorch's allocator (a context, a kernel, a library): no figures.");
		break;
	case OOM_LIBRARY:
		say(to, "A library of NVIDIA's could not allocate what it needs for itself: no figures.");
		break;
	case OOM_MPS:
		say(to, "This is about Apple's MPS: %s asked, %s allowed. Only CUDA and HIP are explained.",
		    s->requested.known ? FIG(a, s->requested) : "memory",
		    m->allowed.known ? FIG(b, m->allowed) : "less");
		break;
	case OOM_NOT_PYTORCH:
		say(to, "This is JAX's or TensorFlow's message; only PyTorch's are explained.");
		break;
	default:
		if (s->nr_absurd)
			say(to,
			    "The figures contradict each other; none of the usual reasons follows from them.");
		else if (s->lacking.known && s->lacking.bytes <= 0)
			say(to, "The driver refused %s although it had %s free.", FIG(a, s->requested),
			    FIG(b, s->free));
		else if (!s->requested.known)
			say(to, "Open: the text does not say how much was asked for%s%s.",
			    s->nr_missing ? ", nor " : "", s->nr_missing ? missing_names(names, s) : "");
		else if (s->nr_missing == 1)
			say(to, "Open: one figure is missing, and it decides.");
		else if (s->nr_missing)
			say(to, "Open: it is not known %s, which decides.", missing_names(names, s));
		else
			say(to, "The text has too few figures to say why.");
	}
}

/* ---- evidence -------------------------------------------------------------------------------- */

static void say_absurd(struct sentences *to, const struct oom_story *s)
{
	struct figures f;

	for (size_t i = 0; i < s->nr_absurd; i++) {
		const char *name = s->absurd[i].figure;

		switch (s->absurd[i].why) {
		case OOM_ABSURD_NEGATIVE:
			say(to,
			    "%s: %s cannot be true: it is 2^64 bytes %+.2f GiB, a negative number printed as unsigned",
			    name, FIG(a, s->absurd[i].value), print_oom_in_unit(s->absurd[i].truth.bytes, 3));
			break;
		case OOM_ABSURD_BEYOND:
			say(to, "%s: %s cannot be true: sizes end at 2^64 bytes, 17179869184 GiB", name,
			    FIG(a, s->absurd[i].value));
			break;
		case OOM_ABSURD_REQUEST:
			say(to, "%s: no machine has %s: a size was computed wrong", name,
			    FIG(a, s->absurd[i].value));
			break;
		case OOM_ABSURD_FREE:
			say(to, "%s: %s cannot be true: it is more than the GPU has", name,
			    FIG(a, s->absurd[i].value));
			break;
		case OOM_ABSURD_ALLOCATED:
			say(to, "%s: %s cannot be true: it is more than was reserved", name,
			    FIG(a, s->absurd[i].value));
			break;
		case OOM_PAGED:
			say(to,
			    "%s: %s is more than the GPU has: the driver (of Windows, WSL) pages to the host",
			    name, FIG(a, s->absurd[i].value));
			break;
		}
	}
}

static bool has_reason(const struct oom_story *s, enum verdict verdict)
{
	for (size_t i = 0; i < s->nr_reasons; i++)
		if (s->reason[i].verdict == verdict)
			return true;
	return false;
}

static void say_unused(struct sentences *to, const struct oom_story *s)
{
	bool may_free_decide = !s->is_full && !s->free.known && s->missing[0].nr_outcomes > 1;
	struct figures f;

	if (!s->unused.known || isnan(s->unused_share) || !s->requested.known)
		return;
	if (has_reason(s, VERDICT_FRAGMENTATION))
		say(to, "cached, unused: %s, %.2f%% of what is reserved", FIG(a, s->unused),
		    100 * s->unused_share);
	else if (!s->is_full && oom_maybe_above(oom_figure_plus(s->unused, s->free), s->requested) && s->lacking.bytes > 0)
		say(to,
		    "cached, unused: %.2f%% of what is reserved; the rounding (%s) leaves open whether it would do",
		    100 * s->unused_share, print_oom_range(f.range_a, s->unused));
	else
		say(to, "cached, unused: %s, %.2f%% of what is reserved%s", FIG(a, s->unused),
		    100 * s->unused_share,
		    may_free_decide ? ""
		    : !s->is_full && s->requested.bytes > s->unused.bytes
			    ? ", less than was asked: not fragmentation"
		    : s->is_full ? ", so not fragmentation"
				 : ", which does not explain it");
}

static void say_outside(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	struct figures f;

	if (s->self)
		say(to,
		    "process %" PRIu64 " (%s) is this one, by its size: in a container its pid is another",
		    s->self->pid, FIG(a, s->self->used));
	if (s->others.known)
		say_largest_process(to, m, s);
	if (s->own_outside.known)
		say(to, "this process holds %s outside PyTorch: its context, libraries such as NCCL",
		    FIG(a, s->own_outside));
	else if (s->outside.known && !s->others.known)
		say(to,
		    "outside PyTorch: %s; a context takes 0.15 to 0.6 GiB of it, the text names no other holder",
		    FIG(a, s->outside));
	if (s->own_outside.known && s->unlisted.known && s->unlisted.bytes - s->unlisted.slack > 0x1p29)
		say(to,
		    "%s are held by processes that the text does not list (another container, another user)",
		    FIG(a, s->unlisted));
}

static void say_evidence(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	bool is_open = s->nr_missing == 1 && s->missing[0].nr_outcomes > 1;
	struct figures f;

	say_absurd(to, s);
	say_missing(to, s);
	if (s->nr_reasons && !s->reason[0].is_firm && !is_open && s->lacking.known && s->lacking.bytes > 0)
		say(to, "by the figures as rounded; exactly, %s short", print_oom_range(f.range_a, s->lacking));
	if (s->tensor_max)
		say(to, "%s is a segment's size: the tensor itself has %s", FIG(a, s->requested),
		    s->tensor_min > 1 ? "1 to 10 MiB" : "at most 1 MiB");
	say_unused(to, s);
	if (m->private_pools.known)
		say(to, "of what is allocated, %s lie unused in private pools (CUDA graphs)",
		    FIG(a, m->private_pools));
	say_outside(to, m, s);
	if (s->is_no_limit)
		say(to, "the limit printed, 2^64 bytes, means that none was set");
}

/* ---- advice ---------------------------------------------------------------------------------- */

static void say_advice_for(struct sentences *to, const struct oom_message *m, const struct oom_story *s,
			   const struct oom_reason *r)
{
	bool is_hip = !strcmp(m->backend, "HIP");
	struct figures f;

	switch (r->verdict) {
	case VERDICT_FRAGMENTATION:
		say(to, "PYTORCH_%s_ALLOC_CONF=expandable_segments:True: can use up to %s that lie idle",
		    is_hip ? "HIP" : "CUDA", FIG(a, s->unused));
		break;
	case VERDICT_OTHER_PROCESS:
		say(to, "end the other processes, or run on another GPU: frees up to %s",
		    FIG(a, s->others.known ? s->others : s->unlisted));
		break;
	case VERDICT_NON_TORCH:
		say(to,
		    "find who holds it: nvidia-smi for processes, 'vramtrace report' for libraries of this one");
		break;
	case VERDICT_USER_LIMIT:
		if (m->capacity.known && m->capacity.bytes > 0)
			say(to,
			    "set_per_process_memory_fraction(%.3f) or more instead of %.3f would have done",
			    fmin(1, ceil(1000 *
					 (m->allowed.bytes + fmax(0, s->limit_lacking.bytes) +
					  s->limit_lacking.slack) /
					 m->capacity.bytes) /
					    1000),
			    m->allowed.bytes / m->capacity.bytes);
		break;
	case VERDICT_TOO_BIG:
		if (oom_surely_above(s->requested, m->capacity))
			say(to,
			    "no setting helps: look for what makes one tensor so large (L x L, a wrong dimension)");
		else if (s->lacking.known)
			say(to, "%s less held by this process would have done", FIG(a, s->lacking));
		break;
	default:
		break;
	}
}

static void say_advice(struct sentences *to, const struct oom_message *m, const struct oom_story *s)
{
	for (size_t i = 0; i < s->nr_reasons; i++)
		say_advice_for(to, m, s, &s->reason[i]);
	if (!s->nr_reasons && s->lacking.known && s->lacking.bytes <= 0)
		say(to,
		    "look for another process that took memory for a moment; on Windows, for the driver's own limit");
	if (m->wording <= OOM_LIBRARY)
		say(to, "vramtrace run -o oom.vtr -- CMD: shows which lines hold the memory");
}

/* ---- text ------------------------------------------------------------------------------------ */

static void print_title(struct emit *e, const struct oom_message *m)
{
	char rank[32] = "", device[32] = "";

	if (m->rank >= 0)
		snprintf(rank, sizeof(rank), "rank %" PRId64 ", ", m->rank);
	if (m->device >= 0)
		snprintf(device, sizeof(device), "GPU %" PRId64 ", ", m->device);
	emit_heading(e, "%s%s%s%sout of memory", rank, device, m->backend, *m->backend ? " " : "");
}

/* Lines that sentences take, with an empty one before them. */
static unsigned nr_lines(const struct sentences *from, const char *lead)
{
	unsigned lines = from->nr > 0;

	for (size_t i = 0; i < from->nr; i++)
		lines += print_wrapped(NULL, lead, lead, from->text[i]);
	return lines;
}

/* Leave out evidence from the end until it takes at most so many lines. */
static void shorten(struct sentences *evidence, unsigned lines)
{
	while (evidence->nr && nr_lines(evidence, "- ") > lines)
		evidence->nr--;
}

static void print_sentences(struct emit *e, const struct sentences *from, const char *first, const char *others,
			    const char *indent)
{
	if (from->nr)
		emit_blank(e);
	for (size_t i = 0; i < from->nr; i++)
		print_wrapped(e, i ? others : first, indent, from->text[i]);
}

void print_oom_text(struct emit *e, const struct oom_message *m, const struct oom_story *s)
{
	struct sentences verdict = { 0 }, evidence = { 0 }, advice = { 0 };
	unsigned lines = 1, figures, columns;

	if (!emit_is_text(e))
		return;
	for (size_t i = 0; i < s->nr_reasons; i++)
		say_verdict(&verdict, m, s, &s->reason[i]);
	if (!verdict.nr)
		say_unexplained(&verdict, m, s);
	say_evidence(&evidence, m, s);
	say_advice(&advice, m, s);

	print_title(e, m);
	for (size_t i = 0; i < verdict.nr; i++)
		lines += print_wrapped(e, i ? "also: " : "", i ? "      " : "", verdict.text[i]);
	lines += nr_lines(&advice, "      ");
	figures = print_oom_figures(NULL, m, s, 1);
	columns = lines + figures + nr_lines(&evidence, "- ") > PAGE_LINES ? 2 : 1;
	lines += print_oom_figures(e, m, s, columns);
	shorten(&evidence, lines < PAGE_LINES ? PAGE_LINES - lines : 0);
	print_sentences(e, &evidence, "- ", "- ", "  ");
	print_sentences(e, &advice, "next: ", "      ", "      ");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_strings(struct emit *e, const char *key, const struct sentences *from)
{
	emit_array_begin(e, key, NULL);
	for (size_t i = 0; i < from->nr; i++)
		emit_string(e, NULL, NULL, from->text[i]);
	emit_array_end(e);
}

void print_oom_findings(struct emit *e, const struct oom_message *m, const struct oom_story *s)
{
	emit_array_begin(e, "findings", NULL);
	for (size_t i = 0; i < s->nr_reasons || (!s->nr_reasons && !i); i++) {
		const struct oom_reason none = { VERDICT_NONE, 0, false };
		const struct oom_reason *r = s->nr_reasons ? &s->reason[i] : &none;
		struct sentences evidence = { 0 }, advice = { 0 };

		if (r->verdict)
			say_verdict(&evidence, m, s, r);
		else
			say_unexplained(&evidence, m, s);
		if (!i)
			say_evidence(&evidence, m, s);
		say_advice_for(&advice, m, s, r);
		emit_object_begin(e, NULL, NULL);
		emit_string(e, "verdict", NULL, verdict_name(r->verdict));
		emit_null(e, "site", NULL);
		emit_double(e, "bytes", NULL, r->verdict ? nearbyint(r->bytes) : NAN);
		emit_bool(e, "firm", NULL, r->is_firm);
		print_strings(e, "evidence", &evidence);
		print_strings(e, "advice", &advice);
		emit_object_end(e);
	}
	emit_array_end(e);
}
