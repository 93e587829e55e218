/* SPDX-License-Identifier: MIT */
/* Asking classes what their objects hold, and living on where one faults; see traverse.h. */
#include "traverse.h"

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kernelsignal.h"

/* One thread's only: that of a copy. */
static struct {
	bool survives;
	volatile sig_atomic_t is_inside; /* of foreign code */
	sigjmp_buf before;
	uint64_t nr_faults;
	volatile sig_atomic_t is_reading; /* within foreign code or not */
	sigjmp_buf before_reading;
} traverse;

/* What a traverse calls for each object that it finds: our code, which must not be left half done. */
struct visitor {
	traverse_visit_fn *visit;
	void *arg;
};

static void on_fault(int number)
{
	if (traverse.is_reading) {
		traverse.is_reading = 0;
		siglongjmp(traverse.before_reading, 1);
	}
	if (traverse.is_inside) {
		traverse.is_inside = 0;
		siglongjmp(traverse.before, 1);
	}
	kernel_signal(number, NULL);
	syscall(SYS_tgkill, (long)getpid(), syscall(SYS_gettid), (long)number);
}

void traverse_survive(void)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };

	for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
		kernel_signal(faults[i], on_fault);
	traverse.survives = true;
}

static int visit(const void *object, void *arg)
{
	const struct visitor *v = arg;
	int result;

	traverse.is_inside = 0;
	result = v->visit(object, v->arg);
	traverse.is_inside = 1;
	return result;
}

void traverse_object(traverse_fn *fn, const void *object, traverse_visit_fn *visit_fn, void *arg)
{
	struct visitor v = { visit_fn, arg };

	if (!traverse.survives) {
		fn(object, visit_fn, arg);
		return;
	}
	if (sigsetjmp(traverse.before, 0)) {
		traverse.nr_faults++;
		return;
	}
	traverse.is_inside = 1;
	fn(object, visit, &v);
	traverse.is_inside = 0;
}

uint64_t traverse_nr_faults(void)
{
	return traverse.nr_faults;
}

static bool read_by_kernel(void *out, const void *at, size_t bytes)
{
	struct iovec to = { out, bytes }, from = { (void *)at, bytes };

	return syscall(SYS_process_vm_readv, getpid(), &to, 1ul, &from, 1ul, 0ul) == (long)bytes;
}

/* As memcpy(), but each load stands where it is written, and sanitizers do not watch it. */
__attribute__((no_sanitize("address", "thread", "undefined"))) static void copy(uint8_t *to, const volatile uint8_t *from, size_t bytes)
{
	typedef uint64_t __attribute__((aligned(1), may_alias)) word;
	size_t i = 0;

	for (; i + sizeof(word) <= bytes; i += sizeof(word))
		*(word *)(to + i) = *(const volatile word *)(from + i);
	for (; i < bytes; i++)
		to[i] = from[i];
}

bool traverse_read(void *to, const void *from, size_t bytes)
{
	if (!traverse.survives)
		return read_by_kernel(to, from, bytes);
	if (sigsetjmp(traverse.before_reading, 0))
		return false;
	traverse.is_reading = 1;
	copy(to, from, bytes);
	traverse.is_reading = 0;
	return true;
}
