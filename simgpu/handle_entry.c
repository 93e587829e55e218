/* SPDX-License-Identifier: MIT */
/*
 * The entry of dlsym. The C library takes the caller from the return address: what RTLD_NEXT and RTLD_DEFAULT find
 * depends on it. So the entry asks handle.c what to look up and jumps to the next dlsym with the caller's own return
 * address; a C function would be the caller itself.
 */
#if defined(__x86_64__)

__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, @function\n"
	".p2align 4\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	mov (%rsp), %rdx\n"
	"	sub $8, %rsp\n"		/* a call wants the stack at a multiple of 16 */
	"	.cfi_adjust_cfa_offset 8\n"
	"	call sim_lookup_for\n"	/* the two words of a struct come back in rax and rdx */
	"	add $8, %rsp\n"
	"	.cfi_adjust_cfa_offset -8\n"
	"	mov %rax, %rdi\n"
	"	mov %rdx, %rsi\n"
	"	jmp *sim_next_dlsym(%rip)\n"
	"	.cfi_endproc\n"
	"	.size dlsym, .-dlsym\n");

#elif defined(__aarch64__)

__asm__(".text\n"
	".globl dlsym\n"
	".type dlsym, %function\n"
	".p2align 4\n"
	"dlsym:\n"
	"	.cfi_startproc\n"
	"	hint #34\n"		/* bti c */
	"	stp x29, x30, [sp, -16]!\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset 29, -16\n"
	"	.cfi_offset 30, -8\n"
	"	mov x29, sp\n"
	"	mov x2, x30\n"
	"	bl sim_lookup_for\n"	/* the two words of a struct come back in x0 and x1 */
	"	ldp x29, x30, [sp], 16\n"
	"	.cfi_restore 30\n"
	"	.cfi_restore 29\n"
	"	.cfi_def_cfa_offset 0\n"
	"	adrp x16, sim_next_dlsym\n"
	"	ldr x16, [x16, :lo12:sim_next_dlsym]\n"
	"	br x16\n"		/* x16 may be branched through where branch targets are checked */
	"	.cfi_endproc\n"
	"	.size dlsym, .-dlsym\n");

#endif
