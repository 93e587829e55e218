/* SPDX-License-Identifier: MIT */
/*
 * arch: what depends on the processor. Constants and small functions are here, one block per processor; the
 * entries of dlsym, dlvsym, dlopen and dlmopen, which must be assembly, in arch_NAME.c.
 */
#ifndef IP_ARCH_H
#define IP_ARCH_H

#include <stdint.h>

/* DWARF's numbers of the registers that lead from a frame to its caller's: frame pointer, stack, return address. */
#if defined(__x86_64__)

enum { ARCH_REG_FP = 6, ARCH_REG_SP = 7, ARCH_REG_RA = 16 };

/* The stack pointer of a function's caller, in the function; frame is its __builtin_frame_address(0). */
#define ARCH_CALLER_SP(frame) ((uintptr_t)((frame) + 2))

/* The address of the code that a stored return address stands for. */
static inline uint64_t arch_code_address(uint64_t stored)
{
	return stored;
}

/* Have the cache line ready to be written. A hint: on processors that do not know it, nothing. */
static inline void arch_prefetch_write(const void *p)
{
	__asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
}

/*
 * The counter that CLOCK_MONOTONIC is computed from. The processor may read it some loads early, because it does not
 * wait for what comes before: a reading is as exact as that.
 */
static inline uint64_t arch_ticks(void)
{
	return __builtin_ia32_rdtsc();
}

/*
 * A C++ function that returns an object is given the place for it by its caller: here as a first argument, on
 * aarch64 in a register of its own. ARCH_OBJECT_ENTRY stands before a C function that stands for such a one,
 * takes the place first, and is called ARCH_OBJECT_NAME(its C++ name); ARCH_OBJECT_CALL6 and 7 call a real one with
 * so many arguments.
 */
#define ARCH_OBJECT_ENTRY(name)
#define ARCH_OBJECT_NAME(name) name
#define ARCH_OBJECT_BODY __attribute__((visibility("default")))
#define ARCH_OBJECT_CALL6(real, place, ...) real(place, __VA_ARGS__)
#define ARCH_OBJECT_CALL7(real, place, ...) real(place, __VA_ARGS__)

#elif defined(__aarch64__)

enum { ARCH_REG_FP = 29, ARCH_REG_SP = 31, ARCH_REG_RA = 30 };

#define ARCH_CALLER_SP(frame) ((void)(frame), (uintptr_t)__builtin_dwarf_cfa())

/* A stored return address may be signed: XPACLRI (a no-op where there is no signing) takes that off x30. */
static inline uint64_t arch_code_address(uint64_t stored)
{
	register uint64_t x30 __asm__("x30") = stored;

	__asm__("hint #7" : "+r"(x30));
	return x30;
}

static inline void arch_prefetch_write(const void *p)
{
	__builtin_prefetch(p, 1);
}

static inline uint64_t arch_ticks(void)
{
	uint64_t ticks;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
}

#define ARCH_OBJECT_ENTRY(name)                                                                             \
	extern __attribute__((visibility("default"))) const char name[];                                    \
	__asm__(".text\n"                                                                                    \
		".globl " #name "\n"                                                                         \
		".type " #name ", %function\n"                                                               \
		".p2align 4\n" #name ":\n"                                                                   \
		"	.cfi_startproc\n"                                                                    \
		"	hint #34\n" /* bti c */                                                              \
		"	mov x7, x6\n"                                                                        \
		"	mov x6, x5\n"                                                                        \
		"	mov x5, x4\n"                                                                        \
		"	mov x4, x3\n"                                                                        \
		"	mov x3, x2\n"                                                                        \
		"	mov x2, x1\n"                                                                        \
		"	mov x1, x0\n"                                                                        \
		"	mov x0, x8\n"                                                                        \
		"	b " #name "_with_place\n"                                                            \
		"	.cfi_endproc\n"                                                                      \
		".size " #name ", .-" #name "\n");
#define ARCH_OBJECT_NAME(name) name##_with_place
#define ARCH_OBJECT_BODY __attribute__((visibility("hidden"), used))

/* Call `real` with these words as its arguments, and the place in x8. */
void *arch_object_call(void *place, const uint64_t word[7], const void *real);
#define ARCH_WORD(x) ((uint64_t)(uintptr_t)(x))
#define ARCH_OBJECT_CALL7(real, place, a, b, c, d, e, f, g)                                                 \
	arch_object_call(place,                                                                             \
			 (const uint64_t[7]){ ARCH_WORD(a), ARCH_WORD(b), ARCH_WORD(c), ARCH_WORD(d),       \
					      ARCH_WORD(e), ARCH_WORD(f), ARCH_WORD(g) },                   \
			 (const void *)(real))
#define ARCH_OBJECT_CALL6(real, place, a, b, c, d, e, f) ARCH_OBJECT_CALL7(real, place, a, b, c, d, e, f, 0)

#else
#error "libinterpose runs on x86-64 and aarch64: another processor needs its block here and its arch_NAME.c"
#endif

#endif
