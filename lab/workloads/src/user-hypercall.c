// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes the hypercalls of pvsync, with arguments that would be right, from user mode,
 * and says what each was answered. A host has to refuse them all: they are for kernels.
 */
#define _GNU_SOURCE
#include "common.h"

/* See <linux/pvsync/abi.h>: from PVSYNC_HC_FEATURES to PVSYNC_HC_GIVE_BACK, and one more. */
#define FIRST		0x70760000ul
#define LAST		0x70760005ul

static long hypercall(unsigned long number, int vmcall)
{
	long answer = (long)number;

	if (vmcall)
		__asm__ volatile("vmcall" : "+a" (answer)
				 : "b" (0ul), "c" (0ul), "d" (0ul), "S" (0ul) : "memory");
	else
		__asm__ volatile("vmmcall" : "+a" (answer)
				 : "b" (0ul), "c" (0ul), "d" (0ul), "S" (0ul) : "memory");
	return answer;
}

int main(void)
{
	int vmcall = is_intel();
	unsigned long number;

	for (number = FIRST; number <= LAST; number++)
		printf("user hypercall %#lx: answer %ld\n", number, hypercall(number, vmcall));
	return 0;
}
