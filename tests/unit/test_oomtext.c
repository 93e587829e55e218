/* SPDX-License-Identifier: MIT */
/* PyTorch's messages about memory that ran out: found wherever a text is cut or wrapped, and what follows
 * from them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/errortexts/oomstory.h"
#include "analyzer/errortexts/oomtext.h"

#define assert_near(a, b, error) assert_true(fabs((a) - (b)) <= (error))
#define MIB (1024.0 * 1024)
#define GIB (1024 * MIB)

#define SENTENCES                                                                                                   \
	"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 138.00 MiB. GPU 2 has a total capacity of "  \
	"15.90 GiB of which 8.44 MiB is free. Process 1246069 has 577.00 MiB memory in use. Including "             \
	"non-PyTorch memory, this process has 15.32 GiB memory in use. 14.95 GiB allowed; Of the allocated memory " \
	"14.12 GiB is allocated by PyTorch, with 30.00 MiB allocated in private pools (e.g., CUDA Graphs), and "    \
	"410.41 MiB is reserved by PyTorch but unallocated. If reserved"
#define FIELDS(asked, total, allocated, free, reserved)                                                      \
	"CUDA out of memory. Tried to allocate " asked " (GPU 0; " total " total capacity; " allocated       \
	" already allocated; " free " free; " reserved " reserved in total by PyTorch)"

static void read_text(struct oom_text *t, const char *text, size_t size)
{
	FILE *f = fmemopen((void *)text, size ? size : 1, "r");

	if (!size)
		fgetc(f);
	assert_int_equal(oomtext_read(t, f), 0);
	fclose(f);
}

static struct oom_story story_of(struct oom_text *t, const char *text)
{
	struct oom_story s;

	read_text(t, text, strlen(text));
	assert_int_equal(t->nr_messages, 1);
	oom_story_tell(&s, t->message);
	return s;
}

static void check_sentences(const struct oom_text *t)
{
	const struct oom_message *m = t->message;

	assert_int_equal(t->nr_messages, 1);
	assert_int_equal(m->wording, OOM_SENTENCES);
	assert_string_equal(m->backend, "CUDA");
	assert_int_equal(m->device, 2);
	assert_near(m->requested.bytes, 138 * MIB, 1);
	assert_near(m->requested.slack, 0.005 * MIB, 1);
	assert_near(m->capacity.bytes, 15.90 * GIB, 2);
	assert_near(m->free.bytes, 8.44 * MIB, 2);
	assert_int_equal(m->nr_processes, 1);
	assert_int_equal(m->process[0].pid, 1246069);
	assert_near(m->process[0].used.bytes, 577 * MIB, 1);
	assert_near(m->own.bytes, 15.32 * GIB, 2);
	assert_near(m->allowed.bytes, 14.95 * GIB, 2);
	assert_near(m->allocated.bytes, 14.12 * GIB, 2);
	assert_near(m->private_pools.bytes, 30 * MIB, 1);
	assert_near(m->unused.bytes, 410.41 * MIB, 2);
}

static void test_wrapped_anywhere(void **state)
{
	static const char text[] = SENTENCES;
	char wrapped[sizeof(text) + 64];
	struct oom_text t;

	(void)state;
	for (size_t at = 0; at < sizeof(text); at++) {
		int n = snprintf(wrapped, sizeof(wrapped), "%.*s\n[rank7]: %s", (int)at, text, text + at);

		read_text(&t, wrapped, (size_t)n);
		check_sentences(&t);
		oomtext_release(&t);
	}
}

/* Messages at every place of the reader's window, which is 64 KiB long. */
static void test_anywhere_in_a_long_text(void **state)
{
	enum { LONG = 1 << 17 };
	static const char text[] = SENTENCES;
	char *log = malloc(LONG + sizeof(text));
	struct oom_text t;

	(void)state;
	for (size_t at = 0; at < LONG; at += 997) {
		memset(log, 'x', LONG + sizeof(text));
		memcpy(log + at, text, sizeof(text) - 1);
		read_text(&t, log, LONG + sizeof(text));
		check_sentences(&t);
		assert_int_equal(t.nr_bytes, LONG + sizeof(text));
		oomtext_release(&t);
	}
	free(log);
}

/* A message cut anywhere is one with fewer figures, or none: never other figures. */
static void test_cut_anywhere(void **state)
{
	static const char text[] = SENTENCES;
	const size_t needs =
		strlen("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 138.00 MiB");
	struct oom_text t;

	(void)state;
	for (size_t n = 0; n < sizeof(text); n++) {
		read_text(&t, text, n);
		assert_int_equal(t.nr_messages, n >= needs);
		if (t.nr_messages) {
			assert_near(t.message->requested.bytes, 138 * MIB, 1);
			assert_true(!t.message->own.known || t.message->own.bytes > 15 * GIB);
		}
		oomtext_release(&t);
	}
}

static void test_prefixes_and_repeats(void **state)
{
	static const char text[] = FIELDS(
		"2.50 GiB", "23.69 GiB", "21.45 GiB", "1.89 GiB",
		"21.50 GiB") "\n"
			     "[rank3]: " FIELDS(
				     "2.50 GiB", "23.69 GiB", "21.45 GiB", "1.89 GiB",
				     "21.50 GiB") "\n"
						  "2026-01-02T03:04:05.678Z [default1]:\033[31m" FIELDS(
							  "1.00 GiB", "23.69 GiB", "21.45 GiB", "0.89 GiB",
							  "21.50 GiB") "\033[0m\n"
								       "[1,12]<stderr>:" FIELDS(
									       "3.00 GiB", "23.69 GiB",
									       "21.45 GiB", "0.89 GiB",
									       "21.50 GiB") "\n";
	struct oom_text t;

	(void)state;
	read_text(&t, text, sizeof(text) - 1);
	assert_int_equal(t.nr_messages, 3);
	assert_int_equal(t.message[0].count, 2);
	assert_int_equal(t.message[0].rank, 3);
	assert_int_equal(t.message[1].rank, 1);
	assert_int_equal(t.message[2].rank, 12);
	oomtext_release(&t);
}

static void test_too_many(void **state)
{
	char *log = NULL;
	size_t size;
	FILE *f = open_memstream(&log, &size);
	struct oom_text t;

	(void)state;
	for (int i = 1; i <= OOM_MESSAGES_MAX + 10; i++)
		fprintf(f, "CUDA out of memory. Tried to allocate %d.00 GiB\n", i);
	fclose(f);
	read_text(&t, log, size);
	assert_int_equal(t.nr_messages, OOM_MESSAGES_MAX);
	assert_int_equal(t.nr_left_out, 10);
	assert_near(t.message[OOM_MESSAGES_MAX - 1].requested.bytes, (OOM_MESSAGES_MAX + 10) * GIB, 1);
	oomtext_release(&t);
	free(log);
}

static void test_verdicts(void **state)
{
	static const struct {
		const char *text;
		enum verdict verdict;
		double lacking, outside; /* NaN-free: 0 is not looked at */
	} cases[] = {
		{ FIELDS("2.50 GiB", "23.69 GiB", "21.45 GiB", "1.89 GiB", "21.50 GiB"), VERDICT_TOO_BIG,
		  0.61 * GIB, 0.30 * GIB },
		{ FIELDS("20.00 MiB", "7.93 GiB", "6.00 GiB", "14.88 MiB", "6.00 GiB"), VERDICT_NON_TORCH,
		  5.12 * MIB, 7.93 * GIB - 14.88 * MIB - 6 * GIB },
		{ FIELDS("2.87 GiB", "14.76 GiB", "8.77 GiB", "19.75 MiB", "13.71 GiB"),
		  VERDICT_FRAGMENTATION, 0, 0 },
		{ FIELDS("55.57 GiB", "12.00 GiB", "1.00 GiB", "9.00 GiB", "2.00 GiB"), VERDICT_TOO_BIG, 0,
		  0 },
		{ FIELDS("2.26 GiB", "6.00 GiB", "781.59 MiB", "3.03 GiB", "1.24 GiB"), VERDICT_NONE, 0, 0 },
		{ SENTENCES, VERDICT_FRAGMENTATION, 129.56 * MIB, 0 },
		{ FIELDS("64.00 MiB", "23.69 GiB", "23.10 GiB", "20.00 MiB", "23.19 GiB"), VERDICT_TOO_BIG,
		  44 * MIB, 0 }, /* 0.38% cached, unused */
		{ "CUDA out of memory. Tried to allocate 1.00 GiB (GPU 0; 12.00 GiB total capacity; 4.5 GiB already "
		  "allocated; 6.00 GiB free; 4.77 GiB allowed; 4.74 GiB reserved in total by PyTorch)",
		  VERDICT_USER_LIMIT, 0, 0 },
		{ "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes.",
		  VERDICT_HOST_OOM, 0, 0 },
		{ "RuntimeError: CUDA error: out of memory", VERDICT_NONE, 0, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct oom_text t;
		struct oom_story s = story_of(&t, cases[i].text);

		assert_int_equal(s.nr_reasons ? s.reason[0].verdict : VERDICT_NONE, cases[i].verdict);
		if (cases[i].lacking > 0)
			assert_near(s.lacking.bytes, cases[i].lacking, 2);
		if (cases[i].outside > 0)
			assert_near(s.outside.bytes, cases[i].outside, 4);
		oomtext_release(&t);
	}
}

static void test_impossible(void **state)
{
	struct oom_text t;
	struct oom_story s;

	(void)state;
	s = story_of(&t, FIELDS("17179869176.00 GiB", "7.93 GiB", "1.00 GiB", "5.00 GiB", "2.00 GiB"));
	assert_int_equal(s.nr_absurd, 1);
	assert_int_equal(s.absurd[0].why, OOM_ABSURD_NEGATIVE);
	assert_near(s.absurd[0].truth.bytes, -8 * GIB, 1e6);
	assert_false(s.requested.known);
	oomtext_release(&t);
	s = story_of(&t, FIELDS("99999999999999.00 GiB", "7.93 GiB", "1.00 GiB", "5.00 GiB", "2.00 GiB"));
	assert_int_equal(s.nr_absurd, 1);
	assert_int_equal(s.absurd[0].why, OOM_ABSURD_BEYOND);
	assert_false(s.requested.known);
	oomtext_release(&t);
	s = story_of(&t, FIELDS("1.00 GiB", "7.93 GiB", "3.00 GiB", "9.00 GiB", "2.00 GiB"));
	assert_int_equal(s.nr_absurd, 2);
	assert_int_equal(s.absurd[0].why, OOM_ABSURD_FREE);
	assert_int_equal(s.absurd[1].why, OOM_ABSURD_ALLOCATED);
	oomtext_release(&t);
}

/* As forums, older versions and other builds have it: the same four figures. */
static void test_spellings(void **state)
{
	static const char *const texts[] = {
		FIELDS("2.87 GiB", "14.76 GiB", "8.77 GiB", "19.75 MiB", "13.71 GiB"),
		"CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already "
		"allocated; 19.75 MiB free; 13.71 GiB reserved in total by Pytorch)",
		"CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0, 14.76 GiB total capacity, 8.77 GiB already "
		"allocated, 19.75 MiB free, 13.71 GiB reserved in total by pytorch)",
		"CUDA out of memory. Tried to allocate 2.87 GB (gpu 0; 14.76 GB total capacity; 8.77 gb already allocated; "
		"19.75 MB free; 13.71 GB reserved by PyTorch)",
		"CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total; 8.77 GiB allocated; 19.75 MiB "
		"free; 13.71 GiB reserved)",
		"CUDA out of memory. Tried to allocate 2.87 GiB (GPU 0; 14.76 GiB total capacity; 8.77 GiB already "
		"allocated; 3.00 GiB of something new; 19.75 MiB free; PyTorch memory managed 7; 13.71 GiB reserved in "
		"total by PyTorch)",
		"CUDA out of memory. Tried to allocate 2.87\xc2\xa0GiB (GPU 0; 14.76\xc2\xa0GiB total capacity; "
		"8.77\xc2\xa0GiB already allocated; 19.75\xc2\xa0MiB free; 13.71\xc2\xa0GiB reserved in total by "
		"PyTorch)",
		"CUDA out of memory. Tried to allocate 2.87 GiB. GPU 0 has a total capacity of 14.76 GiB of which 19.75 MiB "
		"is free. Of the allocated memory 8.77 GiB is allocated by Pytorch, and 4.94 GiB is reserved by pytorch "
		"but unallocated.",
		"CUDA out of memory. Tried to allocate 2.87 GiB. GPU 0 has a total capacity of 14.76 GiB, of which "
		"19.75 MiB are free. Something new was said here. Of the allocated memory, 8.77 GiB are allocated by "
		"PyTorch and 4.94 GiB are reserved by PyTorch but unallocated.",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct oom_text t;
		struct oom_story s = story_of(&t, texts[i]);

		assert_int_equal(t.message->device, 0);
		assert_near(s.requested.bytes, 2.87 * GIB, 2);
		assert_near(t.message->capacity.bytes, 14.76 * GIB, 2);
		assert_near(s.allocated.bytes, 8.77 * GIB, 2);
		assert_near(s.free.bytes, 19.75 * MIB, 2);
		assert_true(s.reserved.known);
		assert_near(s.reserved.bytes, 13.71 * GIB, 4);
		assert_int_equal(s.reason[0].verdict, VERDICT_FRAGMENTATION);
		assert_int_equal(s.nr_missing, 0);
		oomtext_release(&t);
	}
}

/* Figures of another message are never taken for those of one that was cut. */
static void test_cut_before_another(void **state)
{
	static const char text[] =
		"CUDA out of memory. Tried to allocate 1.00 GiB. GPU 1 has a total capacity of 8.00 GiB of wh\n"
		"CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 9.00 GiB of which 1.00 GiB is "
		"free. Of the allocated memory 5.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but "
		"unallocated.";
	struct oom_text t;

	(void)state;
	read_text(&t, text, sizeof(text) - 1);
	assert_int_equal(t.nr_messages, 2);
	assert_false(t.message[0].free.known);
	assert_false(t.message[0].allocated.known);
	assert_true(t.message[1].unused.known);
	oomtext_release(&t);
}

/* Logs put "..." for what they leave out: the rest is read, without it there is no message. */
static void test_middle_cut_out(void **state)
{
	static const char rest[] = "GPU 3 has a total capacity of 8.00 GiB of which 1.00 GiB is free. Of the allocated memory "
				   "5.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated.";
	static const char *const before[] = { "CUDA out of memory. Tried to allocate ... ", "CUDA out of memory. Tried to all... ",
					      "...", "CUDA out of memory. Tried to allocate 2.00 \xe2\x80\xa6 " };
	char text[512];
	struct oom_text t;

	(void)state;
	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", before[i], rest);
		read_text(&t, text, strlen(text));
		assert_int_equal(t.nr_messages, 1);
		assert_int_equal(t.message[0].wording, OOM_SENTENCES);
		assert_int_equal(t.message[0].device, 3);
		assert_false(t.message[0].requested.known);
		assert_near(t.message[0].free.bytes, GIB, 1);
		assert_near(t.message[0].unused.bytes, GIB, 1);
		oomtext_release(&t);
	}
	snprintf(text, sizeof(text), "CUDA out of memory. ... %s", strstr(rest, "Of the"));
	read_text(&t, text, strlen(text));
	assert_int_equal(t.nr_messages, 1);
	assert_near(t.message[0].allocated.bytes, 5 * GIB, 1);
	oomtext_release(&t);
	read_text(&t, rest, sizeof(rest) - 1);
	assert_int_equal(t.nr_messages, 0);
	oomtext_release(&t);
}

/* A figure that the text lacks proves nothing: what it would decide is told, and no verdict is firm that it
 * may change. */
static void test_missing_figures(void **state)
{
#define ASKED(what) "CUDA out of memory. Tried to allocate " what " (GPU 0; "
	static const struct {
		const char *text;
		enum verdict verdict; /* the first reason */
		bool is_firm;
		const char *missing; /* the first of them */
		size_t nr_missing;
		enum verdict least, most; /* what the missing figure would decide at its ends */
	} cases[] = {
		/* Reserved tells idle cache from memory outside PyTorch. */
		{ ASKED("2.87 GiB") "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free)",
		  VERDICT_NONE, false, "reserved", 1, VERDICT_NON_TORCH, VERDICT_FRAGMENTATION },
		/* Were nothing cached it would be too big; a full cache would have been enough. */
		{ ASKED("0.25 GiB") "16.00 GiB total capacity; 15.30 GiB already allocated; 0.20 GiB free)",
		  VERDICT_TOO_BIG, false, "reserved", 1, VERDICT_TOO_BIG, VERDICT_FRAGMENTATION },
		/* Whatever was reserved: tensors and the request alone are more than the GPU has. */
		{ ASKED("2.00 GiB") "8.00 GiB total capacity; 6.50 GiB already allocated; 1.20 GiB free)",
		  VERDICT_TOO_BIG, true, "reserved", 1, VERDICT_TOO_BIG, VERDICT_TOO_BIG },
		{ ASKED("2.50 GiB") "21.45 GiB already allocated; 1.89 GiB free; 21.50 GiB reserved in total by PyTorch)",
		  VERDICT_TOO_BIG, false, "capacity", 1, VERDICT_TOO_BIG, VERDICT_NON_TORCH },
		{ ASKED("2.87 GiB") "14.76 GiB total capacity; 19.75 MiB free; 13.71 GiB reserved in total by PyTorch)",
		  VERDICT_NONE, false, "allocated", 1, VERDICT_FRAGMENTATION, VERDICT_TOO_BIG },
		{ ASKED("2.00 GiB") "23.69 GiB total capacity; 21.50 GiB already allocated)", VERDICT_NONE,
		  false, "free", 2, VERDICT_NONE, VERDICT_NONE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct oom_text t;
		struct oom_story s = story_of(&t, cases[i].text);

		assert_int_equal(s.nr_reasons ? s.reason[0].verdict : VERDICT_NONE, cases[i].verdict);
		assert_int_equal(s.nr_reasons && s.reason[0].is_firm, cases[i].is_firm);
		assert_int_equal(s.nr_missing, cases[i].nr_missing);
		assert_string_equal(s.missing[0].figure, cases[i].missing);
		if (cases[i].nr_missing == 1) {
			assert_true(s.missing[0].nr_outcomes >= 1);
			assert_int_equal(s.missing[0].outcome[0].verdict, cases[i].least);
			assert_int_equal(s.missing[0].outcome[s.missing[0].nr_outcomes - 1].verdict,
					 cases[i].most);
		} else {
			assert_int_equal(s.missing[0].nr_outcomes, 0);
		}
		oomtext_release(&t);
	}
}

/* From 8.77 + 2.87 - 0.02 GiB reserved on, what is unused would have been enough. */
static void test_where_a_missing_figure_decides(void **state)
{
	struct oom_text t;
	struct oom_story s = story_of(
		&t,
		ASKED("2.87 GiB") "14.76 GiB total capacity; 8.77 GiB already allocated; 19.75 MiB free)");
	const struct oom_missing *m = &s.missing[0];

	(void)state;
	assert_near(m->outcome[0].from_bytes, 8.77 * GIB, 2);
	assert_near(m->outcome[m->nr_outcomes - 1].from_bytes, (8.77 + 2.87) * GIB - 19.75 * MIB, MIB);
	oomtext_release(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_wrapped_anywhere),
		cmocka_unit_test(test_anywhere_in_a_long_text),
		cmocka_unit_test(test_cut_anywhere),
		cmocka_unit_test(test_prefixes_and_repeats),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_verdicts),
		cmocka_unit_test(test_impossible),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_cut_before_another),
		cmocka_unit_test(test_middle_cut_out),
		cmocka_unit_test(test_missing_figures),
		cmocka_unit_test(test_where_a_missing_figure_decides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
