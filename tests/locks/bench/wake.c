// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the look for sleepers takes at a release of a paravirtual lock that has none, while
 * others have: with one bucket for all locks, and with as many as the kernel has. The least
 * of some rounds, and the caches warm; on 128 CPUs' worth of bits.
 */
#include <stdio.h>

#define ROUNDS	9

double wake_ns_1(int sleepers);
double wake_ns_64(int sleepers);

static double least(double (*wake_ns)(int sleepers), int sleepers)
{
	double best = 1e18;

	for (int round = 0; round < ROUNDS; round++) {
		double ns = wake_ns(sleepers);

		if (ns < best)
			best = ns;
	}
	return best;
}

int main(void)
{
	static const int sleepers[] = { 0, 16, 64 };

	printf("\nlook for sleepers of a lock without any, ns: sleepers of other locks, "
	       "one bucket, 64 buckets\n");
	for (unsigned int i = 0; i < sizeof(sleepers) / sizeof(*sleepers); i++)
		printf("%2d %8.1f %8.1f\n", sleepers[i], least(wake_ns_1, sleepers[i]),
		       least(wake_ns_64, sleepers[i]));
	return 0;
}
