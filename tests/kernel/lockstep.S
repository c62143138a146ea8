/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine's whole firmware: every CPU does the same work at the same time,
 * and says on the serial port how long it took by its own counter.
 *
 *	gcc -DWORK=... -DTIMES=n: what the work is, and how often it is done
 *
 * Output, in hex: ns until all are done; then a line for each CPU, the first
 * one's first: ns by its own counter, and the sum of what the work found in a
 * counter that all share.
 */

#define COMPUTE		1	/* a loop of two instructions */
#define PAUSES		2	/* a loop of PAUSE */
#define SHARE		3	/* take numbers of one counter that all share */
#define FLUSH		4	/* INVLPG */
#define EXITS		5	/* run a guest whose first instruction exits */

#define ROM		0xf0000
#define SERIAL		0x3f8
#define APIC		0xfee00000
#define ARRIVED		0x1000
#define GO		0x1004
#define DONE		0x1008
#define SHARED		0x1010
#define BEGAN		0x1014
#define RESULTS		0x2000	/* 8 bytes a CPU */
#define STACKS		0x10000	/* 256 bytes a CPU, downwards */
#define WAIT		2000000	/* ns until all CPUs have come up */
#define VMCBS		0x100000	/* 2 pages a CPU: VMCB, host's state */

#define EFER		0xc0000080
#define EFER_SVME	0x1000
#define VM_HSAVE_PA	0xc0010117
/* In a VMCB; AMD's manual, volume 2, appendix B */
#define INTERCEPTS	0x010	/* VMRUN, VMMCALL, ... */
#define ASID		0x058
#define ES		0x400
#define CS		0x410
#define SS		0x420
#define DS		0x430
#define GUEST_EFER	0x4d0
#define CR0		0x558
#define DR7		0x560
#define DR6		0x568
#define RFLAGS		0x570
#define RIP		0x578

#include "firmware.h"

	/* A stack for CPU %eax, whose number stays in %ebp */
	.macro	stack
	movl	%eax, %ebp
	movl	%eax, %ecx
	shll	$8, %ecx
	leal	STACKS(%ecx), %esp
	.endm

	.code16
	.globl _start
_start:				/* the others start here, by the number of its page */
	cli
	movl	$other, %ebx
	jmp	protected
first16:
	cli
	movl	$first, %ebx
protected:
	flat_segments
	addl	$ROM, %ebx
	jmp	*%ebx

other:
	movl	$1, %eax
	lock xaddl %eax, ARRIVED
	incl	%eax		/* this CPU's number */
	stack
1:	pause
	cmpl	$0, GO
	je	1b
	call	work
	lock incl DONE
2:	hlt
	jmp	2b

first:
	xorl	%eax, %eax
	stack
	movl	%eax, ARRIVED
	movl	%eax, GO
	movl	%eax, DONE
	movl	%eax, SHARED
	movl	$0x1ff, APIC + 0xf0
	movl	$0xc4500, APIC + 0x300		/* INIT, then where to start */
	movl	$10000, %ecx
	call	wait
	movl	$0xc4600 | (ROM >> 12), APIC + 0x300
	movl	$WAIT, %ecx
	call	wait
	rdtsc
	movl	%eax, BEGAN
	movl	$1, GO
	call	work
1:	pause
	movl	DONE, %eax
	cmpl	ARRIVED, %eax
	jne	1b

	rdtsc
	subl	BEGAN, %eax
	call	hex
	movb	$'\n', %al
	call	put
	xorl	%esi, %esi
2:	movl	RESULTS(, %esi, 8), %eax
	call	hex
	movb	$' ', %al
	call	put
	movl	RESULTS + 4(, %esi, 8), %eax
	call	hex
	movb	$'\n', %al
	call	put
	incl	%esi
	cmpl	ARRIVED, %esi
	jbe	2b
	movw	$0xcf9, %dx			/* reset, which ends the emulator */
	movb	$2, %al
	outb	%al, %dx
	movb	$6, %al
	outb	%al, %dx
3:	hlt
	jmp	3b

/* Spin for %ecx ns */
wait:
	rdtsc
	movl	%eax, %ebx
1:	pause
	rdtsc
	subl	%ebx, %eax
	cmpl	%ecx, %eax
	jb	1b
	ret

	/* A flat segment of the guest in the VMCB %esi: selector, attributes */
	.macro	segment at, selector, attributes
	movl	$(\attributes << 16) | \selector, \at(%esi)
	movl	$-1, \at + 4(%esi)
	.endm

/* The VMCB of CPU %ebp in %esi, for a guest in flat 32-bit mode, as we are */
guest_made:
	movl	%ebp, %esi
	shll	$13, %esi
	addl	$VMCBS, %esi
	movl	%esi, %edi
	xorl	%eax, %eax
	movl	$2048, %ecx
	rep stosl
	movl	$EFER, %ecx
	rdmsr
	orl	$EFER_SVME, %eax
	wrmsr
	movl	$VM_HSAVE_PA, %ecx
	leal	0x1000(%esi), %eax
	xorl	%edx, %edx
	wrmsr
	movl	$3, INTERCEPTS(%esi)
	movl	$1, ASID(%esi)
	segment	CS, 8, 0xc9b
	segment	DS, 16, 0xc93
	segment	ES, 16, 0xc93
	segment	SS, 16, 0xc93
	movl	$EFER_SVME, GUEST_EFER(%esi)
	movl	$0x11, CR0(%esi)
	movl	$0x400, DR7(%esi)
	movl	$0xffff0ff0, DR6(%esi)
	movl	$2, RFLAGS(%esi)
	movl	$guest + ROM, RIP(%esi)
	ret
guest:
	vmmcall

work:
#if WORK == EXITS
	call	guest_made
#endif
	xorl	%edi, %edi
	rdtsc
	movl	%eax, %ebx
	movl	$TIMES, %ecx
1:
#if WORK == PAUSES
	pause
#elif WORK == SHARE
	movl	$1, %eax
	lock xaddl %eax, SHARED
	addl	%eax, %edi
#elif WORK == FLUSH
	invlpg	SHARED
#elif WORK == EXITS
	movl	%esi, %eax
	vmrun	%eax
#endif
	decl	%ecx
	jnz	1b
	rdtsc
	subl	%ebx, %eax
	movl	%eax, RESULTS(, %ebp, 8)
	movl	%edi, RESULTS + 4(, %ebp, 8)
	ret

hex:
	movl	%eax, %ebx
	movl	$8, %ecx
1:	roll	$4, %ebx
	movb	%bl, %al
	andb	$15, %al
	addb	$'0', %al
	cmpb	$'9', %al
	jbe	2f
	addb	$'a' - '0' - 10, %al
2:	call	put
	loop	1b
	ret

	end_of_firmware first16
