/* SPDX-License-Identifier: MIT */
/* Is there a GPU whose driver answers? See realgpu.h. */
#include "analyzer/gpu/realgpu.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Eight GPUs that nobody keeps awake take some ten seconds to begin. */
#define ANSWER_MS 30000

bool realgpu_has_driver(const char *root)
{
	/* Linux's module, its control node alone (gVisor), Windows' subsystem, Tegra's module */
	static const char *const traces[] = { "proc/driver/nvidia/version", "dev/nvidiactl", "dev/dxg", "dev/nvmap" };
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(traces) / sizeof(*traces); i++)
		if (snprintf(path, sizeof(path), "%s/%s", root, traces[i]) < (int)sizeof(path) && !access(path, F_OK))
			return true;
	return false;
}

/* ---- in the child ---------------------------------------------------------------------------- */

static void *function(void *driver, const char *name, struct realgpu *g)
{
	void *f = dlsym(driver, name);

	if (!f && !g->why[0])
		snprintf(g->why, sizeof(g->why), "its driver library lacks %s", name);
	return f;
}

static void describe(void *driver, struct realgpu *g)
{
	int (*get_name)(char *, int, int) = NULL;
	int (*get_bytes)(size_t *, int) = NULL;

	*(void **)&get_name = dlsym(driver, "cuDeviceGetName");
	*(void **)&get_bytes = dlsym(driver, "cuDeviceTotalMem_v2");
	for (unsigned i = 0; i < g->nr && i < REALGPU_MAX; i++) {
		size_t bytes = 0;

		if (get_name)
			get_name(g->device[i].name, REALGPU_NAME_BYTES, (int)i);
		if (get_bytes && !get_bytes(&bytes, (int)i))
			g->device[i].bytes = bytes;
	}
}

static void count(void *driver, struct realgpu *g)
{
	int (*init)(unsigned) = NULL, (*get_count)(int *) = NULL, (*get_version)(int *) = NULL;
	int nr = 0, error;

	*(void **)&init = function(driver, "cuInit", g);
	*(void **)&get_count = function(driver, "cuDeviceGetCount", g);
	*(void **)&get_version = function(driver, "cuDriverGetVersion", g);
	if (!init || !get_count || !get_version)
		return;
	error = init(0);
	if (!error)
		error = get_count(&nr);
	if (error)
		snprintf(g->why, sizeof(g->why), "its driver says that there is none: CUDA error %d", error);
	else if (nr <= 0)
		snprintf(g->why, sizeof(g->why), "its driver counts none");
	get_version(&g->driver_version);
	g->nr = nr > 0 ? (unsigned)nr : 0;
	describe(driver, g);
}

/* What the driver prints is nobody's; if it crashes, it leaves no core. */
static void ask(struct realgpu *g)
{
	struct rlimit no_core = { 0, 0 };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	void *driver;

	dup2(null, STDOUT_FILENO);
	dup2(null, STDERR_FILENO);
	setrlimit(RLIMIT_CORE, &no_core);
	driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!driver)
		snprintf(g->why, sizeof(g->why), "there is no libcuda.so.1");
	else if (dlsym(driver, "simgpu_report"))
		snprintf(g->why, sizeof(g->why), "the GPU that answers is a simulated one");
	else
		count(driver, g);
}

/* ---- in this process ------------------------------------------------------------------------- */

/* The child's answer, whole or not at all: it is smaller than a pipe. */
static void receive(int fd, struct realgpu *g)
{
	struct pollfd wait = { .fd = fd, .events = POLLIN };
	struct realgpu answer;
	size_t got = 0;
	ssize_t n = 1;
	int ready = 1;

	while (got < sizeof(answer) && n > 0) {
		do
			ready = poll(&wait, 1, ANSWER_MS);
		while (ready < 0 && errno == EINTR);
		n = ready > 0 ? read(fd, (char *)&answer + got, sizeof(answer) - got) : 0;
		got += n > 0 ? (size_t)n : 0;
	}
	if (got == sizeof(answer))
		*g = answer;
	else
		snprintf(g->why, sizeof(g->why),
			 ready ? "its driver crashed when it was asked" : "its driver has not answered for %d s",
			 ANSWER_MS / 1000);
}

static void answer_and_exit(int fd, struct realgpu *g)
{
	const char *p = (const char *)g;
	size_t left = sizeof(*g);
	ssize_t n = 1;

	ask(g);
	while (left && (n = write(fd, p, left)) > 0) {
		p += n;
		left -= (size_t)n;
	}
	_exit(left != 0);
}

/*
 * A child that hangs in the kernel does not even die of SIGKILL: it is waited for only if it has answered, and is
 * otherwise left to init.
 */
static void ask_in_child(struct realgpu *g)
{
	int ends[2];
	pid_t child;

	if (pipe2(ends, O_CLOEXEC)) {
		snprintf(g->why, sizeof(g->why), "it could not be asked: %s", strerror(errno));
		return;
	}
	child = fork();
	if (!child)
		answer_and_exit(ends[1], g);
	close(ends[1]);
	if (child > 0) {
		receive(ends[0], g);
		kill(child, SIGKILL);
		waitpid(child, NULL, g->why[0] ? WNOHANG : 0);
	} else {
		snprintf(g->why, sizeof(g->why), "it could not be asked: %s", strerror(errno));
	}
	close(ends[0]);
}

bool realgpu_ask(struct realgpu *g)
{
	memset(g, 0, sizeof(*g));
	if (realgpu_has_driver(""))
		ask_in_child(g);
	else
		snprintf(g->why, sizeof(g->why), "the kernel has no driver of NVIDIA's");
	return g->nr > 0;
}
