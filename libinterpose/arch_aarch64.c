/* SPDX-License-Identifier: MIT */
/*
 * aarch64: the entries of dlsym, dlvsym, dlopen and dlmopen; arch_x86_64.c says why they are assembly. And calls of
 * functions that return an object.
 */
#ifdef __aarch64__

/* The return address is in x30, which glibc looks at: it is saved around the call and restored for the jump. */
#define ENTER(name)                      \
	".globl " name "\n"              \
	".type " name ", %function\n"    \
	".p2align 4\n" name ":\n"        \
	"	.cfi_startproc\n"        \
	"	hint #34\n"              /* bti c */ \
	"	stp x29, x30, [sp, -48]!\n" \
	"	.cfi_def_cfa_offset 48\n" \
	"	.cfi_offset 29, -48\n"   \
	"	.cfi_offset 30, -40\n"   \
	"	mov x29, sp\n"           \
	"	stp x0, x1, [sp, 16]\n"  \
	"	str x2, [sp, 32]\n"

#define RESTORE                          \
	"	ldp x0, x1, [sp, 16]\n"  \
	"	ldr x2, [sp, 32]\n"      \
	"	ldp x29, x30, [sp], 48\n" \
	"	.cfi_restore 30\n"       \
	"	.cfi_restore 29\n"       \
	"	.cfi_def_cfa_offset 0\n"

#define LEAVE(name)                      \
	"	.cfi_endproc\n"          \
	"	.size " name ", .-" name "\n"

/* x16 may be branched through where branch targets are checked. */
#define JUMP(real)                       \
	"	adrp x16, " real "\n"    \
	"	ldr x16, [x16, :lo12:" real "]\n" \
	"	br x16\n"

/* The answer in x16: 0 none, jump; 1 stands for NULL. */
#define ANSWER_OR_JUMP(real)             \
	"	cbnz x16, 1f\n"          \
	JUMP(real)                       \
	"1:	cmp x16, 1\n"            \
	"	csel x0, xzr, x16, eq\n" \
	"	ret\n"

__asm__(".text\n"

	ENTER("dlsym")
	"	mov x2, xzr\n"
	"	mov x3, x30\n"
	"	bl ip_lookup_enter\n"
	"	mov x16, x0\n"
	RESTORE
	ANSWER_OR_JUMP("ip_real_dlsym")
	LEAVE("dlsym")

	ENTER("dlvsym")
	"	mov x3, x30\n"
	"	bl ip_lookup_enter\n"
	"	mov x16, x0\n"
	RESTORE
	ANSWER_OR_JUMP("ip_real_dlvsym")
	LEAVE("dlvsym")

	ENTER("dlopen")
	"	bl ip_dlopen_enter\n"
	"	mov w17, w0\n"
	RESTORE
	"	mov w1, w17\n"
	JUMP("ip_real_dlopen")
	LEAVE("dlopen")

	ENTER("dlmopen")
	"	bl ip_dlmopen_enter\n"
	RESTORE
	JUMP("ip_real_dlmopen")
	LEAVE("dlmopen"));

/* arch.h: the place for a returned object is passed in x8. */
__asm__(".text\n"
	".globl arch_object_call\n"
	".hidden arch_object_call\n"
	".type arch_object_call, %function\n"
	".p2align 4\n"
	"arch_object_call:\n"
	"	.cfi_startproc\n"
	"	hint #34\n"
	"	mov x8, x0\n"
	"	mov x16, x2\n"
	"	mov x17, x1\n"
	"	ldp x0, x1, [x17]\n"
	"	ldp x2, x3, [x17, 16]\n"
	"	ldp x4, x5, [x17, 32]\n"
	"	ldr x6, [x17, 48]\n"
	"	br x16\n"
	"	.cfi_endproc\n"
	".size arch_object_call, .-arch_object_call\n");

#endif
