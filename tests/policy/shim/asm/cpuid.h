/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_ASM_CPUID_H
#define PVSYNC_SHIM_ASM_CPUID_H

/* Answered by the test. */
void cpuid(unsigned int leaf, unsigned int *eax, unsigned int *ebx, unsigned int *ecx,
	   unsigned int *edx);
unsigned int cpuid_eax(unsigned int leaf);

#endif
