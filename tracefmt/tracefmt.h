/* SPDX-License-Identifier: MIT */
/*
 * tracefmt: the trace of one process on disk, its writer and its reader.
 *
 * This is the only header that the recorder (libinterpose) and the analyzer share. It knows nothing
 * of CUDA or Python: addresses, functions, code objects and line tables are numbers and bytes here.
 * FORMAT.md specifies every byte; this header is the C view of it.
 *
 * Vocabulary:
 *   recording   a directory NAME.vtr/, one trace per process
 *   trace       HOST.PID.START.vtr: a header, then frames; only ever appended to
 *   frame       at most 64 KiB of events or definitions, compressed, checksummed, readable alone
 *   ring file   HOST.PID.START.ring: shared memory in which hooks leave events and definitions; what the
 *               drain has not yet moved into a frame is still there after a crash, and the reader joins it
 *   event       one allocation, free, failure or sample; numbered from 0 (its ordinal) in file order
 *   definition  a stack node, code object, module, shape, ... that events refer to by id
 *   order       the sequence number of a record in its domain (one domain per device for tensor events,
 *               one for all driver events); a domain has no gaps unless an event was lost
 *
 * Other programs use it as libtracefmt (pkg-config tracefmt): examples/tracefmt/ reads a trace and writes one.
 *
 * Threading: a writer, a merge and a reader belong to one thread each. Ring producers follow the
 * protocol stated at struct tfmt_ring. Nothing here prints. The writer and the merge allocate with
 * mmap only and take no lock, so that they can run inside a traced process; the reader uses malloc.
 * All integers on disk are little endian.
 */
#ifndef TFMT_TRACEFMT_H
#define TFMT_TRACEFMT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef TFMT_EXPORTS /* while the library itself is compiled: what stands here is what it exports */
#pragma GCC visibility push(default)
#endif

#define TFMT_VERSION 1
#define TFMT_FRAME_RAW_MAX (64u << 10) /* bytes of a frame before compression */
#define TFMT_NR_DEVICES 64             /* device ordinals 0..63; higher ones are counted as lost */
#define TFMT_NO_ORDINAL UINT64_MAX
#define TFMT_SOURCE_MAX (8u << 20)     /* bytes of a source file that is looked at */

/* What a reader takes at most (FORMAT.md, section 10); recorders stay far below. */
#define TFMT_STACK_DEPTH_MAX 4096u     /* frames of a stack */
#define TFMT_INFO_VALUE_MAX (64u << 10) /* bytes of one INFO value */
#define TFMT_INFO_MAX (16u << 10)      /* keys of INFO, and notes */
/* Bytes of definitions, each with 64 more, in so many bytes of a trace. */
#define TFMT_DEFINITION_COST 64u
#define TFMT_DEFINITIONS_MAX(trace_bytes) (64 * (uint64_t)(trace_bytes) + (64u << 20))

/* ---- errors ---------------------------------------------------------------------------------- */

enum tfmt_err {
	TFMT_OK = 0,
	TFMT_E_IO = -1,        /* a system call failed; errno or tfmt_writer_errno() has the reason */
	TFMT_E_EMPTY = -2,     /* the file has no bytes */
	TFMT_E_NOT_TRACE = -3, /* does not begin as a trace does */
	TFMT_E_VERSION = -4,   /* a format version this reader does not know */
	TFMT_E_CUT = -5,       /* the file ends inside a header or frame */
	TFMT_E_DAMAGED = -6,   /* a checksum or a length does not hold */
	TFMT_E_NOMEM = -7,
	TFMT_E_INVALID = -8,   /* the caller's argument cannot be right */
	TFMT_E_GIVEN_UP = -9,  /* events are missing here, as a repaired copy says itself: no damage */
	TFMT_E_FEATURE = -10,  /* the header says that a reader must understand what this one does not */
};

/* One lower-case sentence for an enum tfmt_err; never NULL. */
const char *tfmt_strerror(int err);

/* ---- events ---------------------------------------------------------------------------------- */

enum tfmt_kind {
	TFMT_NONE = 0,
	TFMT_TENSOR_ALLOC = 1,  /* a framework's allocator handed out a block; aux = reserved bytes */
	TFMT_TENSOR_FREE = 2,   /* a framework's allocator took a block back; aux = reserved bytes */
	TFMT_TENSOR_OOM = 3,    /* the allocator gave up; size = bytes asked, address = allocated, aux = reserved */
	TFMT_DRIVER_ALLOC = 4,  /* memory taken from the driver; flags hold its space; aux = its context (RESET) */
	TFMT_DRIVER_FREE = 5,   /* given back (recorded before the real call) */
	TFMT_FREE_FAILED = 6,   /* this thread's latest DRIVER_FREE or UNMAP failed after all: undo it; aux =
	                           error code; the reader sets alloc_ordinal to the ordinal of that event */
	TFMT_ALLOC_FAILED = 7,  /* the driver refused; size = bytes asked (0: not told), aux = error code */
	TFMT_HANDLE_RETAIN = 8, /* virtual memory: one more reference to the handle `address` */
	TFMT_MAP = 9,           /* virtual memory: [address, address+size) shows handle aux: a reference */
	TFMT_UNMAP = 10,        /* virtual memory: [address, address+size) shows nothing any more */
	TFMT_MEMORY_INFO = 11,  /* a sample of what the driver says: size = free bytes, aux = total bytes (0: not
	                           known) */
	TFMT_LOST = 12,         /* size = number of events that this thread dropped since its last one; device 255 */
	TFMT_RESET = 13,        /* a context of the device is gone with all that was allocated in it; aux = its number,
	                           0 = the primary context, whose end takes the pools' memory along */
	TFMT_VALUE_READ = 14,   /* the host read what a kernel of a simulated device would have computed: size
	                           bytes at the device's address */
	TFMT_OBJECT_NEW = 15,   /* what holds memory without being an allocation came to be; flags: enum tfmt_object;
	                           address = its handle, size = bytes known of it (0 = not known) */
	TFMT_OBJECT_GONE = 16,  /* what OBJECT_NEW told of ended */
	TFMT_OBJECT_SET = 17,   /* a limit, attribute or trim of it: aux = which (the driver's number), size = value */
	TFMT_GRAPH_LAUNCH = 18, /* of one with allocation nodes: address = executable graph; aux = 1 if only uploaded */
	TFMT_POOL_INFO = 19,    /* a sample of a memory pool: address = pool (0 = the device's graph memory), size =
	                           bytes reserved, aux = bytes used */
	TFMT_PROCESS_INFO = 20, /* a sample by process: size = bytes of this process, aux = bytes of all others */
	TFMT_RANGE_PUSH = 21,   /* this thread entered a range: address = TFMT_DEF_STRING id of its name, size =
	                           that of its domain (0 = default), aux = category */
	TFMT_RANGE_POP = 22,    /* this thread left its innermost range; size = domain */
	TFMT_RANGE_START = 23,  /* a range that may end on another thread: as RANGE_PUSH, aux = its id */
	TFMT_RANGE_END = 24,    /* aux = its id */
	TFMT_MARK = 25,         /* a moment with a name: as RANGE_PUSH */
	TFMT_PHASE_BEGIN = 26,  /* address = enum tfmt_phase, aux = how deep it is nested (0 = outermost), size = 1: a
	                           backward that makes a graph itself */
	TFMT_PHASE_END = 27,
	TFMT_ALLOCATOR = 28,    /* the framework's allocator tells of itself: aux = enum tfmt_allocator_action, and
	                           TFMT_ALLOCATOR_IN_TENSOR; no stacks */
	TFMT_UNHOOKED = 29,     /* a memory call that profiling saw and no hook did; aux = enum tfmt_unhooked */
	TFMT_SETTINGS = 30,     /* the program gave the framework's allocator other settings: address = TFMT_DEF_STRING id */
	TFMT_COPY = 31,         /* so many bytes were copied to this address; aux = where from on a device, 0: from the host;
	                           no stacks */
	TFMT_NR_KINDS
};

/*
 * A record of a ring that is no event: what follows in the ring is of thread `address`, what came before of thread
 * `size`. A reader takes neither place nor order from it.
 */
#define TFMT_RECORD_THREAD 0xff

/* What TFMT_OBJECT_* speak of: flags & TFMT_SPACE_MASK. */
enum tfmt_object {
	TFMT_OBJECT_CONTEXT = 0,
	TFMT_OBJECT_GREEN_CONTEXT = 1,
	TFMT_OBJECT_MODULE = 2,   /* size = bytes of its device code */
	TFMT_OBJECT_LIBRARY = 3,
	TFMT_OBJECT_POOL = 4,
	TFMT_OBJECT_GRAPH = 5,    /* an executable graph */
	TFMT_OBJECT_EXTERNAL = 6, /* memory of another interface, imported */
	TFMT_OBJECT_MULTICAST = 7,
	TFMT_OBJECT_EXPORT = 8,   /* memory `address` has been given to other processes */
	TFMT_OBJECT_COMMUNICATOR = 9, /* size = number of ranks, aux = the own one */
};

enum tfmt_phase {
	TFMT_PHASE_BACKWARD = 1,
	TFMT_PHASE_OPTIMIZER = 2,
	TFMT_PHASE_ZERO_GRAD = 3,
	TFMT_PHASE_FORWARD = 4,
};

/* What a TFMT_UNHOOKED call did: its aux. */
enum tfmt_unhooked {
	TFMT_UNHOOKED_ALLOC = 0,
	TFMT_UNHOOKED_FREE = 1,
	TFMT_UNHOOKED_OTHER = 2, /* mapped, retained, trimmed, ... */
};

/* PyTorch's TraceEntry::Action. */
enum tfmt_allocator_action {
	TFMT_ALLOCATOR_ALLOC = 0,
	TFMT_ALLOCATOR_FREE_REQUESTED = 1,
	TFMT_ALLOCATOR_FREE_COMPLETED = 2,
	TFMT_ALLOCATOR_SEGMENT_ALLOC = 3,
	TFMT_ALLOCATOR_SEGMENT_FREE = 4,
	TFMT_ALLOCATOR_SEGMENT_MAP = 5,
	TFMT_ALLOCATOR_SEGMENT_UNMAP = 6,
	TFMT_ALLOCATOR_SNAPSHOT = 7,
	TFMT_ALLOCATOR_OOM = 8,
};
#define TFMT_ALLOCATOR_IN_TENSOR 0x100 /* while a tensor was being made: not because somebody emptied the cache */

/* Where driver memory lies: flags & TFMT_SPACE_MASK. */
enum tfmt_space {
	TFMT_SPACE_DEVICE = 0,     /* linear device memory */
	TFMT_SPACE_PINNED = 1,     /* page-locked host memory allocated by the driver */
	TFMT_SPACE_MANAGED = 2,
	TFMT_SPACE_REGISTERED = 3, /* host memory of the program's own, page-locked */
	TFMT_SPACE_HANDLE = 4,     /* a physical handle of virtual memory; address = the handle */
	TFMT_SPACE_POOL = 5,       /* stream-ordered allocation from a memory pool */
	TFMT_SPACE_ARRAY = 6,
	TFMT_SPACE_IPC = 7,        /* memory of another process, imported: never counted as device memory */
	TFMT_SPACE_RESERVED = 8,   /* an address range without memory */
	TFMT_SPACE_GRAPH = 9,      /* of a graph's allocation node: memory only while the graph has it, never counted */
	TFMT_SPACE_MULTICAST = 10, /* a multicast object's handle: shows memory of others, never counted */
	TFMT_SPACE_POOL_HOST = 11, /* from a memory pool on the host: page-locked, freed as device memory is */
	TFMT_SPACE_HANDLE_HOST = 12,     /* a physical handle on the host: page-locked */
	TFMT_SPACE_HANDLE_IMPORTED = 13, /* a physical handle of another process, never counted */
};
#define TFMT_SPACE_MASK 0x000f
#define TFMT_FLAG_TEARDOWN 0x0010  /* the interpreter is finalising: kept, but counts in no figure */
#define TFMT_FLAG_CAPTURING 0x0020 /* recorded while the stream was being captured into a graph */
#define TFMT_FLAG_MODELLED 0x0040  /* a simulated library's figure, not a call; function names its owner */
#define TFMT_FLAG_BACKWARD 0x0080  /* a tensor event inside an autograd node */
#define TFMT_FLAG_FORWARD 0x0200   /* a tensor allocation of a call that has made an autograd node */
/* Only of events from before the recording's beginning (struct tfmt_event.before): */
#define TFMT_FLAG_IN_BACKWARD 0x0400 /* its thread was inside a backward pass */
#define TFMT_FLAG_BEGUN 0x0800       /* an event of forward or backward came before it */
#define TFMT_FLAG_ESTIMATED 0x0100 /* the size is computed: the driver does not tell what an array takes */
#define TFMT_TILE_ADDRESS (1ull << 62) /* set in the address of a mapping that is no range of addresses (tiles of a
					   sparse array, what a multicast object shows) */
#define TFMT_MODELLED_ADDRESS (1ull << 63) /* set in the address of modelled memory, and of no other */

/* Reserved stack ids; ids from TFMT_STACK_FIRST on are defined by TFMT_DEF_FRAME. */
#define TFMT_STACK_NOT_CAPTURED 0
#define TFMT_STACK_NO_PYTHON 1 /* the thread runs no Python */
#define TFMT_STACK_FIRST 2

#define TFMT_STREAM_OTHER 0xffff /* a stream id that does not fit 16 bits */
#define TFMT_DEVICE_NONE 0xff

struct tfmt_event {
	uint64_t time_ns; /* CLOCK_MONOTONIC; writing rounds down to 1 << header.time_shift */
	uint64_t address;
	uint64_t size;
	uint64_t aux;
	uint64_t order;        /* in memory only: sequence number in its domain */
	uint32_t python_stack; /* stack id, leaf node; or one of the reserved ids */
	uint32_t native_stack;
	uint32_t shape;  /* TFMT_DEF_SHAPE id, 0 = unknown */
	uint32_t thread; /* TFMT_DEF_THREAD id */
	uint16_t stream;
	uint16_t function; /* TFMT_DEF_FUNCTION id of the outermost entry point; 0 = none */
	uint16_t flags;
	uint8_t kind;
	uint8_t device;
	/* filled in by the reader only */
	uint64_t ordinal;
	/*
	 * A free: the event it undoes, TFMT_NO_ORDINAL if that was not recorded. If it was, the reader has
	 * set address, size and shape from it, for tensor frees stream, and for driver frees device and
	 * space. TFMT_NO_ORDINAL in all other events.
	 */
	uint64_t alloc_ordinal;
	/*
	 * True of an event that is still in effect and whose frame a flight recorder has dropped (FORMAT.md,
	 * section 6): it made a block that is live when the recording begins, say. Such events come before all others,
	 * by ordinal. They are none of the recording's own: struct tfmt_figures has counted them.
	 */
	bool before;
	/* With tfmt_reader_plain_stacks(): the stack as it is in the trace, 0 where that is python_stack. */
	uint32_t called_stack;
};

/*
 * What a flight recorder counted of the whole job, up to where the recording that it kept begins. Rows are
 * devices; the last is of the process, and of events without a device. Times are in ns, CLOCK_MONOTONIC. Events of
 * teardown count in none, and memory that the driver is modelled to take for itself in no driver figure.
 */
enum tfmt_figure {
	TFMT_FIGURE_EVENTS = 0, /* that name the device, LOST excepted */
	TFMT_FIGURE_TENSOR_ALLOCS = 1,
	TFMT_FIGURE_TENSOR_FREES = 2,
	TFMT_FIGURE_TENSOR_OOMS = 3,
	TFMT_FIGURE_TENSOR_PEAK = 4, /* bytes; the next three at the first event that reached it */
	TFMT_FIGURE_TENSOR_PEAK_TIME = 5,
	TFMT_FIGURE_TENSOR_PEAK_RESERVED = 6,
	TFMT_FIGURE_TENSOR_PEAK_DRIVER = 7,
	TFMT_FIGURE_REQUESTED_PEAK = 8, /* bytes of the tensors' shapes */
	TFMT_FIGURE_UNSHAPED = 9,       /* tensor allocations whose shape is not known */
	TFMT_FIGURE_RESERVED_PEAK = 10, /* as the framework's allocator reported */
	TFMT_FIGURE_RESERVED_PEAK_ALLOCATED = 11,
	TFMT_FIGURE_DRIVER_ALLOCS = 12, /* of device memory */
	TFMT_FIGURE_DRIVER_FREES = 13,
	TFMT_FIGURE_DRIVER_REFUSALS = 14,
	TFMT_FIGURE_DRIVER_REFUSED = 15, /* bytes of the latest one */
	TFMT_FIGURE_DRIVER_PEAK = 16,    /* bytes; graphs' memory included */
	TFMT_FIGURE_DRIVER_PEAK_TIME = 17,
	TFMT_FIGURE_DRIVER_PEAK_ALLOCATED = 18,
	TFMT_FIGURE_DRIVER_PEAK_RESERVED = 19,
	TFMT_FIGURE_DRIVER_PEAK_TENSORS = 20, /* allocated after the tensor allocation that followed it */
	TFMT_FIGURE_DRIVER_PEAK_TORCH = 34,   /* reserved after that tensor allocation */
	TFMT_FIGURE_DRIVER_PEAK_CONTEXT = 35, /* modelled contexts, in bytes */
	TFMT_FIGURE_DRIVER_PEAK_CODE = 36,    /* modelled code, in bytes */
	TFMT_FIGURE_OOM_ASKED = 21,           /* of the latest failure, as the next four */
	TFMT_FIGURE_OOM_TIME = 22,
	TFMT_FIGURE_OOM_ALLOCATED = 23,
	TFMT_FIGURE_OOM_RESERVED = 24,
	TFMT_FIGURE_OOM_DRIVER = 25,
	TFMT_FIGURE_SAMPLES = 26,     /* MEMORY_INFO */
	TFMT_FIGURE_BEYOND_PEAK = 27, /* the most in use beyond what the process took */
	/* of the process: */
	TFMT_FIGURE_TIME = 28,        /* the latest event before the recording begins */
	TFMT_FIGURE_PINNED_PEAK = 29,
	TFMT_FIGURE_MANAGED_PEAK = 30,
	TFMT_FIGURE_UNMATCHED_FREES = 31,
	TFMT_FIGURE_PASSES = 32, /* outermost backward passes */
	TFMT_FIGURE_BEGUN = 33,  /* 1: an event of forward or backward was seen */
	TFMT_FIGURE_CHECKPOINT_EVENTS = 37, /* of the checkpoint, plus 1 */
	TFMT_NR_FIGURES
};
#define TFMT_FIGURES_PROCESS TFMT_NR_DEVICES

struct tfmt_figures {
	uint64_t of[TFMT_NR_DEVICES + 1][TFMT_NR_FIGURES];
};

/* What had been counted on a device when an outermost backward pass began. */
struct tfmt_pass {
	uint64_t number;        /* of the pass, from 1 */
	uint64_t time_ns;       /* the latest of an event until then */
	uint64_t allocated;     /* bytes of tensors at that moment */
	uint64_t peak;          /* the most of them since the pass before in the list, or since the beginning */
	uint64_t allocs, frees; /* of tensors, since the beginning */
};

/* Bytes live at one point of the stream, as frame headers carry them. Modelled events count. */
struct tfmt_totals {
	uint64_t allocated[TFMT_NR_DEVICES]; /* tensor ledger */
	uint64_t reserved[TFMT_NR_DEVICES];  /* as last reported with a tensor event */
	uint64_t driver[TFMT_NR_DEVICES];    /* DEVICE, POOL, ARRAY; HANDLE once until its last reference */
	uint64_t managed[TFMT_NR_DEVICES];
	uint64_t graph[TFMT_NR_DEVICES]; /* reserved for graphs' allocations, as last sampled; apart from driver */
	uint64_t pinned; /* page-locked host memory: PINNED, REGISTERED, POOL_HOST, HANDLE_HOST */
};

/* ---- definitions ----------------------------------------------------------------------------- */

/*
 * A definition is (type, id, payload). It precedes every event that uses it; a second definition of the
 * same (type, id) replaces the first. Payloads are built from varints (LEB128), strings (varint length +
 * bytes, UTF-8 but not checked) and raw bytes to the payload's end. tfmt_put_*() write them.
 */
enum tfmt_def_type {
	TFMT_DEF_FRAME = 1,    /* stack node: parent id (below its own), enum tfmt_frame_kind, a, b zigzag, and of a frame of
	                          Python that calls an nn.Module its TFMT_DEF_INSTANCE id */
	TFMT_DEF_CODE = 2,     /* code object: table kind, first line, string name, string file, the table */
	TFMT_DEF_MODULE = 3,   /* mapped file: start, end, file offset, string path, string build id in hex */
	TFMT_DEF_SHAPE = 4,    /* element type, storage bytes, number of dimensions, that many sizes */
	TFMT_DEF_THREAD = 5,   /* thread: system thread id, string name */
	TFMT_DEF_DEVICE = 6,   /* id = ordinal: capacity bytes, string name, string uuid, string PCI bus id,
	                          mig 0|1, physical index + 1 (0 = unknown) */
	TFMT_DEF_FUNCTION = 7, /* entry point: string name, as the program calls it; or a modelled owner's name */
	TFMT_DEF_INFO = 8,     /* id = running number: string key, string value (keys: FORMAT.md) */
	TFMT_DEF_CLOCK = 9,    /* id = running number: monotonic ns, realtime ns, read together */
	TFMT_DEF_STRING = 10,  /* string: names of ranges, of their domains, of autograd nodes */
	TFMT_DEF_PASSES = 11,  /* id = running number: backward passes, written by a flight recorder (FORMAT.md) */
	TFMT_DEF_SOURCE = 12,  /* id = that of the first code object of a file: bytes, XXH64 of the file */
	/* Of a census alone, which is a file of its own (FORMAT.md, section 12): */
	TFMT_DEF_CENSUS = 13, /* id 1, at the beginning and again at the end: struct tfmt_census_facts */
	TFMT_DEF_OBJECT = 14, /* an object that leads to a tensor, after the one that holds it: struct tfmt_object_facts */
	TFMT_DEF_TENSOR = 15, /* id = running number: struct tfmt_tensor */
	TFMT_DEF_INSTANCE = 16, /* an nn.Module that was called: its object's address, string name of its class */
	TFMT_NR_DEF_TYPES
};

enum tfmt_frame_kind {
	TFMT_FRAME_PYTHON = 1, /* a = code id, b = position in code units (-1: not started) */
	TFMT_FRAME_NATIVE = 2, /* a = instruction address (of a return but for the innermost), b = 1: runs Python */
	TFMT_FRAME_CUT = 3,    /* stands for a = number of older frames left out, 0 = nobody knows how many */
	TFMT_FRAME_NODE = 4,   /* an autograd node that runs: a = TFMT_DEF_STRING id of its class; b = 1: older frames
	                          are those of the forward call that made the node; 0: of what runs it */
	TFMT_FRAME_PYTHON_ENTRY = 5, /* as PYTHON; native code called the interpreter here: it and the newer frames up
	                          to the next such one run in one native frame of b = 1 */
	TFMT_FRAME_NAMED = 6, /* native, told by name instead of address: a = code id, whose first line is its line, 0 =
	                          not known; b as of NATIVE */
};

/* How a code object's table maps positions to lines (facts: CPython 3.8-3.9, 3.10, 3.11 and later). */
enum tfmt_line_table { TFMT_LINES_LNOTAB = 0, TFMT_LINES_PEP626 = 1, TFMT_LINES_PEP657 = 2 };

/* Payload building: write at p, return the next byte. A varint takes at most 10 bytes. */
uint8_t *tfmt_put_varint(uint8_t *p, uint64_t value);
uint8_t *tfmt_put_zigzag(uint8_t *p, int64_t value);
uint8_t *tfmt_put_string(uint8_t *p, const char *s, size_t len);

/* ---- header ---------------------------------------------------------------------------------- */

enum tfmt_storage {
	TFMT_STORAGE_BESIDE = 0,    /* the ring file lies beside the trace: survives SIGKILL */
	TFMT_STORAGE_TEMPORARY = 1, /* in the node's temporary folder (header.ring_path) */
	TFMT_STORAGE_ANONYMOUS = 2, /* plain memory: what was not drained at a crash is gone */
	TFMT_STORAGE_SHARED = 3,    /* System V shared memory, header.ring_path = "shm:ID": survives SIGKILL */
	TFMT_STORAGE_SEALED = 4,    /* memory that `run` holds, too: survives SIGKILL if `run` does; ring_path in /proc */
};

/* What a reader must understand, a bit each, or it would sum up wrongly (FORMAT.md, section 9). There is none yet. */
#define TFMT_MUST_KNOWN 0

struct tfmt_header {
	uint32_t version;      /* set by the writer */
	uint32_t pid;
	uint64_t start_mono_ns; /* the two clocks, read together at the start of the recording */
	uint64_t start_real_ns;
	uint64_t image_start_ns; /* CLOCK_REALTIME start of the program image: START in the file's name */
	uint64_t time_ns_inode;  /* of /proc/self/ns/time, 0 = unknown */
	uint8_t boot_id[16];
	uint8_t time_shift; /* times are stored in units of 1 << time_shift ns */
	uint8_t storage;    /* enum tfmt_storage */
	uint8_t simulated;  /* 1: the device is simulated */
	uint8_t must;       /* bits of what a reader must understand */
	char host[256];      /* NUL-terminated */
	char job[256];       /* the launcher's job id, or the one `run` made; "" = none */
	char ring_path[512]; /* by enum tfmt_storage: absolute if TEMPORARY or SEALED, "shm:ID" if SHARED, else "" */
	char recorder[64];   /* version of the recorder, "" = not known */
	char commit[64];     /* commit of the recorder's source, as git knows it; "" = not known */
};

/*
 * The header of a trace alone. Returns 0, or what tfmt_reader_open() returns; with TFMT_E_FEATURE it is filled in, so
 * that one can say who recorded that.
 */
int tfmt_header_read(const char *path, struct tfmt_header *out);

/* ---- processes that could not record (why.c) ------------------------------------------------- */

/* Why a process that used GPU memory did not record it, or not all of it. */
enum tfmt_why {
	TFMT_WHY_NONE = 0,
	TFMT_WHY_THREAD,      /* no thread to write with, and no file without one */
	TFMT_WHY_MEMORY,      /* no memory, or no address space, for its own tables */
	TFMT_WHY_FOLDER,      /* the recording's folder cannot be made, or not be written */
	TFMT_WHY_NOT_OURS,    /* that folder belongs to somebody else, or others may write into it */
	TFMT_WHY_TRACE,       /* the trace cannot be made, or not be begun */
	TFMT_WHY_REMOVED,     /* its files were removed while it recorded, and could not be made anew */
	TFMT_WHY_SLOW,        /* it had ended before its trace could be opened */
	TFMT_NR_WHY
};

/* Its name in files and JSON, "" if there is none; its number, TFMT_WHY_NONE for a name that means nothing. */
const char *tfmt_why_name(unsigned why);
enum tfmt_why tfmt_why_named(const char *name);

/* What is left in the recording's folder, HOST.PID.START.why: lines of "key value" (FORMAT.md, section 11). */
#define TFMT_WHY_SUFFIX ".why"

#ifndef __cplusplus /* C++ has no such atomic numbers */
/*
 * The page that `run` lends to the processes that it starts, in memory that nobody can cut short. Each process takes an
 * entry when a hook sees GPU memory used for the first time. Both sides are of one build: nothing of it is kept.
 */
#define TFMT_WITNESS_MAGIC 0x31575456u /* "VTW1" */
#define TFMT_WITNESS_MAX 1023u
struct tfmt_witness {
	_Atomic uint32_t pid; /* 0: free */
	_Atomic uint32_t why; /* enum tfmt_why */
	_Atomic int32_t error; /* an errno, 0 = none */
	uint32_t zero;
	_Atomic uint64_t unrecorded; /* events that hooks have seen and nobody holds */
	char program[40];     /* base name of script or program */
};
struct tfmt_witnesses {
	uint32_t magic;
	_Atomic uint32_t nr; /* entries taken; more than TFMT_WITNESS_MAX: there was no room for the others */
	uint8_t zero[56];
	struct tfmt_witness entry[TFMT_WITNESS_MAX];
};
#endif

/* ---- ring file ------------------------------------------------------------------------------- */

/*
 * Layout: status page | definition ring | ring 0 | ring 1 | ...   (offsets and sizes in the status page)
 * The file is allocated in full (posix_fallocate) before it is mapped.
 */
#define TFMT_RING_MAGIC 0x31474e4952545656ull /* "VVTRING1" */
#define TFMT_RING_VERSION 2 /* of the ring file. Version 1, which can still be read, had no checks */
#define TFMT_RECORD_BYTES 64

/* One event as a hook leaves it. `valid` is stored last, with release: tfmt_record_check(). */
struct tfmt_record {
	uint64_t time_ns, address, size, order, aux;
	uint32_t python_stack, native_stack, shape;
	uint16_t stream, function;
	uint8_t kind, device;
	uint16_t flags;
	uint32_t valid;
};

/* Take two of a record's eight words into its check. */
static inline uint64_t tfmt_check_words(uint64_t check, uint64_t a, uint64_t b)
{
	check += a;
	return ((check << 29 | check >> 35) ^ b) * 0x9e3779b97f4a7c15ull;
}

/*
 * What `valid` is of a record at a position: it tells the record from what lay in its place before, and from a page
 * that never reached the disk. Of the last word only the half before `valid` counts.
 */
static inline uint32_t tfmt_record_check(const struct tfmt_record *r, uint64_t position)
{
	uint64_t check = tfmt_check_words(position + 1, r->time_ns, r->address);

	check = tfmt_check_words(check, r->size, r->order);
	check = tfmt_check_words(check, r->aux, r->python_stack | (uint64_t)r->native_stack << 32);
	check = tfmt_check_words(check, r->shape | (uint64_t)r->stream << 32 | (uint64_t)r->function << 48,
				 r->kind | (uint32_t)r->device << 8 | (uint32_t)r->flags << 16);
	return (uint32_t)(check >> 32);
}

/*
 * A single-producer ring of records. Positions count records since the file was made; they are 64 bits
 * and never reset; record i of position p is slot p & (capacity - 1). The producer writes the record,
 * then its `valid`, then head = position + 1 (release). The drain advances tail only after a frame that
 * covers the records has been written in full. A ring may pass to another thread at any position: that one's first
 * record is a TFMT_RECORD_THREAD.
 */
struct tfmt_ring {
	uint64_t head;           /* producer */
	uint32_t processor;      /* on which it wrote lately, plus 1; 0 = not known. The recorder's own affair */
	uint8_t pad0[52];
	uint64_t tail;           /* drain */
	uint8_t pad1[56];
	uint32_t thread;         /* TFMT_DEF_THREAD id of the latest producer */
	uint32_t owner;          /* enum tfmt_ring_owner */
	uint32_t thread_check;   /* tfmt_thread_check(thread) */
	uint8_t pad2[4096 - 140];
#ifndef __cplusplus /* C++ has no such arrays: the records begin after the page */
	struct tfmt_record record[]; /* capacity of them */
#endif
};
/* What tells a ring's thread from a torn page. */
static inline uint32_t tfmt_thread_check(uint32_t thread)
{
	return (uint32_t)(tfmt_check_words(1, thread, 0) >> 32);
}

enum tfmt_ring_owner {
	TFMT_RING_FREE = 0,
	TFMT_RING_TAKEN = 1,
	TFMT_RING_LEFT = 2, /* of older recorders: its thread has ended */
};

enum tfmt_end {
	TFMT_END_OPEN = 0,   /* nothing stored: running, killed or unknown */
	TFMT_END_EXIT = 1,   /* exit_status holds */
	TFMT_END_SIGNAL = 2, /* signal number in exit_status */
	TFMT_END_EXEC = 3,   /* the image was replaced */
	TFMT_END_KILLED = 4, /* only in a copy (tfmt_copy): nothing was stored, and the process was gone */
};

enum tfmt_stop {
	TFMT_STOP_NONE = 0,
	TFMT_STOP_DISK_FULL = 1, /* ENOSPC, EDQUOT, EFBIG */
	TFMT_STOP_IO = 2,        /* any other failed write; stop_errno has it */
	TFMT_STOP_NOMEM = 3,
};

/* The first page of a ring file. All counters are atomic; the recorder writes, readers only look. */
struct tfmt_status {
	uint64_t magic;
	uint32_t version, pid;
	uint64_t image_start_ns;
	uint64_t definition_offset, definition_bytes; /* bytes: a power of two */
	uint64_t ring_offset, ring_stride;            /* stride = sizeof(struct tfmt_ring) + capacity * 64 */
	uint32_t ring_capacity;                       /* records per ring, a power of two */
	uint32_t nr_rings;                            /* rings present; grows, store with release */
	uint32_t end;                                 /* enum tfmt_end, stored once, after exit_status */
	int32_t exit_status;
	uint32_t stop;                                /* enum tfmt_stop */
	int32_t stop_errno;
	uint64_t stop_time_ns;        /* CLOCK_MONOTONIC when recording stopped early */
	uint64_t lost_events;         /* dropped because there was no room, or a hook was left by a jump */
	uint64_t not_captured;        /* events whose stack could not be captured or interned */
	uint64_t unsupported_calls;   /* simulated device: calls answered with "not supported" */
	uint64_t definition_head;     /* bytes ever written to the definition ring */
	uint64_t definition_tail;
	uint64_t waits;               /* how often a hook waited for the drain */
	uint64_t longest_wait_ns;
	uint64_t check;               /* tfmt_status_check(): of what does not change */
	uint8_t pad[4096 - 152 - 8 - 1024];
	uint32_t is_complete;         /* 1: the trace holds all of it, and needs the rings no more */
	uint32_t zero;
	char trace_path[1024];        /* of this process, for whoever finds the rings first; "" = not known */
};

/* XXH64 of what is set once in a status page: version to ring_capacity. */
uint64_t tfmt_status_check(const struct tfmt_status *s);

/*
 * The definition ring is a byte stream with wrap-around at definition_bytes. Each entry:
 *   u32 total bytes of this entry, padded to 8 | u32 payload bytes | u32 type | u32 id |
 *   u32 offset of this chunk in the definition | u32 bytes of the whole definition | u64 check |
 *   payload, padded to 8
 * definition_head moves past an entry (release) after the entry is complete. Producers share the ring
 * under a lock of their own. A definition larger than a quarter of the ring comes in several chunks, which
 * follow one another with nothing in between; all of them together must fit into the ring.
 */
struct tfmt_definition_entry {
	uint32_t entry_bytes, payload_bytes, type, id, offset, whole_bytes;
	uint64_t check; /* tfmt_entry_check() */
};

/* XXH64 of an entry's payload, seeded by its other fields and its position in the ring. */
uint64_t tfmt_entry_check(const struct tfmt_definition_entry *e, uint64_t position, const void *payload);

/*
 * A mapped ring file: of the own process, or of one that has ended. A merge keeps the pointer to its view
 * and looks at base and bytes anew in each call, so that a ring file that grew may be mapped again.
 */
struct tfmt_ring_view {
	uint8_t *base;
	size_t bytes; /* mapped there; rings beyond it are not looked at */
	struct tfmt_ring *const *ring; /* where each of the status page's nr_rings is mapped; NULL: all at base, in order */
};

/*
 * Merges the rings of one view into one stream: each domain in gap-free order, domains by clock.
 * A merge never writes to the view. Fields are private; positions are read through the calls below.
 */
struct tfmt_merge;

/*
 * Begin at the rings' tails and the given expectations. `order` (TFMT_NR_DEVICES + 1 numbers: the next
 * order of each device's tensor domain, then of the driver domain) may be NULL for all 0; `from` may be
 * NULL to begin at the tails, else nr_from positions, ring by ring. Memory comes from mmap.
 * Returns 0, TFMT_E_NOMEM, or TFMT_E_DAMAGED if the status page cannot be right.
 */
int tfmt_merge_open(struct tfmt_merge **out, const struct tfmt_ring_view *view, const uint64_t *order,
		    const uint64_t *from, uint32_t nr_from);
void tfmt_merge_close(struct tfmt_merge *m);

/*
 * The next event: 1 and *ev filled; 0 when none is ready. A gap in a domain is a record that its thread has
 * numbered and not yet published. It is waited for since it was noticed for gap_ns, while a ring is three quarters
 * full for 1 ms; then the stream goes on without it, and it follows when it comes, out of order. gap_ns 0 waits for
 * none (the process is dead). Records of a ring that were overwritten before they could be read, and torn ones, whose
 * check does not hold, are a TFMT_LOST event of their thread, with the time of the first that is left, right before it.
 * The record stays in the ring until the caller advances the tail.
 */
int tfmt_merge_next(struct tfmt_merge *m, uint64_t now_ns, uint64_t gap_ns, struct tfmt_event *ev);

/* The next events, up to `max`, as so many calls of tfmt_merge_next() give them. Returns how many. */
uint32_t tfmt_merge_events(struct tfmt_merge *m, uint64_t now_ns, uint64_t gap_ns, struct tfmt_event *ev, uint32_t max);

/* How many records were torn so far. Of a process that still records, some are only if others write into its rings. */
uint64_t tfmt_merge_nr_torn(const struct tfmt_merge *m);

/* Positions consumed so far, one per ring (nr of them returned), for coverage and for advancing tails. */
uint32_t tfmt_merge_positions(const struct tfmt_merge *m, const uint64_t **positions);

/*
 * The next whole definition beyond *position (start with definition_tail, or what a frame covered):
 * 1 and *type, *id, *payload, *len filled (valid until the next call) and *position advanced; 0 none.
 * Never reads beyond definition_head; damaged entries end the stream (TFMT_E_DAMAGED).
 */
int tfmt_merge_definition(struct tfmt_merge *m, uint64_t *position, uint32_t *type, uint32_t *id,
			  const uint8_t **payload, size_t *len);

/* ---- writer ---------------------------------------------------------------------------------- */

struct tfmt_writer;

/*
 * Begin a trace on fd (open for writing, empty; stays the caller's). Writes the header at once.
 * level: zstd level, the highest that tfmt_writer_level() may choose; 1 is cheap. Returns 0, TFMT_E_IO, TFMT_E_NOMEM, or
 * TFMT_E_INVALID if the header has bits in `must` that are not in TFMT_MUST_KNOWN.
 */
int tfmt_writer_open(struct tfmt_writer **out, int fd, const struct tfmt_header *header, int level);

/* Compress the frames from the next one on at this zstd level, which may be below 0. */
void tfmt_writer_level(struct tfmt_writer *w, int level);

/*
 * Add a definition or an event to the open frames; both are buffered until tfmt_writer_flush().
 * Definitions of any length are taken: what does not fit the buffer is written at once, in frames that
 * cover nothing of a ring file. tfmt_writer_definition() returns 0 or a negative error.
 * tfmt_writer_event() returns 1 when the frame is full: the caller flushes, at the latest when it has added
 * TFMT_WRITER_AHEAD more (for so many there is room); 0 otherwise, or a negative error.
 */
#define TFMT_WRITER_AHEAD 16
int tfmt_writer_definition(struct tfmt_writer *w, uint32_t type, uint32_t id, const void *payload,
			   size_t len);
int tfmt_writer_event(struct tfmt_writer *w, const struct tfmt_event *ev);

/*
 * Many events at once take less time than one by one. So many are certain to fit now, at most TFMT_WRITER_BATCH, and
 * more than TFMT_WRITER_AHEAD until the frame is full. The writer leaves in ev[] what it found out of them. Returns as
 * tfmt_writer_event() does, once for all.
 */
#define TFMT_WRITER_BATCH 64
uint32_t tfmt_writer_room(const struct tfmt_writer *w);
int tfmt_writer_batch(struct tfmt_writer *w, struct tfmt_event *ev, uint32_t nr);

/* These nr events come next: have the processor fetch what tfmt_writer_event() will look up for them. */
void tfmt_writer_expect(const struct tfmt_writer *w, const struct tfmt_event *ev, uint32_t nr);

/*
 * Write what is buffered: the definitions' frame, then the events' frame, each in one write(2) where the
 * system allows (EINTR and short writes are continued). `merge` (may be NULL) and definition_position tell
 * what of the ring file the frames cover. When a write fails the file is cut back to the last whole frame,
 * TFMT_E_IO is returned, and every later call fails the same way.
 */
int tfmt_writer_flush(struct tfmt_writer *w, const struct tfmt_merge *merge, uint64_t definition_position);

/*
 * A flight recorder: what is oldest in the trace can be dropped, whole, up to a checkpoint (FORMAT.md). The
 * writer's descriptor must be readable, too.
 *
 * tfmt_writer_keep() comes before the first event: from now on the writer remembers what a checkpoint needs, about
 * 32 bytes for each live block. tfmt_writer_checkpoint() writes one, when nothing is buffered; before
 * the first event, and once the interpreter is finalising, it writes none. step is a number of the caller's that grows.
 * Both return 0, TFMT_E_IO or TFMT_E_NOMEM.
 */
int tfmt_writer_keep(struct tfmt_writer *w);
int tfmt_writer_checkpoint(struct tfmt_writer *w, uint64_t step);

/* Bytes since the latest checkpoint (or the beginning), its step, and how large it was; 0 if there is none. */
uint64_t tfmt_writer_since_checkpoint(const struct tfmt_writer *w, uint64_t *step, uint64_t *checkpoint_bytes);

/*
 * Dropping is the writing of another file, a slice at a time, so that no ring fills meanwhile. It will begin at the
 * oldest checkpoint from which it has at most max_bytes (if none is so short, at the latest), or at the latest one of
 * this step or an earlier one, if that is later (0: steps do not matter). tfmt_writer_drop_bytes() says how large it
 * would be, at most; 0: nothing would be dropped. tfmt_writer_drop_begin() begins on another, empty descriptor, which
 * stays the caller's; only one at a time.
 * tfmt_writer_drop_step() copies about so many bytes, between flushes: 1 when the other file holds all that the
 * trace does. Then the caller gives it the trace's name, and tfmt_writer_drop_commit() goes on in it. Or at any time
 * tfmt_writer_drop_abort(): nothing has happened to the trace. Errors (TFMT_E_IO with errno set, TFMT_E_NOMEM,
 * TFMT_E_DAMAGED if the trace does not read any more) leave nothing else to do but that.
 */
uint64_t tfmt_writer_drop_bytes(const struct tfmt_writer *w, uint64_t max_bytes, uint64_t step);
int tfmt_writer_drop_begin(struct tfmt_writer *w, int fd, uint64_t max_bytes, uint64_t step);
int tfmt_writer_drop_step(struct tfmt_writer *w, uint64_t bytes);
void tfmt_writer_drop_commit(struct tfmt_writer *w);
void tfmt_writer_drop_abort(struct tfmt_writer *w);

/*
 * There are fewer steps than it seemed: no checkpoint that was written counts as of a later one than this.
 */
void tfmt_writer_limit_steps(struct tfmt_writer *w, uint64_t step);

/*
 * When a write fails for want of space (ENOSPC, EDQUOT, EFBIG) the writer calls make_room(), which may abort a drop. If
 * that returns true, it tries again.
 */
void tfmt_writer_on_full(struct tfmt_writer *w, bool (*make_room)(void *context), void *context);

/* The last frame: how the process ended and the counters of its status page. Then only close is allowed. */
int tfmt_writer_end(struct tfmt_writer *w, const struct tfmt_status *status);

/*
 * Complete the trace of a process that has ended: append what its ring file holds beyond the last frame,
 * then the last frame with the end state of the status page (`end` and `status`, where the caller knows them, if
 * none is stored: else TFMT_END_OPEN, 0), then remove the ring file. May be repeated, and killed at any point: that
 * goes last. Uses malloc. Returns 0 (also when there was nothing to do), TFMT_E_IO with errno set (EAGAIN:
 * the process still writes), TFMT_E_DAMAGED if the ring file does not hold all that it should (what it holds
 * is appended, and it stays), or what tfmt_reader_open() returns.
 */
int tfmt_seal(const char *path, enum tfmt_end end, int status);

/* tfmt_seal() with rings that nobody can open any more: ring_fd is a descriptor of them, and stays the caller's. */
int tfmt_seal_kept(const char *path, enum tfmt_end end, int status, int ring_fd);

/* Whether the rings of the trace at this path, with this header, can still be found. */
bool tfmt_ring_exists(const struct tfmt_header *h, const char *path);

/*
 * Rings in System V shared memory have a key that begins so. No reader finds them by it: it marks them for whoever
 * looks for those of dead processes.
 */
#define TFMT_SHARED_KEY 0x76740000
#define TFMT_SHARED_KEY_MASK 0xffff0000u

int tfmt_writer_errno(const struct tfmt_writer *w);
uint64_t tfmt_writer_bytes(const struct tfmt_writer *w); /* written so far */
void tfmt_writer_close(struct tfmt_writer *w);           /* frees memory; does not close the descriptor */

/* ---- reader ---------------------------------------------------------------------------------- */

struct tfmt_reader;

/* Is shown a definition: its payload as it lies in the trace, valid during the call. */
typedef void tfmt_definition_fn(void *context, uint32_t type, uint32_t id, const uint8_t *payload, size_t len);

struct tfmt_frame {
	uint32_t parent; /* next older node, 0 = root */
	uint32_t kind;   /* enum tfmt_frame_kind; 0 = id not defined */
	uint64_t a;
	int32_t b;
};
/* Which nn.Module a frame of Python calls, 0 = none, and the next older node as it is in the trace. */
struct tfmt_call {
	uint32_t parent, instance;
};
struct tfmt_instance {
	uint64_t address;
	const char *class_name; /* NUL-terminated, without its module */
};
struct tfmt_code {
	const char *name, *file; /* NUL-terminated */
	uint32_t first_line, table_kind;
	const uint8_t *table;
	size_t table_bytes;
};
/* A file of source as it was when code of it was first recorded. */
struct tfmt_source {
	uint64_t bytes, hash; /* XXH64 */
};
struct tfmt_module {
	uint64_t start, end, offset;
	const char *path, *build_id;
};
struct tfmt_shape {
	uint32_t element_type; /* PyTorch's ScalarType number */
	uint32_t nr_dims;
	uint64_t bytes; /* of storage, before the allocator's rounding */
	const uint64_t *dims;
};
struct tfmt_thread {
	uint32_t tid;
	const char *name;
};
#define TFMT_CAPACITY_UNLIMITED UINT64_MAX /* a simulated device that never runs out */
struct tfmt_device {
	uint64_t capacity_bytes; /* 0 = unknown */
	const char *name, *uuid, *pci_bus_id;
	bool mig;
	int physical_index; /* -1 = unknown */
};

/* How the recording of this process ended, as far as the trace and its ring file tell. */
enum tfmt_process_end {
	TFMT_PROCESS_EXIT,
	TFMT_PROCESS_SIGNAL,
	TFMT_PROCESS_EXEC,
	TFMT_PROCESS_RUNNING, /* the drain still holds its lock on the trace */
	TFMT_PROCESS_KILLED,  /* no end stored, no lock, and host and boot id are the reader's own; or END_KILLED */
	TFMT_PROCESS_UNKNOWN,
};

struct tfmt_summary {
	enum tfmt_process_end end;
	int exit_status; /* EXIT: status; SIGNAL: signal number */
	uint64_t nr_events;
	uint64_t lost_events;  /* counted by the recorder, by gaps, and in damaged or missing frames */
	uint64_t lost_in_damage; /* those of lost_events that were in frames: the next frame tells the totals after them */
	uint64_t not_captured;
	uint64_t waits;           /* how often a hook waited for the drain, and the longest time */
	uint64_t longest_wait_ns;
	uint64_t nr_frames;
	uint64_t nr_damaged;   /* places where bytes had to be skipped */
	uint64_t damaged_bytes;
	uint64_t nr_given_up; /* places that were damaged before the recording was repaired */
	uint64_t nr_checkpoints; /* passed over: where reading can begin, too (tfmt_reader_seek) */
	bool indexed;           /* the last frame tells of an index of them */
	uint64_t joined_events; /* read from the ring file because no frame held them */
	bool sealed;            /* its last frame, END, is there */
	bool cut;               /* the file ends inside a frame */
	bool complete;          /* nothing lost, cut, damaged or given up, recording not stopped early */
	/* What a flight recorder dropped before the recording begins: counted in nr_events, and no loss. */
	uint64_t dropped_events, dropped_frames;
	uint64_t window_ns;     /* time of the latest of them, or after tfmt_reader_seek(), CLOCK_MONOTONIC; else 0 */
	uint32_t stop;          /* enum tfmt_stop */
	int stop_errno;
	uint64_t stop_time_ns;
	uint64_t first_damage_offset;
};

/*
 * Open a trace, a file or a pipe; its ring file, if one is found (beside it, or header.ring_path), is joined at the
 * end. A pipe with a name waits for a writer.
 * Returns 0 or an error; on TFMT_E_CUT, _NOT_TRACE, _VERSION, _FEATURE, _DAMAGED *offset (may be NULL) is the first
 * byte that could not be understood; on TFMT_E_IO errno is set. tfmt_reader_close(NULL) is allowed.
 */
int tfmt_reader_open(struct tfmt_reader **out, const char *path, uint64_t *offset);
void tfmt_reader_close(struct tfmt_reader *r);

/*
 * The next event: 1 and *ev filled, 0 at the end. A negative value reports damage that has been skipped
 * (tfmt_reader_offset() is its first byte, tfmt_reader_message() one sentence); calling again goes on after it.
 * TFMT_E_GIVEN_UP is where there was damage before the recording was repaired.
 * Definitions are taken in silently, before the events that use them.
 */
int tfmt_reader_next(struct tfmt_reader *r, struct tfmt_event *ev);

/*
 * The next events, as many as are at hand: returns how many and where they are until the next call, else as
 * tfmt_reader_next() does. What tfmt_reader_totals() tells is then of the moment after the last of them.
 */
int tfmt_reader_events(struct tfmt_reader *r, const struct tfmt_event **ev);

/*
 * Follow a trace that is being written, or no longer. While its writer holds it, 0 stands for "no further whole frame
 * yet" (tfmt_reader_is_waiting()), and calling again goes on with what has been written since; what only the rings hold
 * comes when the writer has ended, or is no longer followed. A writer leaves no event out of the trace for long.
 */
void tfmt_reader_follow(struct tfmt_reader *r, bool follow);

/* After a 0: is it not the end, but all that is there yet of a trace that is followed? */
bool tfmt_reader_is_waiting(const struct tfmt_reader *r);

/*
 * Go, before anything else has been read, to the last checkpoint before a time (CLOCK_MONOTONIC): what is live there
 * comes next as events that are `before`, then all that happened from there on, some of it earlier than that time, as
 * if all had been read. The index at the end of the trace leads there; without one, or a wrong one, the frames' headers
 * do.
 * Returns 1; 0 where there is no such checkpoint, or of a pipe: the recording is read from its beginning;
 * TFMT_E_INVALID, or TFMT_E_NOMEM: then only closing is left. What was passed over is counted in the summary's
 * nr_events; whether it is damaged is not known.
 */
int tfmt_reader_seek(struct tfmt_reader *r, uint64_t time_ns);

/*
 * The figures of the whole job before the recording begins, of which a flight recorder has dropped the beginning, or
 * before the place that was sought; NULL: neither, or they were damaged. Known once the first event that is not
 * `before` has been read, or the end.
 */
const struct tfmt_figures *tfmt_reader_figures(const struct tfmt_reader *r);

/*
 * Likewise how the job went until then on one device: its *nr backward passes, the oldest first; NULL and 0 where none
 * is known. Of a very long job not all are told of (FORMAT.md, PASSES): each has its number.
 */
const struct tfmt_pass *tfmt_reader_passes(const struct tfmt_reader *r, uint32_t device, uint32_t *nr);

/*
 * The totals before the next event. After damage they begin again with what the next frame's header says,
 * so an analysis takes them over whenever tfmt_reader_next() has returned a negative value. Returns false if they are
 * not known: events are missing, and no frame's header has followed; or the next event may be one from before the
 * recording begins.
 */
bool tfmt_reader_totals(const struct tfmt_reader *r, struct tfmt_totals *out);

uint64_t tfmt_reader_offset(const struct tfmt_reader *r);
const char *tfmt_reader_message(const struct tfmt_reader *r);

const struct tfmt_header *tfmt_reader_header(const struct tfmt_reader *r);

/* Final only after tfmt_reader_next() returned 0. */
const struct tfmt_summary *tfmt_reader_summary(const struct tfmt_reader *r);

/* Bytes of trace file consumed and in all, for a progress display; in all 0 for a pipe. */
void tfmt_reader_progress(const struct tfmt_reader *r, uint64_t *done, uint64_t *total);

/* How many stack frames, code objects and threads have been defined so far. */
uint32_t tfmt_reader_nr_definitions(const struct tfmt_reader *r);

/*
 * Stacks that differ in nothing but the nn.Modules that their frames call are one stack to most: the first of them, its
 * plain stack. Events have their stacks as they are; the parents that tfmt_reader_frame() tells are plain. An id that is
 * not defined is plain.
 */
uint32_t tfmt_reader_plain_stack(const struct tfmt_reader *r, uint32_t id);

/* Before the first event: all that follow have their plain stacks, and their own in called_stack. */
void tfmt_reader_plain_stacks(struct tfmt_reader *r);

/*
 * Definitions by id. Pointers stay valid until the reader is closed, also when a definition is replaced.
 * An unknown id gives false and a zeroed result (strings "").
 */
bool tfmt_reader_frame(const struct tfmt_reader *r, uint32_t id, struct tfmt_frame *out);
bool tfmt_reader_call(const struct tfmt_reader *r, uint32_t id, struct tfmt_call *out);
bool tfmt_reader_instance(const struct tfmt_reader *r, uint32_t id, struct tfmt_instance *out);
bool tfmt_reader_code(const struct tfmt_reader *r, uint32_t id, struct tfmt_code *out);
bool tfmt_reader_shape(const struct tfmt_reader *r, uint32_t id, struct tfmt_shape *out);
bool tfmt_reader_thread(const struct tfmt_reader *r, uint32_t id, struct tfmt_thread *out);
bool tfmt_reader_device(const struct tfmt_reader *r, uint32_t ordinal, struct tfmt_device *out);
const char *tfmt_reader_function(const struct tfmt_reader *r, uint32_t id); /* "" if unknown */
const char *tfmt_reader_string(const struct tfmt_reader *r, uint32_t id);   /* "" if unknown */

/* What a file was known by, by its name in code objects; false: the trace does not tell. */
bool tfmt_reader_source(const struct tfmt_reader *r, const char *file, struct tfmt_source *out);

/* What a file is known by now; false: it is no regular file of at most TFMT_SOURCE_MAX bytes. Uses no malloc. */
bool tfmt_source_read(const char *path, struct tfmt_source *out);

/*
 * Modules and infos in order of definition; of a key of infos other than `note` the last value alone. False past the last.
 */
bool tfmt_reader_module(const struct tfmt_reader *r, uint32_t index, struct tfmt_module *out);
bool tfmt_reader_info(const struct tfmt_reader *r, uint32_t index, const char **key, const char **value);

/* The last value of an info key, NULL if absent. */
const char *tfmt_reader_info_value(const struct tfmt_reader *r, const char *key);

/*
 * Show fn every definition as it is taken in, also one that a later one replaces and those of unknown types; those
 * that cannot be understood are not shown. To be called before the first tfmt_reader_next(); NULL: no more.
 */
void tfmt_reader_hear(struct tfmt_reader *r, tfmt_definition_fn *fn, void *context);

/* ---- a census: the names of tensors ----------------------------------------------------------- */

/* Why one was taken. */
enum tfmt_census_why {
	TFMT_CENSUS_OOM = 1,   /* the framework's allocator gave up: it was taken before the exception was thrown */
	TFMT_CENSUS_HIGH = 2,  /* more was allocated than ever before */
	TFMT_CENSUS_ASKED = 3, /* somebody asked for it */
};

/* What a census says of itself. */
enum tfmt_census_flags {
	TFMT_CENSUS_WHOLE = 1,      /* all that could be reached was looked at */
	TFMT_CENSUS_NO_MEMORY = 2,  /* no: there was no memory for all of it */
	TFMT_CENSUS_NO_TIME = 4,    /* no: it would have taken too long */
	TFMT_CENSUS_FAULT = 16,     /* no: a class's own code for what its objects hold (tp_traverse) faulted */
	TFMT_CENSUS_COLLECTOR = 8,  /* the collector's lists were read: a tensor that nothing leads to is in a cycle */
};

struct tfmt_census_facts {
	uint32_t why;     /* enum tfmt_census_why */
	uint64_t time_ns; /* CLOCK_MONOTONIC when the program was copied */
	uint32_t device;  /* whose memory it was about; TFMT_DEVICE_NONE: all */
	uint64_t allocated; /* bytes on it then */
	uint32_t flags;   /* enum tfmt_census_flags; none: it was cut short */
	uint64_t nr_objects, nr_tensors; /* that were looked at; tensors in memory of a device */
};

/* How an object hangs on the one that holds it, its *parent*; the first ones are roots, which have none. */
enum tfmt_edge {
	TFMT_EDGE_LOCAL = 1,  /* a variable `name` of a frame (file, line, function, thread): a root, or of a generator, a
	                         coroutine or a traceback, which is then the parent */
	TFMT_EDGE_GLOBAL = 2, /* a root: the Python module `name` */
	TFMT_EDGE_CYCLE = 3,  /* a root: nothing leads here, it waits for the collector */
	TFMT_EDGE_ATTRIBUTE = 4, /* .name, also of a class or a module */
	TFMT_EDGE_KEY = 5,       /* ['name'] */
	TFMT_EDGE_NUMBER = 6,    /* [number], a key */
	TFMT_EDGE_OBJECT = 7,    /* a key that is an object: `number` is its id, 0 = not known */
	TFMT_EDGE_INDEX = 8,     /* [number] of a list or a tuple */
	TFMT_EDGE_CELL = 9,      /* the variable `name` that a function has of the one it was made in */
	TFMT_EDGE_DEFAULT = 10,  /* what the argument `name` of a function is if it is not given */
	TFMT_EDGE_MEMBER = 11,   /* held in a way that only the parent knows */
	TFMT_EDGE_GRADIENT = 12, /* the gradient of a tensor */
	TFMT_EDGE_SELF = 13,     /* what a bound method is of */
	TFMT_EDGE_FUNCTION = 14, /* what a bound or partial method calls */
	TFMT_EDGE_NATIVE = 15,   /* a root: something that is not Python's holds it */
};

enum tfmt_object_kind {
	TFMT_KIND_OTHER = 0,
	TFMT_KIND_TENSOR = 1,
	TFMT_KIND_PARAMETER = 2, /* a tensor of torch.nn.Parameter's class */
	TFMT_KIND_MODULE = 3,    /* an nn.Module */
	TFMT_KIND_OPTIMIZER = 4,
	TFMT_KIND_DICT = 5,
	TFMT_KIND_LIST = 6,
	TFMT_KIND_TUPLE = 7,
	TFMT_KIND_SET = 8,
	TFMT_KIND_DEQUE = 9,
	TFMT_KIND_FUNCTION = 10,
	TFMT_KIND_METHOD = 11,
	TFMT_KIND_CLASS = 12,
	TFMT_KIND_PYTHON_MODULE = 13,
	TFMT_KIND_GENERATOR = 14, /* or a coroutine */
	TFMT_KIND_EXCEPTION = 15,
	TFMT_KIND_TRACEBACK = 16,
	TFMT_KIND_CELL = 17,
	TFMT_KIND_THREAD = 18, /* data of a thread */
	TFMT_KIND_AUTOGRAD = 19, /* a node of autograd, or what a function of the program's own keeps for backward */
};

/* Ids are 1, 2, ...: a parent's is smaller. Strings "" where there is none. */
struct tfmt_object_facts {
	uint32_t parent; /* 0: a root */
	uint8_t edge;    /* enum tfmt_edge */
	uint8_t kind;    /* enum tfmt_object_kind */
	const char *name, *class_name;
	int64_t number;
	uint64_t length;  /* entries of a container, plus 1; 0: it is none */
	uint64_t bound;   /* how many it has at most (a deque's maxlen), plus 1; 0: no bound is known */
	uint64_t address; /* of an nn.Module, to tell one from another; else 0 */
	const char *file, *function; /* of LOCAL */
	uint32_t line;
	uint32_t thread; /* the system's number of it; 0: the main thread */
	uint32_t root;   /* the object that its way begins with; itself if it is one */
	uint32_t chain;  /* of a chain (a.parent.parent.parent), the first object that it leads to; else itself */
	uint32_t flags;  /* enum tfmt_object_flags */
};

enum tfmt_object_flags {
	TFMT_OBJECT_TRAINS = 1,	   /* an nn.Module, by its attribute `training` */
	TFMT_OBJECT_EVALUATES = 2, /* the same; neither: it is not known */
	/* It has an attribute of False that PyTorch does not know, where requires_grad was meant: requires_grad of an nn.Module, require_grad of a parameter. */
	TFMT_OBJECT_FREEZES_NOTHING = 4,
	TFMT_OBJECT_UPDATED = 8, /* a parameter in the list `params` of a dict, as optimizers' groups have theirs */
};

enum tfmt_tensor_flags {
	TFMT_TENSOR_HAS_NODE = 1, /* autograd has computed it: its grad_fn is not None */
	TFMT_TENSOR_IN_GRAPH = 2, /* a graph leads to it as to one of those that it begins with: a gradient will be summed up in it */
};

struct tfmt_tensor {
	uint32_t object;  /* by which it is reached */
	uint64_t address; /* of its storage */
	uint64_t bytes;   /* of its storage */
	uint8_t device;
	uint8_t flags;    /* enum tfmt_tensor_flags */
	uint32_t holders; /* how many references to the object were met; 0 = not counted */
	uint32_t nodes;   /* of autograd's that its grad_fn leads to, itself among them; 0 = it has none, or they were not counted */
	uint64_t own_bytes; /* what its own elements take of its storage, a view's less than all; 0 = not known, or none */
};

struct tfmt_census;

/*
 * Read a census, as far as it was written. Returns 0 or an error, as tfmt_reader_open() does; TFMT_E_EMPTY if nothing of
 * it is known but its header. tfmt_census_close(NULL) is allowed.
 */
int tfmt_census_open(struct tfmt_census **out, const char *path);
void tfmt_census_close(struct tfmt_census *c);

const struct tfmt_census_facts *tfmt_census_facts(const struct tfmt_census *c);

/* Of the process that it is a copy of. */
const struct tfmt_header *tfmt_census_header(const struct tfmt_census *c);

/* Object 1 to nr; NULL: there is none of this id. Tensor 0 to nr - 1. All valid until the census is closed. */
uint32_t tfmt_census_nr_objects(const struct tfmt_census *c);
const struct tfmt_object_facts *tfmt_census_object(const struct tfmt_census *c, uint32_t id);
uint32_t tfmt_census_nr_tensors(const struct tfmt_census *c);
const struct tfmt_tensor *tfmt_census_tensor(const struct tfmt_census *c, uint32_t index);

/* ---- texts and copies ------------------------------------------------------------------------ */

/* What a string in a trace is: the fields of type `string` in FORMAT.md. */
enum tfmt_text_kind {
	TFMT_TEXT_CODE_NAME,
	TFMT_TEXT_CODE_FILE,
	TFMT_TEXT_MODULE_PATH,
	TFMT_TEXT_BUILD_ID,
	TFMT_TEXT_THREAD,
	TFMT_TEXT_DEVICE,
	TFMT_TEXT_UUID,
	TFMT_TEXT_PCI_BUS_ID,
	TFMT_TEXT_FUNCTION,
	TFMT_TEXT_INFO_KEY,
	TFMT_TEXT_INFO_VALUE,
	TFMT_TEXT_STRING,
	TFMT_TEXT_CLASS,
	TFMT_TEXT_HOST, /* from here on: of the header, in no definition */
	TFMT_TEXT_JOB,
	TFMT_TEXT_RING_PATH,
	TFMT_TEXT_RECORDER,
	TFMT_TEXT_COMMIT,
	TFMT_NR_TEXT_KINDS
};

struct tfmt_text {
	enum tfmt_text_kind kind;
	const char *s; /* not terminated */
	size_t len;
};
#define TFMT_DEFINITION_TEXTS 3 /* most in one definition */

/*
 * The strings of a definition, in their order: how many, 0 for one without strings and for unknown types, or
 * TFMT_E_DAMAGED. They point into the payload.
 */
int tfmt_definition_texts(uint32_t type, const uint8_t *payload, size_t len,
			  struct tfmt_text text[TFMT_DEFINITION_TEXTS]);

/*
 * The payload again with other strings, those of text[], and without what is not known of it. *out is the caller's to
 * free(). Returns 0, TFMT_E_NOMEM, TFMT_E_DAMAGED, or TFMT_E_INVALID for an unknown type.
 */
int tfmt_definition_rewrite(uint32_t type, const uint8_t *payload, size_t len, const struct tfmt_text *text,
			    uint8_t **out, size_t *out_len);

/*
 * Copy what can be read of a trace, from its first event on, to an empty file: each frame of events as it is but for
 * unknown columns, then what the ring file holds; instead of each definition, what `define` writes for it (if anything,
 * with tfmt_writer_definition(); returns 0 or a negative error, which ends the copying). Ordinals, ids, times and
 * totals stay. The copy ends with an END frame if the original's end is known, and a damaged place is one in the copy:
 * frames are missing there. With `repair` it always has its END frame, and says itself what is missing: it is whole but
 * for that. Of a process that still runs it holds what there was. The reader is at its end then: its summary tells what
 * was wrong. Returns 0, TFMT_E_IO with errno set, or TFMT_E_NOMEM.
 */
typedef int tfmt_define_fn(void *context, struct tfmt_writer *w, uint32_t type, uint32_t id, const uint8_t *payload,
			   size_t len);
int tfmt_copy(struct tfmt_reader *r, int fd, const struct tfmt_header *header, bool repair, tfmt_define_fn *define,
	      void *context);

#ifdef TFMT_EXPORTS
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
