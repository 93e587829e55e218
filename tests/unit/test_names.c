/* SPDX-License-Identifier: MIT */
/* What blocks are called, and who keeps them: by made-up censuses beside a made-up trace. */
#include "synthetic_census.h"


#include "analyzer/findings/sentence.h"
#include "analyzer/names/letgo.h"
#include "analyzer/names/namegroups.h"
#include "analyzer/purpose/namedblocks.h"
#include "analyzer/replay/replay.h"

#define BLOCK 4096u
#define LINKED 100000u
#define ADDRESS(i) (0x10000u * (uint64_t)((i) + 1))
#define TIME(event) (SYNTHETIC_START + SYNTHETIC_STEP * (uint64_t)(event) + 1) /* just after event number `event` */

static struct synthetic trace;
static struct replay m;

/* A trace in which `nr` blocks are allocated one after the other. */
static void begin(unsigned nr)
{
	struct tfmt_header header = synthetic_header(7);

	synthetic_open(&trace, "a.vtr", &header);
	for (unsigned i = 0; i < nr; i++)
		synthetic_event(&trace, TFMT_TENSOR_ALLOC, 0, ADDRESS(i), BLOCK, 1 << 20);
}

static void load(void)
{
	struct replay_options options = { .names = true, .quiet = true };

	synthetic_close(&trace, 0);
	m = (struct replay)REPLAY_INIT;
	assert_int_equal(replay_load(&m, "a.vtr", &options), 0);
}

static const struct names *names(void)
{
	return m.process[0].names;
}

/* The name at a moment of a block that event `birth` has made, and that has not ended; NULL: none. */
static const char *name_at(unsigned block, uint64_t birth, uint64_t death, uint64_t moment)
{
	static struct named named;
	struct names_block b = { .address = ADDRESS(block), .size = BLOCK, .birth = birth, .death = death };

	return names_find(&named, names(), &b, moment) ? named.name.text : NULL;
}

static struct named named_of(unsigned block)
{
	struct names_block b = { .address = ADDRESS(block), .size = BLOCK, .birth = block, .death = TFMT_NO_ORDINAL };
	struct named named = { 0 };

	assert_true(names_find(&named, names(), &b, TFMT_NO_ORDINAL));
	return named;
}

#define check_name(block, text_is, pattern_is, use_is)                     \
	do {                                                                \
		struct named named_ = named_of(block);                      \
                                                                            \
		assert_string_equal(named_.name.text, text_is);             \
		assert_string_equal(named_.name.pattern, pattern_is);       \
		assert_int_equal(named_.use, use_is);                       \
	} while (0)

/* ---- names ---------------------------------------------------------------------------------------- */

static void test_module_paths(void **state)
{
	struct synthetic_census c;
	uint32_t model, layers, layer, up, optimizer, states, entry, weight;

	(void)state;
	begin(4);
	synthetic_census_open(&c, "a.1.names", 7, TIME(3));
	model = synthetic_local(&c, TFMT_KIND_MODULE, "model");
	layers = synthetic_own(&c, model, "_modules", TFMT_KIND_MODULE, "layers");
	layer = synthetic_own(&c, layers, "_modules", TFMT_KIND_MODULE, "3");
	up = synthetic_own(&c, layer, "_modules", TFMT_KIND_MODULE, "up_proj");
	weight = synthetic_own(&c, up, "_parameters", TFMT_KIND_PARAMETER, "weight");
	synthetic_tensor(&c, weight, ADDRESS(0), BLOCK);
	synthetic_tensor(&c, synthetic_own(&c, layer, "_buffers", TFMT_KIND_TENSOR, "scale"), ADDRESS(1), BLOCK);
	synthetic_tensor(&c, synthetic_element(&c, weight, TFMT_EDGE_GRADIENT, TFMT_KIND_TENSOR, 0), ADDRESS(2), BLOCK);
	optimizer = synthetic_local(&c, TFMT_KIND_OPTIMIZER, "optimizer");
	states = synthetic_object(&c, optimizer, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "state");
	entry = synthetic_element(&c, states, TFMT_EDGE_OBJECT, TFMT_KIND_DICT, weight);
	synthetic_tensor(&c, synthetic_object(&c, entry, TFMT_EDGE_KEY, TFMT_KIND_TENSOR, "exp_avg"), ADDRESS(3), BLOCK);
	synthetic_census_close(&c, true);
	load();
	check_name(0, "model.layers.3.up_proj.weight", "model.layers.*.up_proj.weight", USE_PARAMETER);
	check_name(1, "model.layers.3.scale", "model.layers.*.scale", USE_BUFFER);
	check_name(2, "model.layers.3.up_proj.weight.grad", "model.layers.*.up_proj.weight.grad", USE_GRADIENT);
	check_name(3, "exp_avg of model.layers.3.up_proj.weight", "exp_avg of model.layers.*.up_proj.weight",
		   USE_OPTIMIZER_STATE);
	replay_release(&m);
}

/* A model is called by its own path, wherever it hangs. */
static void test_where_a_model_hangs(void **state)
{
	struct synthetic_census c;
	uint32_t object;

	(void)state;
	begin(2);
	synthetic_census_open(&c, "a.1.names", 7, TIME(1));
	object = synthetic_object(&c, synthetic_local(&c, TFMT_KIND_OTHER, "llm"), TFMT_EDGE_ATTRIBUTE, TFMT_KIND_OTHER,
				  "model_runner");
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_MODULE, "model");
	synthetic_tensor(&c, synthetic_own(&c, object, "_parameters", TFMT_KIND_PARAMETER, "weight"), ADDRESS(0), BLOCK);
	object = synthetic_local(&c, TFMT_KIND_LIST, "experts");
	object = synthetic_element(&c, object, TFMT_EDGE_INDEX, TFMT_KIND_MODULE, 2);
	synthetic_tensor(&c, synthetic_own(&c, object, "_parameters", TFMT_KIND_PARAMETER, "bias"), ADDRESS(1), BLOCK);
	synthetic_census_close(&c, true);
	load();
	check_name(0, "model.weight", "model.weight", USE_PARAMETER);
	check_name(1, "experts[2].bias", "experts[*].bias", USE_PARAMETER);
	replay_release(&m);
}

static void test_containers(void **state)
{
	struct synthetic_census c;
	uint32_t object;

	(void)state;
	begin(6);
	synthetic_census_open(&c, "a.1.names", 7, TIME(5));
	c.function = "Trainer.fit";
	object = synthetic_object(&c, 0, TFMT_EDGE_LOCAL, TFMT_KIND_OTHER, "self");
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_LIST, "history");
	synthetic_tensor(&c, synthetic_element(&c, object, TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, 17), ADDRESS(0), BLOCK);
	object = synthetic_object(&c, 0, TFMT_EDGE_GLOBAL, TFMT_KIND_PYTHON_MODULE, "__main__");
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "kept"), ADDRESS(1), BLOCK);
	object = synthetic_object(&c, 0, TFMT_EDGE_GLOBAL, TFMT_KIND_PYTHON_MODULE, "pkg.mod");
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "CACHE");
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_KEY, TFMT_KIND_TENSOR, "layers.12.kv"), ADDRESS(2), BLOCK);
	synthetic_tensor(&c, synthetic_element(&c, object, TFMT_EDGE_NUMBER, TFMT_KIND_TENSOR, 5), ADDRESS(3), BLOCK);
	c.class_name = "list";
	object = synthetic_object(&c, 0, TFMT_EDGE_CYCLE, TFMT_KIND_LIST, NULL);
	synthetic_tensor(&c, synthetic_element(&c, object, TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, 0), ADDRESS(4), BLOCK);
	object = synthetic_local(&c, TFMT_KIND_DEQUE, "recent");
	synthetic_tensor(&c, synthetic_element(&c, object, TFMT_EDGE_MEMBER, TFMT_KIND_TENSOR, 0), ADDRESS(5), BLOCK);
	synthetic_census_close(&c, true);
	load();
	check_name(0, "self.history[17]", "self.history[*]", USE_UNKNOWN);
	check_name(1, "kept", "kept", USE_UNKNOWN);
	check_name(2, "pkg.mod.CACHE['layers.12.kv']", "pkg.mod.CACHE['layers.*.kv']", USE_UNKNOWN);
	check_name(3, "pkg.mod.CACHE[-3]", "pkg.mod.CACHE[*]", USE_UNKNOWN);
	check_name(4, "in a reference cycle (list)", "in a reference cycle (list)", USE_UNKNOWN);
	check_name(5, "recent[*]", "recent[*]", USE_UNKNOWN);
	replay_release(&m);
}

/* What lies on this device of a sharded tensor goes by the tensor's name, and is what that is. */
static void test_parts_of_sharded_tensors(void **state)
{
	struct synthetic_census c;
	uint32_t weight, object;

	(void)state;
	begin(3);
	synthetic_census_open(&c, "a.1.names", 7, TIME(2));
	object = synthetic_own(&c, synthetic_local(&c, TFMT_KIND_MODULE, "model"), "_modules", TFMT_KIND_MODULE, "up");
	weight = synthetic_own(&c, object, "_parameters", TFMT_KIND_TENSOR, "weight");
	object = synthetic_object(&c, weight, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "_local_tensor");
	synthetic_tensor(&c, object, ADDRESS(0), BLOCK);
	object = synthetic_element(&c, weight, TFMT_EDGE_GRADIENT, TFMT_KIND_TENSOR, 0);
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "_local_tensor");
	synthetic_tensor(&c, object, ADDRESS(1), BLOCK);
	object = synthetic_object(&c, synthetic_local(&c, TFMT_KIND_OTHER, "mine"), TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR,
				  "_local_tensor");
	synthetic_tensor(&c, object, ADDRESS(2), BLOCK);
	synthetic_census_close(&c, true);
	load();
	check_name(0, "model.up.weight", "model.up.weight", USE_PARAMETER);
	check_name(1, "model.up.weight.grad", "model.up.weight.grad", USE_GRADIENT);
	check_name(2, "mine._local_tensor", "mine._local_tensor", USE_UNKNOWN);
	replay_release(&m);
}

/* Any name is better than that something in C++ holds it, and that better than that nothing does. */
static void test_what_the_program_calls_it_comes_first(void **state)
{
	struct synthetic_census c;
	uint32_t object;

	(void)state;
	begin(2);
	synthetic_census_open(&c, "a.1.names", 7, TIME(1));
	for (unsigned i = 0; i < 2; i++)
		synthetic_tensor(&c, synthetic_object(&c, 0, TFMT_EDGE_NATIVE, TFMT_KIND_TENSOR, NULL), ADDRESS(i), BLOCK);
	object = synthetic_local(&c, TFMT_KIND_DICT, "of_whatever_it_is_that_is_kept");
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_KEY, TFMT_KIND_TENSOR, "longer than the other"), ADDRESS(0), BLOCK);
	c.class_name = "Node";
	object = synthetic_object(&c, 0, TFMT_EDGE_CYCLE, TFMT_KIND_OTHER, NULL);
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "x"), ADDRESS(1), BLOCK);
	synthetic_census_close(&c, true);
	load();
	assert_string_equal(named_of(0).name.text, "of_whatever_it_is_that_is_kept['longer than the other']");
	assert_string_equal(named_of(1).name.text, "held outside of Python (tensor)");
	replay_release(&m);
}

/* ---- keepers -------------------------------------------------------------------------------------- */

static void test_keepers(void **state)
{
	struct keeper keeper[8];
	struct synthetic_census c;
	struct named named;
	uint32_t object;

	(void)state;
	begin(3);
	synthetic_census_open(&c, "a.1.names", 7, TIME(2));
	object = synthetic_local(&c, TFMT_KIND_OTHER, "trainer");
	c.length = 201;
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_LIST, "history");
	synthetic_tensor(&c, synthetic_element(&c, object, TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, 3), ADDRESS(0), BLOCK);
	object = synthetic_object(&c, 0, TFMT_EDGE_GLOBAL, TFMT_KIND_PYTHON_MODULE, "__main__");
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "kept"), ADDRESS(1), BLOCK);
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_FUNCTION, "hook");
	object = synthetic_object(&c, object, TFMT_EDGE_CELL, TFMT_KIND_DICT, "cache");
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_KEY, TFMT_KIND_TENSOR, "x"), ADDRESS(2), BLOCK);
	synthetic_census_close(&c, true);
	load();

	named = named_of(0);
	assert_int_equal(objectname_keepers(keeper, 8, named.census->census, named.object), 2);
	assert_string_equal(keeper[0].name.text, "trainer.history");
	assert_string_equal(objectname_kind(keeper[0].kind), "list");
	assert_true(keeper[0].has_length);
	assert_int_equal(keeper[0].length, 200);
	assert_string_equal(keeper[0].name.function, "main");
	assert_int_equal(keeper[0].name.line, 31);
	assert_int_equal(keeper[0].name.root, ROOT_LOCAL);
	assert_string_equal(keeper[1].name.text, "trainer");
	assert_false(keeper[1].has_length);

	/* The program itself is nobody's keeper: the variable is. */
	named = named_of(1);
	assert_int_equal(objectname_keepers(keeper, 8, named.census->census, named.object), 1);
	assert_string_equal(keeper[0].name.text, "kept");
	assert_int_equal(keeper[0].name.root, ROOT_GLOBAL);
	assert_null(keeper[0].name.function);

	named = named_of(2);
	assert_string_equal(named.name.text, "cache['x']");
	assert_int_equal(named.name.root, ROOT_CLOSURE);
	assert_string_equal(named.name.function, "hook");
	assert_int_equal(objectname_keepers(keeper, 8, named.census->census, named.object), 2);
	assert_string_equal(keeper[1].name.text, "hook");
	replay_release(&m);
}

/* A list in the closure of a hook, which is in this dict. */
static void hook_keeps(struct synthetic_census *c, uint32_t dict, unsigned block, uint64_t length)
{
	uint32_t object = synthetic_element(c, dict, TFMT_EDGE_NUMBER, TFMT_KIND_FUNCTION, 4);

	c->length = length + 1;
	object = synthetic_object(c, object, TFMT_EDGE_CELL, TFMT_KIND_LIST, "kept");
	synthetic_tensor(c, synthetic_element(c, object, TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, 0), ADDRESS(block), BLOCK);
}

static void check_let_go(unsigned block, uint64_t blocks, const char *expected)
{
	struct namegroup g = { .is_named = true, .named = named_of(block), .blocks = blocks };
	struct said said = letgo_said(&g, false);
	char text[SENTENCE_MAX];

	assert_string_equal(sentence_text(text, &said), expected);
}

static void test_hooks(void **state)
{
	struct synthetic_census c;
	uint32_t model, layer, object;

	(void)state;
	begin(6);
	synthetic_census_open(&c, "a.1.names", 7, TIME(5));
	model = synthetic_local(&c, TFMT_KIND_MODULE, "model");
	layer = synthetic_own(&c, model, "_modules", TFMT_KIND_MODULE, "0");
	hook_keeps(&c, synthetic_object(&c, layer, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "_forward_hooks"), 0, 10);
	hook_keeps(&c, synthetic_object(&c, layer, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "_backward_hooks"), 1, 10);
	object = synthetic_own(&c, layer, "_parameters", TFMT_KIND_PARAMETER, "weight");
	hook_keeps(&c, synthetic_object(&c, object, TFMT_EDGE_MEMBER, TFMT_KIND_DICT, NULL), 2, 10);
	object = synthetic_local(&c, TFMT_KIND_OPTIMIZER, "optimizer");
	hook_keeps(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "_optimizer_step_post_hooks"), 3, 10);
	object = synthetic_object(&c, 0, TFMT_EDGE_GLOBAL, TFMT_KIND_PYTHON_MODULE, "torch.nn.modules.module");
	hook_keeps(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "_global_forward_hooks"), 4, 10);
	object = synthetic_local(&c, TFMT_KIND_OTHER, "trainer"); /* what only has such a name is no module's */
	hook_keeps(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "_forward_hooks"), 5, 10);
	synthetic_census_close(&c, true);
	load();
	check_let_go(0, 10, "handle.remove() on the handle from model.0.register_forward_hook(), "
			    "and on other hooks that hold the same tensors");
	check_let_go(0, 40, "handle.remove() on each handle from model.*.register_forward_hook()");
	check_let_go(1, 10, "handle.remove() on the handle from registering the hook of model.0, "
			    "and on other hooks that hold the same tensors");
	check_let_go(2, 10, "handle.remove() on the handle from registering the hook of model.0.weight, "
			    "and on other hooks that hold the same tensors");
	check_let_go(3, 10, "handle.remove() on the handle from optimizer.register_step_post_hook(), "
			    "and on other hooks that hold the same tensors");
	check_let_go(4, 10, "handle.remove() on the handle from torch.nn.modules.module.register_module_forward_hook(), "
			    "and on other hooks that hold the same tensors");
	check_let_go(5, 10, "");
	replay_release(&m);
}

/* A tensor by the object that a way of its own leads to: where that begins. */
static void check_root(unsigned block, const char *name, enum objectname_root root, const char *function)
{
	struct named named = named_of(block);

	assert_string_equal(named.name.text, name);
	assert_int_equal(named.name.root, root);
	if (function)
		assert_string_equal(named.name.function, function);
	else
		assert_null(named.name.function);
}

static void test_roots(void **state)
{
	struct synthetic_census c;
	uint32_t object, function;

	(void)state;
	begin(10);
	synthetic_census_open(&c, "a.1.names", 7, TIME(9));
	object = synthetic_local(&c, TFMT_KIND_EXCEPTION, "error");
	object = synthetic_object(&c, object, TFMT_EDGE_MEMBER, TFMT_KIND_TRACEBACK, NULL);
	c.function = "forward";
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_LOCAL, TFMT_KIND_TENSOR, "scores"), ADDRESS(0), BLOCK);
	object = synthetic_local(&c, TFMT_KIND_GENERATOR, "batches");
	c.function = "prefetch";
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_LOCAL, TFMT_KIND_TENSOR, "next"), ADDRESS(1), BLOCK);
	object = synthetic_object(&c, 0, TFMT_EDGE_GLOBAL, TFMT_KIND_PYTHON_MODULE, "__main__");
	function = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_FUNCTION, "mask");
	synthetic_tensor(&c, synthetic_object(&c, function, TFMT_EDGE_DEFAULT, TFMT_KIND_TENSOR, "ones"), ADDRESS(2), BLOCK);
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_CLASS, "Trainer");
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "seen"), ADDRESS(3), BLOCK);
	c.class_name = "Tensor";
	synthetic_tensor(&c, synthetic_object(&c, 0, TFMT_EDGE_NATIVE, TFMT_KIND_TENSOR, NULL), ADDRESS(4), BLOCK);
	object = synthetic_object(&c, 0, TFMT_EDGE_NATIVE, TFMT_KIND_GENERATOR, NULL); /* the interpreter has it, suspended */
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_LOCAL, TFMT_KIND_TENSOR, "_result"), ADDRESS(8), BLOCK);
	c.class_name = "TanhBackward";
	object = synthetic_object(&c, 0, TFMT_EDGE_NATIVE, TFMT_KIND_AUTOGRAD, NULL);
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "y"), ADDRESS(7), BLOCK);
	c.class_name = "Node"; /* a closure in what waits for the collector is nobody's */
	object = synthetic_object(&c, 0, TFMT_EDGE_CYCLE, TFMT_KIND_OTHER, NULL);
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_CELL, TFMT_KIND_TENSOR, "x"), ADDRESS(5), BLOCK);
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "payload"), ADDRESS(9), BLOCK);
	object = synthetic_local(&c, TFMT_KIND_TENSOR, "loss");
	object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_AUTOGRAD, "grad_fn");
	object = synthetic_object(&c, object, TFMT_EDGE_MEMBER, TFMT_KIND_AUTOGRAD, NULL);
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_MEMBER, TFMT_KIND_TENSOR, NULL), ADDRESS(6), BLOCK);
	object = synthetic_object(&c, 0, TFMT_EDGE_CYCLE, TFMT_KIND_FUNCTION, NULL);
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_CELL, TFMT_KIND_TENSOR, "order"), ADDRESS(10), BLOCK);
	synthetic_census_close(&c, true);
	load();
	check_root(10, "in a reference cycle (function with order in its closure)", ROOT_CYCLE, NULL);
	check_root(0, "scores", ROOT_EXCEPTION, "forward");
	check_root(1, "next", ROOT_GENERATOR, "prefetch");
	check_root(2, "ones", ROOT_DEFAULT, "mask");
	check_root(3, "Trainer.seen", ROOT_CLASS, NULL);
	check_root(4, "held outside of Python (Tensor)", ROOT_NATIVE, NULL);
	check_root(5, "in a reference cycle (Node)", ROOT_CYCLE, NULL);
	check_root(9, "in a reference cycle (Node.payload)", ROOT_CYCLE, NULL);
	check_root(7, "held outside of Python (TanhBackward.y)", ROOT_NATIVE, NULL);
	assert_string_equal(named_of(8).name.text, "_result");
	assert_int_equal(named_of(8).name.root, ROOT_GENERATOR);
	check_root(6, "loss.grad_fn.saved", ROOT_LOCAL, "main");
	replay_release(&m);
}

/* Each object of a chain has the next by the same attribute: all have one name. */
static void test_a_chain(void **state)
{
	struct synthetic_census c;
	uint32_t object;

	(void)state;
	begin(4);
	synthetic_census_open(&c, "a.1.names", 7, TIME(3));
	object = synthetic_local(&c, TFMT_KIND_OTHER, "head");
	for (int i = 0; i < 300; i++) {
		object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_OTHER, "before");
		if (i == 0 || i == 1 || i == 5 || i == 299)
			synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "data"),
					 ADDRESS(i < 2 ? i : i < 299 ? 2 : 3), BLOCK);
	}
	synthetic_census_close(&c, true);
	load();
	assert_string_equal(named_of(0).name.text, "head.before.data");
	for (unsigned i = 1; i < 4; i++)
		assert_string_equal(named_of(i).name.text, "head.before...data");
	assert_int_equal(named_of(3).name.root, ROOT_LOCAL);
	replay_release(&m);
}

/* Of a way that is too long the nearer part is told. */
static void test_a_long_way(void **state)
{
	struct synthetic_census c;
	uint32_t object;

	(void)state;
	begin(1);
	synthetic_census_open(&c, "a.1.names", 7, TIME(0));
	object = synthetic_local(&c, TFMT_KIND_OTHER, "head");
	for (int i = 0; i < 300; i++)
		object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_OTHER, i % 2 ? "m" : "n");
	synthetic_tensor(&c, synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "data"), ADDRESS(0), BLOCK);
	synthetic_census_close(&c, true);
	load();
	assert_memory_equal(named_of(0).name.text, "...m.n.m", 8);
	assert_int_equal(named_of(0).name.root, ROOT_LOCAL);
	assert_string_equal(named_of(0).name.function, "main");
	replay_release(&m);
}

/* ---- which census --------------------------------------------------------------------------------- */

/* In the census after event `event` one block has a name. */
static void census_of(const char *path, uint64_t time_ns, unsigned block, const char *name)
{
	struct synthetic_census c;

	synthetic_census_open(&c, path, 7, time_ns);
	synthetic_tensor(&c, synthetic_local(&c, TFMT_KIND_TENSOR, name), ADDRESS(block), BLOCK);
	synthetic_census_close(&c, true);
}

static void test_nearest_census(void **state)
{
	(void)state;
	begin(9);
	census_of("a.1.names", TIME(2), 0, "early");
	census_of("a.10.names", TIME(7), 0, "late"); /* its number sorts before 2 as text */
	census_of("a.2.names", TIME(4), 0, "between");
	load();
	assert_int_equal(names()->nr_censuses, 3);
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, 2), "early");
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, 3), "early");
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, 4), "between");
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, 5), "between");
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, 6), "late");
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, TFMT_NO_ORDINAL), "late");
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, 0), "early");
	assert_string_equal(name_at(0, 3, TFMT_NO_ORDINAL, 3), "between");
	replay_release(&m);
}

/* What a census says of an address it says of the block that was there then. */
static void test_not_live_at_the_census(void **state)
{
	(void)state;
	begin(9);
	census_of("a.1.names", TIME(4), 0, "x");
	load();
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, TFMT_NO_ORDINAL), "x");
	assert_string_equal(name_at(0, 4, 5, TFMT_NO_ORDINAL), "x");
	assert_null(name_at(0, 5, TFMT_NO_ORDINAL, TFMT_NO_ORDINAL)); /* made after it */
	assert_null(name_at(0, 0, 4, TFMT_NO_ORDINAL));               /* freed before it */
	assert_null(name_at(1, 0, TFMT_NO_ORDINAL, TFMT_NO_ORDINAL)); /* at another address */
	replay_release(&m);
}

/* A census after the last event is of what is live at the end. */
static void test_after_the_last_event(void **state)
{
	(void)state;
	begin(2);
	census_of("a.1.names", TIME(5), 1, "x");
	load();
	assert_string_equal(name_at(1, 1, TFMT_NO_ORDINAL, TFMT_NO_ORDINAL), "x");
	assert_null(name_at(1, 0, 1, TFMT_NO_ORDINAL));
	replay_release(&m);
}

static void test_files(void **state)
{
	struct synthetic_census c;
	FILE *f;

	(void)state;
	begin(2);
	synthetic_census_open(&c, "a.1.names", 7, TIME(1)); /* cut: what was written counts */
	synthetic_tensor(&c, synthetic_local(&c, TFMT_KIND_TENSOR, "x"), ADDRESS(0), BLOCK);
	synthetic_census_close(&c, false);
	synthetic_census_open(&c, "a.2.names", 8, TIME(1)); /* of another process */
	synthetic_census_close(&c, true);
	f = fopen("a.3.names", "w"); /* no census */
	assert_non_null(f);
	fputs("no census", f);
	assert_int_equal(fclose(f), 0);
	f = fopen("a.4.names", "w"); /* not begun when the program ended */
	assert_non_null(f);
	assert_int_equal(fclose(f), 0);
	load();
	assert_int_equal(names()->nr_censuses, 1);
	assert_string_equal(name_at(0, 0, TFMT_NO_ORDINAL, TFMT_NO_ORDINAL), "x");
	replay_release(&m);
	begin(1);
	load();
	replay_release(&m);
}

static void test_no_census(void **state)
{
	(void)state;
	begin(1);
	load();
	assert_null(names());
	assert_null(m.process[0].lives);
	replay_release(&m);
}

/* ---- several names, several blocks ------------------------------------------------------------------ */

static void test_several_names(void **state)
{
	struct synthetic_census c;
	struct named named;
	uint32_t model;

	(void)state;
	begin(2);
	synthetic_census_open(&c, "a.1.names", 7, TIME(1));
	synthetic_tensor(&c, synthetic_local(&c, TFMT_KIND_TENSOR, "output"), ADDRESS(0), BLOCK);
	synthetic_tensor(&c, synthetic_local(&c, TFMT_KIND_TENSOR, "y"), ADDRESS(0), BLOCK);
	synthetic_tensor(&c, synthetic_local(&c, TFMT_KIND_TENSOR, "row"), ADDRESS(0) + 512, BLOCK);
	model = synthetic_local(&c, TFMT_KIND_MODULE, "model");
	synthetic_tensor(&c, synthetic_own(&c, model, "_parameters", TFMT_KIND_PARAMETER, "weight"), ADDRESS(1), BLOCK);
	synthetic_tensor(&c, synthetic_local(&c, TFMT_KIND_TENSOR, "w"), ADDRESS(1), BLOCK);
	synthetic_census_close(&c, true);
	load();
	named = named_of(0);
	assert_string_equal(named.name.text, "y");
	assert_int_equal(named.nr_others, 2);
	named = named_of(1); /* what tells what it is for comes first */
	assert_string_equal(named.name.text, "model.weight");
	assert_int_equal(named.nr_others, 1);
	replay_release(&m);
}

/* A list is known by its name, whatever its number in a census; one of another name, or of another kind, is another. */
static void test_container_that_grows(void **state)
{
	struct synthetic_census c;
	struct keeper keeper;
	struct named named;
	uint64_t length[2];

	(void)state;
	begin(4);
	for (unsigned i = 0; i < 3; i++) {
		char file[16];
		uint32_t list;

		snprintf(file, sizeof(file), "a.%u.names", i + 1);
		synthetic_census_open(&c, file, 7, TIME(4));
		c.length = 5;
		for (unsigned k = 0; k < i; k++)
			synthetic_tensor(&c, synthetic_element(&c, synthetic_local(&c, TFMT_KIND_LIST, "other"),
							       TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, k), ADDRESS(2), BLOCK);
		c.length = 10 * (i + 1) + 1;
		list = synthetic_local(&c, TFMT_KIND_LIST, "history");
		synthetic_tensor(&c, synthetic_element(&c, list, TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, i), ADDRESS(0), BLOCK);
		synthetic_census_close(&c, true);
	}
	load();
	named = named_of(0);
	assert_int_equal(objectname_keepers(&keeper, 1, named.census->census, named.object), 1);
	assert_string_equal(keeper.name.text, "history");
	assert_int_equal(names_lengths(m.process[0].names, &keeper, length, 2), 2);
	assert_int_equal(length[0], 20);
	assert_int_equal(length[1], 30);
	replay_release(&m);
}

/* A cache that was filled before an event has as many entries since. */
static void test_container_that_is_full(void **state)
{
	static const uint64_t entries[] = { 3, 12, 12 };
	struct synthetic_census c;
	struct keeper keeper;
	struct named named;

	(void)state;
	begin(6);
	for (unsigned i = 0; i < 3; i++) {
		char file[16];

		snprintf(file, sizeof(file), "a.%u.names", i + 1);
		synthetic_census_open(&c, file, 7, TIME(i + 2));
		c.length = entries[i] + 1;
		synthetic_tensor(&c, synthetic_element(&c, synthetic_local(&c, TFMT_KIND_DICT, "cache"), TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, 0),
				 ADDRESS(0), BLOCK);
		synthetic_census_close(&c, true);
	}
	load();
	named = named_of(0);
	assert_int_equal(objectname_keepers(&keeper, 1, named.census->census, named.object), 1);
	assert_int_equal(names_growth_of(m.process[0].names, &keeper, 0), NAMES_GREW);
	assert_int_equal(names_growth_of(m.process[0].names, &keeper, m.process[0].names->census[1].after), NAMES_STAYED);
	assert_int_equal(names_growth_of(m.process[0].names, &keeper, TFMT_NO_ORDINAL), NAMES_UNKNOWN);
	replay_release(&m);
}

static void test_groups(void **state)
{
	struct synthetic_census c;
	struct categories categories;
	struct namegroups g;
	uint32_t list, model;

	(void)state;
	begin(6);
	synthetic_census_open(&c, "a.1.names", 7, TIME(4));
	c.length = 4;
	list = synthetic_local(&c, TFMT_KIND_LIST, "history");
	for (unsigned i = 0; i < 3; i++)
		synthetic_tensor(&c, synthetic_element(&c, list, TFMT_EDGE_INDEX, TFMT_KIND_TENSOR, i), ADDRESS(i), BLOCK);
	model = synthetic_local(&c, TFMT_KIND_MODULE, "model");
	synthetic_tensor(&c, synthetic_own(&c, model, "_buffers", TFMT_KIND_TENSOR, "mask"), ADDRESS(3), BLOCK);
	synthetic_census_close(&c, true);
	load();
	categories_find(&categories, &m.process[0], 0, LIVES_END, 6 * BLOCK);
	assert_int_equal(categories.sum[CATEGORY_BUFFER].bytes, BLOCK);
	namedblocks_find(&g, &m.process[0], &categories, LIVES_END, 6 * BLOCK);
	assert_int_equal(g.nr_groups, 3);
	assert_int_equal(g.named_bytes, 4 * BLOCK);
	assert_string_equal(namegroup_text(&g.group[0]), "history[*]");
	assert_int_equal(g.group[0].blocks, 3);
	assert_null(namegroup_text(&g.group[1]));
	assert_int_equal(g.group[1].bytes, 2 * BLOCK);
	assert_string_equal(namegroup_text(&g.group[2]), "model.mask");
	assert_int_equal(namegroup_kind(&g.group[2]), CATEGORY_BUFFER);
	namegroups_release(&g);
	categories_release(&categories);
	replay_release(&m);
}

/* Each element of a linked list is looked at by its own last steps, not by all that are before it; all have one name. */
static void test_a_list_linked_through_tensors(void **state)
{
	struct synthetic_census c;
	uint32_t object;

	(void)state;
	begin(LINKED);
	synthetic_census_open(&c, "a.1.names", 7, TIME(LINKED - 1));
	object = synthetic_object(&c, 0, TFMT_EDGE_CYCLE, TFMT_KIND_LIST, NULL);
	for (unsigned i = 0; i < LINKED; i++) {
		object = synthetic_object(&c, object, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_TENSOR, "next");
		synthetic_tensor(&c, object, ADDRESS(i), BLOCK);
	}
	synthetic_census_close(&c, true);
	load();
	for (unsigned i = 0; i < LINKED; i++)
		assert_int_equal(named_of(i).name.root, ROOT_CYCLE);
	assert_string_equal(named_of(LINKED - 1).name.text, named_of(2).name.text);
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_module_paths, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_where_a_model_hangs, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_containers, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_parts_of_sharded_tensors, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_what_the_program_calls_it_comes_first, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_keepers, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_hooks, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_roots, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_a_chain, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_a_long_way, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_nearest_census, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_not_live_at_the_census, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_after_the_last_event, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_files, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_no_census, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_several_names, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_container_that_grows, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_container_that_is_full, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_groups, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_a_list_linked_through_tensors, synthetic_enter, synthetic_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
