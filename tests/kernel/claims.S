/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A machine's whole firmware: a guest that has a spinlock for ever, says so to its host in a
 * record of each vCPU, and counts how often the host tells it there that it runs on borrowed time.
 *
 * Whoever runs it gives each vCPU its number in %ebx, and finds the counts at LOANS, 4 bytes each.
 */

#define SERIAL		0x3f8
#define ROM		0xf0000
#define RECORDS		0x8000		/* struct pvsync_ecs, 128 bytes for each vCPU */
#define RECORD_SHIFT	7
#define BORROWED	72
#define PAGES		0x9000
#define LOANS		0xa000

#define MSR_PVSYNC_ECS	0x70760003
#define ECS_COUNT	1		/* the form of the record: it counts its sections */
#define ONE_LOCK	1

#include "firmware.h"

	.code16
	.globl _start
_start:
	cli
	flat_segments
	paging

	movl	%ebx, %esi
	shll	$RECORD_SHIFT, %esi
	addl	$RECORDS, %esi
	movl	$ONE_LOCK, (%esi)
	movl	$MSR_PVSYNC_ECS, %ecx
	leal	ECS_COUNT(%esi), %eax
	xorl	%edx, %edx
	wrmsr

	/* %edx: whether it has been told so */
1:	movl	BORROWED(%esi), %eax
	cmpl	%eax, %edx
	je	1b
	movl	%eax, %edx
	testl	%eax, %eax
	jz	1b
	incl	LOANS(,%ebx,4)
	jmp	1b

	end_of_firmware _start
