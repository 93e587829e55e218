/* SPDX-License-Identifier: MIT */
/*
 * What depends on the processor: the entry of our dlsym.
 *
 * glibc takes the caller of dlsym from the return address: RTLD_NEXT, RTLD_DEFAULT and the namespace depend
 * on it. So the entry asks ip_dlsym_hook() and, unless that has an answer, jumps to the real dlsym with the
 * caller's own registers and return address. A C wrapper would be the caller itself, which sends another
 * interposer's RTLD_NEXT into endless recursion.
 */
#ifdef __x86_64__
__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	push %rsi\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	sub $8, %rsp\n"
	"	.cfi_adjust_cfa_offset 8\n"
	"	mov 24(%rsp), %rdx\n" /* the caller's return address */
	"	call ip_dlsym_hook\n"
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rsi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	pop %rdi\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	test %rax, %rax\n"
	"	jne 1f\n"
	"	mov ip_real_dlsym(%rip), %rax\n"
	"	jmp *%rax\n"
	"1:	cmp $1, %rax\n"
	"	jne 2f\n"
	"	xor %eax, %eax\n"
	"2:	ret\n"
	"	.cfi_endproc\n"
	"	.size dlsym, .-dlsym\n");
#else
#error "this processor needs its own dlsym entry: see arch_x86_64.c"
#endif
