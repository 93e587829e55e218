/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's own reports: the tensor ledger.
 *
 * libc10 exports the functions by which its caching allocator tells the profiler of every block it hands out
 * and takes back, called under the device's mutex: their order is total. at::detail::empty_generic and
 * empty_strided_generic, called just before on the same thread, know shape and type; so does at::native::resize_output,
 * of tensors that are made empty. All are C++ functions of stable names and C-compatible arguments; exceptions pass
 * through the latter three (-fexceptions).
 */
#include "hooks_torch.h"

#include "arch.h"
#include "autograd.h"
#include "census.h"
#include "env.h"
#include "opencall.h"
#include "resolve.h"
#include "samples.h"
#include "shapes.h"
#include "unwind_rules.h"
#include "tracker.h"

struct torch_device {
	int8_t type, index;
};
#define TORCH_CUDA 1
#define TORCH_HIP 6

IP_COLD void *torch_function_resolve(struct real_function *f, const void *wrapper)
{
	int saved = errno;
	void *real = ip_real_torch(f->library, f->symbol, wrapper);

	atomic_store_explicit(&f->address, real, memory_order_relaxed);
	atomic_store_explicit(&f->asked, true, memory_order_release);
	errno = saved;
	return real;
}

/* ---- the current stream ------------------------------------------------------------------------- */

/*
 * PyTorch keeps each thread's current streams to itself, and sets them by one function that its libraries reach through
 * their PLT: what was set last is known here without asking. It is asked for at a thread's first allocation on a
 * device, and now and then after that: a program in which they differ sets them in another way, and is always asked.
 */
#define ASK_EVERY 256u

/* A c10::cuda::CUDAStream, in two registers. */
struct torch_stream {
	struct torch_device device;
	int64_t id;
};

static _Atomic bool streams_untold;

static uint16_t stream_number(int64_t id)
{
	return id >= 0 && id < TFMT_STREAM_OTHER ? (uint16_t)id : TFMT_STREAM_OTHER;
}

/* c10::cuda::getCurrentCUDAStream(int8_t): asks no driver. */
static IP_COLD uint16_t ask_stream(unsigned device)
{
	static struct real_function get = { "libc10_cuda.so", "_ZN3c104cuda20getCurrentCUDAStreamEa", NULL, false };
	struct torch_stream (*call)(int8_t) = (struct torch_stream(*)(int8_t))torch_function(&get, NULL);
	uint16_t id = stream_number(call ? call((int8_t)device).id : 0);
	struct ip_streams *s = &ip_tls.streams;

	if (s->known >> device & 1 && s->id[device] != id)
		atomic_store_explicit(&streams_untold, true, memory_order_relaxed);
	s->known |= 1ull << device;
	s->id[device] = id;
	return id;
}

static uint16_t current_stream(unsigned device)
{
	struct ip_streams *s = &ip_tls.streams;

	if (s->nr_asked++ % ASK_EVERY && s->known >> device & 1 &&
	    !atomic_load_explicit(&streams_untold, memory_order_relaxed))
		return s->id[device];
	return ask_stream(device);
}

/* void c10::cuda::setCurrentCUDAStream(CUDAStream) */
#define SET_STREAM(name)                                                                                    \
	IP_EXPORT void name(struct torch_stream stream);                                                    \
	IP_EXPORT void name(struct torch_stream stream)                                                     \
	{                                                                                                   \
		static struct real_function f = { "libc10_cuda.so", #name, NULL, false };                   \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name);         \
		unsigned device = (unsigned)stream.device.index;                                            \
                                                                                                            \
		if (real)                                                                                   \
			real(stream);                                                                       \
		if (device < TFMT_NR_DEVICES)                                                               \
			ip_tls.streams.id[device] = stream_number(stream.id);                               \
	}
SET_STREAM(_ZN3c104cuda20setCurrentCUDAStreamENS0_10CUDAStreamE)

/* ---- shape and type of the tensor about to be allocated ---------------------------------------- */

/* AOTITorchError aoti_torch_get_dtype(AtenTensorHandle, int32_t *), of PyTorch's stable C interface; -1 = not known. */
static int type_of(const void *tensor)
{
	static struct real_function get = { "libtorch_cpu.so", "aoti_torch_get_dtype", NULL, false };
	int32_t (*call)(const void *, int32_t *) = (int32_t(*)(const void *, int32_t *))torch_function(&get, NULL);
	int32_t type = -1;

	return call && !call(tensor, &type) ? type : -1;
}

/* A call of memcpy() would cost more than most shapes, of a few numbers. */
static inline void copy_numbers(int64_t *to, const int64_t *from, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		__asm__("" : : : "memory"); /* else the compiler makes it one */
		to[i] = from[i];
	}
}

/*
 * Note a tensor's shape for the allocator's report within the call, which interns it: most calls are for tensors on the
 * host, which need no shape. The numbers are copied; with more dimensions than are recorded it counts as not known.
 * `tensor` NULL: the element type is `type`, else the tensor's.
 */
static inline void pending_begin(struct open_mark *m, const struct unwind_registers *at, const int64_t *sizes,
			  const int64_t *strides, size_t nr_dims, int type, const void *tensor)
{
	struct open_calls *o = open_calls();
	struct open_tensor *p;

	if (!o)
		return;
	p = open_tensor_push(o, m, at);
	p->element_type = tensor ? type_of(tensor) : type;
	p->strided = strides != NULL;
	p->nr_dims = nr_dims <= SHAPE_DIMS_MAX ? (uint32_t)nr_dims : SHAPE_DIMS_MAX + 1;
	if (nr_dims > SHAPE_DIMS_MAX)
		return;
	copy_numbers(p->sizes, sizes, nr_dims);
	if (strides)
		copy_numbers(p->strides, strides, nr_dims);
}

static uint32_t pending_shape(struct ip_thread *t)
{
	const struct open_tensor *p = open_tensor_find(t, t->caller);

	if (p && !t->shapes)
		t->shapes = shape_cache_new();
	if (!p || !t->shapes)
		return 0;
	return shape_intern(t->shapes, p->element_type, p->sizes, p->nr_dims, p->strided ? p->strides : NULL);
}

/* ---- reports of the allocator ------------------------------------------------------------------ */

/* One report of the allocator, whose mutex is held: order and totals are those of the ledger. */
static void tensor_event(const struct unwind_registers *caller, uint8_t kind, struct torch_device device,
			 uint64_t address, uint64_t bytes, uint64_t reserved)
{
	struct ip_thread *t = NULL;

	if (device.type != TORCH_CUDA && device.type != TORCH_HIP)
		return;
	if (ip_state() == IP_RECORDING && device.index >= 0 && device.index < TFMT_NR_DEVICES)
		t = ip_thread_get();
	if (!t) {
		ip_lost();
	} else {
		struct tfmt_record ev = {
			.kind = kind,
			.device = (uint8_t)device.index,
			.address = address,
			.size = bytes,
			.aux = reserved,
		};
		int saved = *t->errno_at;

		t->busy = true;
		t->caller = caller;
		autograd_before_event(t);
		if (kind != TFMT_TENSOR_FREE) {
			ev.shape = pending_shape(t);
			ev.stream = current_stream((unsigned)device.index);
			/* The default stream cannot be captured. */
			if (ev.stream && ip_captures_open())
				ev.flags |= TFMT_FLAG_CAPTURING;
		}
		ip_record(t, &ev);
		t->caller = NULL;
		t->busy = false;
		*t->errno_at = saved;
	}
}

static inline bool is_device(struct torch_device device)
{
	return (device.type == TORCH_CUDA || device.type == TORCH_HIP) && device.index >= 0 &&
	       device.index < TFMT_NR_DEVICES;
}

static void memory_report(const struct unwind_registers *caller, void *address, int64_t bytes, uint64_t allocated,
			  uint64_t reserved, struct torch_device device)
{
	census_before_event();
	if (bytes >= 0) {
		tensor_event(caller, TFMT_TENSOR_ALLOC, device, (uintptr_t)address, (uint64_t)bytes, reserved);
		if (is_device(device))
			census_note_allocated((unsigned)device.index, allocated);
	} else {
		tensor_event(caller, TFMT_TENSOR_FREE, device, (uintptr_t)address, (uint64_t)-bytes, reserved);
	}
}

/* c10::reportMemoryUsageToProfiler: torch 2.0 and later (mm), 1.10 to 1.13 (ll). */
#define MEMORY_REPORT(name, unsigned_t)                                                                     \
	IP_EXPORT void name(void *address, int64_t bytes, unsigned_t allocated, unsigned_t reserved,        \
			    struct torch_device device);                                                    \
	IP_EXPORT void name(void *address, int64_t bytes, unsigned_t allocated, unsigned_t reserved,        \
			    struct torch_device device)                                                     \
	{                                                                                                   \
		static struct real_function f = { "libc10.so", #name, NULL, false };                               \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name);                \
		struct unwind_registers caller = UNWIND_CALLER();                                           \
                                                                                                            \
		memory_report(&caller, address, bytes, (uint64_t)allocated, (uint64_t)reserved, device);    \
		if (real)                                                                                   \
			real(address, bytes, allocated, reserved, device);                                  \
	}
MEMORY_REPORT(_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE, size_t)
MEMORY_REPORT(_ZN3c1027reportMemoryUsageToProfilerEPvlllNS_6DeviceE, int64_t)

/*
 * torch 1.6 to 1.9 (no totals): the pointer is the allocator's own bookkeeping, not an address on the device, and
 * nothing is said of reserved memory. Passed on, and the trace says that such tensors are not recorded.
 */
#define OLD_REPORT _ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE
#define OLD_REPORT_NAME "_ZN3c1027reportMemoryUsageToProfilerEPvlNS_6DeviceE"
IP_EXPORT void OLD_REPORT(void *block, int64_t bytes, struct torch_device device);
IP_EXPORT void OLD_REPORT(void *block, int64_t bytes, struct torch_device device)
{
	static struct real_function f = { "libc10.so", OLD_REPORT_NAME, NULL, false };
	__typeof__(&OLD_REPORT) real = (__typeof__(&OLD_REPORT))torch_function(&f, (const void *)OLD_REPORT);

	atomic_store_explicit(&ip_recorder->torch_too_old, true, memory_order_relaxed);
	if (real)
		real(block, bytes, device);
}

/* c10::reportOutOfMemoryToProfiler: 2.0 and later (lmm), one 2.x commit (mmm), 1.13 (lll). */
#define OOM_REPORT(name, request_t, unsigned_t)                                                             \
	IP_EXPORT void name(request_t bytes, unsigned_t allocated, unsigned_t reserved,                     \
			    struct torch_device device);                                                    \
	IP_EXPORT void name(request_t bytes, unsigned_t allocated, unsigned_t reserved,                     \
			    struct torch_device device)                                                     \
	{                                                                                                   \
		static struct real_function f = { "libc10.so", #name, NULL, false };                               \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name);                \
		struct unwind_registers caller = UNWIND_CALLER();                                           \
                                                                                                            \
		tensor_event(&caller, TFMT_TENSOR_OOM, device, (uint64_t)allocated, (uint64_t)bytes,        \
			     (uint64_t)reserved);                                                           \
		if (is_device(device))                                                                      \
			census_out_of_memory((unsigned)device.index, (uint64_t)allocated);                  \
		if (real)                                                                                   \
			real(bytes, allocated, reserved, device);                                           \
	}
OOM_REPORT(_ZN3c1027reportOutOfMemoryToProfilerElmmNS_6DeviceE, int64_t, size_t)
OOM_REPORT(_ZN3c1027reportOutOfMemoryToProfilerEmmmNS_6DeviceE, size_t, size_t)
OOM_REPORT(_ZN3c1027reportOutOfMemoryToProfilerElllNS_6DeviceE, int64_t, int64_t)

/* ---- tensors about to be allocated -------------------------------------------------------------- */

/* TensorBase at::detail::empty_generic(IntArrayRef, Allocator *, DispatchKeySet, ScalarType, optional<MemoryFormat>) */
#define EMPTY_GENERIC(name)                                                                                 \
	ARCH_OBJECT_ENTRY(name)                                                                             \
	ARCH_OBJECT_BODY void *ARCH_OBJECT_NAME(name)(void *place, const int64_t *sizes, size_t nr_dims,    \
						      void *allocator, uint64_t keys, int8_t element_type,  \
						      uint16_t format);                                     \
	ARCH_OBJECT_BODY void *ARCH_OBJECT_NAME(name)(void *place, const int64_t *sizes, size_t nr_dims,    \
						      void *allocator, uint64_t keys, int8_t element_type,  \
						      uint16_t format)                                      \
	{                                                                                                   \
		static struct real_function f = { "libtorch_cpu.so", #name, NULL, false };                         \
		__typeof__(&ARCH_OBJECT_NAME(name)) real =                                                  \
			(__typeof__(real))torch_function(&f, (const void *)name);                           \
		struct unwind_registers at = UNWIND_CALLER();                                               \
		__attribute__((cleanup(open_tensor_pop))) struct open_mark m = { 0, 0 };                    \
                                                                                                            \
		if (ip_env.tracker)                                                                         \
			ip_tracker_try(allocator);                                                          \
		pending_begin(&m, &at, sizes, NULL, nr_dims, element_type, NULL);                           \
		return ARCH_OBJECT_CALL6(real, place, sizes, nr_dims, allocator, keys, element_type,        \
					 format);                                                           \
	}
EMPTY_GENERIC(_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeESt8optionalINS1_12MemoryFormatEE)
EMPTY_GENERIC(_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeENS1_8optionalINS1_12MemoryFormatEEE)

/* TensorBase at::detail::empty_strided_generic(IntArrayRef, IntArrayRef, Allocator *, DispatchKeySet, ScalarType) */
#define EMPTY_STRIDED_GENERIC(name)                                                                         \
	ARCH_OBJECT_ENTRY(name)                                                                             \
	ARCH_OBJECT_BODY void *ARCH_OBJECT_NAME(name)(void *place, const int64_t *sizes, size_t nr_dims,    \
						      const int64_t *strides, size_t nr_strides,            \
						      void *allocator, uint64_t keys, int8_t element_type); \
	ARCH_OBJECT_BODY void *ARCH_OBJECT_NAME(name)(void *place, const int64_t *sizes, size_t nr_dims,    \
						      const int64_t *strides, size_t nr_strides,            \
						      void *allocator, uint64_t keys, int8_t element_type)  \
	{                                                                                                   \
		static struct real_function f = { "libtorch_cpu.so", #name, NULL, false };                         \
		__typeof__(&ARCH_OBJECT_NAME(name)) real =                                                  \
			(__typeof__(real))torch_function(&f, (const void *)name);                           \
		struct unwind_registers at = UNWIND_CALLER();                                               \
		__attribute__((cleanup(open_tensor_pop))) struct open_mark m = { 0, 0 };                    \
                                                                                                            \
		if (ip_env.tracker)                                                                         \
			ip_tracker_try(allocator);                                                          \
		pending_begin(&m, &at, sizes, strides, nr_dims == nr_strides ? nr_dims : SIZE_MAX,          \
			      element_type, NULL);                                                          \
		return ARCH_OBJECT_CALL7(real, place, sizes, nr_dims, strides, nr_strides, allocator, keys, \
					 element_type);                                                     \
	}
EMPTY_STRIDED_GENERIC(_ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeE)

/*
 * bool at::native::resize_output(const Tensor &, IntArrayRef): a tensor that was made empty gets its size, as the
 * outputs of embedding and index_select do.
 */
#define RESIZE_OUTPUT(name)                                                                                 \
	IP_EXPORT bool name(const void *tensor, const int64_t *sizes, size_t nr_dims);                      \
	IP_EXPORT bool name(const void *tensor, const int64_t *sizes, size_t nr_dims)                       \
	{                                                                                                   \
		static struct real_function f = { "libtorch_cpu.so", #name, NULL, false };                  \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name);         \
		struct unwind_registers at = UNWIND_CALLER();                                               \
		__attribute__((cleanup(open_tensor_pop))) struct open_mark m = { 0, 0 };                    \
                                                                                                            \
		pending_begin(&m, &at, sizes, NULL, nr_dims, -1, tensor);                                   \
		return real ? real(tensor, sizes, nr_dims) : false;                                         \
	}
RESIZE_OUTPUT(_ZN2at6native13resize_outputERKNS_6TensorEN3c108ArrayRefIlEE)
