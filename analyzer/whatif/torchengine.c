/* SPDX-License-Identifier: MIT */
/* The file of requests, the Python that reads it, and what it answers. */
#include "analyzer/whatif/torchengine.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/heap.h"
#include "analyzer/base/message.h"
#include "analyzer/command.h"

/* The program, as text for `python -c`. */
__asm__(".pushsection .rodata\n"
	".global torchengine_program\ntorchengine_program:\n.incbin \"python/vramtrace/torch_engine.py\"\n.byte 0\n"
	".popsection\n");
extern const char torchengine_program[];

static void path_of(const struct torchengine *t, const char *name, char path[static PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", t->folder, name);
}

int torchengine_open(struct torchengine *t)
{
	const char *base = getenv("TMPDIR");
	char path[PATH_MAX];

	*t = (struct torchengine){ 0 };
	if (!base || strlen(base) > sizeof(t->folder) - 24)
		base = "/tmp";
	snprintf(t->folder, sizeof(t->folder), "%s/vramtrace.XXXXXX", base);
	if (!mkdtemp(t->folder)) {
		*t->folder = 0;
		return message_error("cannot make a folder in '%s': %s", base, strerror(errno));
	}
	path_of(t, "requests", path);
	t->requests = fopen(path, "w");
	return t->requests ? CMD_FINE : message_error("cannot write '%s': %s", path, strerror(errno));
}

void torchengine_close(struct torchengine *t)
{
	char path[PATH_MAX];

	if (t->requests)
		fclose(t->requests);
	t->requests = NULL;
	if (!*t->folder)
		return;
	path_of(t, "requests", path);
	unlink(path);
	path_of(t, "result", path);
	unlink(path);
	rmdir(t->folder);
	*t->folder = 0;
}

void torchengine_alloc(struct torchengine *t, uint32_t device, uint32_t slot, uint64_t bytes, uint16_t stream, uint32_t pool)
{
	fprintf(t->requests, "a %" PRIu32 " %" PRIu32 " %" PRIu64 " %u %" PRIu32 "\n", device, slot, bytes, stream, pool);
}

void torchengine_failed(struct torchengine *t, uint32_t device, uint64_t bytes, uint16_t stream)
{
	fprintf(t->requests, "x %" PRIu32 " %" PRIu64 " %u\n", device, bytes, stream);
}

void torchengine_free(struct torchengine *t, uint32_t device, uint32_t slot)
{
	fprintf(t->requests, "f %" PRIu32 " %" PRIu32 "\n", device, slot);
}

void torchengine_empty_cache(struct torchengine *t, uint32_t device)
{
	fprintf(t->requests, "e %" PRIu32 "\n", device);
}

/* In the child: become `vramtrace run` of the Python. Does not return. */
static _Noreturn void become(const struct torchengine *t, const struct torchengine_gpu *gpu)
{
	char self[PATH_MAX] = "", devices[32], capacity[32] = "unlimited", requests[PATH_MAX], result[PATH_MAX];

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		_exit(127);
	snprintf(devices, sizeof(devices), "%uxh100", gpu->nr_devices);
	if (gpu->capacity)
		snprintf(capacity, sizeof(capacity), "%" PRIu64, gpu->capacity);
	path_of(t, "requests", requests);
	path_of(t, "result", result);
	setenv("PYTORCH_CUDA_ALLOC_CONF", gpu->conf, 1);
	if (gpu->is_uncached)
		setenv("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", 1);
	execl(self, self, "run", "-q", "--no-record", "--simulate", devices, "--simulate-capacity", capacity, "--", gpu->python,
	      "-c", torchengine_program, requests, result, (char *)NULL);
	_exit(127);
}

static int read_result(struct torchengine *t)
{
	struct torchengine_device d = { .is_there = true };
	uint64_t ended;
	uint32_t device;
	char path[PATH_MAX];
	FILE *in;

	path_of(t, "result", path);
	in = fopen(path, "r");
	if (!in)
		return message_error("PyTorch served no request: is it installed for the 'python3' of PATH? --python names another");
	while (fscanf(in, "%" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &device, &d.peak_reserved,
		      &d.peak_allocated, &d.failed, &ended) == 5) {
		d.is_over = ended > 0;
		if (device < TORCHENGINE_DEVICES)
			t->device[device] = d;
	}
	fclose(in);
	return CMD_FINE;
}

int torchengine_run(struct torchengine *t, const struct torchengine_gpu *gpu)
{
	bool is_written = !ferror(t->requests);
	int status;
	pid_t pid;

	is_written &= !fclose(t->requests);
	t->requests = NULL;
	if (!is_written)
		return message_error("cannot write the requests to '%s': %s", t->folder, strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return message_error("cannot start another process: %s", strerror(errno));
	if (!pid)
		become(t, gpu);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return read_result(t);
}
