/* SPDX-License-Identifier: MIT */
/* Names of autograd nodes that Python functions made: by the object that is the function's, never by one that looks it. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "libinterpose/autograd.h"
#include "libinterpose/callstack.h"
#include "libinterpose/hooks_torch.h"
#include "libinterpose/pyframes.h"
#include "libinterpose/stackpool.h"
#include "libinterpose/strings.h"

static struct ip_recorder recorder;
struct ip_recorder *ip_recorder = &recorder;
__thread struct ip_tls ip_tls;

/* ---- what PyTorch and Python would have ---------------------------------------------------------- */

/* PyTypeObject, as far as it is looked at. */
struct type {
	uint64_t references;
	const void *type;
	uint64_t nr;
	const char *name;
	uint64_t basic_size, others[27];
	const struct type *base;
};

static const struct type type_of_types = { 1, &type_of_types, 0, "type", sizeof(struct type), { 0 }, NULL };
static const struct type function = { 1, &type_of_types, 0, "torch._C._FunctionBase", 128, { 0 }, NULL };
static const struct type gradient = { 1, &type_of_types, 0, "ScaleBackward", 128, { 0 }, &function };
static const struct type dictionary = { 1, &type_of_types, 0, "dict", 128, { 0 }, NULL };

struct object {
	uint64_t references;
	const void *type, *word[14];
};

static const struct {
	const void *virtual_table;
	const char *name;
} node_type = { NULL, "N5torch8autograd6PyNodeE" };
static const void *const virtual_table[] = { &node_type, NULL };

/* A node, and what the heap holds after it. */
struct node {
	const void *virtual_table, *word[63];
};

static const void *function_type = &function;
static char said[64];

void *torch_function_resolve(struct real_function *f, const void *wrapper)
{
	assert_null(wrapper);
	return strcmp(f->symbol, "THPFunctionType") ? NULL : (void *)(uintptr_t)function_type;
}

static const struct pylayout layout;
struct pyframes_known pyframes_known = { .layout = &layout };

uint32_t ip_string_few(const char *text, size_t len)
{
	assert_true(len < sizeof(said));
	memcpy(said, text, len);
	said[len] = '\0';
	return 1;
}

uint32_t callstack_node(struct callstack *cs, uint32_t older, uint32_t name, bool from_forward)
{
	(void)cs;
	(void)older;
	(void)from_forward;
	return name ? TFMT_STACK_FIRST : 0;
}

uint32_t callstack_python_from(struct callstack *cs, uint32_t base, const void *from, const void *until)
{
	(void)cs;
	(void)from;
	(void)until;
	return base;
}

struct callstack *stackpool_take_slowly(struct ip_thread *t)
{
	(void)t;
	return (struct callstack *)said; /* not looked into here */
}

void stackpool_give_slowly(struct callstack *cs)
{
	assert_ptr_equal(cs, said);
}

const void *pyframes_hold(void)
{
	return NULL;
}

const void *pyframes_newest_asked(void)
{
	return NULL;
}

bool pyframes_are_several_asked(void)
{
	return false;
}

static bool is_certain = true;

bool open_pass_drop_gone(struct ip_thread *t, const struct unwind_registers *at, uint32_t *depth)
{
	(void)t, (void)at, (void)depth;
	return false;
}

void ip_record(struct ip_thread *t, const struct tfmt_record *ev)
{
	(void)t, (void)ev;
	fail_msg("no pass has been left");
}

bool open_node_is_certain(struct ip_thread *t, const struct open_node *n)
{
	(void)t;
	(void)n;
	return is_certain;
}

struct open_node *open_node_outer(struct ip_thread *t, struct open_node *n)
{
	(void)t;
	(void)n;
	return NULL;
}

void open_node_drop(struct open_node *n)
{
	(void)n;
	fail();
}

static const char *name_of(struct node *node)
{
	struct ip_thread thread = { 0 };
	struct open_node running = { .node = NULL }, *found = &running;

	node->virtual_table = &virtual_table[1];
	autograd_node_begin(&running, node);
	assert_true(autograd_python_stack(&thread, &found) >= TFMT_STACK_FIRST);
	assert_ptr_equal(found, &running);
	return said;
}

/* An emulated system may not have it (qemu-user); there nodes of Python functions have no names of their own. */
static void need_process_vm_readv(void)
{
	char from = 1, to = 0;
	struct iovec local = { &to, 1 }, remote = { &from, 1 };

	if (process_vm_readv(getpid(), &local, 1, &remote, 1, 0) < 0 && errno == ENOSYS)
		skip();
}

/* ---- tests ----------------------------------------------------------------------------------------- */

/* In this order: where the object lies is remembered once it is known. */

static void test_without_pytorchs_type_there_is_no_name(void **state)
{
	struct object object = { 1, &gradient, { NULL } };
	struct node node = { 0 };

	(void)state;
	object.word[5] = &node;
	node.word[40] = &object;
	function_type = NULL;
	assert_string_equal(name_of(&node), "PyNode");
	function_type = &function;
}

/* An object of the program's own, and memory that only looks like one, refer to the node as well. */
static void test_what_looks_like_the_object_is_not_taken(void **state)
{
	struct object own = { 1, &gradient, { NULL } }, other = { 1, &dictionary, { NULL } };
	struct object elsewhere = { 1, &gradient, { NULL } };
	const void *chunk[64] = { (void *)0x21, &other, NULL };
	struct node node = { 0 };

	(void)state;
	need_process_vm_readv();
	chunk[2] = &node;
	other.word[3] = &node;
	own.word[7] = &node;
	node.word[2] = (const void *)0x10;
	node.word[3] = (const char *)&own + 1;
	node.word[12] = chunk;
	node.word[13] = &other;
	node.word[14] = &elsewhere;
	node.word[40] = &own;
	node.word[41] = chunk;
	assert_string_equal(name_of(&node), "ScaleBackward");
}

static void test_a_known_place_is_read_at_once(void **state)
{
	struct object object = { 1, &gradient, { NULL } };
	struct node node = { 0 };

	(void)state;
	need_process_vm_readv();
	node.word[12] = (const void *)0x21;
	node.word[40] = &object;
	assert_string_equal(name_of(&node), "ScaleBackward");
	is_certain = false;
	assert_string_equal(name_of(&node), "PyNode");
	is_certain = true;
	node.word[40] = NULL; /* Python has ended: PyTorch gives the object up */
	assert_string_equal(name_of(&node), "PyNode");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_without_pytorchs_type_there_is_no_name),
		cmocka_unit_test(test_what_looks_like_the_object_is_not_taken),
		cmocka_unit_test(test_a_known_place_is_read_at_once),
	};

	return cmocka_run_group_tests_name("nodes", tests, NULL, NULL);
}
