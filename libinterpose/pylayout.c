/* SPDX-License-Identifier: MIT */
/* Offsets into CPython's structures and their check against the running interpreter. */
#include "pylayout.h"

#include <stddef.h>
#include <string.h>

#include "tracefmt/tracefmt.h"

_Static_assert(sizeof(void *) == 8, "the offsets are those of 64-bit builds");

#define BYTES PYPOSITION_BYTES
#define UNITS PYPOSITION_UNITS
#define POINTER PYPOSITION_POINTER
#define LNOTAB TFMT_LINES_LNOTAB
#define PEP626 TFMT_LINES_PEP626
#define PEP657 TFMT_LINES_PEP657

/* Which of the words that begin at code_fixed stay the same: all bits, or without a counter among them. */
#define ALL ~0ull
#define LOW_HALF 0xffffffffull
static const uint64_t fixed_14[PYLAYOUT_FIXED_WORDS] = { ALL, ALL, ALL, ALL, ALL, ALL, ALL,
							 ALL, ALL, ALL, ALL, ALL, ALL, ALL };
static const uint64_t fixed_15[PYLAYOUT_FIXED_WORDS] = { ALL, ALL, ALL, ALL, ALL, ALL, ALL, ALL,
							 ALL, ALL, ALL, ALL, ALL, ALL, ALL };
/* 3.11 counts executions in co_warmup. */
static const uint64_t fixed_warm[PYLAYOUT_FIXED_WORDS] = { ALL, ALL, ALL, LOW_HALF, ALL, ALL, ALL, ALL,
							   ALL, ALL, ALL, ALL,      ALL, ALL, ALL };

/* clang-format off */
static const struct pylayout layouts[] = {
/*           state         frame                         shim         anchor      str
             frame cframe  back code position owner entry locals      newest back ascii wide
             code
             file name line table body traceable version fixed init position lines  tag fixed words */
/* 3.8  */ { 24,  -1,      24,  32,  104,      -1,    0,    -1,    360,    -1,   -1,   48,     72,
             104, 112, 40,  120,  -1,  -1,       -1,     16,   -1,  BYTES,   LNOTAB, 0,  fixed_14 },
/* 3.9  */ { 24,  -1,      24,  32,  104,      -1,    0,    -1,    360,    -1,   -1,   48,     72,
             104, 112, 40,  120,  -1,  -1,       -1,     16,   -1,  BYTES,   LNOTAB, 0,  fixed_14 },
/* 3.10 */ { 24,  -1,      24,  32,  96,       -1,    0,    -1,    352,    48,   8,    48,     72,
             104, 112, 40,  120,  -1,  -1,       -1,     16,   -1,  UNITS,   PEP626, 0,  fixed_14 },
/* 3.11 */ { 56,  8,       48,  32,  56,       69,    127,  68,    72,     56,   16,   48,     72,
             112, 128, 72,  136,  184, 168,      -1,     24,   16,  POINTER, PEP657, 0,  fixed_warm },
/* 3.12 */ { 56,  0,       8,   0,   56,       70,    3,    -1,    72,     -1,   -1,   40,     56,
             112, 128, 68,  136,  192, 176,      92,     24,   16,  POINTER, PEP657, 0,  fixed_15 },
/* 3.13 */ { 72,  -1,      8,   0,   56,       70,    3,    -1,    72,     -1,   -1,   40,     56,
             112, 128, 68,  136,  200, 184,      92,     24,   600, POINTER, PEP657, 0,  fixed_15 },
/* 3.14 */ { 72,  -1,      8,   0,   56,       74,    3,    -1,    80,     -1,   -1,   40,     56,
             112, 128, 68,  136,  208, 192,      92,     24,   776, POINTER, PEP657, 3,  fixed_15 },
};
/* clang-format on */

/* What an interpreter says of itself in _PyRuntime from 3.13 on: the position of each number there. */
struct debug_offset {
	int16_t at_3_13, at_3_14;
	int16_t field;    /* offset in struct pylayout of the column it must equal; -1: expected holds */
	int16_t expected;
};
#define COLUMN(name) offsetof(struct pylayout, name), 0
#define CONSTANT(value) -1, value
static const struct debug_offset debug_offsets[] = {
	{ 184, 208, COLUMN(state_frame) },    /* thread_state.current_frame */
	{ 232, 256, COLUMN(frame_back) },     /* interpreter_frame.previous */
	{ 240, 264, COLUMN(frame_code) },     /* interpreter_frame.executable */
	{ 248, 272, COLUMN(frame_position) }, /* interpreter_frame.instr_ptr */
	{ 256, 280, COLUMN(frame_locals) },   /* interpreter_frame.localsplus */
	{ 264, 288, COLUMN(frame_owner) },    /* interpreter_frame.owner */
	{ 280, 320, COLUMN(code_file) },      /* code_object.filename */
	{ 296, 336, COLUMN(code_name) },      /* code_object.qualname */
	{ 304, 344, COLUMN(code_table) },     /* code_object.linetable */
	{ 312, 352, COLUMN(code_line) },      /* code_object.firstlineno */
	{ 344, 384, COLUMN(code_body) },      /* code_object.co_code_adaptive */
	{ 360, 408, CONSTANT(PY_OB_TYPE) },   /* pyobject.ob_type */
	{ 520, 600, CONSTANT(PY_OB_SIZE) },   /* bytes_object.ob_size */
	{ 528, 608, CONSTANT(PY_BYTES_DATA) },
	{ 544, 624, CONSTANT(PY_STR_STATE) },
	{ 552, 632, CONSTANT(PY_STR_LENGTH) },
	{ 560, 640, COLUMN(str_ascii) },      /* unicode_object.asciiobject_size */
};
#define RUNTIME_VERSION 8        /* u64, PY_VERSION_HEX */
#define RUNTIME_FREE_THREADED 16 /* u64 */
#define RUNTIME_FINALIZING 32    /* u64: offset of the pointer after the int `initialized` */

#define MEMBER_SIZE PY_MEMBER_BYTES
#define MEMBER_OFFSET PY_MEMBER_OFFSET
#define MEMBERS_MAX 64

const struct pylayout *pylayout_of(unsigned minor)
{
	if (minor < PYLAYOUT_OLDEST || minor > PYLAYOUT_NEWEST)
		return NULL;
	return &layouts[minor - PYLAYOUT_OLDEST];
}

static const char *check_runtime(const struct pylayout *l, unsigned minor, const char *runtime)
{
	if (!runtime || memcmp(runtime, "xdebugpy", 8) != 0)
		return "its runtime state carries no debug offsets";
	if ((uint64_t)py_long(runtime, RUNTIME_VERSION) >> 16 != (0x0300u | minor))
		return "its debug offsets are those of another version";
	if (py_long(runtime, RUNTIME_FREE_THREADED))
		return "builds without the GIL cannot be read";
	if (py_long(runtime, RUNTIME_FINALIZING) != l->runtime_initialized + (int)sizeof(void *))
		return "its debug offsets differ from those known";

	for (size_t i = 0; i < sizeof(debug_offsets) / sizeof(debug_offsets[0]); i++) {
		const struct debug_offset *d = &debug_offsets[i];
		int16_t expected = d->expected;

		if (d->field >= 0)
			memcpy(&expected, (const char *)l + d->field, sizeof(expected));
		if (py_long(runtime, minor == 13 ? d->at_3_13 : d->at_3_14) != expected)
			return "its debug offsets differ from those known";
	}
	return NULL;
}

int64_t pylayout_member(const void *type, const char *name)
{
	const char *m = py_pointer(type, PY_TYPE_MEMBERS);

	for (int i = 0; m && i < MEMBERS_MAX && py_pointer(m, 0); i++, m += MEMBER_SIZE) {
		if (!strcmp(py_pointer(m, 0), name))
			return py_long(m, MEMBER_OFFSET);
	}
	return -1;
}

const char *pylayout_check(const struct pylayout *l, unsigned minor, const void *code_type,
			   const void *runtime)
{
	const char *name = minor >= 11 ? "co_qualname" : "co_name";
	const char *table = minor >= 10 ? "co_linetable" : "co_lnotab";

	if (minor >= 13) {
		const char *why = check_runtime(l, minor, runtime);

		if (why)
			return why;
	}
	if (pylayout_member(code_type, "co_filename") != l->code_file ||
	    pylayout_member(code_type, name) != l->code_name ||
	    pylayout_member(code_type, "co_firstlineno") != l->code_line ||
	    pylayout_member(code_type, table) != l->code_table)
		return "its code objects are laid out differently";
	if (l->code_body >= 0 && py_long(code_type, PY_TYPE_BASICSIZE) != l->code_body)
		return "its code objects have another size";
	return NULL;
}

const char *pylayout_check_frames(const struct pylayout *l, unsigned minor, const void *frame_type)
{
	if (minor > 10)
		return NULL;
	if (!frame_type || pylayout_member(frame_type, "f_back") != l->frame_back ||
	    pylayout_member(frame_type, "f_code") != l->frame_code ||
	    py_long(frame_type, PY_TYPE_BASICSIZE) != l->frame_locals + (int)sizeof(void *))
		return "its frames are laid out differently";
	return NULL;
}
