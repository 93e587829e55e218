/* SPDX-License-Identifier: MIT */
/*
 * pylayout: where CPython keeps what a stack walk needs, one row per minor version.
 *
 * Offsets are bytes in release builds with a GIL on 64-bit machines; they have never moved within a minor
 * version. Nobody has to believe them: pylayout_check() compares a row with what the running interpreter
 * says about itself, and a row that disagrees in one number is not used.
 */
#ifndef IP_PYLAYOUT_H
#define IP_PYLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define PYLAYOUT_OLDEST 8  /* 3.8 */
#define PYLAYOUT_NEWEST 14 /* 3.14 */
#define PYLAYOUT_FIXED_WORDS 16

/* The same in every version. */
#define PY_OB_TYPE 8
#define PY_OB_SIZE 16
#define PY_BYTES_DATA 32
#define PY_STR_LENGTH 16
#define PY_STR_STATE 32
#define PY_TYPE_NAME 24
#define PY_TYPE_BASICSIZE 32
#define PY_TYPE_DEALLOC 48
#define PY_TYPE_FLAGS 168
#define PY_TYPE_TRAVERSE 184
#define PY_TYPE_MEMBERS 240
#define PY_TYPE_DICT 264
#define PY_TYPE_DICTOFFSET 288
#define PY_TYPE_IS_GC 328
#define PY_TYPE_MRO 344
#define PY_MEMBER_BYTES 40 /* PyMemberDef: its size, and where it has type and offset */
#define PY_MEMBER_TYPE 8
#define PY_MEMBER_OFFSET 16

/* What a frame stores as its position. */
enum pyposition {
	PYPOSITION_BYTES,   /* int: bytes into the code, -1 = not started */
	PYPOSITION_UNITS,   /* int: code units of two bytes, -1 = not started */
	PYPOSITION_POINTER, /* pointer to an instruction in the code object */
};

struct pylayout {
	int16_t state_frame;    /* thread state: its newest frame, or the cframe that knows it */
	int16_t cframe_frame;   /* cframe: the newest frame; -1 = there is no cframe */
	int16_t frame_back;     /* frame: the next older one */
	int16_t frame_code;
	int16_t frame_position;
	int16_t frame_owner;    /* char; -1 = frames have no owner */
	int16_t frame_shim;     /* owners from here on run no Python code */
	int16_t frame_entry;    /* bool: native code entered the interpreter here; -1 = a shim below it says so */
	int16_t frame_locals;   /* its variables, the arguments first */
	int16_t state_anchor;   /* thread state: the newest cframe, which lies on the C stack; -1 = shims do */
	int16_t anchor_back;    /* cframe: the next older one */
	int16_t str_ascii;      /* ASCII characters in a str */
	int16_t str_wide;       /* other characters, or a pointer to them */
	int16_t code_file;
	int16_t code_name;      /* the qualified name from 3.11 on */
	int16_t code_line;      /* int: first line */
	int16_t code_table;     /* bytes: the line table */
	int16_t code_body;      /* first instruction = size of the fixed part; -1 = they lie elsewhere */
	int16_t code_traceable; /* int: code units before this one are set-up, not shown; -1 = none */
	int16_t code_version;   /* u32: unique to the object unless 0; -1 = none */
	int16_t code_fixed;     /* PYLAYOUT_FIXED_WORDS words that identify it begin here */
	int16_t runtime_initialized; /* _PyRuntime: int, Py_IsInitialized(); -1 = it holds no thread state */
	uint8_t position;       /* enum pyposition */
	uint8_t lines;          /* enum tfmt_line_table */
	uint8_t tag;            /* low bits of a frame's pointers to objects that are not address */
	const uint64_t *fixed;  /* of those words, the bits that never change */
};

/* The row of Python 3.minor, NULL if there is none. */
const struct pylayout *pylayout_of(unsigned minor);

/*
 * Compare a row with the interpreter in this process: the members and size that code_type (PyCode_Type)
 * declares and, from 3.13 on, the debug offsets at runtime (_PyRuntime; may be NULL before 3.11). Reads memory
 * only. Returns NULL if all agree, else why the row cannot be used.
 */
const char *pylayout_check(const struct pylayout *l, unsigned minor, const void *code_type,
			   const void *runtime);

/*
 * Compare a row as pylayout_check() does with the members that frame_type (PyFrame_Type) declares, where a thread's
 * frames are such objects: up to Python 3.10.
 */
const char *pylayout_check_frames(const struct pylayout *l, unsigned minor, const void *frame_type);

/* The offset that the type's member table gives for `name`, -1 if it lists no such member. */
int64_t pylayout_member(const void *type, const char *name);

static inline const void *py_pointer(const void *base, long offset)
{
	return *(const void *const *)((const char *)base + offset);
}

static inline int32_t py_int(const void *base, long offset)
{
	return *(const int32_t *)((const char *)base + offset);
}

static inline int64_t py_long(const void *base, long offset)
{
	return *(const int64_t *)((const char *)base + offset);
}

#endif
