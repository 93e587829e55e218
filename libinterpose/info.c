/* SPDX-License-Identifier: MIT */
/* What the trace says about its process; see info.h. */
#include "info.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "callstack.h"
#include "env.h"
#include "interpose.h"
#include "lookup.h"
#include "modules.h"
#include "nvtx.h"
#include "resolve.h"
#include "tracker.h"
#include "unwind.h"

#define TIME_SHIFT 6 /* 64 ns: a third of the bytes per event of 1 ns (time is two thirds of a trace) */

static struct {
	bool torch, torch_too_old;
	const char *python, *unwinder, *unwinder_note, *nvtx, *tracker;
	uint32_t nr_compared;
	uint64_t unsupported_calls, zero_answers;
	bool load_note[IP_LOAD_NOTES];
} written;

void info_put(struct tfmt_writer *w, const char *key, const char *value)
{
	uint8_t payload[PATH_MAX + 128], *p = payload;
	size_t len = value ? strlen(value) : 0;

	if (!len || len > PATH_MAX)
		return;
	p = tfmt_put_string(p, key, strlen(key));
	p = tfmt_put_string(p, value, len);
	tfmt_writer_definition(w, TFMT_DEF_INFO, ip_next_id(TFMT_DEF_INFO), payload, (size_t)(p - payload));
}

/* The command line may be of any length: put as much of it as readers take. */
static void put_arguments(struct tfmt_writer *w)
{
	static const char key[] = "argv";
	size_t len = ip_env.argv ? strnlen(ip_env.argv, TFMT_INFO_VALUE_MAX) : 0;
	uint8_t *payload, *p;

	if (!len)
		return;
	payload = p = mmap(NULL, len + 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (payload == MAP_FAILED)
		return;
	p = tfmt_put_string(p, key, sizeof(key) - 1);
	p = tfmt_put_string(p, ip_env.argv, len);
	tfmt_writer_definition(w, TFMT_DEF_INFO, ip_next_id(TFMT_DEF_INFO), payload, (size_t)(p - payload));
	munmap(payload, len + 64);
}

static void put_functions(struct tfmt_writer *w)
{
	for (unsigned id = 1; id < FN_NR; id++) {
		uint8_t payload[128], *p = payload;
		const char *name = ip_hooks[id].name;

		p = tfmt_put_string(p, name, strlen(name));
		tfmt_writer_definition(w, TFMT_DEF_FUNCTION, id, payload, (size_t)(p - payload));
	}
}

/* A profile's name is worth nothing without the simulated device. */
static bool is_simulated(void)
{
	return ip_env.simulate[0] && ip_simulated_report();
}

static void put_simulated(struct tfmt_writer *w)
{
	char note[160];

	if (is_simulated()) {
		info_put(w, "simulated", ip_env.simulate);
	} else if (ip_env.simulate[0]) {
		snprintf(note, sizeof(note), "VRAMTRACE_SIMULATE='%s' alone simulates nothing: the GPU is real",
			 ip_env.simulate);
		info_put(w, "note", note);
	}
}

void info_begin(struct tfmt_writer *w, enum tfmt_storage kind)
{
	static const char *const storage[] = { "beside", "temporary", "anonymous", "shared", "sealed" };

	written.torch = written.torch_too_old = false;
	written.python = written.unwinder = written.unwinder_note = written.nvtx = written.tracker = NULL;
	written.nr_compared = 0;
	written.unsupported_calls = written.zero_answers = 0;
	memset(written.load_note, 0, sizeof(written.load_note));
	put_functions(w);
	info_put(w, "program", ip_env.program);
	info_put(w, "script", ip_env.script);
	put_arguments(w);
	info_put(w, "exe", ip_env.exe);
	info_put(w, "allocator_conf", ip_env.allocator_conf);
	info_put(w, "stacks", ip_stacks_name(ip_env.stacks));
	put_simulated(w);
	info_put(w, "storage", storage[kind]);
	info_put(w, "rank", ip_env.rank);
	info_put(w, "local_rank", ip_env.local_rank);
	info_put(w, "world_size", ip_env.world_size);
	info_put(w, "ranks_run", ip_env.ranks_run);
	info_put(w, "job", ip_env.job);
	for (unsigned i = 0; i < ip_env.nr_notes; i++)
		info_put(w, "note", ip_env.note[i]);
	if (!callstack_native_available())
		info_put(w, "note", "no native stacks: the unwinder finds no callers");
	info_update(w);
}

/* The value of `__version__ = '...'` in torch/version.py, which lies one folder above libc10.so. */
static bool torch_version(const char *libc10, char *version, size_t size)
{
	char path[PATH_MAX], text[2048], *at, quote;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "%s", libc10);
	at = strrchr(path, '/');
	if (!at || (size_t)(at - path) + sizeof("/../version.py") > sizeof(path))
		return false;
	strcpy(at, "/../version.py");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, "__version__ = ");
	if (!at)
		return false;
	at += strlen("__version__ = ");
	quote = *at++;
	snprintf(version, size, "%.*s", (int)strcspn(at, (char[]){ quote, '\n', 0 }), at);
	return true;
}

static void put_load_notes(struct tfmt_writer *w)
{
	char text[256];

	for (unsigned i = 0; i < IP_LOAD_NOTES; i++)
		if (!written.load_note[i] && ip_load_note(i, text, sizeof(text))) {
			info_put(w, "note", text);
			written.load_note[i] = true;
		}
}

static void put_unwinder(struct tfmt_writer *w)
{
	const char *unwinder = unwind_method(), *note = unwind_note();
	char text[160];

	if (written.unwinder == unwinder && written.unwinder_note == note)
		return;
	snprintf(text, sizeof(text), note ? "%s, because %s" : "%s", unwinder, note);
	info_put(w, "unwinder", text);
	written.unwinder = unwinder;
	written.unwinder_note = note;
}

void info_comparison(struct tfmt_writer *w)
{
	struct unwind_comparison c = unwind_comparison();
	char text[160];

	if (c.nr == written.nr_compared)
		return;
	snprintf(text, sizeof(text), "%u stacks walked by %s as well: %u differed", c.nr, c.with, c.nr_differed);
	info_put(w, "unwinder_compared", text);
	written.nr_compared = c.nr;
}

void info_update(struct tfmt_writer *w)
{
	const char *python = callstack_python_support();
	const char *nvtx = nvtx_support(), *tracker = ip_tracker_support();
	const char *libc10 = modules_find("libc10.so");
	char version[128];

	put_load_notes(w);
	if (!written.python || strcmp(written.python, python)) {
		info_put(w, "python_frames", python);
		written.python = python;
	}
	put_unwinder(w);
	if (written.tracker != tracker) {
		info_put(w, "tracker", tracker);
		written.tracker = tracker;
	}
	if (written.nvtx != nvtx) {
		info_put(w, "nvtx", nvtx);
		written.nvtx = nvtx;
	}
	if (!written.torch_too_old && atomic_load(&ip_recorder->torch_too_old)) {
		info_put(w, "note", "PyTorch older than 1.10 reports no addresses: its tensors are not recorded");
		written.torch_too_old = true;
	}
	if (!written.torch && libc10 && torch_version(libc10, version, sizeof(version))) {
		info_put(w, "torch", version);
		written.torch = true;
	}
}

/* As the simulated device publishes it under the name simgpu_report; a real driver has no such symbol. */
struct unsupported_report {
	uint32_t struct_bytes, nr_names;
	const struct {
		const char *name;
		uint64_t calls;
	} *names;
	uint64_t calls;
	uint32_t is_unlimited;
	uint64_t zero_answers;
};

bool info_is_capacity_unlimited(void)
{
	const struct unsupported_report *(*get)(void) = ip_simulated_report();
	const struct unsupported_report *r = get ? get() : NULL;

	return r && r->struct_bytes >= offsetof(struct unsupported_report, zero_answers) && r->is_unlimited;
}

static void put_zero_answers(struct tfmt_writer *w, const struct unsupported_report *r)
{
	char text[24];

	if (!r || r->struct_bytes < sizeof(*r) || r->zero_answers == written.zero_answers)
		return;
	written.zero_answers = r->zero_answers;
	snprintf(text, sizeof(text), "%llu", (unsigned long long)r->zero_answers);
	info_put(w, "zero_answers", text);
}

void info_unsupported(struct tfmt_writer *w)
{
	const struct unsupported_report *(*get)(void) = ip_simulated_report();
	const struct unsupported_report *r = get ? get() : NULL;

	put_zero_answers(w, r);
	if (!r || r->struct_bytes < offsetof(struct unsupported_report, is_unlimited) ||
	    r->calls == written.unsupported_calls)
		return;
	for (uint32_t i = 0; i < r->nr_names; i++) {
		char key[160], calls[24];

		snprintf(key, sizeof(key), "unsupported.%.128s", r->names[i].name);
		snprintf(calls, sizeof(calls), "%llu", (unsigned long long)r->names[i].calls);
		info_put(w, key, calls);
	}
	written.unsupported_calls = r->calls;
	__atomic_store_n(&ip_recorder->status->unsupported_calls, r->calls, __ATOMIC_RELAXED);
}

void info_clock(struct tfmt_writer *w)
{
	uint8_t payload[32], *p = payload;
	struct timespec real;
	uint64_t mono = ip_now_ns();

	clock_gettime(CLOCK_REALTIME, &real);
	p = tfmt_put_varint(p, mono);
	p = tfmt_put_varint(p, (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec);
	tfmt_writer_definition(w, TFMT_DEF_CLOCK, ip_next_id(TFMT_DEF_CLOCK), payload, (size_t)(p - payload));
}

static void read_boot_id(uint8_t id[16])
{
	char text[64] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), nr = 0;

	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) < 36)
		text[0] = 0;
	close(fd);
	for (const char *p = text; *p && p[1] && nr < 16; p++) {
		char hex[3] = { p[0], p[1], 0 };

		if (*p == '-')
			continue;
		id[nr++] = (uint8_t)strtoul(hex, NULL, 16);
		p++;
	}
}

void info_header(struct tfmt_header *h)
{
	struct timespec real;
	struct stat st;

	h->pid = (uint32_t)getpid();
	h->start_mono_ns = ip_now_ns();
	clock_gettime(CLOCK_REALTIME, &real);
	h->start_real_ns = (uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec;
	if (!stat("/proc/self/ns/time", &st))
		h->time_ns_inode = st.st_ino;
	read_boot_id(h->boot_id);
	h->time_shift = TIME_SHIFT;
	h->simulated = is_simulated();
	snprintf(h->host, sizeof(h->host), "%s", ip_env.host);
	snprintf(h->job, sizeof(h->job), "%s", ip_env.job);
	info_recorder(h);
}
