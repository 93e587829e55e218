/* SPDX-License-Identifier: MIT */
/* Finds the interpreter in this process and walks the calling thread's frames. */
#include "pyframes.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>
#include <string.h>

#include "interpose.h"

#define WALK_MAX (1u << 20) /* no stack is deeper; a bound in case one cannot be what it seems */
#define STATE_BYTES 4096u   /* more than a thread state has */
#define CUT_STEP 256u       /* frames are cut in steps, so that stacks of similar depth share their nodes */

static struct {
	void *code_type;
	const char *eval, *eval_end; /* _PyEval_EvalFrameDefault, as far as it is in one piece */
	void *(*thread_state)(void);
	int (*is_initialized)(void);
	const char *runtime, *runtime_end; /* _PyRuntime */
	const void *(*newest_interpreter)(void), *(*main_interpreter)(void); /* both or none */
	_Atomic bool is_searched;           /* for where the two lie */
	const void *(*current_state)(void); /* of the thread that holds the GIL; until 3.11 */
	char support[128];
} python = { .support = "no Python" };
struct pyframes_known pyframes_known;

/* ---- finding the interpreter ----------------------------------------------------------------- */

struct text {
	char *at, *end;
};

static void text_put(struct text *t, const char *s)
{
	while (*s && t->at < t->end)
		*t->at++ = *s++;
	*t->at = '\0';
}

static void text_put_number(struct text *t, unsigned n)
{
	char digits[11], *p = digits + sizeof(digits);

	*--p = '\0';
	do
		*--p = (char)('0' + n % 10);
	while (n /= 10);
	text_put(t, p);
}

/* "3.11.7" as major, minor, micro; false if it is something else. */
static bool parse_version(const char *s, unsigned version[3])
{
	for (int i = 0; i < 3; i++) {
		if (*s < '0' || *s > '9')
			return false;
		for (version[i] = 0; *s >= '0' && *s <= '9'; s++)
			version[i] = version[i] * 10 + (unsigned)(*s - '0');
		if (i < 2 && *s++ != '.')
			return false;
	}
	return true;
}

static void find_eval(const void *function)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	if (!function || !dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return;
	python.eval = function;
	python.eval_end = python.eval + symbol->st_size;
}

static void find_runtime(const struct pylayout *l, const void *runtime)
{
	const ElfW(Sym) *symbol = NULL;
	const int *initialized;
	Dl_info info;

	if (l->runtime_initialized < 0 || !runtime ||
	    !dladdr1(runtime, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
		return;
	initialized = (const int *)((const char *)runtime + l->runtime_initialized);
	if (!python.is_initialized() != !*initialized)
		return;
	python.runtime = runtime;
	python.runtime_end = python.runtime + symbol->st_size;
	pyframes_known.initialized = initialized;
}

/*
 * Interpreters that take CPython's place and say its version, but keep frames of their own, by words of their own in
 * the version's text: "3.8.12 (...) [Pyston 2.3.5, GCC 9.4.0]", "3.10.5+cinder (...)". Builds of CPython by others have
 * other words there.
 */
static const char *other_implementation(const char *version)
{
	static const struct {
		const char *word, *why;
	} known[] = {
		{ "Pyston", "it is Pyston, which keeps its frames in its own way" },
		{ "cinder", "it is Cinder, which keeps its frames in its own way" },
		{ "Cinder", "it is Cinder, which keeps its frames in its own way" },
		{ "PyPy", "it is PyPy, which keeps its frames in its own way" },
		{ "Graal", "it is GraalPy, which keeps its frames in its own way" },
		{ "Stackless", "it is Stackless, which keeps its frames in its own way" },
		{ "nogil", "builds without the GIL cannot be read" },
		{ "free-threading", "builds without the GIL cannot be read" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (strstr(version, known[i].word))
			return known[i].why;
	return NULL;
}

/* Until 3.11 a thread's state is always that of the interpreter in which it began. */
static void find_interpreters(void *handle, unsigned minor)
{
	const void *(*newest)(void) = (const void *(*)(void))dlsym(handle, "PyInterpreterState_Head");
	const void *(*main)(void) = (const void *(*)(void))dlsym(handle, "PyInterpreterState_Main");

	if (!newest || !main)
		return;
	if (minor <= 11)
		python.current_state = (const void *(*)(void))dlsym(handle, "_PyThreadState_UncheckedGet");
	else
		pyframes_known.changes_interpreters = true;
	python.newest_interpreter = newest;
	python.main_interpreter = main;
}

/*
 * _PyRuntime keeps the newest interpreter and, next to it, the main one, not far from its beginning. While there is but one
 * they are two equal words in a row, which nothing else there is.
 */
#define INTERPRETERS_WITHIN 4096u

static IP_COLD void find_interpreter_words(const void *one)
{
	const char *end = python.runtime_end;
	const void *const *word = (const void *const *)python.runtime, *const *found = NULL;
	unsigned nr = 0;

	if (!python.runtime || atomic_exchange(&python.is_searched, true))
		return;
	if (end - python.runtime > INTERPRETERS_WITHIN)
		end = python.runtime + INTERPRETERS_WITHIN;
	for (; (const char *)(word + 2) <= end; word++) {
		if (word[0] == one && word[1] == one) {
			found = word;
			nr++;
		}
	}
	if (nr == 1)
		__atomic_store_n(&pyframes_known.interpreters, found, __ATOMIC_RELAXED);
}

bool pyframes_are_several_asked(void)
{
	const void *newest = python.newest_interpreter ? python.newest_interpreter() : NULL;

	if (!newest)
		return false;
	if (newest != python.main_interpreter())
		return true;
	find_interpreter_words(newest);
	return false;
}

/* Fetch what a walk needs. NULL, or why frames of this version cannot be read. */
static const char *adopt_layout(void *handle, const struct pylayout *l, unsigned minor)
{
	const void *runtime = NULL;
	const char *why;

	python.thread_state = (void *(*)(void))dlsym(handle, "PyGILState_GetThisThreadState");
	python.code_type = dlsym(handle, "PyCode_Type");
	find_interpreters(handle, minor);
	find_eval(dlsym(handle, "_PyEval_EvalFrameDefault"));
	if (!python.thread_state || !python.code_type)
		return "it does not export what is needed";
	if (minor >= 11)
		runtime = dlsym(handle, "_PyRuntime");
	why = pylayout_check(l, minor, python.code_type, runtime);
	if (!why)
		why = pylayout_check_frames(l, minor, dlsym(handle, "PyFrame_Type"));
	if (!why)
		find_runtime(l, runtime);
	return why;
}

/*
 * Use the interpreter whose symbols `handle` leads to; false if it cannot be one. Asks only for names that
 * are there: a failing dlsym would allocate, and leave a message for the program's next dlerror().
 */
static bool adopt(void *handle, bool must_run)
{
	const char *(*get_version)(void) = (const char *(*)(void))dlsym(handle, "Py_GetVersion");
	int (*is_initialized)(void) = (int (*)(void))dlsym(handle, "Py_IsInitialized");
	struct text text = { python.support, python.support + sizeof(python.support) - 1 };
	const struct pylayout *layout = NULL;
	const char *why = NULL;
	unsigned version[3];

	if (!get_version || !is_initialized || (must_run && !is_initialized()))
		return false;
	if (!parse_version(get_version(), version))
		return false;

	python.is_initialized = is_initialized;
	if (version[0] == 3)
		layout = pylayout_of(version[1]);
	if (!layout)
		why = "only 3.8 to 3.14 are known";
	else
		why = other_implementation(get_version());
	if (!why)
		why = adopt_layout(handle, layout, version[1]);

	text_put(&text, why ? "unsupported: Python " : "supported: ");
	for (int i = 0; i < 3; i++) {
		text_put(&text, i ? "." : "");
		text_put_number(&text, version[i]);
	}
	if (why) {
		text_put(&text, ", ");
		text_put(&text, why);
	}
	__atomic_store_n(&pyframes_known.layout, why ? NULL : layout, __ATOMIC_RELEASE);
	return true;
}

/* The path of the nth loaded libpython is copied: dlopen must wait until the loader's list is released. */
struct search {
	unsigned nth;
	char path[4096];
};

static int find_libpython(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct search *s = arg;
	const char *base = strrchr(info->dlpi_name, '/');
	size_t len = strlen(info->dlpi_name);

	(void)size;
	if (!base || strncmp(base, "/libpython", 10) != 0 || len >= sizeof(s->path))
		return 0;
	if (s->nth-- > 0)
		return 0;
	memcpy(s->path, info->dlpi_name, len + 1);
	return 1;
}

/* A libpython that was loaded while the program ran. An idle copy beside a static interpreter is no good. */
static void adopt_loaded(void)
{
	for (unsigned n = 0;; n++) {
		struct search s = { .nth = n };
		void *handle;

		if (!dl_iterate_phdr(find_libpython, &s))
			return;
		handle = dlopen(s.path, RTLD_LAZY | RTLD_NOLOAD);
		if (!handle)
			continue;
		if (adopt(handle, true))
			return;
		dlclose(handle);
	}
}

/* NULL where the program was not linked with an interpreter. */
extern int Py_IsInitialized(void) __attribute__((weak));

void pyframes_init(bool retry)
{
	if (python.is_initialized)
		return;
	if (Py_IsInitialized && adopt(RTLD_DEFAULT, false))
		return;
	if (retry)
		adopt_loaded();
}

void *pyframes_code_type(void)
{
	return python.code_type;
}

const char *pyframes_support(void)
{
	return python.support;
}

static inline bool within(const void *p, uint64_t low, uint64_t high)
{
	return (uintptr_t)p >= low && (uintptr_t)p < high;
}

static inline void note_initialized(void)
{
	if (!__atomic_load_n(&pyframes_known.was_initialized, __ATOMIC_RELAXED))
		__atomic_store_n(&pyframes_known.was_initialized, true, __ATOMIC_RELAXED);
}

static inline bool is_initialized(void)
{
	const int *known = pyframes_known.initialized;

	return known ? __atomic_load_n(known, __ATOMIC_RELAXED) : python.is_initialized();
}

/* Py_FinalizeEx ends the state of being initialised in the moment in which it begins to finalise. */
bool pyframes_finalizing_asked(void)
{
	if (!python.is_initialized)
		return false;
	if (!is_initialized())
		return __atomic_load_n(&pyframes_known.was_initialized, __ATOMIC_RELAXED);
	note_initialized();
	return false;
}

/*
 * The calling thread's state, NULL without one. The interpreter's first thread has its own inside the runtime, and keeps
 * it as long as there is no other interpreter that it could change to.
 */
static const void *thread_state(void)
{
	const void *state = ip_tls.python_state;

	/* Thread states are freed during finalisation, which Py_IsInitialized announces before it begins. */
	if (!pyframes_layout() || !is_initialized())
		return NULL;
	if (state && !pyframes_in_several())
		return state;
	note_initialized();
	state = python.thread_state();
	if (within(state, (uintptr_t)python.runtime, (uintptr_t)python.runtime_end))
		ip_tls.python_state = state;
	return state;
}

const void *pyframes_hold(void)
{
	const void *before = ip_tls.python_state;

	if (!before && pyframes_known.initialized) {
		const void *state = thread_state();

		/* The first thread's stays. */
		before = ip_tls.python_state;
		ip_tls.python_state = state;
	}
	return before;
}

const void *pyframes_newest_asked(void)
{
	const void *state = thread_state();

	return state ? pyframe_newest_of(pyframes_layout(), state) : NULL;
}

bool pyframes_still_there_asked(void)
{
	return is_initialized();
}

bool pyframes_may_be_inside(void)
{
	return !python.current_state || python.current_state() != thread_state();
}

/* ---- walking --------------------------------------------------------------------------------- */

/*
 * The frame as Python itself would show it: 1 with *out filled; 0 for one that Python hides (a shim on the C
 * stack, or a frame still being set up); -1 if it holds no code object, so that it cannot be trusted.
 */
static inline int read_frame(const struct pylayout *l, const void *frame, struct pyframe *out)
{
	uint8_t owner = pyframe_owner(l, frame);
	const void *code;

	out->entry = true;
	if (pyframe_is_shim(l, owner))
		return 0;
	out->entry = pyframe_is_entry(l, frame);
	code = pyframe_code(l, frame);
	if (!code || py_pointer(code, PY_OB_TYPE) != python.code_type)
		return -1;
	out->code = code;
	out->position = pyframe_position(l, frame, code);
	if (l->code_traceable < 0 || owner == PYFRAME_OWNER_GENERATOR)
		return 1;
	return out->position >= py_int(code, l->code_traceable);
}

uint32_t pyframes_nr_cut(uint32_t total)
{
	return total <= PYFRAMES_MAX ? 0 : (total - PYFRAMES_MAX + CUT_STEP - 1) / CUT_STEP * CUT_STEP;
}

/*
 * `total` frames were met: the first PYFRAMES_NEWEST are in place, `tail` holds the last PYFRAMES_OLDEST in
 * slots total modulo their number. Appends the tail and cuts the middle out.
 */
static void keep_ends(struct pyframes *out, const struct pyframe *tail, uint32_t total)
{
	uint32_t nr_tail = total - PYFRAMES_NEWEST;
	uint32_t nr_newest = PYFRAMES_NEWEST;

	if (nr_tail > PYFRAMES_OLDEST) {
		out->nr_cut = pyframes_nr_cut(total);
		nr_newest -= out->nr_cut - (nr_tail - PYFRAMES_OLDEST);
		nr_tail = PYFRAMES_OLDEST;
	}
	for (uint32_t i = 0; i < nr_tail; i++)
		out->frame[nr_newest + i] = tail[(total - nr_tail + i) % PYFRAMES_OLDEST];
	out->nr = nr_newest + nr_tail;
}

bool pyframes_capture(struct pyframes *out, const void *from, const void *until)
{
	const struct pylayout *l = pyframes_layout();
	const void *frame = from ? from : pyframes_newest();
	struct pyframe tail[PYFRAMES_OLDEST], *last = NULL;
	uint32_t total = 0;

	out->nr = out->nr_cut = 0;
	out->apart = false;
	for (; frame && frame != until && total < WALK_MAX; frame = py_pointer(frame, l->frame_back)) {
		struct pyframe f;
		int shown = read_frame(l, frame, &f);

		if (shown < 0)
			break;
		if (!shown) {
			/* What native code has entered is shown by the oldest frame above it. */
			if (f.entry && last)
				last->entry = true;
			continue;
		}
		last = total < PYFRAMES_NEWEST ? &out->frame[total] : &tail[total % PYFRAMES_OLDEST];
		*last = f;
		total++;
	}
	out->apart = until && !frame;
	if (total > PYFRAMES_NEWEST)
		keep_ends(out, tail, total);
	else
		out->nr = total;
	return out->nr > 0;
}

/* ---- native frames that run Python ----------------------------------------------------------------- */

/*
 * A call of the interpreter's loop keeps a record of its own on the C stack: a cframe, or a shim among the
 * frames.
 */
bool pyframes_run_in(uint64_t ip, uint64_t low, uint64_t high)
{
	const struct pylayout *l = pyframes_layout();
	const void *frame = pyframes_newest(), *anchor;

	if (!frame)
		return false;
	if (within((const void *)(uintptr_t)ip, (uintptr_t)python.eval, (uintptr_t)python.eval_end))
		return true;
	if (l->state_anchor >= 0) {
		/* The last one is part of the thread state, and leads nowhere. */
		uint64_t state = (uintptr_t)thread_state();

		anchor = py_pointer((const void *)(uintptr_t)state, l->state_anchor);
		for (; anchor && !within(anchor, state, state + STATE_BYTES);
		     anchor = py_pointer(anchor, l->anchor_back))
			if (within(anchor, low, high))
				return true;
		return false;
	}
	for (; frame && l->frame_owner >= 0; frame = py_pointer(frame, l->frame_back))
		if (pyframe_is_shim(l, pyframe_owner(l, frame)) && within(frame, low, high))
			return true;
	return false;
}
