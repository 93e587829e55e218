/* SPDX-License-Identifier: MIT */
/* What NVML knows of devices and processes; see nvml_query.h. NVML's own header, apart from CUDA's, is not needed. */
#include "nvml_query.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose.h"

#define NVML_SUCCESS 0
#define NOT_AVAILABLE UINT64_MAX          /* bytes of a process, where the system does not let NVML know */
#define INITIAL_PID_NAMESPACE 0xeffffffcu /* inode of /proc/self/ns/pid in it: fixed by the kernel */
#define ROWS_MAX 1024u
#define BEFORE_MAX 256u
#define BOARDS_MAX 64u

typedef struct nvmlDevice_st *nvml_device;

/* nvmlProcessInfo_t of nvmlDeviceGet*RunningProcesses_v2 and _v3. */
struct process_row {
	unsigned pid;
	unsigned long long bytes;
	unsigned gpu_instance, compute_instance;
};

/* nvmlMemory_v2_t */
struct memory {
	unsigned version;
	unsigned long long total, reserved, free, used;
};
#define MEMORY_VERSION (sizeof(struct memory) | 2u << 24)

typedef int list_function(nvml_device, unsigned *, struct process_row *);

static struct {
	bool ready;
	int (*by_uuid)(const char *, nvml_device *);
	int (*by_pci)(const char *, nvml_device *);
	int (*by_index)(unsigned, nvml_device *);
	int (*count)(unsigned *);
	int (*index)(nvml_device, unsigned *);
	int (*memory)(nvml_device, struct memory *);
	int (*is_mig)(nvml_device, unsigned *);
	int (*whole_of)(nvml_device, nvml_device *);
	list_function *compute, *graphics;

	nvml_device device[TFMT_NR_DEVICES]; /* by CUDA's ordinal */
	unsigned board[TFMT_NR_DEVICES];     /* its physical index; BOARDS_MAX: a part of one, or not known */
	uint64_t used_before[BOARDS_MAX];    /* before this process had a context */
	bool knows_used_before[BOARDS_MAX];
	uint32_t own_pid[TFMT_NR_DEVICES];   /* what NVML calls this process there; 0 = not known yet */
	uint32_t before[BEFORE_MAX];         /* pids on any board before this process had a context */
	unsigned nr_before;
	struct process_row row[ROWS_MAX];
} nvml;

/* The processes on a device, by all lists that there are, each pid once. False where NVML does not tell. */
static bool list(nvml_device device, unsigned *nr)
{
	unsigned room = ROWS_MAX, nr_compute;

	*nr = 0;
	if (!nvml.compute || nvml.compute(device, &room, nvml.row) != NVML_SUCCESS)
		return false;
	*nr = nr_compute = room;
	room = ROWS_MAX - nr_compute;
	if (!nvml.graphics || !room || nvml.graphics(device, &room, nvml.row + nr_compute) != NVML_SUCCESS)
		return true;
	for (unsigned i = 0; i < room; i++) {
		struct process_row row = nvml.row[nr_compute + i];
		unsigned k = 0;

		while (k < nr_compute && nvml.row[k].pid != row.pid)
			k++;
		if (k == nr_compute)
			nvml.row[(*nr)++] = row;
	}
	return true;
}

/* What is on the boards while this process has no context: who, and how much. */
static void remember_before(void)
{
	unsigned nr_boards = 0, nr;
	nvml_device board;

	if (!nvml.count || nvml.count(&nr_boards) != NVML_SUCCESS)
		return;
	for (unsigned i = 0; i < nr_boards && i < BOARDS_MAX; i++) {
		struct memory memory = { .version = MEMORY_VERSION };

		if (nvml.by_index(i, &board) != NVML_SUCCESS)
			continue;
		if (nvml.memory && nvml.memory(board, &memory) == NVML_SUCCESS) {
			nvml.used_before[i] = memory.used;
			nvml.knows_used_before[i] = true;
		}
		if (!list(board, &nr))
			continue;
		for (unsigned k = 0; k < nr && nvml.nr_before < BEFORE_MAX; k++)
			nvml.before[nvml.nr_before++] = nvml.row[k].pid;
	}
}

static void load(void *h)
{
	nvml.by_uuid = (int (*)(const char *, nvml_device *))dlsym(h, "nvmlDeviceGetHandleByUUID");
	nvml.by_pci = (int (*)(const char *, nvml_device *))dlsym(h, "nvmlDeviceGetHandleByPciBusId_v2");
	nvml.by_index = (int (*)(unsigned, nvml_device *))dlsym(h, "nvmlDeviceGetHandleByIndex_v2");
	nvml.count = (int (*)(unsigned *))dlsym(h, "nvmlDeviceGetCount_v2");
	nvml.index = (int (*)(nvml_device, unsigned *))dlsym(h, "nvmlDeviceGetIndex");
	nvml.memory = (int (*)(nvml_device, struct memory *))dlsym(h, "nvmlDeviceGetMemoryInfo_v2");
	nvml.is_mig = (int (*)(nvml_device, unsigned *))dlsym(h, "nvmlDeviceIsMigDeviceHandle");
	nvml.whole_of = (int (*)(nvml_device, nvml_device *))dlsym(h, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
	nvml.compute = (list_function *)dlsym(h, "nvmlDeviceGetComputeRunningProcesses_v3");
	if (!nvml.compute)
		nvml.compute = (list_function *)dlsym(h, "nvmlDeviceGetComputeRunningProcesses_v2");
	nvml.graphics = (list_function *)dlsym(h, "nvmlDeviceGetGraphicsRunningProcesses_v3");
	nvml.ready = nvml.by_uuid && nvml.by_pci && nvml.by_index && nvml.index;
}

void ip_nvml_prepare(bool has_context)
{
	void *h = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
	int (*init)(void) = h ? (int (*)(void))dlsym(h, "nvmlInit_v2") : NULL;

	memset(&nvml, 0, sizeof(nvml));
	if (init && init() == NVML_SUCCESS)
		load(h);
	dlerror(); /* what we did not find is not the program's error */
	if (nvml.ready && !has_context)
		remember_before();
}

/* The handle of a device, by its UUID as a whole GPU, then as a part of one, then by its place on the bus. */
static nvml_device find(char *uuid, const char *pci_bus_id)
{
	nvml_device device = NULL;

	if (*uuid && nvml.by_uuid(uuid, &device) == NVML_SUCCESS)
		return device;
	if (!strncmp(uuid, "GPU-", 4)) {
		memcpy(uuid, "MIG-", 4);
		if (nvml.by_uuid(uuid, &device) == NVML_SUCCESS)
			return device;
		memcpy(uuid, "GPU-", 4);
	}
	return *pci_bus_id && nvml.by_pci(pci_bus_id, &device) == NVML_SUCCESS ? device : NULL;
}

struct ip_nvml_identity ip_nvml_find(unsigned ordinal, char *uuid, const char *pci_bus_id)
{
	struct ip_nvml_identity id = { .physical_index = -1 };
	nvml_device device, whole;
	unsigned mig = 0, index;

	if (!nvml.ready || ordinal >= TFMT_NR_DEVICES)
		return id;
	device = whole = find(uuid, pci_bus_id);
	if (!device)
		return id;
	nvml.device[ordinal] = device;
	nvml.board[ordinal] = BOARDS_MAX;
	id.mig = nvml.is_mig && nvml.is_mig(device, &mig) == NVML_SUCCESS && mig;
	if (id.mig && (!nvml.whole_of || nvml.whole_of(device, &whole) != NVML_SUCCESS))
		return id;
	if (nvml.index(whole, &index) != NVML_SUCCESS)
		return id;
	id.physical_index = (int)index;
	nvml.board[ordinal] = id.mig ? BOARDS_MAX : index;
	return id;
}

static bool is_in_initial_namespace(void)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == INITIAL_PID_NAMESPACE;
}

static bool was_there_before(uint32_t pid)
{
	for (unsigned i = 0; i < nvml.nr_before; i++)
		if (nvml.before[i] == pid)
			return true;
	return false;
}

/* What NVML calls this process, among the first `nr` rows; 0 = it cannot be told. */
static uint32_t own_pid(unsigned nr)
{
	uint32_t self = (uint32_t)getpid(), fresh = 0;
	bool initial = is_in_initial_namespace();
	unsigned nr_fresh = 0;

	for (unsigned i = 0; i < nr; i++) {
		if (!initial && was_there_before(nvml.row[i].pid))
			continue;
		if (nvml.row[i].pid == self)
			return self;
		fresh = nvml.row[i].pid;
		nr_fresh++;
	}
	return nr_fresh == 1 && !initial ? fresh : 0;
}

/* Own and others' bytes by the list of processes; false where it does not tell them. */
static bool by_process(unsigned ordinal, uint64_t *own, uint64_t *others)
{
	bool found = false;
	unsigned nr;

	if (!list(nvml.device[ordinal], &nr))
		return false;
	if (!nvml.own_pid[ordinal])
		nvml.own_pid[ordinal] = own_pid(nr);
	for (unsigned i = 0; i < nr; i++) {
		bool is_own = nvml.own_pid[ordinal] && nvml.row[i].pid == nvml.own_pid[ordinal];

		if (nvml.row[i].bytes == NOT_AVAILABLE)
			return false;
		*(is_own ? own : others) += nvml.row[i].bytes;
		found |= is_own;
	}
	return found;
}

bool ip_nvml_processes(unsigned ordinal, uint64_t *own, uint64_t *others)
{
	unsigned board;

	*own = *others = 0;
	if (!nvml.ready || !nvml.device[ordinal])
		return false;
	if (by_process(ordinal, own, others))
		return true;
	board = nvml.board[ordinal];
	*own = 0;
	*others = board < BOARDS_MAX ? nvml.used_before[board] : 0;
	return board < BOARDS_MAX && nvml.knows_used_before[board];
}
