/* SPDX-License-Identifier: MIT */
/*
 * PyTorch's autograd, by three functions that libtorch_cpu exports and reaches through its own PLT: a
 * backward pass begins and ends, a node runs, forward makes a node. C++ functions of stable names and
 * C-compatible arguments; exceptions pass through (-fexceptions), and what ends with a call ends then, too.
 */
#include "autograd.h"

#include "arch.h"
#include "env.h"
#include "hooks_torch.h"
#include "opencall.h"

/* ---- backward ----------------------------------------------------------------------------------- */

struct backward {
	struct open_mark mark;
	uint32_t depth; /* how many nodes it is within */
	bool noted;
};

static void phase_event(uint8_t kind, uint32_t depth, bool makes_graph)
{
	struct tfmt_record ev = {
		.kind = kind,
		.device = TFMT_DEVICE_NONE,
		.address = TFMT_PHASE_BACKWARD,
		.size = makes_graph,
		.aux = depth,
	};
	int saved = errno;
	struct ip_thread *t = ip_state() == IP_RECORDING ? ip_event_thread() : NULL;

	if (t) {
		t->busy = true;
		ip_record(t, &ev);
		t->busy = false;
	}
	errno = saved;
}

/* Before another pass begins: record the end of those that have been left by a jump. */
static void end_left_passes(const struct unwind_registers *at)
{
	int saved = errno;
	struct ip_thread *t = open_passes_doubtful(at) && ip_state() == IP_RECORDING ? ip_thread_get() : NULL;

	if (t) {
		t->busy = true;
		autograd_end_left_passes(t, at);
		t->busy = false;
	}
	errno = saved;
}

static __attribute__((noinline)) void backward_begin(struct backward *b, const struct unwind_registers *at, bool makes_graph)
{
	struct open_calls *o = open_calls();

	end_left_passes(at);
	b->depth = open_nodes_around(at);
	b->noted = o && open_pass_push(o, &b->mark, at, b->depth);
	phase_event(TFMT_PHASE_BEGIN, b->depth, makes_graph);
}

/*
 * Record the end of a pass, and of those within it that have been left by a jump. Its own end may have been recorded
 * already, when it was thought to be gone.
 */
static void backward_end(struct backward *b)
{
	uint32_t depth;

	if (!b->noted)
		phase_event(TFMT_PHASE_END, b->depth, false);
	while (open_pass_pop(&b->mark, &depth))
		phase_event(TFMT_PHASE_END, depth, false);
}

/* variable_list torch::autograd::Engine::execute(roots, inputs, keep, create, accumulate, outputs) */
#define EXECUTE(name)                                                                                       \
	ARCH_OBJECT_ENTRY(name)                                                                             \
	ARCH_OBJECT_BODY void *ARCH_OBJECT_NAME(name)(void *place, void *engine, const void *roots,         \
						      const void *inputs, bool keep, bool create,           \
						      bool accumulate, const void *outputs);                \
	ARCH_OBJECT_BODY void *ARCH_OBJECT_NAME(name)(void *place, void *engine, const void *roots,         \
						      const void *inputs, bool keep, bool create,           \
						      bool accumulate, const void *outputs)                 \
	{                                                                                                   \
		static struct real_function f = { "libtorch_cpu.so", #name, NULL, false };                  \
		__typeof__(&ARCH_OBJECT_NAME(name)) real =                                                  \
			(__typeof__(real))torch_function(&f, (const void *)name);                           \
		struct unwind_registers at = UNWIND_CALLER();                                               \
		__attribute__((cleanup(backward_end))) struct backward b = { 0 };                           \
                                                                                                            \
		backward_begin(&b, &at, create);                                                            \
		return ARCH_OBJECT_CALL7(real, place, engine, roots, inputs, keep, create, accumulate,      \
					 outputs);                                                          \
	}
EXECUTE(_ZN5torch8autograd6Engine7executeERKSt6vectorINS0_4EdgeESaIS3_EERKS2_IN2at6TensorESaIS9_EEbbbS7_)

/* Kept apart from the hook, whose frame is to be small: it stays on the stack for as long as what runs in the node. */
static __attribute__((noinline)) void node_begin(struct open_mark *m, const struct unwind_registers *at, const void *node)
{
	struct open_calls *o = open_calls();

	if (o)
		autograd_node_begin(open_node_push(o, m, at), node);
}

/* void torch::autograd::Engine::evaluate_function(graph_task, Node *, InputBuffer &, ready_queue) */
#define EVALUATE(name)                                                                                      \
	IP_EXPORT void name(void *engine, void *graph_task, void *node, void *inputs, const void *ready);   \
	IP_EXPORT void name(void *engine, void *graph_task, void *node, void *inputs, const void *ready)    \
	{                                                                                                   \
		static struct real_function f = { "libtorch_cpu.so", #name, NULL, false };                  \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name);         \
		struct unwind_registers at = UNWIND_CALLER();                                               \
		__attribute__((cleanup(open_node_pop))) struct open_mark m = { 0, 0 };                      \
                                                                                                            \
		node_begin(&m, &at, node);                                                                  \
		real(engine, graph_task, node, inputs, ready);                                              \
	}
EVALUATE(_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE)

/* ---- forward ------------------------------------------------------------------------------------ */

/* at::RecordFunction::currentThreadId(): the number that each new node is given for its thread. */
static uint64_t torch_thread(struct ip_thread *t)
{
	static struct real_function f = { "libtorch_cpu.so", "_ZN2at14RecordFunction15currentThreadIdEv", NULL,
					  false };
	uint64_t (*get)(void);

	if (!t->torch_thread) {
		get = (uint64_t(*)(void))torch_function(&f, NULL);
		t->torch_thread = get ? get() : 0;
	}
	return t->torch_thread;
}

static void node_made(uint64_t number)
{
	struct ip_thread *t = ip_thread_get(); /* no event: nothing is lost with it */
	struct open_node *node;
	uint32_t stack;
	int saved;

	if (!t)
		return;
	saved = *t->errno_at;
	t->busy = true;
	node = open_node_find(t, NULL);
	stack = autograd_python_stack(t, &node);
	*autograd_made_stack(t, node) = stack;
	autograd_made(torch_thread(t), number, stack);
	t->busy = false;
	*t->errno_at = saved;
}

/*
 * uint64_t at::sequence_number::get_and_increment(): called by every new node that an operation of forward
 * makes.
 */
#define NUMBER(name)                                                                                        \
	IP_EXPORT uint64_t name(void);                                                                      \
	IP_EXPORT uint64_t name(void)                                                                       \
	{                                                                                                   \
		static struct real_function f = { "libtorch_cpu.so", #name, NULL, false };                  \
		__typeof__(&name) real = (__typeof__(&name))torch_function(&f, (const void *)name);         \
		uint64_t number = real();                                                                   \
                                                                                                            \
		if (ip_state() == IP_RECORDING && ip_env.stacks != IP_STACKS_NONE)                          \
			node_made(number);                                                                  \
		return number;                                                                              \
	}
NUMBER(_ZN2at15sequence_number17get_and_incrementEv)
