// SPDX-License-Identifier: GPL-2.0-only
/* The look for sleepers of one release, with PVSYNC_BUCKETS buckets; see wake.c. */
#include "shim/shim.h"

#include <time.h>

#include "pv_sleepers.h"

#define RELEASES	200000

static struct { struct qspinlock lock; } __aligned(64) locks[CONFIG_NR_CPUS + 1];
static unsigned int kicks;

static noinline void kick(int cpu)
{
	kicks++;
}

double BENCH(int sleepers);
double BENCH(int sleepers)
{
	struct timespec began, ended;

	for (int cpu = 0; cpu < CONFIG_NR_CPUS; cpu++)
		pvsync_sleep_ends(cpu, &locks[cpu + 1].lock);
	for (int cpu = 0; cpu < sleepers; cpu++)
		pvsync_sleep_begins(cpu, &locks[cpu + 1].lock, cpu);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (int i = 0; i < RELEASES; i++) {
		barrier();
		pvsync_wake(&locks[0].lock, i, false, kick);
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	if (kicks)
		__builtin_trap();
	return ((ended.tv_sec - began.tv_sec) * 1e9 + ended.tv_nsec - began.tv_nsec) / RELEASES;
}
