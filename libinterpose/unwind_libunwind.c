/* SPDX-License-Identifier: MIT */
/* Walks by the system's libunwind; see unwind_libunwind.h. Its headers are not needed to build this. */
#include "unwind_libunwind.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

#define LIBRARY "libunwind.so.8"

/* libunwind's names of this processor's functions, and its numbers of registers. */
#if defined(__x86_64__)
#define LOCAL(name) "_ULx86_64_" name
enum { REG_IP = 16, REG_SP = 7 };
#elif defined(__aarch64__)
#define LOCAL(name) "_ULaarch64_" name
enum { REG_IP = 30, REG_SP = 31 };
#endif

enum trouble { NONE, NOT_ASKED_FOR, MISSING, OTHER_VERSION, NO_CALLERS, NO_PIPE, PIPE_TAKEN, UNLOADED, FORKED };

static _Atomic uint32_t trouble = NOT_ASKED_FOR; /* enum trouble */
static pid_t opened_by;                          /* 0 = nobody: inherited by fork children */

static struct {
	int (*backtrace)(void **, int);
	int (*init_local)(void *, void *);
	int (*step)(void *);
	int (*get_reg)(void *, int, uint64_t *);
} api;

/* The two ends of its pipe. */
static struct end {
	int fd;
	dev_t device;
	ino_t inode;
} pipe_end[2];

const char *libunwind_trouble(void)
{
	static const char *const text[] = {
		[NOT_ASKED_FOR] = "libunwind is not asked for",
		[MISSING] = LIBRARY " cannot be loaded",
		[OTHER_VERSION] = LIBRARY " lacks functions",
		[NO_CALLERS] = "libunwind finds no callers",
		[NO_PIPE] = "libunwind's descriptors cannot be watched",
		[PIPE_TAKEN] = "the program has closed libunwind's descriptors",
		[UNLOADED] = "libunwind would not notice that a library was unloaded",
		[FORKED] = "libunwind is not used in a forked child",
	};

	return text[atomic_load_explicit(&trouble, memory_order_relaxed)];
}

/* ---- its descriptors ------------------------------------------------------------------------------- */

static bool is_same_end(const struct end *e)
{
	struct stat st;

	return !fstat(e->fd, &st) && st.st_ino == e->inode && st.st_dev == e->device;
}

/* The numbers that the next pipe gets, if no other thread is faster. */
static void guess_numbers(int fd[2])
{
	if (pipe2(fd, O_CLOEXEC)) {
		fd[0] = fd[1] = -1;
		return;
	}
	close(fd[0]);
	close(fd[1]);
}

/* Is there a pipe at these numbers now? */
static bool note_pipe(const int fd[2])
{
	struct stat st[2];

	for (unsigned i = 0; i < 2; i++) {
		if (fstat(fd[i], &st[i]) || !S_ISFIFO(st[i].st_mode))
			return false;
		pipe_end[i] = (struct end){ fd[i], st[i].st_dev, st[i].st_ino };
	}
	return st[0].st_ino == st[1].st_ino && st[0].st_dev == st[1].st_dev;
}

static bool fail(enum trouble why)
{
	uint32_t none = NONE;

	atomic_compare_exchange_strong(&trouble, &none, (uint32_t)why);
	return false;
}

bool libunwind_is_usable(void)
{
	if (atomic_load_explicit(&trouble, memory_order_relaxed) != NONE)
		return false;
	return (is_same_end(&pipe_end[0]) && is_same_end(&pipe_end[1])) || fail(PIPE_TAKEN);
}

void libunwind_objects_changed(void)
{
	fail(UNLOADED);
}

/* ---- loading it ------------------------------------------------------------------------------------ */

static bool find_functions(void *library)
{
	api.backtrace = (int (*)(void **, int))dlsym(library, "unw_backtrace");
	api.init_local = (int (*)(void *, void *))dlsym(library, LOCAL("init_local"));
	api.step = (int (*)(void *))dlsym(library, LOCAL("step"));
	api.get_reg = (int (*)(void *, int, uint64_t *))dlsym(library, LOCAL("get_reg"));
	return api.backtrace && api.init_local && api.step && api.get_reg;
}

static bool visit_some(uint64_t ip, uint64_t sp, void *arg)
{
	(void)ip, (void)sp;
	return ++*(unsigned *)arg < 4;
}

/* It sets itself up in its first walks, its pipe among other things. */
static __attribute__((noinline)) bool try_out(void)
{
	uint64_t cursor[LIBUNWIND_CURSOR_WORDS], ip[4];
	unsigned nr = 0;

	libunwind_walk(cursor, UNWIND_CALLER(), visit_some, &nr);
	return nr > 1 && libunwind_backtrace(ip, 4) > 1;
}

static enum trouble open_library(void)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	int fd[2];

	if (!library)
		return MISSING;
	if (!find_functions(library))
		return OTHER_VERSION;
	guess_numbers(fd);
	if (!try_out())
		return NO_CALLERS;
	return note_pipe(fd) ? NONE : NO_PIPE;
}

bool libunwind_open(void)
{
	bool is_child = opened_by && opened_by != getpid();

	atomic_store(&trouble, is_child ? FORKED : open_library());
	if (!opened_by)
		opened_by = getpid();
	return !libunwind_trouble();
}

/* ---- walks ----------------------------------------------------------------------------------------- */

uint32_t libunwind_backtrace(uint64_t *ip, uint32_t max)
{
	int nr = api.backtrace((void **)ip, (int)max);

	for (int i = 0; i < nr; i++)
		ip[i] = arch_code_address(ip[i]);
	return nr > 0 ? (uint32_t)nr : 0;
}

/* As if the thread stood there. Other registers may hold anything: no frame that has made a call depends on them. */
static void set_context(ucontext_t *context, struct unwind_registers at)
{
	memset(context, 0, sizeof(*context));
#if defined(__x86_64__)
	context->uc_mcontext.gregs[16] = (greg_t)at.ip; /* REG_RIP, REG_RSP, REG_RBP */
	context->uc_mcontext.gregs[15] = (greg_t)at.sp;
	context->uc_mcontext.gregs[10] = (greg_t)at.fp;
#elif defined(__aarch64__)
	context->uc_mcontext.pc = at.ip;
	context->uc_mcontext.sp = at.sp;
	context->uc_mcontext.regs[29] = at.fp;
	context->uc_mcontext.regs[30] = at.ip;
#endif
}

bool libunwind_walk(uint64_t *cursor, struct unwind_registers at, bool (*visit)(uint64_t ip, uint64_t sp, void *arg),
		    void *arg)
{
	ucontext_t context;
	uint64_t ip, sp;
	int left;

	set_context(&context, at);
	if (api.init_local(cursor, &context))
		return false;
	do {
		if (api.get_reg(cursor, REG_IP, &ip) || api.get_reg(cursor, REG_SP, &sp))
			return false;
		ip = arch_code_address(ip);
		if (!ip)
			return true;
		if (!visit(ip, sp, arg))
			return false;
		left = api.step(cursor);
	} while (left > 0);
	return !left;
}
