/* SPDX-License-Identifier: MIT */
/* The preloaded libraries and their environment. */
#include "analyzer/launch/preload.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/base/human.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"
#include "analyzer/gpu/gpunames.h"
#include "analyzer/launch/output.h"

#define SIMGPU_MIN_CAPACITY (1ull << 20) /* less is a forgotten unit */
#define SIMGPU_MAX_CAPACITY (64ull << 40)

/* ---- finding --------------------------------------------------------------------------------- */

int preload_own_program(char out[static PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

	if (n <= 0) {
		message_error("cannot find vramtrace's own folder: '/proc/self/exe': %s", strerror(errno));
		return RUN_TROUBLE;
	}
	out[n] = 0;
	return 0;
}

/* Its folder, without a slash at the end. */
static int own_folder(char out[static PATH_MAX])
{
	int status = preload_own_program(out);

	if (!status)
		*strrchr(out, '/') = 0;
	return status;
}

/* DIR/name, else DIR/../lib/vramtrace/name. */
static int find_part(const char *folder, const char *name, char out[static PATH_MAX])
{
	static const char *const places[] = { "%s/%s", "%.*s/lib/vramtrace/%s" };
	const char *slash = strrchr(folder, '/');
	int prefix = slash ? (int)(slash - folder) : 0;

	if (snprintf(out, PATH_MAX, places[0], folder, name) < PATH_MAX && !access(out, R_OK))
		return 0;
	if (snprintf(out, PATH_MAX, places[1], prefix, folder, name) < PATH_MAX && !access(out, R_OK))
		return 0;
	message_error(
		"cannot find '%s' beside vramtrace in '%s' nor in '%.*s/lib/vramtrace'; is the installation whole?",
		name, folder, prefix, folder);
	return RUN_TROUBLE;
}

/* The loader splits LD_PRELOAD at blanks and colons and has no way to quote them. */
static int check_loadable(const char *path)
{
	if (!strpbrk(path, " :\t\n"))
		return 0;
	message_error(
		"cannot preload '%s': the loader takes no path with a blank or a colon; install vramtrace elsewhere",
		path);
	return RUN_TROUBLE;
}

int preload_find(struct preload *p, const struct preload_plan *plan)
{
	char folder[PATH_MAX], library[PATH_MAX];
	int status = own_folder(folder);

	if (!status && plan->is_recording)
		status = find_part(folder, "libinterpose.so", p->interpose);
	if (!status && plan->is_recording)
		status = check_loadable(p->interpose);
	if (!status && plan->gpu) {
		status = find_part(folder, "simgpu/libsimgpu.so", library);
		snprintf(p->simgpu, sizeof(p->simgpu), "%s", library);
		*strrchr(p->simgpu, '/') = 0;
	}
	if (!status && plan->gpu)
		status = check_loadable(p->simgpu);
	return status;
}

/* ---- environment ----------------------------------------------------------------------------- */

/* Is a word of LD_PRELOAD one of our libraries, left by an outer run? Then its place is decided anew. */
static bool is_ours(const char *word, size_t len, bool has_gpu)
{
	static const char *const ours[] = { "/libinterpose.so", "/libsimgpu.so" };

	for (size_t i = 0; i < (has_gpu ? 2u : 1u); i++) {
		size_t n = strlen(ours[i]);

		if (len > n && !memcmp(word + len - n, ours[i], n))
			return true;
	}
	return false;
}

/*
 * "first:second:what was there"; *out is malloc'ed. false: out of memory. This runs in the child that becomes the
 * program, where exit(), as heap.h has it, would do what the parent has left for its own end.
 */
static bool join_preload(const struct preload *p, const struct preload_plan *plan, char **out)
{
	const char *old = getenv("LD_PRELOAD");
	size_t size = 2 * PATH_MAX + 64 + (old ? strlen(old) : 0), n = 0;

	*out = malloc(size);
	if (!*out)
		return false;
	(*out)[0] = 0;
	if (plan->is_recording)
		n += (size_t)snprintf(*out + n, size - n, "%s", p->interpose);
	if (plan->gpu)
		n += (size_t)snprintf(*out + n, size - n, "%s%s/libsimgpu.so", n ? ":" : "", p->simgpu);
	while (old && *old) {
		size_t len = strcspn(old, " :");

		if (len && !is_ours(old, len, plan->gpu))
			n += (size_t)snprintf(*out + n, size - n, "%s%.*s", n ? ":" : "", (int)len, old);
		old += len + (old[len] != 0);
	}
	return true;
}

static bool set_number(const char *name, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	return !setenv(name, text, 1);
}

static bool apply_recording(const struct preload_plan *plan)
{
	char output[2 * PATH_MAX];

	/* The library expands % once more: what is already a name must survive that. */
	output_escape(output, plan->output);
	return !setenv("VRAMTRACE_OUTPUT", output, 1) && !setenv("VRAMTRACE_JOB", plan->job, 1) &&
	       (!plan->stacks || !setenv("VRAMTRACE_STACKS", plan->stacks, 1)) &&
	       (!plan->unwinder || !setenv("VRAMTRACE_UNWINDER", plan->unwinder, 1)) &&
	       (!plan->only || !setenv("VRAMTRACE_FILTER", plan->only, 1)) &&
	       (!plan->keep_bytes || set_number("VRAMTRACE_KEEP", plan->keep_bytes)) &&
	       (!plan->keep_steps || set_number("VRAMTRACE_KEEP_STEPS", plan->keep_steps)) &&
	       (!plan->argv || !setenv("VRAMTRACE_ARGV", "on", 1)) &&
	       (!plan->tracker || !setenv("VRAMTRACE_TRACKER", "on", 1)) &&
	       (!plan->rings || !setenv("VRAMTRACE_RINGS", plan->rings, 1)) &&
	       (!plan->keeper || !setenv("VRAMTRACE_KEEPER", plan->keeper, 1)) &&
	       (!plan->cupti || !setenv("VRAMTRACE_CUPTI", plan->cupti, 1));
}

static bool apply_gpu(const struct preload *p, const struct preload_plan *plan)
{
	const char *old = getenv("LD_LIBRARY_PATH");
	char count[16], *path;
	bool done;

	if (asprintf(&path, old && *old ? "%s:%s" : "%s", p->simgpu, old) < 0)
		return false;
	snprintf(count, sizeof(count), "%u", plan->nr_gpus);
	done = !setenv("LD_LIBRARY_PATH", path, 1) && !setenv("TRITON_LIBCUDA_PATH", p->simgpu, 1) &&
	       !setenv("SIMGPU_PROFILE", plan->gpu, 1) && !setenv("SIMGPU_DEVICES", count, 1) &&
	       !setenv("SIMGPU_SHARE", plan->share.path, 1) &&
	       (!*plan->capacity || !setenv("SIMGPU_CAPACITY", plan->capacity, 1)) &&
	       !setenv("VRAMTRACE_SIMULATE", plan->name ? plan->name : plan->gpu, 1) &&
	       !(plan->model ? setenv("SIMGPU_MODEL", plan->model, 1) : unsetenv("SIMGPU_MODEL")) &&
	       (!plan->questions || !setenv("SIMGPU_QUESTIONS", plan->questions, 1)) &&
	       (!plan->values || !setenv("SIMGPU_VALUES", plan->values, 1));
	free(path);
	return done;
}

int preload_apply(const struct preload *p, const struct preload_plan *plan)
{
	char *preload;
	bool done = join_preload(p, plan, &preload);

	done = done && !setenv("LD_PRELOAD", preload, 1);
	done = done && (!plan->is_recording || apply_recording(plan));
	done = done && (!plan->gpu || apply_gpu(p, plan));
	free(preload);
	if (done)
		return 0;
	message_error("cannot set the program's environment: %s", strerror(errno));
	return RUN_TROUBLE;
}

/* ---- --simulate ------------------------------------------------------------------------------ */

int preload_check_count(const char *text, unsigned long count, unsigned max, unsigned *nr)
{
	*nr = (unsigned)count;
	if (count >= 1 && count <= max)
		return 0;
	message_error("cannot simulate '%s': 1 to %u GPUs%s", text, max,
		      count && max <= PRELOAD_MAX_DEVICES ? "; '--ranks' runs some ranks of a larger job" : "");
	return RUN_TROUBLE;
}

int preload_parse_gpu(const char *text, unsigned max, const char **gpu, unsigned *nr)
{
	const char *name = text, *nearest;
	unsigned long count = 1;
	char *end;

	if (isdigit((unsigned char)*text)) {
		count = strtoul(text, &end, 10);
		if (*end == 'x')
			name = end + 1;
		else
			count = 1;
	}
	if (preload_check_count(text, count, max, nr))
		return RUN_TROUBLE;
	*gpu = gpunames_find(name);
	if (*gpu)
		return 0;
	nearest = gpunames_nearest(name);
	message_error("unknown GPU '%s'%s%s%s; '--simulate' knows %s, and files that end in .toml", name,
		      nearest ? " (the nearest is '" : "", nearest ? nearest : "", nearest ? "')" : "",
		      gpunames_list());
	return RUN_TROUBLE;
}

int preload_parse_capacity(const char *text, struct preload_plan *plan)
{
	uint64_t bytes;

	if (!strcmp(text, "unlimited")) {
		snprintf(plan->capacity, sizeof(plan->capacity), "%s", text);
		return 0;
	}
	if (!human_parse_bytes(text, &bytes) || bytes < SIMGPU_MIN_CAPACITY || bytes > SIMGPU_MAX_CAPACITY) {
		message_error("cannot simulate a capacity of '%s'; expected a size such as 24GiB, 1MiB to 64TiB, "
			      "or 'unlimited'",
			      text);
		return RUN_TROUBLE;
	}
	snprintf(plan->capacity, sizeof(plan->capacity), "%" PRIu64, bytes);
	return 0;
}
