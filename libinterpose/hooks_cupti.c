/* SPDX-License-Identifier: MIT */
/*
 * Our subscription to CUPTI: when it is made, that it is given up for any other client, and what it tells.
 *
 * CUPTI has one slot for a subscriber. A profiler that finds it taken records nothing, often for good and
 * without a word (PyTorch's asks once). So ours is made by itself only in programs where no profiler can be
 * expected, and the functions by which clients begin are interposed: whoever calls, or looks up, one of
 * them gets a free slot.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cupti_state.h"
#include "env.h"
#include "info.h"
#include "nvtx.h"
#include "objects.h"

void cupti_status(struct ip_cupti *c, const char *format, ...)
{
	uint32_t i = atomic_fetch_add(&c->nr_texts, 1);
	va_list args;

	if (i >= sizeof(c->texts) / sizeof(*c->texts))
		return;
	va_start(args, format);
	vsnprintf(c->texts[i], sizeof(c->texts[i]), format, args);
	va_end(args);
	atomic_store(&c->status, c->texts[i]);
}

/* ---- the library ----------------------------------------------------------------------------- */

static const char *const libraries[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8" };
static const int library_majors[] = { 13, 12, 11 };
#define NR_LIBRARIES (sizeof(libraries) / sizeof(*libraries))

/* The one that the process has already; PyTorch, for one, is linked with it. */
static void *loaded_library(void)
{
	void *handle = NULL;

	for (unsigned i = 0; !handle && i < NR_LIBRARIES; i++)
		handle = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
	return handle;
}

/* Where toolkits put it: on the loader's path, else below the usual folder. */
static void *load_library(const char *name)
{
	void *handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	char path[128];

	snprintf(path, sizeof(path), "/usr/local/cuda/extras/CUPTI/lib64/%s", name);
	return handle ? handle : dlopen(path, RTLD_LAZY | RTLD_LOCAL);
}

/* The newest that the driver is not too old for. */
static void *any_library(void)
{
	CUresult (*get_version)(int *) = (CUresult(*)(int *))ip_driver_symbol("cuDriverGetVersion");
	void *handle = loaded_library();
	int version = 0;

	if (handle || !get_version || get_version(&version))
		return handle;
	for (unsigned i = 0; !handle && i < NR_LIBRARIES; i++)
		if (library_majors[i] <= version / 1000)
			handle = load_library(libraries[i]);
	return handle;
}

/* What the program itself would reach: another interposer, the simulated GPU among them, goes first. */
static void *function(const char *symbol)
{
	void *f = ip_symbol_next(symbol);

	return f ? f : ip_symbol_of("libcupti.so", symbol);
}

static bool find_functions(struct cupti_functions *api)
{
	if (!ip_symbol_next("cuptiSubscribe") && !any_library())
		return false;
#define F(name, is_needed)                                \
	api->name = (__typeof__(&name))function(#name);   \
	if (is_needed && !api->name)                      \
		return false;
	CUPTI_FUNCTIONS(F)
#undef F
	return true;
}

/* ---- when ------------------------------------------------------------------------------------ */

static bool is_set(const char *variable)
{
	const char *v = getenv(variable);

	return v && *v && strcmp(v, "none") && !strstr(v, "libinterpose.so");
}

/* Why the slot is not ours to take unasked; NULL when nobody can be expected to want it. */
static const char *why_not(void)
{
	static const char *const variables[] = { "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH",
						 "NSYS_PROFILING_SESSION_ID" };

	for (unsigned i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		if (is_set(variables[i]))
			return "another tool is injected";
	if (nvtx_has_other()) /* the variable names us by now */
		return "another tool is injected";
	if (dlsym(RTLD_DEFAULT, "Py_IsInitialized"))
		return "in Python a profiler may want CUPTI";
	if (ip_object_loaded("libcupti.so"))
		return "the program has CUPTI loaded";
	return NULL;
}

/* ---- what is told ---------------------------------------------------------------------------- */

static void CUPTIAPI told(void *userdata, CUpti_CallbackDomain domain, CUpti_CallbackId id, const void *data)
{
	struct ip_cupti *c = ip_recorder->cupti;
	const CUpti_StateData *state = data;
	int saved = errno;

	/* In a fork child there is none. */
	if (!c || c != userdata || !atomic_load_explicit(&c->is_subscribed, memory_order_relaxed))
		return;
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		cupti_crosscheck(c, id, data);
	else if (domain == CUPTI_CB_DOMAIN_RESOURCE)
		cupti_object(c, (CUpti_CallbackIdResource)id, data);
	else if (domain == CUPTI_CB_DOMAIN_STATE && id == CUPTI_CBID_STATE_FATAL_ERROR &&
		 atomic_exchange(&c->is_subscribed, false)) {
		/* CUPTI ends by itself now. */
		atomic_store(&ip_recorder->cupti_on, false);
		cupti_status(c, "ended: CUPTI error %d: %.100s", (int)state->notification.result,
			     state->notification.message ? state->notification.message : "");
	}
	errno = saved;
}

/* ---- subscribing ----------------------------------------------------------------------------- */

static const char *error_name(struct ip_cupti *c, CUptiResult result)
{
	const char *name = NULL;

	return c->api.cuptiGetResultString(result, &name) || !name ? "unknown" : name;
}

static CUptiResult subscribe(struct ip_cupti *c, char *holder, size_t size)
{
	CUpti_SubscriberParams params = {
		.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
		.subscriberName = "vramtrace",
		.oldSubscriberName = holder,
		.oldSubscriberSize = size,
	};

	holder[0] = 0;
	if (c->api.cuptiSubscribe_v2)
		return c->api.cuptiSubscribe_v2(&c->subscriber, told, c, &params);
	return c->api.cuptiSubscribe(&c->subscriber, told, c);
}

/*
 * A client that wants CUPTI's records only has no slot that could tell of it, and there is one pair of callbacks for
 * buffers. Inherited by fork children, as CUPTI's own state is.
 */
static _Atomic bool records_are_taken;

static bool take_slot(struct ip_cupti *c)
{
	char holder[2 * CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN];
	CUptiResult result = subscribe(c, holder, sizeof(holder));

	if (!result && !atomic_load(&records_are_taken))
		return true;
	if (!result) {
		c->api.cuptiUnsubscribe(c->subscriber);
		cupti_status(c, "off: the program uses CUPTI");
	} else if (holder[0]) {
		cupti_status(c, "refused: held by '%s'", holder);
	} else if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED ||
		   result == CUPTI_ERROR_MAX_LIMIT_REACHED) {
		cupti_status(c, "refused: another tool holds it");
	} else {
		cupti_status(c, "refused: CUPTI error %d (%s)", (int)result, error_name(c, result));
	}
	return false;
}

/* The program ends, while the driver still answers: fetch the last records. */
static void at_exit(void)
{
	struct ip_cupti *c = ip_recorder->cupti;

	if (!c || ip_recorder->pid != (uint32_t)getpid() || !atomic_load(&c->is_subscribed))
		return;
	cupti_activity_stop(c);
	cupti_objects_end(c);
}

static void begin(struct ip_cupti *c, bool with_activities)
{
	c->start_ns = ip_now_ns();
	c->has_begun = true;
	/*
	 * Hooks first say where they are: else the first calls that are told of would look as if none had
	 * seen them.
	 */
	atomic_store(&ip_recorder->cupti_on, true);
	cupti_crosscheck_start(c);
	cupti_objects_start(c);
	c->api.cuptiEnableCallback(1, c->subscriber, CUPTI_CB_DOMAIN_STATE, CUPTI_CBID_STATE_FATAL_ERROR);
	cupti_status(c, "on (CUPTI %u)", c->version);
	if (with_activities)
		cupti_activity_start(c);
	atomic_store(&c->is_subscribed, true);
	/* Registered after the first cuInit: runs before the driver's own end. */
	atexit(at_exit);
}

void ip_cupti_start(void)
{
	static bool has_begun; /* inherited by fork children, as CUPTI's own state is */
	const char *reason = ip_env.cupti == IP_CUPTI_AUTO ? why_not() : NULL;
	struct ip_cupti *c = ip_map(sizeof(*c));

	if (!c)
		return;
	ip_recorder->cupti = c;
	if (ip_env.cupti == IP_CUPTI_OFF)
		cupti_status(c, "off: calls past the hooks would go unnoticed");
	else if (has_begun)
		cupti_status(c, "off: this process was forked from one that used it");
	else if (reason)
		cupti_status(c, "off: %s", reason);
	else if (!find_functions(&c->api))
		cupti_status(c, "absent");
	else if (!c->api.cuptiGetVersion(&c->version) && take_slot(c)) {
		has_begun = true;
		begin(c, ip_env.cupti == IP_CUPTI_ON);
	}
}

/* ---- giving up ------------------------------------------------------------------------------- */

void ip_cupti_give_up(const char *why)
{
	struct ip_cupti *c = ip_recorder->cupti;
	uint64_t ms;

	if (!c || !atomic_exchange(&c->is_subscribed, false))
		return;
	atomic_store(&ip_recorder->cupti_on, false);
	cupti_activity_stop(c);
	c->api.cuptiUnsubscribe(c->subscriber);
	ms = (ip_now_ns() - c->start_ns) / 1000000;
	cupti_status(c, "given up after %llu.%03llu s: %s", (unsigned long long)ms / 1000,
		     (unsigned long long)ms % 1000, why);
}

void ip_cupti_looked_up(const char *symbol)
{
	if (!strcmp(symbol, "cuptiActivityRegisterCallbacks"))
		atomic_store(&records_are_taken, true);
	else if (strcmp(symbol, "cuptiSubscribe") && strcmp(symbol, "cuptiSubscribe_v2"))
		return;
	ip_cupti_give_up("another client looked CUPTI up");
}

/* The function a caller would have got without us: that of its own libcupti. */
static void *real_of(const char *symbol, const void *caller)
{
	void *real = ip_symbol_next(symbol);

	if (!real)
		real = ip_symbol_needed(caller, "libcupti.so", symbol);
	return real ? real : ip_symbol_of("libcupti.so", symbol);
}

#define REAL(name) ((__typeof__(&name))real_of(#name, __builtin_return_address(0)))

IP_EXPORT CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle *subscriber, CUpti_CallbackFunc callback,
					      void *userdata)
{
	__typeof__(&cuptiSubscribe) real = REAL(cuptiSubscribe);

	ip_cupti_give_up("another client subscribed");
	return real ? real(subscriber, callback, userdata) : CUPTI_ERROR_UNKNOWN;
}

IP_EXPORT CUptiResult CUPTIAPI cuptiSubscribe_v2(CUpti_SubscriberHandle *subscriber,
						 CUpti_CallbackFunc callback, void *userdata,
						 CUpti_SubscriberParams *params)
{
	__typeof__(&cuptiSubscribe_v2) real = REAL(cuptiSubscribe_v2);

	ip_cupti_give_up("another client subscribed");
	return real ? real(subscriber, callback, userdata, params) : CUPTI_ERROR_UNKNOWN;
}

IP_EXPORT CUptiResult CUPTIAPI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
							      CUpti_BuffersCallbackCompleteFunc complete)
{
	__typeof__(&cuptiActivityRegisterCallbacks) real = REAL(cuptiActivityRegisterCallbacks);

	atomic_store(&records_are_taken, true);
	ip_cupti_give_up("another client wants CUPTI's records");
	return real ? real(request, complete) : CUPTI_ERROR_UNKNOWN;
}

/* ---- in the trace ---------------------------------------------------------------------------- */

static void put_number(struct tfmt_writer *w, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	info_put(w, key, text);
}

static void put_memory(struct tfmt_writer *w, struct ip_cupti *c)
{
	static const char *const kinds[CUPTI_NR_KINDS] = { "unknown", "pageable", "pinned", "device", "array",
							   "managed", "device_static", "managed_static" };
	char key[64];

	for (unsigned i = 0; i < CUPTI_NR_KINDS; i++) {
		const struct cupti_memory *m = &c->memory[i];
		const struct {
			const char *name;
			uint64_t value;
		} sums[] = { { "allocs", m->allocs },
			     { "frees", m->frees },
			     { "alloc_bytes", m->alloc_bytes },
			     { "free_bytes", m->free_bytes } };

		for (unsigned k = 0; (m->allocs || m->frees) && k < sizeof(sums) / sizeof(*sums); k++) {
			snprintf(key, sizeof(key), "cupti.%s.%s", kinds[i], sums[k].name);
			put_number(w, key, sums[k].value);
		}
	}
}

static void put_sums(struct tfmt_writer *w, struct ip_cupti *c)
{
	put_number(w, "cupti.calls", c->calls);
	put_number(w, "cupti.untold", c->untold);
	put_number(w, "cupti.contexts", c->contexts);
	put_number(w, "cupti.modules", c->modules);
	put_number(w, "cupti.module_bytes", c->module_bytes);
	if (c->objects_lost)
		put_number(w, "cupti.objects_lost", c->objects_lost);
	if (!c->buffers)
		return;
	put_number(w, "cupti.records", c->records);
	put_number(w, "cupti.records_lost", c->records_lost);
	put_number(w, "cupti.pools", c->pools);
	put_number(w, "cupti.pool_peak_bytes", c->pool_peak_bytes);
	put_number(w, "cupti.pool_used_peak_bytes", c->pool_used_peak_bytes);
	put_memory(w, c);
}

void ip_cupti_info(struct tfmt_writer *w, bool with_sums)
{
	struct ip_cupti *c = ip_recorder->cupti;
	const char *status = c ? atomic_load(&c->status) : NULL;
	uint64_t unhooked, told_of;

	if (!status)
		return;
	unhooked = atomic_load(&c->unhooked);
	told_of = c->calls + c->untold + c->contexts + c->modules + c->records + c->records_lost;
	if (status != c->written_status)
		info_put(w, "cupti", status);
	if (c->has_begun && (status != c->written_status || unhooked != c->written_unhooked))
		put_number(w, "cupti.unhooked", unhooked);
	if (c->has_begun && with_sums && told_of != c->written_told_of) {
		put_sums(w, c);
		c->written_told_of = told_of;
	}
	c->written_status = status;
	c->written_unhooked = unhooked;
}
