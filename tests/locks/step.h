/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_STEP_H
#define PVSYNC_TEST_STEP_H

/*
 * CPUs that run only when told to. Each is a coroutine that goes on until it
 * calls cpu_relax(), until step_pause(), or until its function returns; with
 * step_fine, also until its next access to shared memory. So a test is the
 * scheduler, a CPU that is not stepped is a preempted vCPU, and a run can be
 * repeated exactly.
 */

#include "shim/shim.h"

enum step {
	STEP_IDLE,	/* no function given yet */
	STEP_RELAX,	/* in cpu_relax() */
	STEP_ACCESS,	/* about to access shared memory; step_fine only */
	STEP_PAUSE,	/* in step_pause(), for example holding the lock */
	STEP_DONE,	/* its function has returned */
};

extern bool step_fine;

/* Shared accesses of all CPUs since step_reset(), by kind, and the widest store. */
extern unsigned long step_accesses[4];
extern unsigned int step_widest_store;

/* Forget all CPUs; at most @cpus (4,200) from now on, numbered from 0. */
void step_reset(unsigned int cpus);

/* Give an idle or done CPU a function. It does not run yet. */
void step_start(unsigned int cpu, void (*fn)(unsigned int cpu));

/* Run a CPU up to its next stop. */
enum step step_run(unsigned int cpu);

/* Up to @limit stops, ending early at anything but STEP_RELAX; counts the relaxes. */
enum step step_until(unsigned int cpu, unsigned long limit, unsigned long *relaxes);

enum step step_state(unsigned int cpu);

/* From inside a CPU: stop here, and say which CPU this is (-1: none, the test itself). */
void step_pause(void);
int step_self(void);

#endif /* PVSYNC_TEST_STEP_H */
