/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_ABI_H
#define _LINUX_PVSYNC_ABI_H

#include <linux/types.h>

/*
 * What a pvsync guest and a pvsync host agree on, see docs/abi/hypercalls.rst
 * and docs/abi/cpuid-msr.rst of the project.
 *
 * Numbers of hypercalls, of MSRs and of the capability have 'p' 'v' in the upper half, out of
 * the way of KVM's own. KVM counts hypercalls and capabilities up from 1, and its MSRs have 'K'
 * 'V' 'M'. A KVM that does not know a number refuses it.
 */
#define PVSYNC_HC_FEATURES	0x70760000
#define PVSYNC_HC_HELP		0x70760001
#define PVSYNC_HC_ECS		0x70760003
#define PVSYNC_HC_GIVE_BACK	0x70760004
#define PVSYNC_HC_TLB		0x70760005

/* Returned by PVSYNC_HC_FEATURES. */
#define PVSYNC_FEATURE_HELP	(1UL << 0)
#define PVSYNC_FEATURE_ECS	(1UL << 2)
#define PVSYNC_FEATURE_TLB	(1UL << 3)
#define PVSYNC_FEATURES		(PVSYNC_FEATURE_HELP | PVSYNC_FEATURE_ECS | PVSYNC_FEATURE_TLB)

/*
 * CPUID: a range of hypervisor leaves. The first leaf has the last one in eax and the signature
 * in ebx, ecx and edx. The second leaf has the features in eax, and 0 in the others.
 */
#define PVSYNC_CPUID_BASE	0x40007600
#define PVSYNC_CPUID_FEATURES	0x40007601
#define PVSYNC_CPUID_SIGNATURE	"pvsyncpvsync"

/* KVM_ENABLE_CAP for a VM: args[0] has the features, the other arguments are 0. */
#define KVM_CAP_PVSYNC		0x70760000

/*
 * With PVSYNC_FEATURE_ECS: the record that the vCPU shares and the form of its claims, as a0 of
 * PVSYNC_HC_ECS has them. What a1 to a3 have is in the record then.
 */
#define MSR_PVSYNC_ECS		0x70760003

/*
 * Do not use number 0x70760002 and feature 1 again. They were a flush whose caller did not
 * learn of targets in the midst of an instruction that the host emulates.
 */

/*
 * Arguments of PVSYNC_HC_TLB. All are in registers: there is no memory of the
 * guest that the host would have to find, or could fail to read.
 *
 * a0, a1: targets, a bit for each APIC ID from the base on
 * a2:     bits 0..31 the base, bits 32..63 the number of pages; 0 for all
 *         translations of the targets
 * a3:     bits 12..63 the first page, bits 0..11 log2 of the size of the pages;
 *         0 for all translations
 *
 * The answer, if it is not negative, has bit n mod PVSYNC_TLB_AWAIT_BITS for the target of
 * bit n. The bit is set if the host may be in the midst of an instruction of the target, with
 * addresses that it translated before the call. The caller has to wait until such a target
 * has run an instruction more.
 */
#define PVSYNC_TLB_TARGETS	128
#define PVSYNC_TLB_AWAIT_BITS	63
#define PVSYNC_TLB_PAGES_SHIFT	32
#define PVSYNC_TLB_SIZE_MASK	0xfffUL

/*
 * Arguments of PVSYNC_HC_ECS, by which a vCPU shares a record with the host:
 *
 * a0: the guest-physical address of its struct pvsync_ecs, which has the
 *     alignment of PVSYNC_ECS_SIZE, with the form of its claims in the low bits;
 *     0 to stop sharing
 *
 * and for PVSYNC_ECS_FREE only, 0 otherwise:
 *
 * a1: the guest-physical address of its preempt count, 4 bytes, laid out as the
 *     record says (struct pvsync_ecs_layout)
 * a2: the guest-physical address of its pointer to the running task, 8 bytes; 0
 *     if the guest cannot tell a3
 * a3: bits 30..63 the address at which the guest maps all of its memory, bits
 *     0..29 where a task has its nesting of RCU readers, 4 bytes, signed
 *
 * The host reads the memory at these addresses, and does not write to it. 2 is no form.
 */
#define PVSYNC_ECS_SIZE		128
#define PVSYNC_ECS_COUNT	1
#define PVSYNC_ECS_SILENT	3	/* none: the record is for what the host has to say */
#define PVSYNC_ECS_FREE		4
#define PVSYNC_ECS_FORM_MASK	(PVSYNC_ECS_SIZE - 1UL)
#define PVSYNC_ECS_TASK_MASK	((1UL << 30) - 1)

/*
 * Numbers of critical sections that a vCPU is in, four fields of 16 bits in a word; the
 * last field has 15 bits. Words that are not preemptable belong to the CPU. The preemptable
 * word belongs to the task that runs on the CPU.
 *
 * With PVSYNC_ECS_COUNT, the host sets and clears BORROWED while the vCPU does not run. It
 * tells the vCPU that it runs on borrowed time. A vCPU that has left its sections then calls
 * PVSYNC_HC_GIVE_BACK. With PVSYNC_ECS_FREE the words say no more than SPINNER, and the host
 * does not write to them.
 */
#define PVSYNC_ECS_LOCK		(1ULL << 0)	/* spinlocks, write-locked rwlocks */
#define PVSYNC_ECS_READ		(1ULL << 16)	/* read-locked rwlocks */
#define PVSYNC_ECS_IRQ		(1ULL << 32)	/* hard and soft interrupts */
#define PVSYNC_ECS_SPINNER	(1ULL << 48)	/* waits for one of these, or for other vCPUs */

#define PVSYNC_ECS_MUTEX	(1ULL << 0)	/* mutexes, write-locked rwsems */
#define PVSYNC_ECS_RWSEM_READ	(1ULL << 16)	/* read-locked rwsems */
#define PVSYNC_ECS_RCU		(1ULL << 32)	/* RCU readers that can be preempted */
#define PVSYNC_ECS_WAITER	(1ULL << 48)	/* waits for one of these locks, awake */

#define PVSYNC_ECS_FIELD	0xffffULL
#define PVSYNC_ECS_BORROWED	(1ULL << 63)

/* Version of the layout below; a host refuses versions that it does not know. */
#define PVSYNC_ECS_LAYOUT	1	/* for PVSYNC_HC_ECS */
#define PVSYNC_ECS_LAYOUT_MSR	2	/* for MSR_PVSYNC_ECS: with the addresses in the record */

/**
 * struct pvsync_ecs_layout - how the preempt count of a guest is laid out
 * @version: PVSYNC_ECS_LAYOUT or PVSYNC_ECS_LAYOUT_MSR
 * @interrupt: bits of the count, any of which is set while an interrupt is handled
 * @section: bits, any of which is set while the guest does not switch tasks; they
 *	share none with @interrupt
 * @nesting: the bits of @section that a wait counts in
 * @wait: what a single wait adds to @nesting, not 0
 * @reserved: 0
 *
 * All other bits say nothing.
 */
struct pvsync_ecs_layout {
	__u32	version;
	__u32	interrupt;
	__u32	section;
	__u32	nesting;
	__u32	wait;
	__u32	reserved;
};

/**
 * struct pvsync_ecs - what a vCPU and its host tell each other
 * @non_preemptable: sections in which the guest does not switch tasks
 * @preemptable: sections that it can switch away from
 * @layout: of the preempt count, with PVSYNC_ECS_FREE only; read when the record is shared
 * @addresses: a1 to a3 of PVSYNC_HC_ECS, with PVSYNC_ECS_LAYOUT_MSR; 0 otherwise
 * @preempted: the vCPU waits for a CPU of the host
 * @overcommitted: when the vCPU came to its CPU, something else waited for that CPU
 * @borrowed: the vCPU runs on borrowed time, as the words say in their top bit
 * @host_reserved: 0
 *
 * The guest writes the first half. The host writes the second half when it switches to the
 * vCPU or away from it. Each half is a claim of its writer, nothing more.
 */
struct pvsync_ecs {
	__u64	non_preemptable;
	__u64	preemptable;
	struct pvsync_ecs_layout layout;
	__u64	addresses[3];

	__u32	preempted;
	__u32	overcommitted;
	__u32	borrowed;
	__u32	host_reserved[13];
} __attribute__((aligned(PVSYNC_ECS_SIZE)));

#endif /* _LINUX_PVSYNC_ABI_H */
