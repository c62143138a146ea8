/* SPDX-License-Identifier: GPL-2.0-only */
/* The stack pointer as an operand: the compiler sets a frame up before a call. */
#define ASM_CALL_CONSTRAINT "+r" (shim_stack_pointer)
register unsigned long shim_stack_pointer __asm__("rsp");
