/* SPDX-License-Identifier: MIT */
/*
 * The ledger: the books of one process, kept while its events pass by once, and what other rooms ask of them.
 *
 * The *tensor ledger* of a device holds the blocks that the framework's caching allocator handed out, the *driver ledger*
 * the memory that the process took from the driver; both are *groups* of blocks alike (same stack, shape, entry point).
 * Memory follows the number of live blocks and of distinct groups, never the number of events.
 *
 * Books are opened, given every event in the order of the trace, settled, asked, and released. They may be asked at any
 * time, and then stand as they stood after the latest event. Pointers that they hand out are theirs, to be read only; they
 * are valid until the next event is entered, where nothing else is said. Bytes are of the traced program, times
 * CLOCK_MONOTONIC of its machine. One thread at a time. Running out of memory ends the process (base/heap.h).
 *
 * Other rooms include this header and series.h of the ledger, and no others (checks/ledger.sh).
 */
#ifndef VT_BOOKS_H
#define VT_BOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyzer/stacks/owner.h"
#include "tracefmt/tracefmt.h"

struct books;

/* ---- groups ------------------------------------------------------------------------------------ */

#define GROUP_HOST TFMT_NR_DEVICES /* pseudo device of host memory that names no device */

/*
 * Moments of a device that analyses ask about afterwards: who was live when the peak was reached? Of each there is but the
 * latest.
 */
enum group_mark {
	MARK_TENSOR_PEAK, /* the first event that reached the most allocated by tensors */
	MARK_DRIVER_PEAK, /* the first event that reached the most device memory taken from the driver */
	MARK_OOM,         /* the latest failure of the framework's allocator that counts: device_books.main_oom */
	MARK_TIME,        /* a time the user asked for */
	NR_MARKS,
	MARK_END = NR_MARKS, /* the end of accounting: not marked, the books as they stand at last */
};

struct group_figures {
	uint64_t bytes, blocks;
	uint32_t range; /* of the newest block, a number for books_range(); 0 = none */
};

/* What makes blocks alike. */
#define GROUP_IDENTITY                                                                                         \
	uint32_t python_stack, native_stack;                                                                   \
	uint32_t shape;                                                                                        \
	uint32_t thread;   /* TFMT_DEF_THREAD id, only where no Python frame tells the place; else 0 */        \
	uint16_t function; /* TFMT_DEF_FUNCTION id */                                                          \
	uint8_t device;    /* ordinal, or GROUP_HOST */                                                        \
	uint8_t space;     /* enum tfmt_space; meaningless for tensors */                                      \
	bool tensor;       /* of the tensor ledger */                                                          \
	bool modelled;     /* not a call: a simulated library's figure; function names the owner */            \
	bool graph_pool;   /* not a call: what the driver says it has reserved for graphs */                   \
	bool unrecorded;   /* no blocks: by how much lost events have changed a total; bytes are signed */         \
	uint8_t before;    /* no blocks: 1 + enum owner of what was held at marks before the recording's kept part */

struct group_identity {
	GROUP_IDENTITY
};

/* Blocks alike, counted together. */
struct group {
	union {
		struct group_identity identity;
		struct {
			GROUP_IDENTITY
		};
	};
	uint8_t owner;        /* enum owner, of modelled memory and of `before` only */
	uint8_t phase;        /* books_apply()'s of the first block's allocation */
	bool is_plain;        /* the ledger's own (groups.h) */
	uint8_t met;          /* see group_met() */
	uint32_t earlier;     /* of tensors: the group of the same Python stack that appeared last before it, index + 1; 0 = none */
	uint64_t shape_bytes; /* per block, before the allocator's rounding; 0 if unknown */
	struct group_figures live; /* as the books stand */

	/* the ledger's own (groups.h): ask group_figures_at() */
	uint32_t seen[NR_MARKS];
	struct group_figures at[NR_MARKS];
};

/* Figures at a mark, or at the end of accounting (MARK_END). Marks are valid after books_settle(). */
struct group_figures group_figures_at(const struct group *g, enum group_mark mark);

/* When it appeared, had the nth last group of tensors of the same Python stack, 0 the last, a live block? False where n is 8 or more. */
bool group_met(const struct group *g, uint32_t n);

/*
 * Does this group count as memory of a device that was taken from its driver (not of the host, not another
 * process's, not what the driver took for itself)?
 */
bool group_is_device_memory(const struct group *g);

/* Is each block a tensor that a pool of the driver's serves? Then nothing tells its shape. */
bool group_is_pooled_tensor(const struct group *g);

/* Is it host memory that the driver keeps in place, its own or the program's? */
bool group_is_page_locked(const struct group *g);

/*
 * How many groups there are, and the one of an index below that. Groups are numbered as they appeared, and keep their
 * index.
 */
uint32_t books_nr_groups(const struct books *books);
const struct group *books_group(const struct books *books, uint32_t index);

/* Who called the driver, by native stack, and by Python stack where that only leads into the interpreter; 0 = none. */
struct owner_answer books_owner(struct books *books, uint32_t native_stack, uint32_t python_stack);

/* Whose memory a group of the driver ledger is. */
enum owner books_group_owner(struct books *books, const struct group *g);

/* ---- blocks ------------------------------------------------------------------------------------ */

/* Addresses of different spaces do not meet: a tensor may begin where its driver block begins. */
enum block_space {
	BLOCK_TENSOR = 1,
	BLOCK_DRIVER, /* device, managed, pool, imported and graph memory: one call frees them all */
	BLOCK_PINNED,
	BLOCK_REGISTERED,
	BLOCK_ARRAY,
	BLOCK_HANDLE,  /* physical memory of a virtual memory handle */
	BLOCK_MAPPING, /* a mapped range; `handle` holds */
	BLOCK_RESERVED, /* a range of addresses */
	BLOCK_GRAPH,      /* an executable graph; its group is that of the memory it makes the driver reserve */
	BLOCK_GRAPH_POOL, /* what graphs have reserved of a device; address = the device's ordinal */
};

struct block {
	uint64_t address, size;
	uint64_t handle;     /* of a mapping: the number of what it shows; of a tensor: its listener's */
	uint64_t ordinal;    /* of the event that made it; of a mapping: its handle, TFMT_NO_ORDINAL = none was known */
	uint32_t group;      /* index of the blocks alike, for books_group() */
	uint32_t references; /* of a handle: creation, retentions and mappings; of imported memory: how often opened */
	uint32_t range;      /* a number for books_range(); 0 = none */
	uint32_t context;    /* number of the context that it ends with; 0 = the primary one, or none */
	uint32_t next;       /* the table's own */
	uint8_t space;       /* enum block_space */
};

/* The live block at an address, NULL if there is none. */
const struct block *books_block(const struct books *books, enum block_space space, uint64_t address);

/* A table of blocks as the books have one, for those who keep their own: empty, to be given to blocks_close(). */
struct blocks;
struct blocks *blocks_open(void);
void blocks_close(struct blocks *b); /* NULL: there is nothing to close */

/* The block at an address, NULL if there is none. Valid until the next insert. */
struct block *blocks_find(const struct blocks *b, uint8_t space, uint64_t address);

/* Add a block whose address is free in its space. */
void blocks_insert(struct blocks *b, const struct block *block);

/* Remove a block that blocks_find() gave. */
void blocks_remove(struct blocks *b, struct block *block);

/* ---- totals of a device, and of the host ------------------------------------------------------- */

/* The device's totals at a mark. */
struct books_moment {
	bool reached;
	uint64_t time_ns;
	uint64_t allocated_bytes, reserved_bytes, driver_bytes;
};

/* What the framework's allocator has told of itself (TFMT_ALLOCATOR). */
struct told_books {
	uint64_t allocs;          /* blocks handed out */
	uint64_t requested_bytes; /* what was asked for them, until they were really free */
	uint64_t requested_peak_bytes;
	uint64_t retries;         /* allocations that worked or failed only after the cache had been emptied */
};

struct device_books {
	bool present; /* some event names it */

	uint64_t tensor_allocs, tensor_frees, tensor_ooms;
	uint64_t allocated_bytes, allocated_peak_bytes;
	uint64_t requested_bytes, requested_peak_bytes;
	bool has_unshaped; /* some block's shape is unknown: what was requested is then not known exactly */
	uint64_t oom_asked_bytes; /* the latest failed request that counts */
	/*
	 * The main thread's failed request for a tensor, since which it was given none on the device: what it raised ends the
	 * program, and what other threads ask for in vain after it counts no more, unless they were given as much as there was then:
	 * the program goes on without it. 0 = there is none.
	 */
	struct {
		uint64_t ordinal;
		uint64_t allocated, given; /* bytes of tensors then; to other threads since */
		uint32_t thread; /* TFMT_DEF_THREAD */
	} main_oom;
	bool is_beside_refused;   /* the driver's latest refusal was of others than the framework, and is a failure */
	uint64_t pool_refused_bytes;  /* what a pool has just refused the framework; 0 = nothing */
	uint32_t pool_refused_thread; /* the thread that a pool refused it on */

	uint64_t reserved_bytes, reserved_peak_bytes;
	uint64_t allocated_at_reserved_peak_bytes;
	uint64_t disagreements; /* reports that differ from the driver events since the report before */
	bool reported;          /* the framework has reported what it has reserved at least once */

	uint64_t driver_allocs, driver_frees, driver_refusals;
	uint64_t driver_bytes, driver_peak_bytes;
	uint64_t refused_bytes; /* the latest refused request */
	/* Of the driver's peak: by the tensor event that follows, for which the memory was taken. */
	uint64_t allocated_at_driver_peak_bytes;

	/* After damage: the total may be too high, and makes no peak, until a frame's header tells it. */
	bool allocated_unsure, driver_unsure;
	bool reserved_unsure; /* the driver gave or took what may be the framework's, and it has not reported since */
	bool context_missed; /* its modelled context may be missing: what headers say of the driver includes it */

	struct told_books told;
	struct books_moment moment[NR_MARKS];
};

/* Those of an ordinal below TFMT_NR_DEVICES, or of GROUP_HOST. Valid, and at one place, as long as the books. */
const struct device_books *books_device(const struct books *books, uint32_t device);

/* Is what the allocator told complete: was it told of every block? Then the bytes asked for are exact. */
bool books_told_all(const struct device_books *d);

/*
 * Does it say also how often the allocator emptied its cache to try again? Not with settings by which it
 * gives memory back for other reasons. conf: INFO `allocator_conf`, or NULL.
 */
bool books_told_retries(const struct device_books *d, const char *conf);

/* Memory of the host. */
struct host_books {
	uint64_t pinned_bytes, pinned_peak_bytes; /* page-locked, the driver's or the program's */
	uint64_t managed_bytes, managed_peak_bytes;
};

/* Valid, and at one place, as long as the books. */
const struct host_books *books_host(const struct books *books);

/* ---- what is in use beside the driver ledger ---------------------------------------------------- */

/*
 * A device at one moment. Context, code, local memory, what pools keep without lending it out, other processes, and the
 * unknown rest: what a recording samples, and what a simulated device models of the driver itself. The ledger and all
 * parts add up to what the driver says is in use, exactly: `unknown` is what is left, and below 0 when the ledger holds
 * more than the driver counts. Bytes.
 */
struct residual_parts {
	uint64_t time_ns;
	uint64_t total, used; /* what the driver says: capacity, and capacity less what is free */
	uint64_t ledger;      /* taken by calls that were recorded */
	uint64_t pool_cached; /* reserved by pools and not lent out */
	uint64_t pool_reserved;
	uint64_t context, code, local_memory;
	uint64_t other_processes;
	int64_t unknown;
	uint64_t own;         /* of this process, as NVML has it; 0 = it does not */
	bool knows_driver;    /* context, code and local memory are told apart */
	bool knows_processes; /* other_processes is known */
	bool is_fresh;        /* other_processes was asked for with the rest, where nothing is inferred from steps */
};

/* A device as it stands. Bytes. */
struct residual_figures {
	uint64_t nr_samples;
	uint64_t peak;   /* the most that a sample, or the model, showed beyond the ledger */
	uint64_t ledger; /* what calls have taken, as it stands */
	struct residual_parts last; /* the latest sample; zero before the first */
	bool has_last;   /* it was taken since the primary context was last reset */
	bool has_free;   /* instead, a sample told what was free but not of how much, as those of other tools */
	uint64_t free, free_ledger; /* of that sample; what calls had taken then */
};

/* Valid, and at one place, as long as the books. */
const struct residual_figures *books_residual(const struct books *books, uint32_t device);

/*
 * The device at the driver's peak: the sample nearest to it in time, brought to the peak by what the ledger changed in
 * between; on a simulated device, of those that came with what other processes have: they go on taking memory, which
 * would pass for unknown. False if there is no sample; then context and code are what is modelled and all else is 0.
 */
bool books_residual_at_peak(const struct books *books, uint32_t device, struct residual_parts *out);

/* What nvidia-smi shows for this process at that moment; false if nothing tells it. *measured: NVML told it. */
bool residual_process(const struct residual_parts *parts, uint64_t *bytes, bool *measured);

/* ---- NVTX ranges ------------------------------------------------------------------------------- */

/* A range by TFMT_DEF_STRING ids; domain 0 is the default one. */
struct range {
	uint32_t name, domain;
};

/* "step 3", of a domain of its own "NCCL: ncclAllReduce", "(unnamed)". Returns buf. */
const char *range_label(char *buf, size_t size, const struct tfmt_reader *reader, struct range range);

/*
 * The books once more by the ranges that blocks were allocated in: a group for each ledger, device and list of ranges.
 * They have the numbers 1 to books_nr_ranges(); only device, tensor and figures of such a group mean something.
 */
uint32_t books_nr_ranges(const struct books *books);
const struct group *books_range(const struct books *books, uint32_t range);

/* Its ranges, outermost first, and how many they are; to be freed. NULL and 0 of number 0, which is no range. */
struct range *books_range_list(const struct books *books, uint32_t range, uint32_t *nr);

/* How many ranges were begun while as many as a list may have of them had not ended: they are in no list. */
uint64_t books_ranges_left_out(const struct books *books);

/* The ranges of a trace without its books, to be given to ranges_close(). The reader is needed until then. */
struct ranges;
struct ranges *ranges_open(const struct tfmt_reader *reader);
void ranges_close(struct ranges *r); /* NULL: there is nothing to close */

/* Follow one event; all kinds may be given, in the order of the trace. */
void ranges_change(struct ranges *r, const struct tfmt_event *ev);
static inline void ranges_apply(struct ranges *r, const struct tfmt_event *ev)
{
	bool concerns = ev->kind == TFMT_LOST || (ev->kind >= TFMT_RANGE_PUSH && ev->kind <= TFMT_PHASE_END);

	if (concerns)
		ranges_change(r, ev);
}

/* What was met so far. */
struct ranges_figures {
	uint64_t nr_ranges, nr_marks; /* entered or begun; marks */
	uint64_t nr_left_out;         /* as books_ranges_left_out() */
	uint32_t *domain;             /* TFMT_DEF_STRING ids seen, but the default one */
	uint32_t nr_domains;
};
const struct ranges_figures *ranges_figures(const struct ranges *r);

/* ---- communicators, calls past the hooks, values read ------------------------------------------- */

/* NCCL's, and what each of them holds. The recorder numbers them. */
struct communicator {
	uint32_t number;   /* 0: memory of NCCL that cannot be told to belong to one */
	uint32_t nr_ranks; /* 0 = not known */
	int64_t rank;      /* of this process; -1 = not known */
	uint8_t device;    /* that it was made on; TFMT_DEVICE_NONE = not known */
	uint64_t bytes;    /* whatever the maker of the list says: what it holds at some moment */
};

/* A list of them; zero before first use. */
struct communicators {
	struct communicator *row; /* by number */
	size_t nr_rows, room;
};
void communicators_release(struct communicators *c);

/*
 * What a function says of its communicator: of those that belong to one, the name ends in ", communicator 1 of 8 ranks"
 * (tracefmt/FORMAT.md). False if it names none.
 */
bool communicator_of(const char *function, uint32_t *number, uint32_t *nr_ranks);

/*
 * The communicator of that number, added if it is not there; that of number 0 if the number cannot be right.
 * Valid until the next is added.
 */
struct communicator *communicators_row(struct communicators *c, uint32_t number);

/* The rank of this process in the first communicator that it shares with others: that of the job, mostly; -1: in none. */
int64_t communicators_rank(const struct communicators *c);

/* Those that were made so far; their bytes are 0. */
const struct communicators *books_communicators(const struct books *books);

/*
 * Memory calls that reached the driver past the hooks: CUPTI told of them (TFMT_UNHOOKED). They change no ledger; how many
 * there were says how far the ledger is to be trusted. Zero before first use.
 */
struct unhooked {
	uint64_t allocs, alloc_bytes, frees, others;
	uint16_t function; /* of the first */
};

/* Enter one TFMT_UNHOOKED event. */
void unhooked_add(struct unhooked *u, const struct tfmt_event *ev);

/*
 * "2 allocations (64 MiB), 1 free; first cuMemAlloc_v2" into buf, which it returns; NULL when there were
 * none.
 */
char *unhooked_text(char *buf, size_t size, const struct unhooked *u, const struct tfmt_reader *reader);

/* Those of the process so far. */
const struct unhooked *books_unhooked(const struct books *books);

/* Where the host read values that kernels of a simulated device would have computed: all reads with one stack. */
struct value_read {
	uint32_t python_stack, native_stack;
	uint64_t reads, bytes;
	uint64_t first_ns;
};

/* All of them, *nr, in order of first read. NULL if there are none. */
const struct value_read *books_value_reads(const struct books *books, uint32_t *nr);

/* ---- keeping the books -------------------------------------------------------------------------- */

/*
 * Somebody who follows tensor blocks, and is told what the books make of an event while they enter it. The books keep a
 * number of the listener's with each block; nothing else that it does comes back to them. All is said of the event that
 * books_apply() was called with, but for note_past() and what is_over tells; `device` is an ordinal, or GROUP_HOST.
 * None of these may change the books.
 */
struct books_listener {
	void *ctx; /* that all are called with */

	/*
	 * This event's block, of a group by its index, has come onto the books; with it so much is allocated on the device,
	 * 0 where that is not sure. Returns the listener's number, 0 = none.
	 */
	uint64_t (*begin_block)(void *ctx, const struct tfmt_event *ev, uint8_t device, uint32_t group,
				uint64_t allocated_bytes);

	/*
	 * All of the tensor in the block with this number has been copied there from the host, or from another block's, all of it
	 * too; original 0: from elsewhere.
	 */
	void (*note_copy)(void *ctx, uint64_t number, bool is_from_host, uint64_t original);

	/* The block with this number leaves the books. */
	void (*end_block)(void *ctx, uint64_t number);

	/* So much is allocated on the device, and that is sure: more than before, by bytes that are of no block. */
	void (*note_total)(void *ctx, uint8_t device, uint64_t allocated_bytes);

	/* MARK_OOM: the event is a failed request that counts. MARK_TIME: it lies before the event, or after the last. */
	void (*note_mark)(void *ctx, uint8_t device, enum group_mark mark, bool is_over);

	/* books_past(): what was entered so far was live when the recording began to be kept; the peak before. */
	void (*note_past)(void *ctx, uint8_t device, uint64_t allocated_peak_bytes);
};

/*
 * Books in which nothing is entered, to be given to books_release(). The reader is the one that the events come from; the
 * mapping is of the same trace. With the symbols, which rules of owners may ask for, they are needed until the release.
 */
struct books *books_open(const struct tfmt_reader *reader, struct mapping *mapping, struct symbols *symbols);

/* NULL: there is nothing to release. */
void books_release(struct books *books);

/* From here on the listener is told. It is the caller's, and needed until the books are released; NULL: nobody is. */
void books_listen(struct books *books, const struct books_listener *listener);

/* Before the first event: MARK_TIME is to be at this time. If none is asked for there is no such mark. */
void books_ask_time(struct books *books, uint64_t time_ns);

/*
 * Enter one event. `phase` is noted in groups that are new with it (group.phase), and has no other meaning here.
 * Events of teardown count in no figure.
 */
void books_apply(struct books *books, const struct tfmt_event *ev, uint8_t phase);

/*
 * Is nothing missing, no moment waited for, and the past entered? Nothing but books_apply() and books_damaged() changes
 * that.
 */
bool books_is_calm(const struct books *books);

/*
 * Is it one of the events that nearly all are: of a tensor? Books that are calm may be given such by books_apply_plain()
 * as well, which is quicker.
 */
static inline bool books_is_plain(const struct tfmt_event *ev)
{
	bool is_tensor = ev->kind == TFMT_TENSOR_ALLOC || ev->kind == TFMT_TENSOR_FREE;

	return is_tensor && !ev->before && !(ev->flags & TFMT_FLAG_TEARDOWN);
}

void books_apply_plain(struct books *books, const struct tfmt_event *ev, uint8_t phase);

/*
 * What a flight recorder dropped has come to this, after its last event (tfmt_event.before), or, without more events,
 * at the end: figures of the whole job take the place of those of the blocks that were entered; NULL: there are none.
 * Who held memory at a peak before is not known: all of it is in a group of its own (group.before). Does nothing after the
 * first call.
 */
void books_past(struct books *books, const struct tfmt_figures *f);

/* Was books_past() called? */
bool books_has_past(const struct books *books);

/* Has nobody counted the tensors before the kept part? So it is where they come from the driver's pools. */
bool books_is_past_untold(const struct books *books);

/*
 * Does a call that took memory, or gave it back, stand for a tensor? PyTorch takes memory of the driver's pools only with
 * backend:cudaMallocAsync: one piece for each tensor, and nothing is reported to the profiler then. While it captures a
 * graph the pieces are the graph's.
 */
bool books_is_pooled_tensor(struct books *books, const struct tfmt_event *ev);

/*
 * The reader has reported damage: totals go on from what the next header tells, and the difference to what is known
 * block by block is in groups of its own (group.unrecorded).
 */
void books_damaged(struct books *books);

/* Was there damage? Events must then be read one at a time: the books ask what the reader knows to be live at each. */
bool books_is_damaged(const struct books *books);

/*
 * After the last event, which was at `time_ns`: totals become what the end of the trace says, and the figures of every
 * group at its device's marks are valid.
 */
void books_settle(struct books *books, uint64_t time_ns);

/* The reader that the books were opened with: of stacks, shapes and names that groups have by their ids. */
const struct tfmt_reader *books_reader(const struct books *books);

#endif
