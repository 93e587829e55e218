/* SPDX-License-Identifier: MIT */
/* Nodes of PyTorch's autograd: a table of where they were made, and their classes' names. */
#include "autograd.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "callstack.h"
#include "hooks_torch.h"
#include "pyframes.h"
#include "stackpool.h"
#include "stacktree.h"
#include "strings.h"

/* ---- where nodes were made ---------------------------------------------------------------------- */

/*
 * The latest nodes by number: 2 MiB of which as much is touched as there are nodes. One word each, so that
 * no reader sees half of one: 12 bits of the thread, 29 of the number, 23 of the stack id (STACKTREE_MAX).
 */
#define MADE_SLOTS (1u << 18)
#define STACK_BITS 23
#define NUMBER_BITS 29
#define THREAD_BITS 12
#define CLASS_SLOTS 512u
#define CLASS_BITS 19 /* beside a virtual table's address, without its three zeros */

struct autograd_table {
	_Atomic uint64_t made[MADE_SLOTS];
	_Atomic uint64_t class[CLASS_SLOTS]; /* virtual table >> 3 << CLASS_BITS | string id or CLASS_PYTHON */
};

static IP_COLD struct autograd_table *table_make(void)
{
	struct autograd_table *fresh = ip_map(sizeof(*fresh)), *t = NULL;

	if (fresh && !atomic_compare_exchange_strong(&ip_recorder->autograd, &t, fresh))
		ip_unmap(fresh, sizeof(*fresh));
	return t ? t : fresh;
}

static struct autograd_table *table(void)
{
	struct autograd_table *t = atomic_load_explicit(&ip_recorder->autograd, memory_order_acquire);

	return t ? t : table_make();
}

static uint64_t key_of(uint64_t thread, uint64_t number)
{
	return (thread & ((1u << THREAD_BITS) - 1)) << NUMBER_BITS | (number & ((1u << NUMBER_BITS) - 1));
}

/* Threads count from 0 each: spread, so that the low numbers of several do not meet. */
static _Atomic uint64_t *slot_of(struct autograd_table *t, uint64_t thread, uint64_t number)
{
	return &t->made[(number + thread * 40503u) & (MADE_SLOTS - 1)];
}

void autograd_made(uint64_t thread, uint64_t number, uint32_t python_stack)
{
	uint64_t word = key_of(thread, number) << STACK_BITS | python_stack;
	struct autograd_table *t = table();

	if (t)
		atomic_store_explicit(slot_of(t, thread, number), word, memory_order_relaxed);
}

/*
 * torch::autograd::Node begins with its virtual table and its base's reference counts; then come number,
 * topological number, flags, thread. How long the counts are is told by the base in Node's type
 * information: a weak_ptr's two words, or in PyTorch 2.15 an intrusive pointer's one.
 */
struct node_facts {
	uint64_t number, topological_number, flags, thread;
};
#define BASES_MAX 16u

struct type_information {
	const void *virtual_table;
	const char *name; /* mangled */
	union {
		const struct type_information *only; /* a class with one base, at its beginning */
		struct {
			uint32_t flags, nr;
		} bases; /* others: followed by each base's type and 256 times its offset */
	};
	const struct type_information *first;
	int64_t first_offset;
};

static IP_COLD unsigned offset_of_facts(const struct type_information *t)
{
	if (t->bases.nr > BASES_MAX) /* then it is a pointer's upper half */
		return strcmp(t->only->name, "N3c1020intrusive_ptr_targetE") ? 0 : 16;
	if (strncmp(t->first->name, "St23enable_shared_from_thisI", 28) || t->first_offset >> 8 != 8)
		return 0;
	return 24;
}

/* Where the facts lie in a node: found once, then known; 0 = not to be had. */
static unsigned facts_offset(void)
{
	static struct real_function type = { "libtorch_cpu.so", "_ZTIN5torch8autograd4NodeE", NULL, false };
	static _Atomic uint8_t known; /* offset + 1 */
	unsigned offset = atomic_load_explicit(&known, memory_order_relaxed);
	const struct type_information *t;

	if (offset)
		return offset - 1;
	t = torch_function(&type, NULL);
	offset = t ? offset_of_facts(t) : 0;
	atomic_store_explicit(&known, (uint8_t)(offset + 1), memory_order_relaxed);
	return offset;
}

/* The Python stack with which forward made the node; TFMT_STACK_NOT_CAPTURED if that is not known. */
static uint32_t made_at(const struct open_node *n)
{
	struct autograd_table *known = table();
	uint64_t word;

	if (!known || n->number == UINT64_MAX)
		return TFMT_STACK_NOT_CAPTURED;
	word = atomic_load_explicit(slot_of(known, n->thread, n->number), memory_order_relaxed);
	if (word >> STACK_BITS != key_of(n->thread, n->number))
		return TFMT_STACK_NOT_CAPTURED;
	return (uint32_t)(word & ((1u << STACK_BITS) - 1));
}

void autograd_node_begin(struct open_node *n, const void *node)
{
	unsigned offset = facts_offset();
	const struct node_facts *f = (const struct node_facts *)((const char *)node + offset);

	n->held_before = pyframes_hold();
	n->frame = pyframes_newest();
	n->node = node;
	n->virtual_table = *(const void *const *const *)node;
	/* AccumulateGrad and its like have no number: they belong to no operation. */
	n->number = offset ? f->number : UINT64_MAX;
	n->thread = offset ? f->thread : 0;
	n->stack = 0;
	n->made_stack = 0;
}

void autograd_end_left_passes(struct ip_thread *t, const struct unwind_registers *at)
{
	struct unwind_registers here = at ? *at : UNWIND_CALLER();
	uint32_t depth;

	while (open_pass_drop_gone(t, &here, &depth)) {
		struct tfmt_record ev = {
			.kind = TFMT_PHASE_END,
			.device = TFMT_DEVICE_NONE,
			.address = TFMT_PHASE_BACKWARD,
			.aux = depth,
		};

		ip_record(t, &ev);
	}
}

/* ---- what nodes are called ---------------------------------------------------------------------- */

/* Of torch::autograd::PyNode: each has a Python class of its own. No text's id: names come first, and are few. */
#define CLASS_PYTHON ((1u << CLASS_BITS) - 1)
#define NAME_BYTES 512u

/*
 * The last part of a name, possibly nested: "MmBackward0" of "N5torch8autograd9generated11MmBackward0E";
 * its length.
 */
static size_t last_part(const char *mangled, const char **part)
{
	const char *p = mangled + (*mangled == 'N');
	size_t len = 0, n;
	char *end;

	while (isdigit((unsigned char)*p)) {
		n = strtoul(p, &end, 10);
		if (strnlen(end, n) != n)
			break;
		*part = end;
		len = n;
		p = end + n;
	}
	return len;
}

/* "CppNode<Function>" for a class made from another; the mangled name where that has no parts. */
static uint32_t class_name(const char *mangled)
{
	const char *part, *of;
	char text[NAME_BYTES];
	size_t len, of_len;

	mangled += *mangled == '*'; /* of a type that only its own library knows */
	len = last_part(mangled, &part);
	if (!len)
		return ip_string_few(mangled, strlen(mangled));
	if (len == 6 && !memcmp(part, "PyNode", 6))
		return CLASS_PYTHON;
	of_len = part[len] == 'I' ? last_part(part + len + 1, &of) : 0;
	if (!of_len || len + of_len + 2 > sizeof(text))
		return ip_string_few(part, len);
	memcpy(text, part, len);
	text[len] = '<';
	memcpy(text + len + 1, of, of_len);
	text[len + 1 + of_len] = '>';
	return ip_string_few(text, len + of_len + 2);
}

/* Copy memory that may not be there; false if it is not all there, or the kernel does not let us. */
static bool read_memory(void *to, const void *from, size_t bytes)
{
	struct iovec local = { to, bytes }, remote = { (void *)(uintptr_t)from, bytes };

	return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)bytes;
}

#define NODE_WORDS 64u
#define OBJECT_WORDS 64u
#define TYPE_NAME 24  /* PyTypeObject.tp_name */
#define TYPE_SIZE 32  /* .tp_basicsize */
#define TYPE_BASE 256 /* .tp_base */

/* Whether a type is that of PyTorch's Function objects or, by its first bases, made from it. */
static bool is_function_type(const void *type)
{
	static struct real_function f = { "libtorch_python.so", "THPFunctionType", NULL, false };
	const void *functions = torch_function(&f, NULL);

	for (unsigned i = 0; functions && type && i < BASES_MAX; i++) {
		if (type == functions)
			return true;
		if ((uintptr_t)type % 8 || !read_memory(&type, (const char *)type + TYPE_BASE, sizeof(type)))
			return false;
	}
	return false;
}

/* A Function object that refers back to its node. */
static bool is_function_of(const void *object, const void *node)
{
	const void *word[OBJECT_WORDS] = { NULL };
	const char *type;
	uint64_t bytes;

	if ((uintptr_t)object % 8 || !read_memory(&type, (const char *)object + PY_OB_TYPE, sizeof(type)) ||
	    !is_function_type(type) || !read_memory(&bytes, type + TYPE_SIZE, sizeof(bytes)))
		return false;
	if (!read_memory(word, object, bytes < sizeof(word) ? bytes : sizeof(word)))
		return false;
	for (unsigned i = 2; i < OBJECT_WORDS; i++) {
		if (word[i] == node)
			return true;
	}
	return false;
}

/* Where a PyNode keeps its Python object: looked for once, then known; 0 = not found. */
static unsigned object_offset(const void *node)
{
	static _Atomic uint16_t known;
	unsigned offset = atomic_load_explicit(&known, memory_order_relaxed);
	const void *word[NODE_WORDS];

	if (offset || !read_memory(word, node, sizeof(word)))
		return offset;
	for (unsigned i = 1; i < NODE_WORDS && !offset; i++) {
		if (word[i] && is_function_of(word[i], node))
			offset = i * 8;
	}
	atomic_store_explicit(&known, (uint16_t)offset, memory_order_relaxed);
	return offset;
}

/*
 * The class that torch.autograd.Function made for a function's gradient: "MyFunctionBackward". The node itself is looked
 * into once more: it must still be there, beyond doubt.
 */
static uint32_t python_name(struct ip_thread *t, const struct open_node *n)
{
	unsigned offset = pyframes_layout() && open_node_is_certain(t, n) ? object_offset(n->node) : 0;
	const void *object = offset ? py_pointer(n->node, offset) : NULL;
	const char *name = object ? py_pointer(py_pointer(object, PY_OB_TYPE), TYPE_NAME) : NULL;

	return name ? ip_string_few(name, strlen(name)) : ip_string_few("PyNode", 6);
}

/*
 * The TFMT_DEF_STRING id of the node's class, as PyTorch's grad_fn.name() has it: "MmBackward0",
 * "MyFunctionBackward" of a Python function; of a C++ one "CppNode<MyFunction>", without namespaces. 0 =
 * not to be had.
 */
static uint32_t node_name(struct ip_thread *t, const struct open_node *n)
{
	uint64_t key = (uintptr_t)n->virtual_table >> 3, word;
	struct autograd_table *known = table();
	_Atomic uint64_t *slot;
	uint32_t name;

	if (!known)
		return 0;
	slot = &known->class[(key * 0x9e3779b97f4a7c15u) >> 55];
	word = atomic_load_explicit(slot, memory_order_relaxed);
	if (word >> CLASS_BITS == key) {
		name = word & CLASS_PYTHON;
	} else {
		const struct type_information *type = n->virtual_table[-1];

		if (!type) /* compiled without */
			return 0;
		name = class_name(type->name);
		if (name && name <= CLASS_PYTHON)
			atomic_store_explicit(slot, key << CLASS_BITS | name, memory_order_relaxed);
	}
	return name == CLASS_PYTHON ? python_name(t, n) : name;
}

/* ---- stacks ------------------------------------------------------------------------------------- */

static uint32_t python_stack(struct ip_thread *t, const void *from, struct open_node *n);

/* The frames of what has called the node; CALLSTACK_APART if they are not those of this thread's stack. */
static uint32_t callers_stack(struct ip_thread *t, struct open_node *n)
{
	return n->frame ? python_stack(t, n->frame, open_node_outer(t, n)) : STACKTREE_ROOT;
}

/* What node_stack() gives, of a node that nobody has asked about yet. */
static IP_COLD uint32_t find_node_stack(struct ip_thread *t, struct open_node *n)
{
	uint32_t name = node_name(t, n), forward, older;
	struct callstack *cs;

	if (!name)
		return 0;
	forward = made_at(n);
	older = forward;
	if (older < TFMT_STACK_FIRST)
		older = callers_stack(t, n);
	if (older < TFMT_STACK_FIRST || older == CALLSTACK_APART)
		older = STACKTREE_ROOT;
	cs = stackpool_take(t);
	n->stack = cs ? callstack_node(cs, older, name, forward >= TFMT_STACK_FIRST) : 0;
	stackpool_give(t, cs);
	n->generation = ip_recorder->generation;
	return n->stack;
}

/* A running node as a frame, on what made it or on what runs it; 0 if it has none. */
static inline uint32_t node_stack(struct ip_thread *t, struct open_node *n)
{
	return n->stack && n->generation == ip_recorder->generation ? n->stack : find_node_stack(t, n);
}

/* The Python stack from a frame (NULL: the newest) on, inside the node n (NULL: none). */
static uint32_t python_stack(struct ip_thread *t, const void *from, struct open_node *n)
{
	uint32_t base = n ? node_stack(t, n) : STACKTREE_ROOT, id;
	const void *newest = from ? from : pyframes_newest(), *until = base ? n->frame : NULL;
	struct callstack *cs;

	if (!newest || newest == until)
		return callstack_without_python(base);
	cs = stackpool_take(t);
	id = cs ? callstack_python_from(cs, base, newest, until) : TFMT_STACK_NOT_CAPTURED;
	stackpool_give(t, cs);
	return id;
}

uint32_t autograd_python_stack(struct ip_thread *t, struct open_node **node)
{
	uint32_t stack = python_stack(t, NULL, *node);

	if (stack != CALLSTACK_APART)
		return stack;
	open_node_drop(*node);
	*node = NULL;
	stack = python_stack(t, NULL, NULL);
	return stack;
}
