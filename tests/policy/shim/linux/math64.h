/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_MATH64_H
#define PVSYNC_TEST_MATH64_H

/* As the kernel's on x86-64: the division ends the program if its result does not fit. */

#include <linux/types.h>

static inline u64 mul_u64_u64_shr(u64 a, u64 b, unsigned int shift)
{
	return ((unsigned __int128)a * b) >> shift;
}

static inline u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c)
{
	unsigned __int128 result = (unsigned __int128)a * b / c;

	if (result >> 64)
		__builtin_trap();
	return result;
}

#endif
