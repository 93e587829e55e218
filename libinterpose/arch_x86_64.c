/* SPDX-License-Identifier: MIT */
/*
 * x86-64: the entries of dlsym, dlvsym, dlopen and dlmopen.
 *
 * glibc takes the caller of each from the return address: RTLD_NEXT, RTLD_DEFAULT, DT_RUNPATH and the namespace
 * depend on it. So an entry asks lookup.c and, unless that has an answer, jumps to the real function with the
 * caller's own registers and return address. A C wrapper would be the caller itself, which sends another
 * interposer's RTLD_NEXT into endless recursion, and looks for a plugin beside our library instead of the caller's.
 */
#ifdef __x86_64__

/* Three registers saved leave the stack aligned for a call; 24(%rsp) is then the return address. */
#define ENTER(name)                      \
	".globl " name "\n"              \
	".type " name ", @function\n"    \
	".p2align 4\n" name ":\n"        \
	"	.cfi_startproc\n"        \
	"	endbr64\n"               \
	"	push %rdi\n"             \
	"	.cfi_adjust_cfa_offset 8\n" \
	"	push %rsi\n"             \
	"	.cfi_adjust_cfa_offset 8\n" \
	"	push %rdx\n"             \
	"	.cfi_adjust_cfa_offset 8\n"

#define RESTORE                          \
	"	pop %rdx\n"              \
	"	.cfi_adjust_cfa_offset -8\n" \
	"	pop %rsi\n"              \
	"	.cfi_adjust_cfa_offset -8\n" \
	"	pop %rdi\n"              \
	"	.cfi_adjust_cfa_offset -8\n"

#define LEAVE(name)                      \
	"	.cfi_endproc\n"          \
	"	.size " name ", .-" name "\n"

/* The answer in rax: 0 none, jump; 1 stands for NULL. */
#define ANSWER_OR_JUMP(real)             \
	"	test %rax, %rax\n"       \
	"	jne 1f\n"                \
	"	jmp *" real "(%rip)\n"   \
	"1:	cmp $1, %rax\n"          \
	"	jne 2f\n"                \
	"	xor %eax, %eax\n"        \
	"2:	ret\n"

__asm__(".text\n"

	ENTER("dlsym")
	"	xor %edx, %edx\n"
	"	mov 24(%rsp), %rcx\n"
	"	call ip_lookup_enter\n"
	RESTORE
	ANSWER_OR_JUMP("ip_real_dlsym")
	LEAVE("dlsym")

	ENTER("dlvsym")
	"	mov 24(%rsp), %rcx\n"
	"	call ip_lookup_enter\n"
	RESTORE
	ANSWER_OR_JUMP("ip_real_dlvsym")
	LEAVE("dlvsym")

	ENTER("dlopen")
	"	call ip_dlopen_enter\n"
	RESTORE
	"	mov %eax, %esi\n"
	"	jmp *ip_real_dlopen(%rip)\n"
	LEAVE("dlopen")

	ENTER("dlmopen")
	"	call ip_dlmopen_enter\n"
	RESTORE
	"	jmp *ip_real_dlmopen(%rip)\n"
	LEAVE("dlmopen"));

#endif
