/* SPDX-License-Identifier: MIT */
/* Modules on stacks: stacks that differ in the module alone, and what the modules are called, with and without a census. */
#include "synthetic_census.h"

#include "analyzer/modules/modulepaths.h"
#include "analyzer/replay/replay.h"

#define BLOCK 4096u
#define ADDRESS(i) (0x10000u * (uint64_t)((i) + 1))
#define MODULE(i) (0x7f0000001000u + 0x100u * (uint64_t)(i))

enum { MAIN = 1, CALL, FORWARD, MOVE };    /* code objects */
enum { IN_MAIN = TFMT_STACK_FIRST, FIRST_CALL }; /* stacks; each module has its call and what that runs */

static struct synthetic trace;
static struct replay m;

static void define_instance(uint32_t id, uint64_t address, const char *class_name)
{
	uint8_t buf[128], *p = tfmt_put_varint(buf, address);

	p = tfmt_put_string(p, class_name, strlen(class_name));
	synthetic_define(&trace, TFMT_DEF_INSTANCE, id, buf, p);
}

static void define_frame(uint32_t id, uint32_t parent, uint64_t code, uint32_t instance)
{
	uint8_t buf[64], *p = buf;

	p = tfmt_put_varint(p, parent);
	p = tfmt_put_varint(p, TFMT_FRAME_PYTHON);
	p = tfmt_put_varint(p, code);
	p = tfmt_put_zigzag(p, 4);
	if (instance)
		p = tfmt_put_varint(p, instance);
	synthetic_define(&trace, TFMT_DEF_FRAME, id, buf, p);
}

/* A block is made in a call of this module, the nr-th of the trace, or as it is moved; the frame's caller is stack `within`. */
static void allocate_in(uint32_t code, uint32_t nr, uint32_t within, const char *class_name)
{
	uint32_t call = FIRST_CALL + 2 * nr;

	define_instance(nr + 1, MODULE(nr), class_name);
	define_frame(call, within, code, nr + 1);
	define_frame(call + 1, call, FORWARD, 0);
	trace.python_stack = call + 1;
	synthetic_event(&trace, TFMT_TENSOR_ALLOC, 0, ADDRESS(nr), BLOCK, 1 << 20);
}

static void allocate(uint32_t nr, uint32_t within, const char *class_name)
{
	allocate_in(CALL, nr, within, class_name);
}

static void begin(void)
{
	struct tfmt_header header = synthetic_header(7);

	synthetic_open(&trace, "a.vtr", &header);
	synthetic_code(&trace, MAIN, "main", "/home/u/train.py", 1);
	synthetic_code(&trace, CALL, "Module._wrapped_call_impl", "/lib/torch/nn/modules/module.py", 1);
	synthetic_code(&trace, MOVE, "Module._apply", "/lib/torch/nn/modules/module.py", 400);
	synthetic_code(&trace, FORWARD, "forward", "/home/u/model.py", 1);
	define_frame(IN_MAIN, 0, MAIN, 0);
}

static void load(void)
{
	struct replay_options options = { .names = true, .lives = true, .modules = true, .quiet = true };

	synthetic_close(&trace, 0);
	m = (struct replay)REPLAY_INIT;
	assert_int_equal(replay_load(&m, "a.vtr", &options), 0);
}

/* What block `nr` was made in. */
static const char *module_of(uint32_t nr)
{
	static char text[256];
	const struct lives *lives = m.process[0].lives;

	for (size_t i = 0; i < lives->nr_lives; i++)
		if (lives->life[i].is_live && lives->life[i].address == ADDRESS(nr))
			return modulepaths_text(m.process[0].modulepaths, lives->life[i].module, 0, text, sizeof(text));
	fail();
	return NULL;
}

static void test_layers_of_one_line_are_one_stack_and_several_modules(void **state)
{
	const struct tfmt_reader *reader;
	struct tfmt_frame frame;
	struct tfmt_call call;

	(void)state;
	begin();
	for (uint32_t i = 0; i < 3; i++)
		allocate(i, IN_MAIN, "Block");
	allocate(3, IN_MAIN, "Head");
	load();
	reader = m.process[0].reader;
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t stack = FIRST_CALL + 2 * i + 1;

		assert_int_equal(tfmt_reader_plain_stack(reader, stack), FIRST_CALL + 1);
		assert_true(tfmt_reader_frame(reader, stack, &frame));
		assert_int_equal(frame.parent, FIRST_CALL);
		assert_true(tfmt_reader_call(reader, stack - 1, &call));
		assert_int_equal(call.instance, i + 1);
		assert_int_equal(call.parent, IN_MAIN);
	}
	assert_int_equal(books_nr_groups(m.process[0].books), 1);
	assert_string_equal(module_of(0), "<Block>.0");
	assert_string_equal(module_of(1), "<Block>.1");
	assert_string_equal(module_of(2), "<Block>.2");
	assert_string_equal(module_of(3), "<Head>");
	assert_int_equal(modulepaths_outermost_call(m.process[0].modulepaths, FIRST_CALL + 1), IN_MAIN);
	assert_true(modulepaths_calls_several(m.process[0].modulepaths, IN_MAIN));
	assert_int_equal(modulepaths_call(m.process[0].modulepaths, FIRST_CALL + 1, 1), IN_MAIN);
	replay_release(&m);
}

/* An nn.Module below another object. */
static uint32_t put_module(struct synthetic_census *c, uint32_t parent, uint8_t edge, const char *name, uint32_t nr,
			   const char *class_name)
{
	c->address = MODULE(nr);
	c->class_name = class_name;
	return parent ? synthetic_object(c, parent, edge, TFMT_KIND_MODULE, name) : synthetic_local(c, TFMT_KIND_MODULE, name);
}

static uint32_t put_members(struct synthetic_census *c, uint32_t module)
{
	return synthetic_object(c, module, TFMT_EDGE_ATTRIBUTE, TFMT_KIND_DICT, "_modules");
}

/* The model is module 0, layers.0 and layers.1 are 1 and 2; the last is of another class than the one that was called. */
static void put_census(uint64_t time_ns)
{
	struct synthetic_census c;
	uint32_t model, list, members;

	synthetic_census_open(&c, "a.1.names", 7, time_ns);
	model = put_module(&c, 0, TFMT_EDGE_LOCAL, "model", 0, "Net");
	list = put_module(&c, put_members(&c, model), TFMT_EDGE_KEY, "layers", 9, "ModuleList");
	members = put_members(&c, list);
	put_module(&c, members, TFMT_EDGE_KEY, "0", 1, "Block");
	put_module(&c, members, TFMT_EDGE_KEY, "1", 2, "Other");
	synthetic_census_close(&c, true);
}

static void test_modules_are_called_as_a_census_says(void **state)
{
	(void)state;
	begin();
	allocate(0, IN_MAIN, "Net");
	allocate(1, FIRST_CALL + 1, "Block");
	allocate(2, FIRST_CALL + 1, "Block");
	put_census(SYNTHETIC_START + 10 * SYNTHETIC_STEP);
	load();
	assert_string_equal(module_of(0), "model");
	assert_string_equal(module_of(1), "model.layers.0");
	assert_string_equal(module_of(2), "model.<Block>"); /* what lies there now is another */
	replay_release(&m);
}

/* A census before the first call knows the modules where it knows what the call goes through. */
static void test_an_earlier_census_is_believed_of_the_same_model(void **state)
{
	(void)state;
	begin();
	allocate(0, IN_MAIN, "Net");
	allocate(1, FIRST_CALL + 1, "Block");
	put_census(SYNTHETIC_START + 1);
	load();
	assert_string_equal(module_of(1), "model.layers.0");
	replay_release(&m);

	begin();
	allocate(3, IN_MAIN, "Other");
	allocate(1, IN_MAIN, "Block");
	put_census(SYNTHETIC_START + 1);
	load();
	assert_string_equal(module_of(1), "<Block>");
	replay_release(&m);
}

/* Net.to() moves Net, and within that its layers: what no forward has called has its name of the census, or none. */
static void test_modules_that_are_moved(void **state)
{
	const struct modulepaths *paths;

	(void)state;
	begin();
	allocate_in(MOVE, 0, IN_MAIN, "Net");
	put_census(SYNTHETIC_START + 1);
	allocate_in(MOVE, 1, FIRST_CALL, "Block");
	allocate_in(MOVE, 2, FIRST_CALL, "Block");
	load();
	paths = m.process[0].modulepaths;
	assert_string_equal(module_of(0), "model");
	assert_string_equal(module_of(1), "model.layers.0");
	assert_string_equal(module_of(2), ""); /* what lies there is of another class */
	assert_int_equal(modulepaths_outermost_call(paths, FIRST_CALL + 2), 0);
	assert_int_equal(modulepaths_call(paths, FIRST_CALL + 2, 1), 0);
	assert_false(modulepaths_calls_several(paths, IN_MAIN));
	replay_release(&m);

	begin();
	allocate_in(MOVE, 1, IN_MAIN, "Block"); /* by itself: to the census it is within another */
	put_census(SYNTHETIC_START + 10 * SYNTHETIC_STEP);
	load();
	assert_string_equal(module_of(1), "");
	replay_release(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_layers_of_one_line_are_one_stack_and_several_modules, synthetic_enter,
						synthetic_leave),
		cmocka_unit_test_setup_teardown(test_modules_are_called_as_a_census_says, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_modules_that_are_moved, synthetic_enter, synthetic_leave),
		cmocka_unit_test_setup_teardown(test_an_earlier_census_is_believed_of_the_same_model, synthetic_enter,
						synthetic_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
