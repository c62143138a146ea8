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

/* Returned by PVSYNC_HC_FEATURES. */
#define PVSYNC_FEATURE_HELP	(1UL << 0)

#endif /* _LINUX_PVSYNC_ABI_H */
