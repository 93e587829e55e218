/* SPDX-License-Identifier: MIT */
/* Native walks by rules against those of the C library: all kinds of frames, threads, replaced libraries. */
#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unwind.h>

#include <cmocka.h>

#include "libinterpose/unwind.h"
#include "libinterpose/unwind_known.h"

#define FRAMES 256
#define NR_THREADS 4

static __thread struct unwind_thread *thread;
static __thread void *by_libc[FRAMES + 8];
static __thread enum unwind_end end;
static __thread uint64_t nr_kept; /* levels that walks did not have to look at again */
static __thread struct unwind_known *known;
static __thread uint64_t nr_told; /* stacks that were known before they were walked */
static __thread bool told_wrong;
static char folder[PATH_MAX];

static int begin(void **state)
{
	(void)state;
	free(thread);
	free(known);
	thread = calloc(1, sizeof(*thread));
	known = calloc(1, sizeof(*known));
	nr_kept = nr_told = 0;
	told_wrong = false;
	return !thread || !known;
}

/* An id for the walked stack, by its return addresses. */
static uint32_t id_of_levels(void)
{
	uint64_t h = thread->nr;

	for (uint32_t i = 0; i < thread->nr; i++)
		h = (h ^ thread->level[i].ip) * 0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 32) | 1;
}

/* The caller's stack by rules and by the C library. */
__attribute__((noinline)) static void walk(void)
{
	struct unwind_registers at = UNWIND_CALLER();
	uint32_t told = unwind_table_holds(thread) ? unwind_known_find(known, thread, at) : 0;

	end = unwind_table_walk(thread, at);
	nr_kept += thread->kept;
	nr_told += told != 0;
	told_wrong |= told && (end != UNWIND_ROOT || told != id_of_levels());
	if (!told && thread->reusable)
		unwind_known_add(known, thread, at, id_of_levels());
	backtrace(by_libc, FRAMES + 8);
}

/* The C library also sees walk() itself, and maybe a wrapper of backtrace() by a sanitizer. */
static bool same_as_libc(void)
{
	unsigned first = 0;

	while (first < 8 && (uintptr_t)by_libc[first] != thread->level[thread->nr - 1].ip)
		first++;
	for (uint32_t i = 0; i < thread->nr; i++)
		if (first + i >= FRAMES + 8 || thread->level[thread->nr - 1 - i].ip != (uintptr_t)by_libc[first + i])
			return false;
	return thread->nr > 3;
}

static bool agree(void)
{
	walk();
	return end == UNWIND_ROOT && same_as_libc() && !told_wrong;
}

static bool plain(unsigned depth, unsigned shape);

/* rbp holds the frame: its size is not known beforehand. */
__attribute__((noinline)) static bool variable(unsigned depth, unsigned shape)
{
	volatile char *room = __builtin_alloca(16 + (shape & 7) * 24);
	bool result;

	room[0] = 1;
	result = plain(depth - 1, shape / 3);
	return result && room[0];
}

/* The stack is aligned: the frame address is kept in memory. */
__attribute__((noinline)) static bool aligned(unsigned depth, unsigned shape)
{
	volatile char room[64] __attribute__((aligned(128)));
	bool result;

	room[0] = 1;
	result = plain(depth - 1, shape / 3);
	return result && room[0];
}

__attribute__((noinline)) static bool plain(unsigned depth, unsigned shape)
{
	volatile bool result;

	if (!depth)
		return agree();
	result = shape % 3 == 0 ? plain(depth - 1, shape / 3 * 7 + 1) :
		 shape % 3 == 1 ? variable(depth, shape) : aligned(depth, shape);
	return result;
}

static void test_every_kind_of_frame(void **state)
{
	(void)state;
	for (unsigned shape = 0; shape < 3000; shape++)
		assert_true(plain(shape % 60, shape));
}

static bool twice(unsigned depth);

/* The same functions deeper and shallower, at changing places of the stack: most of what is kept is so for a while. */
__attribute__((noinline)) static bool swinging(unsigned depth)
{
	volatile bool result = true;

	if (depth)
		result = twice(depth - 1);
	return agree() && result;
}

__attribute__((noinline)) static bool twice(unsigned depth)
{
	volatile bool first = swinging(depth), second = plain(depth % 5, depth * 7919), third = swinging(depth / 2);

	return first && second && third;
}

static void test_what_is_kept_is_right(void **state)
{
	(void)state;
	assert_true(swinging(12));
	assert_true(nr_kept > 1000);
}

static void test_what_is_known_is_right(void **state)
{
	(void)state;
	/* As many as fit in: when there is no more room, all are forgotten. volatile: from one place, not from five. */
	for (volatile unsigned again = 0; again < 5; again++)
		for (unsigned shape = 0; shape < 100; shape++)
			assert_true(plain(shape % 30, shape));
	assert_true(nr_told > 300);
}

static int compare_by_walking(const void *a, const void *b)
{
	(void)a;
	(void)b;
	return agree() ? 0 : 1;
}

static void test_through_other_libraries(void **state)
{
	int numbers[2] = { 1, 2 };

	(void)state;
	qsort(numbers, 2, sizeof(*numbers), compare_by_walking);
	assert_int_equal(numbers[0], 1);
	assert_true(end == UNWIND_ROOT);
}

__attribute__((noinline)) static bool deep(unsigned depth)
{
	volatile bool result;

	if (depth) {
		result = deep(depth - 1);
		return result;
	}
	walk();
	return end == UNWIND_TOO_DEEP;
}

static void test_a_long_stack_ends_where_the_levels_do(void **state)
{
	(void)state;
	assert_true(plain(3, 0)); /* known levels do not make room */
	for (int again = 0; again < 2; again++) {
		assert_true(deep(UNWIND_MAX + 10));
		assert_int_equal(thread->nr, UNWIND_MAX);
	}
	assert_true(plain(3, 0));
}

/* ---- other stacks, and memory that is no stack ----------------------------------------------- */

static ucontext_t fiber, home;
static bool fiber_agreed;

static void on_fiber(void)
{
	for (unsigned i = 0; i < 3; i++) {
		/* What the C library puts below a fiber's first function has no rule: its frames are libgcc's. */
		plain(5 + i, i);
		fiber_agreed = (end == UNWIND_ROOT || end == UNWIND_UNKNOWN) && same_as_libc();
		swapcontext(&fiber, &home);
	}
}

static void test_fibers_and_their_thread_take_turns(void **state)
{
	static char stack[1 << 18] __attribute__((aligned(16)));

	(void)state;
	getcontext(&fiber);
	fiber.uc_stack.ss_sp = stack;
	fiber.uc_stack.ss_size = sizeof(stack);
	makecontext(&fiber, on_fiber, 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_true(plain(7, i));
		swapcontext(&home, &fiber);
		assert_true(fiber_agreed);
	}
}

static volatile bool handler_agreed;

static void on_signal(int number)
{
	(void)number;
	walk();
	/* The kernel's frame is libgcc's; without a vDSO, as under qemu, it lies in no object and nobody's. */
	handler_agreed = end == (getauxval(AT_SYSINFO_EHDR) ? UNWIND_UNKNOWN : UNWIND_LOST) && thread->nr > 0;
}

static void test_a_signal_on_a_stack_of_its_own(void **state)
{
	stack_t own = { .ss_sp = malloc(1 << 17), .ss_size = 1 << 17 };
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

	(void)state;
	assert_false(sigaltstack(&own, NULL));
	assert_false(sigaction(SIGUSR1, &action, NULL));
	assert_true(plain(3, 0));
	raise(SIGUSR1);
	assert_true(handler_agreed);
	assert_true(plain(3, 0));
	own.ss_flags = SS_DISABLE;
	sigaltstack(&own, NULL);
	free(own.ss_sp);
}

/* A page of some content, with nothing readable above it. */
static uint64_t *page_of(uint64_t word)
{
	uint64_t *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(page != MAP_FAILED && !mprotect(page + 512, 4096, PROT_NONE));
	for (unsigned i = 0; i < 512; i++)
		page[i] = word;
	return page;
}

static void test_frames_that_lead_nowhere(void **state)
{
	static const uint64_t words[] = { 1, 8, 0x4141414141414141, UINT64_MAX, UINT64_MAX - 7, 1ull << 63 };

	(void)state;
	assert_true(plain(9, 5)); /* addresses to go wrong with */
	for (unsigned w = 0; w < sizeof(words) / sizeof(*words); w++) {
		uint64_t *page = page_of(words[w]);

		for (uint32_t n = 1; n < thread->nr_addresses; n++)
			for (unsigned at = 0; at < 512; at += 51) {
				struct unwind_registers from = { thread->address[n].ip, (uintptr_t)(page + at), words[w] };

				end = unwind_table_walk(thread, from);
				assert_true(end != UNWIND_ROOT || thread->address[n].rule.kind == UNWIND_END);
				assert_true(thread->nr <= 2);
			}
		munmap(page, 8192);
	}
	assert_true(plain(9, 5));
}

/* A root that the stack marks by a zero is none when something else is there. */
static void test_a_zero_that_is_overwritten(void **state)
{
	struct unwind_registers from;
	uint64_t *page = page_of(0);

	(void)state;
	assert_true(plain(9, 5));
	for (uint32_t n = 1; n < thread->nr_addresses; n++) {
		if (thread->address[n].rule.kind != UNWIND_SP)
			continue;
		from = (struct unwind_registers){ thread->address[n].ip, (uintptr_t)page, 0 };
		memset(page, 0, 4096);
		assert_true(unwind_table_walk(thread, from) == UNWIND_ROOT);
		memset(page, 1, 4096);
		assert_true(unwind_table_walk(thread, from) == UNWIND_LOST);
	}
	munmap(page, 8192);
}

/* Every return address leads to itself again. */
static void test_a_stack_in_a_circle(void **state)
{
	(void)state;
	assert_true(plain(9, 5));
	for (uint32_t n = 1; n < thread->nr_addresses; n++) {
		uint64_t ip = thread->address[n].ip, *page = page_of(ip);
		struct unwind_registers from = { ip, (uintptr_t)page, (uintptr_t)page };

		end = unwind_table_walk(thread, from);
		assert_true(end != UNWIND_ROOT || thread->address[n].rule.kind == UNWIND_END);
		munmap(page, 8192);
	}
}

/* ---- the judge --------------------------------------------------------------------------------- */

__attribute__((noinline)) static bool capture(void)
{
	return unwind_capture(thread, UNWIND_CALLER());
}

static int compare_by_capture(const void *a, const void *b)
{
	(void)a;
	(void)b;
	return capture() ? 0 : 1;
}

/* Most of this program's frames are the recorder's own here; the C library's are not. */
static uint32_t nr_foreign(void)
{
	int numbers[2] = { 1, 2 };
	uint32_t n = 0;

	qsort(numbers, 2, sizeof(*numbers), compare_by_capture);
	for (uint32_t i = 0; i < thread->nr; i++)
		n += !unwind_is_own(thread->level[i].ip);
	return n;
}

static void test_a_rule_that_is_wrong_ends_the_use_of_rules(void **state)
{
	uint32_t foreign, compared;

	(void)state;
	unwind_init(UNWIND_AUTO);
	assert_true(unwind_available());
	foreign = nr_foreign();
	compared = unwind_comparison().nr;
	assert_true(foreign >= 2 && compared > 0);
	assert_string_equal(unwind_method(), "rule table");
	assert_int_equal(nr_foreign(), foreign);
	assert_true(unwind_comparison().nr > compared);

	/* From now on every address but the innermost is taken for that of a thread's first function. */
	for (uint32_t n = 1; n < thread->nr_addresses; n++)
		if (n != thread->top)
			thread->address[n].rule.kind = UNWIND_END;
	thread->nr = 0;
	compared = unwind_comparison().nr;
	assert_int_equal(nr_foreign(), foreign); /* libgcc's word holds at once */
	assert_string_equal(unwind_method(), "libgcc, because the rule table disagreed with it");
	assert_int_equal(nr_foreign(), foreign);
	assert_int_equal(unwind_comparison().nr, compared + 1);
}

/* What the addresses stand for is noted after the first capture, as the recorder does: libunwind's quick walk needs it. */
static void mark_all(void)
{
	for (uint32_t n = 1; n < thread->nr_addresses; n++)
		thread->address[n].mark = 2;
}

static void test_whoever_walks_sees_the_same(void **state)
{
	static const char *const name[] = { "rule table", "rule table", "libgcc", "libunwind" };
	uint32_t foreign;

	(void)state;
	unwind_init(UNWIND_AUTO);
	foreign = nr_foreign();
	for (int choice = UNWIND_AUTO; choice <= UNWIND_BY_LIBUNWIND; choice++) {
		begin(NULL);
		unwind_init((enum unwind_choice)choice);
		if (unwind_note()) /* no libunwind here */
			continue;
		assert_string_equal(unwind_method(), name[choice]);
		for (int i = 0; i < 5; i++) {
			assert_int_equal(nr_foreign(), foreign);
			mark_all();
		}
		assert_int_equal(unwind_comparison().nr_differed, 0);
		assert_true(unwind_comparison().nr >= 5);
	}
}

static bool unwinder_fails;

_Unwind_Reason_Code __real__Unwind_Backtrace(_Unwind_Trace_Fn trace, void *arg);
_Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn trace, void *arg);

/* libgcc's, as unwind.c calls it (pyframes.mk). */
_Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn trace, void *arg)
{
	return unwinder_fails ? _URC_FATAL_PHASE1_ERROR : __real__Unwind_Backtrace(trace, arg);
}

static void test_an_unwinder_that_fails(void **state)
{
	uint32_t foreign;

	(void)state;
	unwinder_fails = true;
	unwind_init(UNWIND_AUTO);
	assert_false(unwind_available());

	unwinder_fails = false;
	unwind_init(UNWIND_AUTO);
	assert_true(unwind_available());
	foreign = nr_foreign();

	/* It says nothing against the rules, which go on without it. */
	unwinder_fails = true;
	assert_int_equal(nr_foreign(), foreign);
	assert_string_equal(unwind_method(), "rule table");

	/* Where it is needed, there is no stack. */
	for (uint32_t n = 1; n < thread->nr_addresses; n++)
		thread->address[n].rule.kind = UNWIND_OTHER;
	thread->nr = 0;
	assert_false(unwind_capture(thread, UNWIND_CALLER()));
	assert_int_equal(thread->nr, 0);
	unwinder_fails = false;
	assert_true(unwind_capture(thread, UNWIND_CALLER()));
}

static volatile bool captured_whole;
static volatile uint32_t nr_captured;

void capture_from_there(void);

void capture_from_there(void)
{
	captured_whole = capture();
	nr_captured++;
}

static void capture_on_signal(int number)
{
	(void)number;
	capture_from_there();
}

/* More than a rule can say. */
__attribute__((noinline)) static void capture_with_room(void)
{
	volatile char room[1 << 20];

	room[0] = room[sizeof(room) - 1] = 1;
	capture_from_there();
	room[1] = room[0];
}

static void test_frames_without_a_rule_are_left_to_the_unwinder(void **state)
{
	struct sigaction action = { .sa_handler = capture_on_signal };

	(void)state;
	unwind_init(UNWIND_AUTO);
	assert_false(sigaction(SIGUSR2, &action, NULL));
	raise(SIGUSR2);
	assert_true(captured_whole || !getauxval(AT_SYSINFO_EHDR));
	capture_with_room();
	assert_true(captured_whole);
}

/*
 * Frames for which libgcc's unwinder is needed, and whose frame pointer leads anywhere: a signal that interrupts a
 * function, and a function that no rule describes because its CFA is *fp + 16.
 */
#if defined(__x86_64__)

void interrupted_with(uint64_t fp);
void indirect_with(uint64_t fp);

__asm__(".text\n"
	"interrupted_with:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	mov %rdi, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	int3\n"
	"	pop %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"indirect_with:\n"
	"	.cfi_startproc\n"
	"	push %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	mov %rdi, %rbp\n"
	"	.cfi_escape 0x0f, 5, 0x76, 0, 0x06, 0x23, 16\n" /* CFA: breg6 0, deref, plus_uconst 16 */
	"	call capture_from_there\n"
	"	pop %rbp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n");

static void test_the_unwinder_reads_nothing_that_is_not_there(void **state)
{
	static const uint64_t words[] = { 0, 1, 8, 0x4141414141414141, UINT64_MAX, UINT64_MAX - 7, 1ull << 63 };
	struct sigaction action = { .sa_handler = capture_on_signal };

	(void)state;
	unwind_init(UNWIND_AUTO);
	nr_captured = 0;
	assert_false(sigaction(SIGTRAP, &action, NULL));
	for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
		uint64_t *page = page_of(words[i]);
		const uint64_t fp[] = { words[i], (uintptr_t)page, (uintptr_t)(page + 511), (uintptr_t)(page + 512) };

		for (unsigned j = 0; j < sizeof(fp) / sizeof(*fp); j++) {
			interrupted_with(fp[j]);
			assert_false(captured_whole && words[i]);
			indirect_with(fp[j]);
			assert_false(captured_whole);
		}
		munmap(page, 8192);
	}
	assert_int_equal(nr_captured, 2 * 4 * sizeof(words) / sizeof(*words));
	assert_string_equal(unwind_method(), "rule table");
}

#else

static void test_the_unwinder_reads_nothing_that_is_not_there(void **state)
{
	(void)state;
	skip();
}

#endif

/* ---- threads and libraries --------------------------------------------------------------------- */

static void *many_walks(void *arg)
{
	bool *ok = arg;

	*ok = begin(NULL) == 0;
	for (unsigned shape = 0; *ok && shape < 300; shape++)
		*ok = plain(shape % 40, shape);
	free(thread);
	free(known);
	return NULL;
}

static void test_threads_do_not_meet(void **state)
{
	pthread_t threads[NR_THREADS];
	bool ok[NR_THREADS];

	(void)state;
	for (int i = 0; i < NR_THREADS; i++)
		assert_false(pthread_create(&threads[i], NULL, many_walks, &ok[i]));
	for (int i = 0; i < NR_THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_true(ok[i]);
	}
}

static bool plugin_agreed;

static void in_plugin(void)
{
	plugin_agreed = agree();
}

/* Loads a plugin and returns where it was. Unless told, the table finds out within so many captures. */
static uintptr_t use_plugin(const char *name, bool told)
{
	char path[PATH_MAX + 16];
	int (*plugin_call)(void (*)(void));
	void *library;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	plugin_call = (int (*)(void (*)(void)))dlsym(library, "plugin_call");
	for (uint32_t i = 0; !told && i < UNWIND_RECHECK * UNWIND_OBJECTS; i++)
		plugin_call(in_plugin);
	plugin_call(in_plugin);
	assert_true(plugin_agreed);
	dlclose(library);
	if (told)
		unwind_objects_changed();
	return (uintptr_t)plugin_call;
}

static void replace_plugins(bool told)
{
	uintptr_t first = use_plugin("plugin1.so", told);

	for (int i = 0; i < 5; i++) {
		if (use_plugin("plugin2.so", told) != first)
			skip(); /* the loader has put it elsewhere */
		use_plugin("plugin1.so", told);
	}
}

static void test_a_library_in_the_place_of_another(void **state)
{
	(void)state;
	replace_plugins(false);
}

static void test_a_library_that_is_known_to_be_gone(void **state)
{
	(void)state;
	replace_plugins(true);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_kind_of_frame, begin),
		cmocka_unit_test_setup(test_through_other_libraries, begin),
		cmocka_unit_test_setup(test_what_is_kept_is_right, begin),
		cmocka_unit_test_setup(test_what_is_known_is_right, begin),
		cmocka_unit_test_setup(test_a_long_stack_ends_where_the_levels_do, begin),
		cmocka_unit_test_setup(test_fibers_and_their_thread_take_turns, begin),
		cmocka_unit_test_setup(test_a_signal_on_a_stack_of_its_own, begin),
		cmocka_unit_test_setup(test_frames_that_lead_nowhere, begin),
		cmocka_unit_test_setup(test_a_zero_that_is_overwritten, begin),
		cmocka_unit_test_setup(test_a_stack_in_a_circle, begin),
		cmocka_unit_test_setup(test_frames_without_a_rule_are_left_to_the_unwinder, begin),
		cmocka_unit_test_setup(test_the_unwinder_reads_nothing_that_is_not_there, begin),
		cmocka_unit_test_setup(test_a_rule_that_is_wrong_ends_the_use_of_rules, begin),
		cmocka_unit_test_setup(test_whoever_walks_sees_the_same, begin),
		cmocka_unit_test_setup(test_an_unwinder_that_fails, begin),
		cmocka_unit_test_setup(test_threads_do_not_meet, begin),
		cmocka_unit_test_setup(test_a_library_in_the_place_of_another, begin),
		cmocka_unit_test_setup(test_a_library_that_is_known_to_be_gone, begin),
	};

	(void)argc;
	snprintf(folder, sizeof(folder), "%s", argv[0]);
	*strrchr(folder, '/') = 0;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
