/* SPDX-License-Identifier: MIT */
/* Processes that share simulated GPUs through SIMGPU_SHARE: what one holds, all see, until it ends. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#define MIB(n) ((size_t)(n) << 20)
#define CAPACITY MIB(4096)

struct process_info {
	unsigned pid;
	unsigned long long bytes;
};

extern int nvmlInit_v2(void);
extern int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
extern int nvmlDeviceGetMemoryInfo(void *device, unsigned long long total_free_used[3]);
extern int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *count, struct process_info *infos);

enum { NVML_INSUFFICIENT_SIZE = 7 };

static char share[64];

/*
 * A process that does what it is told: it allocates so many MiB, and answers with the error code. Told 0, it
 * forks a child that ends.
 */
struct worker {
	pid_t pid;
	int to, from;
};

static int fork_and_end(void)
{
	int status;
	pid_t child = fork();

	if (!child)
		exit(0);
	return waitpid(child, &status, 0) == child ? status : -1;
}

static _Noreturn void work(int from, int to)
{
	int mib, answer;
	void *p;

	while (read(from, &mib, sizeof(mib)) == sizeof(mib) && mib >= 0) {
		answer = mib ? (int)cudaMalloc(&p, MIB(mib)) : fork_and_end();
		if (write(to, &answer, sizeof(answer)) != sizeof(answer))
			_exit(1);
	}
	exit(0);
}

/* Fork before CUDA is initialised here, so that the child may use it. */
static struct worker start(const char *visible)
{
	int to[2], from[2];
	struct worker w;

	assert_int_equal(pipe(to) | pipe(from), 0);
	w.pid = fork();
	if (!w.pid) {
		close(to[1]);
		close(from[0]);
		if (visible)
			setenv("CUDA_VISIBLE_DEVICES", visible, 1);
		work(to[0], from[1]);
	}
	close(to[0]);
	close(from[1]);
	w.to = to[1];
	w.from = from[0];
	return w;
}

static int allocate(const struct worker *w, int mib)
{
	int answer = -1;

	assert_int_equal(write(w->to, &mib, sizeof(mib)), sizeof(mib));
	assert_int_equal(read(w->from, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

static void finish(struct worker *w)
{
	int status, end = -1;

	assert_int_equal(write(w->to, &end, sizeof(end)), sizeof(end));
	assert_int_equal(waitpid(w->pid, &status, 0), w->pid);
	assert_int_equal(status, 0);
	close(w->to);
	close(w->from);
}

/* Kill it and leave it a zombie: what it held is free although its pid is still there. */
static void kill_worker(const struct worker *w)
{
	siginfo_t info;

	kill(w->pid, SIGKILL);
	waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOWAIT);
}

static void bury(struct worker *w)
{
	waitpid(w->pid, NULL, 0);
	close(w->to);
	close(w->from);
}

/* A driver of its own in a child: free bytes of one device, or what else CHECK says of it. */
static void in_child(void (*check)(void))
{
	int status;
	pid_t child = fork();

	if (!child) {
		check();
		exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static size_t wanted_free;

static void check_free(void)
{
	size_t available, total;

	if (cudaMemGetInfo(&available, &total) || total != CAPACITY || available != wanted_free) {
		fprintf(stderr, "%zu MiB free, not %zu\n", available >> 20, wanted_free >> 20);
		exit(1);
	}
}

static size_t context_bytes;		/* of one process */

static void memory_of_one_is_taken_for_all(void **state)
{
	struct worker a = start(NULL), b = start(NULL);

	(void)state;
	assert_int_equal(allocate(&a, 2048), cudaSuccess);
	wanted_free = CAPACITY - MIB(2048) - 2 * context_bytes;
	in_child(check_free);
	assert_int_equal(allocate(&b, 2048), cudaErrorMemoryAllocation);
	assert_int_equal(allocate(&b, 512), cudaSuccess);
	wanted_free = CAPACITY - MIB(2560) - 3 * context_bytes;
	in_child(check_free);
	finish(&a);
	wanted_free = CAPACITY - MIB(512) - 2 * context_bytes;
	in_child(check_free);
	assert_int_equal(allocate(&b, 2048), cudaSuccess);
	finish(&b);
	assert_int_not_equal(access(share, F_OK), 0);
}

static void memory_of_a_killed_process_comes_back(void **state)
{
	struct worker a = start(NULL), b = start(NULL);

	(void)state;
	assert_int_equal(allocate(&a, 2560), cudaSuccess);
	assert_int_equal(allocate(&b, 2560), cudaErrorMemoryAllocation);
	kill_worker(&a);
	assert_int_equal(allocate(&b, 2560), cudaSuccess);
	bury(&a);
	kill_worker(&b);
	wanted_free = CAPACITY - context_bytes;
	in_child(check_free);
	bury(&b);
	assert_int_not_equal(access(share, F_OK), 0);
}

static void a_fork_child_gives_nothing_back(void **state)
{
	struct worker a = start(NULL);

	(void)state;
	assert_int_equal(allocate(&a, 100), cudaSuccess);
	assert_int_equal(allocate(&a, 0), 0);
	wanted_free = CAPACITY - MIB(100) - 2 * context_bytes;
	in_child(check_free);
	finish(&a);
}

/* A process that holds memory becomes another program, which main() is when it is told so: it finds none taken. */
static void memory_goes_with_the_program(void **state)
{
	int status;
	pid_t child = fork();
	void *p;

	(void)state;
	if (!child) {
		if (!cudaMalloc(&p, MIB(2560)))
			execl("/proc/self/exe", "test_shared_device", "2560", NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void a_device_is_the_same_under_any_number(void **state)
{
	struct worker zero = start("0"), one = start("1"), both = start("1,0");

	(void)state;
	assert_int_equal(allocate(&one, 2560), cudaSuccess);
	assert_int_equal(allocate(&zero, 2560), cudaSuccess);
	assert_int_equal(allocate(&both, 2560), cudaErrorMemoryAllocation);
	finish(&one);
	assert_int_equal(allocate(&both, 2560), cudaSuccess);
	finish(&zero);
	finish(&both);
}

static void check_peers(void)
{
	int can = -1, self = -1, attribute = -1;

	if (cudaDeviceCanAccessPeer(&can, 0, 1) || cudaDeviceCanAccessPeer(&self, 0, 0) ||
	    cudaDeviceGetP2PAttribute(&attribute, cudaDevP2PAttrAccessSupported, 0, 1) || can != 1 || self ||
	    attribute != 1)
		exit(2);
	if (cudaDeviceCanAccessPeer(&can, 0, 2) != cudaErrorInvalidDevice)
		exit(3);
	if (cudaDeviceDisablePeerAccess(1) != cudaErrorPeerAccessNotEnabled || cudaDeviceEnablePeerAccess(1, 0) ||
	    cudaDeviceEnablePeerAccess(1, 0) != cudaErrorPeerAccessAlreadyEnabled ||
	    cudaDeviceEnablePeerAccess(0, 0) != cudaErrorInvalidDevice || cudaDeviceDisablePeerAccess(1))
		exit(4);
}

static void every_pair_of_devices_are_peers(void **state)
{
	(void)state;
	in_child(check_peers);
}

static pid_t wanted_pid;

/* What NVML says of the device must be what the driver says, and name the process that holds the most. */
static void check_nvml(void)
{
	unsigned long long memory[3], sum = 0;
	struct process_info infos[8];
	size_t available, total;
	unsigned count = 1;
	bool found = false;
	void *device;

	if (cudaMemGetInfo(&available, &total) || nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) ||
	    nvmlDeviceGetMemoryInfo(device, memory))
		exit(2);
	if (nvmlDeviceGetComputeRunningProcesses(device, &count, infos) != NVML_INSUFFICIENT_SIZE ||
	    count != 2)
		exit(3);
	count = 8;
	if (nvmlDeviceGetComputeRunningProcesses(device, &count, infos) || count != 2)
		exit(4);
	for (unsigned i = 0; i < count; i++) {
		sum += infos[i].bytes;
		found |= infos[i].pid == (unsigned)wanted_pid && infos[i].bytes == MIB(100) + context_bytes;
	}
	if (!found || memory[0] != total || memory[1] != available || memory[2] != sum ||
	    memory[0] != memory[1] + memory[2])
		exit(5);
}

static void nvml_lists_who_holds_what(void **state)
{
	struct worker a = start(NULL);

	(void)state;
	assert_int_equal(allocate(&a, 100), cudaSuccess);
	wanted_pid = a.pid;
	in_child(check_nvml);
	finish(&a);
}

/* Whoever dies, between any two instructions, others go on and the sums come out right. */
static void deaths_at_any_moment_leave_the_table_right(void **state)
{
	(void)state;
	for (int round = 0; round < 40; round++) {
		pid_t child = fork();
		void *p;

		if (!child) {
			for (;;)
				if (!cudaMalloc(&p, MIB(4)))
					cudaFree(p);
		}
		usleep((useconds_t)(2000 + round * 313));
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	wanted_free = CAPACITY - context_bytes;
	in_child(check_free);
	assert_int_not_equal(access(share, F_OK), 0);
}

static void a_table_without_processes_is_removed(void **state)
{
	struct worker a = start(NULL), b;
	char left[64];

	(void)state;
	assert_int_equal(allocate(&a, 1), cudaSuccess);
	kill_worker(&a);
	bury(&a);
	assert_int_equal(access(share, F_OK), 0);
	strcpy(left, share);
	strcat(share, "-next");
	setenv("SIMGPU_SHARE", share, 1);
	b = start(NULL);
	assert_int_equal(allocate(&b, 1), cudaSuccess);
	assert_int_not_equal(access(left, F_OK), 0);
	finish(&b);
}

static void print_context(void)
{
	size_t available, total;

	if (cudaMemGetInfo(&available, &total) || printf("%zu\n", total - available) < 0)
		exit(1);
	fflush(stdout);
}

/* Asked of a process, because this one must not initialise CUDA: its children could not use it. */
static size_t ask_context(void)
{
	int out[2], saved = dup(STDOUT_FILENO);
	char text[32] = "";

	assert_int_equal(pipe(out), 0);
	dup2(out[1], STDOUT_FILENO);
	in_child(print_context);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	close(out[1]);
	assert_true(read(out[0], text, sizeof(text) - 1) > 0);
	close(out[0]);
	return strtoull(text, NULL, 10);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_of_one_is_taken_for_all),
		cmocka_unit_test(memory_of_a_killed_process_comes_back),
		cmocka_unit_test(a_fork_child_gives_nothing_back),
		cmocka_unit_test(memory_goes_with_the_program),
		cmocka_unit_test(a_device_is_the_same_under_any_number),
		cmocka_unit_test(every_pair_of_devices_are_peers),
		cmocka_unit_test(nvml_lists_who_holds_what),
		cmocka_unit_test(deaths_at_any_moment_leave_the_table_right),
		cmocka_unit_test(a_table_without_processes_is_removed),
	};
	char capacity[24];
	void *p;

	if (argc > 1)
		return (int)cudaMalloc(&p, MIB(atoi(argv[1])));
	snprintf(share, sizeof(share), "/tmp/simgpu-share-test-%d", (int)getpid());
	snprintf(capacity, sizeof(capacity), "%zu", CAPACITY);
	setenv("SIMGPU_SHARE", share, 1);
	setenv("SIMGPU_CAPACITY", capacity, 1);
	setenv("SIMGPU_PROFILE", "h100", 1);
	setenv("SIMGPU_DEVICES", "2", 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	context_bytes = ask_context();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
