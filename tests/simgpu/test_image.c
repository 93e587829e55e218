/* SPDX-License-Identifier: MIT */
/* Which of a fat binary's architectures a device runs, and what damaged ones count as. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "simgpu/image.c"

#define CODE_BYTES 16

/* Room for a container of a few entries with code after each. */
struct file {
	struct container head;
	struct {
		struct entry entry;
		char code[CODE_BYTES];
	} part[4];
};

static struct file make(int nr, const int (*parts)[2])
{
	struct file f = { .head = { CONTAINER_MAGIC, 1, sizeof(struct container), 0 } };

	for (int i = 0; i < nr; i++)
		f.part[i].entry = (struct entry){ .kind = (uint16_t)parts[i][0],
						  .version = 257,
						  .header_bytes = sizeof(struct entry),
						  .bytes = CODE_BYTES,
						  .architecture = (uint32_t)parts[i][1] };
	f.head.bytes = (uint64_t)nr * sizeof(f.part[0]);
	return f;
}

/* As the runtime gets it: a wrapper that points to it. */
static int architecture(const struct file *f, int cc, int *compiled)
{
	const struct wrapper w = { WRAPPER_MAGIC, 1, f };

	return sim_image_architecture(&w, cc, compiled);
}

static void test_binaries(void **state)
{
	const struct file f =
		make(4, (const int[][2]){ { KIND_BINARY, 75 }, { KIND_BINARY, 80 }, { KIND_BINARY, 86 },
					  { KIND_BINARY, 90 } });
	int compiled;

	(void)state;
	assert_int_equal(architecture(&f, 89, &compiled), 86);
	assert_int_equal(compiled, 86);
	assert_int_equal(architecture(&f, 80, &compiled), 80);
	assert_int_equal(architecture(&f, 90, &compiled), 90);
	/* Nothing in it is for these: the oldest. */
	assert_int_equal(architecture(&f, 70, &compiled), 75);
	assert_int_equal(compiled, 70);
	assert_int_equal(architecture(&f, 100, &compiled), 75);
}

/* The size is that of the cubin which the device runs: as its tables say, or as its head where it is compressed. */
static void test_sizes(void **state)
{
	static const char ptx[] = ".version 8.0\n.target sm_80\n";
	struct {
		struct container head;
		struct entry entry;
		char more[WHOLE_BYTES_AT - sizeof(struct entry)];
		uint64_t whole;
		Elf64_Ehdr code;
	} f = { .head = { CONTAINER_MAGIC, 1, sizeof(struct container), sizeof(f) - sizeof(f.head) },
		.entry = { KIND_BINARY, 257, WHOLE_BYTES_AT + 8, sizeof(f.code), { 0 }, 90 },
		.whole = 0,
		.code = { .e_ident = ELFMAG, .e_shoff = 1000, .e_shnum = 3, .e_shentsize = 64,
			  .e_phoff = 1192, .e_phnum = 2, .e_phentsize = 56 } };
	const struct wrapper w = { WRAPPER_MAGIC, 1, &f };
	const struct file text = make(1, (const int[][2]){ { KIND_PTX, 80 } });

	(void)state;
	assert_int_equal(sim_image_bytes(&w, 90), 1304);
	f.code.e_phnum = 0;
	assert_int_equal(sim_image_bytes(&f, 90), 1192);
	assert_int_equal(sim_image_bytes(&f.code, 90), 1192);
	f.whole = 128384;
	assert_int_equal(sim_image_bytes(&w, 90), 128384);
	assert_int_equal(sim_image_bytes(ptx, 90), sizeof(ptx));
	assert_int_equal(sim_image_bytes(&text, 90), 1);
	f.code.e_ident[1] = 0;
	assert_int_equal(sim_image_bytes(&f.code, 90), 0);
}

static void test_ptx(void **state)
{
	const struct file f =
		make(3, (const int[][2]){ { KIND_BINARY, 80 }, { KIND_PTX, 80 }, { KIND_PTX, 90 } });
	int compiled;

	(void)state;
	assert_int_equal(architecture(&f, 120, &compiled), 90);
	assert_int_equal(compiled, 120);
	assert_int_equal(architecture(&f, 86, &compiled), 80);
	assert_int_equal(compiled, 80);
	assert_int_equal(sim_image_architecture(&f, 90, &compiled), 90);
}

static void test_what_is_no_fat_binary(void **state)
{
	const struct wrapper empty = { WRAPPER_MAGIC, 1, NULL };
	struct file f = make(1, (const int[][2]){ { KIND_BINARY, 80 } });
	int compiled;

	(void)state;
	assert_int_equal(sim_image_architecture(".version 8.0\n.target sm_80\n", 90, &compiled), 90);
	assert_int_equal(compiled, 90);
	assert_int_equal(sim_image_architecture(&empty, 90, &compiled), 90);
	f.part[0].entry.bytes = UINT64_MAX;
	assert_int_equal(architecture(&f, 89, &compiled), 89);
	f.part[0].entry.bytes = CODE_BYTES;
	f.part[0].entry.header_bytes = 0;
	assert_int_equal(architecture(&f, 89, &compiled), 89);
	f.part[0].entry.header_bytes = sizeof(struct entry) + 1; /* its code would end outside */
	assert_int_equal(architecture(&f, 89, &compiled), 89);
	f.head.bytes = 3;
	assert_int_equal(architecture(&f, 89, &compiled), 89);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_binaries),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_ptx),
		cmocka_unit_test(test_what_is_no_fat_binary),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
