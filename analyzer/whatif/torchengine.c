/* SPDX-License-Identifier: MIT */
/* The file of requests, the Python that reads it, and what it answers. */
#include "analyzer/whatif/torchengine.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "analyzer/base/message.h"
#include "analyzer/command.h"

/* The program, as text for `python -c`. */
__asm__(".pushsection .rodata\n"
	".global torchengine_program\ntorchengine_program:\n.incbin \"python/vramtrace/torch_engine.py\"\n.byte 0\n"
	".popsection\n");
extern const char torchengine_program[];

/* A nameless file; the programs that we start inherit it. NULL after a message. */
static FILE *open_nameless(const char *name)
{
	int fd = memfd_create(name, 0);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");

	if (!file)
		message_error("cannot make a file in memory: %s", strerror(errno));
	return file;
}

int torchengine_open(struct torchengine *t)
{
	*t = (struct torchengine){ 0 };
	t->requests = open_nameless("vramtrace-requests");
	t->result = t->requests ? open_nameless("vramtrace-result") : NULL;
	return t->result ? CMD_FINE : CMD_TROUBLE;
}

void torchengine_close(struct torchengine *t)
{
	if (t->requests)
		fclose(t->requests);
	if (t->result)
		fclose(t->result);
	t->requests = t->result = NULL;
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

void torchengine_give(struct torchengine *t, const char *settings)
{
	fprintf(t->requests, "s %s\n", settings);
}

/* In the child: become `vramtrace run` of the Python. Does not return. */
static _Noreturn void become(const struct torchengine *t, const struct torchengine_gpu *gpu)
{
	char self[PATH_MAX] = "", devices[32], capacity[32] = "unlimited", requests[64], result[64];

	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		_exit(127);
	snprintf(devices, sizeof(devices), "%uxh100", gpu->nr_devices);
	if (gpu->capacity)
		snprintf(capacity, sizeof(capacity), "%" PRIu64, gpu->capacity);
	snprintf(requests, sizeof(requests), "/proc/self/fd/%d", fileno(t->requests));
	snprintf(result, sizeof(result), "/proc/self/fd/%d", fileno(t->result));
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
	unsigned nr = 0;

	rewind(t->result);
	while (fscanf(t->result, "%" SCNu32 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &device, &d.peak_reserved,
		      &d.peak_allocated, &d.failed, &ended) == 5) {
		d.is_over = ended > 0;
		if (device < TORCHENGINE_DEVICES)
			t->device[device] = d;
		nr++;
	}
	if (!nr)
		return message_error("PyTorch served no request: is it installed for the 'python3' of PATH? --python names another");
	return CMD_FINE;
}

int torchengine_run(struct torchengine *t, const struct torchengine_gpu *gpu)
{
	int status;
	pid_t pid;

	if (fflush(NULL) || ferror(t->requests))
		return message_error("cannot write the requests: %s", strerror(errno));
	pid = fork();
	if (pid < 0)
		return message_error("cannot start another process: %s", strerror(errno));
	if (!pid)
		become(t, gpu);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return read_result(t);
}
