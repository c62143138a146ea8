/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What firmwares of ours have in common. They lie at ROM, and talk to the port SERIAL. PAGES is
 * for those with paging.
 */

	/* From real mode to flat 32-bit mode: code 8, data 16; clobbers %eax */
	.macro	flat_segments
	lgdtl	%cs:gdtr
	movl	%cr0, %eax
	orb	$1, %al
	movl	%eax, %cr0
	ljmpl	$8, $flat + ROM

	.code32
flat:
	movw	$16, %ax
	movw	%ax, %ds
	movw	%ax, %es
	movw	%ax, %ss
	.endm

	/* Paging: the first 4 MiB, where they are, by one entry at PAGES; clobbers %eax */
	.macro	paging
	movl	$0x83, PAGES		/* present, writable, large */
	movl	$PAGES, %eax
	movl	%eax, %cr3
	movl	%cr4, %eax
	orl	$0x10, %eax
	movl	%eax, %cr4
	movl	%cr0, %eax
	orl	$0x80000000, %eax	/* the host takes what has no paging for another system */
	movl	%eax, %cr0
	.endm

	/* put, which says %al and clobbers %ah and %dx; and the jump to `entry` at a reset */
	.macro	end_of_firmware entry
put:
	movb	%al, %ah
	movw	$SERIAL + 5, %dx
1:	inb	%dx, %al
	testb	$0x20, %al
	jz	1b
	movb	%ah, %al
	movw	$SERIAL, %dx
	outb	%al, %dx
	ret

	.balign	8
gdt:
	.quad	0, 0x00cf9a000000ffff, 0x00cf92000000ffff
gdtr:
	.word	. - gdt - 1
	.long	gdt + ROM

	.org	0xfff0
	.code16
	ljmp	$0xf000, $\entry
	.org	0x10000
	.endm
