/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_ABI_H
#define _LINUX_PVSYNC_ABI_H

/*
 * What a pvsync guest and a pvsync host agree on, see docs/abi/hypercalls.rst
 * of the project.
 *
 * Hypercall numbers: KVM counts its own up from 1, and answers -KVM_ENOSYS to
 * all others; 'p' 'v' in the upper half is out of its way. A feature bit of
 * CPUID would be filtered out by a QEMU that does not know its name, a hypercall
 * that asks is not.
 */
#define PVSYNC_HC_FEATURES	0x70760000
#define PVSYNC_HC_HELP		0x70760001
#define PVSYNC_HC_TLB		0x70760002

/* Returned by PVSYNC_HC_FEATURES. */
#define PVSYNC_FEATURE_HELP	(1UL << 0)
#define PVSYNC_FEATURE_TLB	(1UL << 1)

/*
 * Arguments of PVSYNC_HC_TLB. All are in registers: there is no memory of the
 * guest that the host would have to find, or could fail to read.
 *
 * a0, a1: targets, a bit for each APIC ID from the base on
 * a2:     bits 0..31 the base, bits 32..63 the number of pages; 0 for all
 *         translations of the targets
 * a3:     bits 12..63 the first page, bits 0..11 log2 of the size of the pages;
 *         0 for all translations
 */
#define PVSYNC_TLB_TARGETS	128
#define PVSYNC_TLB_PAGES_SHIFT	32
#define PVSYNC_TLB_SIZE_MASK	0xfffUL

#endif /* _LINUX_PVSYNC_ABI_H */
