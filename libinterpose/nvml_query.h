/* SPDX-License-Identifier: MIT */
/*
 * NVML: how much of a device each process holds, which physical device an ordinal is, whether it is part of one.
 *
 * libnvidia-ml.so.1 is loaded once, after the first successful cuInit and outside any allocator's lock; without it
 * nothing is known. It is initialised only for a look (which device is which, who is on it) and shut down after: NVML
 * counts who uses it, and what the program gets of it stays what it would be. A look takes as long as initialising it,
 * which is part of what samples.h measures: the more it takes, the longer until the next.
 *
 * Processes are told apart by pid. In a pid namespace NVML may give the host's pids: then the row of this process is
 * the one that was not there before it had a context, if there is exactly one. So only there NVML is asked before.
 */
#ifndef IP_NVML_QUERY_H
#define IP_NVML_QUERY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Load NVML. In a pid namespace, if this process has no context yet: remember who is on the devices that it can use, and
 * how much they hold.
 */
void ip_nvml_prepare(bool has_context);

struct ip_nvml_identity {
	bool mig;             /* a part of a GPU; `uuid` then begins with "MIG-" */
	int physical_index;   /* as nvidia-smi numbers the boards; -1 = not known */
};

/*
 * Find the device that CUDA calls `ordinal`, by its UUID ("GPU-...", rewritten if it is a part of a GPU) or its PCI
 * bus id. Once a device, before the first ip_nvml_processes().
 */
struct ip_nvml_identity ip_nvml_find(unsigned ordinal, char *uuid, const char *pci_bus_id);

/*
 * Bytes of this process and of all others on a device that was found; false where neither is known. Where NVML does not
 * list this process (a container, say), *own is 0 and *others what was in use before it had a context. One caller at
 * a time.
 */
bool ip_nvml_processes(unsigned ordinal, uint64_t *own, uint64_t *others);

#endif
