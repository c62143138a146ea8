/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine's whole firmware: a guest that shares a record of pvsync with its host once, by the
 * MSR, and never again. It says on the serial port, a line each time
 *
 *	T	the host has told it in the record that it runs
 *	S	the host has said nothing for 2^30 cycles
 *	W	the host has written what makes no sense
 *
 * and then = or !: whether the MSR has the value that was written. Or once
 *
 *	N	it is not offered any record
 *
 * Whoever runs it has something else want its CPU, so that there is something to tell.
 */

#define SERIAL		0x3f8
#define ROM		0xf0000
#define STACK		0x7000
#define RECORD		0x8000		/* struct pvsync_ecs, 128 bytes */
#define PREEMPTED	(RECORD + 64)
#define PATTERN		0xa5a5a5a5
#define PAGES		0x9000

#define CPUID_BASE	0x40007600
#define CPUID_FEATURES	0x40007601
#define FEATURE_ECS	4
#define MSR_PVSYNC_ECS	0x70760003
#define VALUE		(RECORD + 1)	/* it counts its sections, and has none */

#include "firmware.h"

	.code16
	.globl _start
_start:
	cli
	flat_segments
	movl	$STACK, %esp
	paging

	movl	$CPUID_BASE, %eax
	cpuid
	cmpl	$0x79737670, %ebx	/* pvsy */
	jne	without
	cmpl	$0x7670636e, %ecx	/* ncpv */
	jne	without
	cmpl	$0x636e7973, %edx	/* sync */
	jne	without
	movl	$CPUID_FEATURES, %eax
	cpuid
	testb	$FEATURE_ECS, %al
	jz	without

	movl	$RECORD, %edi
	xorl	%eax, %eax
	movl	$32, %ecx
	rep stosl
	movl	$MSR_PVSYNC_ECS, %ecx
	movl	$VALUE, %eax
	xorl	%edx, %edx
	wrmsr

again:
	movl	$PATTERN, PREEMPTED
	rdtsc
	movl	%eax, %esi
	movl	%edx, %edi
1:	pause
	movl	PREEMPTED, %ebx
	cmpl	$PATTERN, %ebx
	jne	told
	rdtsc
	subl	%esi, %eax
	sbbl	%edi, %edx
	jnz	silent
	cmpl	$1 << 30, %eax
	jb	1b
silent:
	movb	$'S', %al
	jmp	2f
told:
	movb	$'T', %al
	testl	%ebx, %ebx
	jz	2f
	movb	$'W', %al
2:	call	put
	movl	$MSR_PVSYNC_ECS, %ecx
	rdmsr
	cmpl	$VALUE, %eax
	movb	$'=', %al
	je	3f
	movb	$'!', %al
3:	call	put
	movb	$'\n', %al
	call	put
	jmp	again

without:
	movb	$'N', %al
	call	put
	movb	$'\n', %al
	call	put
4:	hlt
	jmp	4b

	end_of_firmware _start
