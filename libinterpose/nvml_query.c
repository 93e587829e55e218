/* SPDX-License-Identifier: MIT */
/* What NVML knows of devices and processes; see nvml_query.h. NVML's own header, apart from CUDA's, is not needed. */
#include "nvml_query.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interpose.h"
#include "resolve.h"

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
	_Atomic bool ready;
	int (*init)(void), (*shut_down)(void);
	int (*by_uuid)(const char *, nvml_device *);
	int (*by_pci)(const char *, nvml_device *);
	int (*mig_mode)(nvml_device, unsigned *, unsigned *);
	int (*index)(nvml_device, unsigned *);
	int (*memory)(nvml_device, struct memory *);
	int (*is_mig)(nvml_device, unsigned *);
	int (*whole_of)(nvml_device, nvml_device *);
	list_function *compute, *graphics;

	struct name {
		char uuid[48], pci_bus_id[32];
		bool known;
	} name[TFMT_NR_DEVICES];             /* by CUDA's ordinal; a handle is good in one session only */
	unsigned board[TFMT_NR_DEVICES];     /* its physical index; BOARDS_MAX: a part of one, or not known */
	uint64_t used_before[BOARDS_MAX];    /* by physical index, before this process had a context */
	bool knows_used_before[BOARDS_MAX];
	uint32_t own_pid[TFMT_NR_DEVICES];   /* what NVML calls this process there; 0 = not known yet */
	uint32_t before[BEFORE_MAX];         /* pids on any board before this process had a context */
	unsigned nr_before;
	struct process_row row[ROWS_MAX];
} nvml;

/*
 * NVML counts who has initialised it. Ours is given back after each look: a program that has shut NVML down, or never
 * begun it, gets NVML_ERROR_UNINITIALIZED as it would without us.
 */
static bool begin_session(void)
{
	if (!atomic_load(&nvml.ready))
		return false;
	if (nvml.init() == NVML_SUCCESS)
		return true;
	atomic_store(&nvml.ready, false); /* it would not work the next time either */
	return false;
}

static void end_session(void)
{
	nvml.shut_down();
}

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

/* What is on a board while this process has no context: who, and how much. */
static void remember_board(nvml_device board)
{
	struct memory memory = { .version = MEMORY_VERSION };
	unsigned index, nr;

	if (nvml.index(board, &index) == NVML_SUCCESS && index < BOARDS_MAX && nvml.memory &&
	    nvml.memory(board, &memory) == NVML_SUCCESS) {
		nvml.used_before[index] = memory.used;
		nvml.knows_used_before[index] = true;
	}
	if (!list(board, &nr))
		return;
	for (unsigned k = 0; k < nr && nvml.nr_before < BEFORE_MAX; k++)
		nvml.before[nvml.nr_before++] = nvml.row[k].pid;
}

/* Of the boards that the program can use: NVML wakes each that is asked about. */
static void remember_before(void)
{
	int (*count)(int *) = (int (*)(int *))ip_driver_symbol("cuDeviceGetCount");
	int (*device_get)(int *, int) = (int (*)(int *, int))ip_driver_symbol("cuDeviceGet");
	int (*get_pci)(char *, int, int) = (int (*)(char *, int, int))ip_driver_symbol("cuDeviceGetPCIBusId");
	int nr_devices = 0, device;
	char pci_bus_id[32];
	nvml_device board;

	if (!count || !device_get || !get_pci || count(&nr_devices))
		return;
	for (int i = 0; i < nr_devices && i < (int)TFMT_NR_DEVICES; i++)
		if (!device_get(&device, i) && !get_pci(pci_bus_id, sizeof(pci_bus_id), device) &&
		    nvml.by_pci(pci_bus_id, &board) == NVML_SUCCESS)
			remember_board(board);
}

static bool is_in_initial_namespace(void)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == INITIAL_PID_NAMESPACE;
}

static void load(void *h)
{
	nvml.by_uuid = (int (*)(const char *, nvml_device *))dlsym(h, "nvmlDeviceGetHandleByUUID");
	nvml.by_pci = (int (*)(const char *, nvml_device *))dlsym(h, "nvmlDeviceGetHandleByPciBusId_v2");
	nvml.init = (int (*)(void))dlsym(h, "nvmlInit_v2");
	nvml.shut_down = (int (*)(void))dlsym(h, "nvmlShutdown");
	nvml.mig_mode = (int (*)(nvml_device, unsigned *, unsigned *))dlsym(h, "nvmlDeviceGetMigMode");
	nvml.index = (int (*)(nvml_device, unsigned *))dlsym(h, "nvmlDeviceGetIndex");
	nvml.memory = (int (*)(nvml_device, struct memory *))dlsym(h, "nvmlDeviceGetMemoryInfo_v2");
	nvml.is_mig = (int (*)(nvml_device, unsigned *))dlsym(h, "nvmlDeviceIsMigDeviceHandle");
	nvml.whole_of = (int (*)(nvml_device, nvml_device *))dlsym(h, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
	nvml.compute = (list_function *)dlsym(h, "nvmlDeviceGetComputeRunningProcesses_v3");
	if (!nvml.compute)
		nvml.compute = (list_function *)dlsym(h, "nvmlDeviceGetComputeRunningProcesses_v2");
	nvml.graphics = (list_function *)dlsym(h, "nvmlDeviceGetGraphicsRunningProcesses_v3");
	nvml.ready = nvml.init && nvml.shut_down && nvml.by_uuid && nvml.by_pci && nvml.index;
}

void ip_nvml_prepare(bool has_context)
{
	void *h = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);

	memset(&nvml, 0, sizeof(nvml));
	if (h)
		load(h);
	dlerror(); /* what we did not find is not the program's error */
	if (has_context || is_in_initial_namespace() || !begin_session())
		return;
	remember_before();
	end_session();
}

static bool is_divided(nvml_device device)
{
	unsigned now = 0, pending;

	return nvml.mig_mode && nvml.mig_mode(device, &now, &pending) == NVML_SUCCESS && now;
}

/*
 * The handle of a device: by its place on the bus, which wakes no other board; a part of one by its UUID. Within a
 * session.
 */
static nvml_device find(char *uuid, const char *pci_bus_id)
{
	nvml_device device = NULL;

	if (*pci_bus_id && nvml.by_pci(pci_bus_id, &device) == NVML_SUCCESS && !is_divided(device))
		return device;
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

static struct ip_nvml_identity identify(unsigned ordinal, char *uuid, const char *pci_bus_id)
{
	struct ip_nvml_identity id = { .physical_index = -1 };
	nvml_device device = find(uuid, pci_bus_id), whole = device;
	struct name *name = &nvml.name[ordinal];
	unsigned mig = 0, index;

	if (!device)
		return id;
	snprintf(name->uuid, sizeof(name->uuid), "%s", uuid);
	snprintf(name->pci_bus_id, sizeof(name->pci_bus_id), "%s", pci_bus_id);
	name->known = true;
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

struct ip_nvml_identity ip_nvml_find(unsigned ordinal, char *uuid, const char *pci_bus_id)
{
	struct ip_nvml_identity id = { .physical_index = -1 };

	if (ordinal >= TFMT_NR_DEVICES || !begin_session())
		return id;
	id = identify(ordinal, uuid, pci_bus_id);
	end_session();
	return id;
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

/* Own and others' bytes by the list of processes; false where it does not tell them. Within a session. */
static bool by_process(unsigned ordinal, uint64_t *own, uint64_t *others)
{
	nvml_device device = find(nvml.name[ordinal].uuid, nvml.name[ordinal].pci_bus_id);
	bool found = false;
	unsigned nr;

	if (!device || !list(device, &nr))
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
	bool told;

	*own = *others = 0;
	if (!nvml.name[ordinal].known || !begin_session())
		return false;
	told = by_process(ordinal, own, others);
	end_session();
	if (told)
		return true;
	board = nvml.board[ordinal];
	*own = 0;
	*others = board < BOARDS_MAX ? nvml.used_before[board] : 0;
	return board < BOARDS_MAX && nvml.knows_used_before[board];
}
