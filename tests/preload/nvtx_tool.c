/* SPDX-License-Identifier: MIT */
/* Another tool that NVTX loads: writes what it is told into the file $NVTX_TOOL_LOG, and makes handles of its own. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <nvtx3/nvToolsExt.h>

static void say(const char *format, ...)
{
	const char *path = getenv("NVTX_TOOL_LOG");
	int fd = open(path ? path : "/dev/null", O_WRONLY | O_CREAT | O_APPEND, 0644);
	va_list args;

	va_start(args, format);
	vdprintf(fd, format, args);
	va_end(args);
	close(fd);
}

static int depth;
static uint64_t last = 0x70001;

static int push(const char *message)
{
	say("push %s\n", message);
	return depth++;
}

static int pop(void)
{
	say("pop\n");
	return --depth;
}

static nvtxRangeId_t start(const char *message)
{
	say("start %s\n", message);
	return last++;
}

static void end(nvtxRangeId_t id)
{
	say("end %s\n", id >= 0x70001 && id < last ? "of ours" : "of a stranger");
}

static void mark(const char *message)
{
	say("mark %s\n", message);
}

static nvtxDomainHandle_t create(const char *name)
{
	say("domain %s\n", name);
	return (nvtxDomainHandle_t)(uintptr_t)0x1000;
}

static nvtxStringHandle_t registered(nvtxDomainHandle_t domain, const char *text)
{
	say("string %s in %p\n", text, (void *)domain);
	return (nvtxStringHandle_t)(uintptr_t)0x2000;
}

static int domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t *a)
{
	say("push in %p: %p\n", (void *)domain, (const void *)a->message.ascii);
	return 5;
}

static int domain_pop(nvtxDomainHandle_t domain)
{
	say("pop in %p\n", (void *)domain);
	return 4;
}

/* One that is of no interest to a recorder of memory. */
static void category(nvtxDomainHandle_t domain, uint32_t number, const char *name)
{
	say("category %u %s in %p\n", number, name, (void *)domain);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get);
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get)
{
	const NvtxExportTableCallbacks *callbacks = get(NVTX_ETID_CALLBACKS);
	NvtxFunctionTable core = NULL, core2 = NULL;
	unsigned size = 0, size2 = 0;

	callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size);
	callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &core2, &size2);
	say("attached %u %u\n", size, size2);
	*core[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
	*core[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
	*core[NVTX_CBID_CORE_RangeStartA] = (NvtxFunctionPointer)start;
	*core[NVTX_CBID_CORE_RangeEnd] = (NvtxFunctionPointer)end;
	*core[NVTX_CBID_CORE_MarkA] = (NvtxFunctionPointer)mark;
	*core2[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
	*core2[NVTX_CBID_CORE2_DomainRegisterStringA] = (NvtxFunctionPointer)registered;
	*core2[NVTX_CBID_CORE2_DomainRangePushEx] = (NvtxFunctionPointer)domain_push;
	*core2[NVTX_CBID_CORE2_DomainRangePop] = (NvtxFunctionPointer)domain_pop;
	*core2[NVTX_CBID_CORE2_DomainNameCategoryA] = (NvtxFunctionPointer)category;
	return 1;
}
