/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_RANDOM_H
#define PVSYNC_TEST_RANDOM_H

/* Numbers that are the same in each run. */

#include <linux/types.h>

static u64 random_state;

static inline u64 random_u64(void)
{
	u64 z = random_state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static inline u32 random_below(u32 bound)
{
	return random_u64() % bound;
}

/* About normal, mean 0, with deviation 1. */
static inline double random_normal(void)
{
	double sum = 0;

	for (int i = 0; i < 12; i++)
		sum += random_u64() / 18446744073709551616.0;
	return sum - 6;
}

#endif
