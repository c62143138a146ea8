// SPDX-License-Identifier: GPL-2.0-only
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "step.h"

#define STEP_CPUS	4200
#define STEP_STACK	(64 * 1024)	/* touched as far as used */

struct step_cpu {
	ucontext_t context;
	void (*fn)(unsigned int cpu);
	enum step state;
};

void (*pvsync_hook)(enum pvsync_point point, unsigned int size);

bool step_fine;
unsigned long step_accesses[4];
unsigned int step_widest_store;

static struct step_cpu *step_cpus;
static char *step_stacks;
static ucontext_t step_scheduler;
static int step_current = -1;

static void step_stop(enum step state)
{
	struct step_cpu *cpu = &step_cpus[step_current];

	cpu->state = state;
	swapcontext(&cpu->context, &step_scheduler);
}

static void step_hook(enum pvsync_point point, unsigned int size)
{
	step_accesses[point]++;
	if (point == PVSYNC_STORE && size > step_widest_store)
		step_widest_store = size;
	if (step_current < 0)
		return;
	if (point == PVSYNC_RELAX)
		step_stop(STEP_RELAX);
	else if (step_fine)
		step_stop(STEP_ACCESS);
}

static void step_entry(void)
{
	step_cpus[step_current].fn(step_current);
	step_cpus[step_current].state = STEP_DONE;
	/* uc_link leads back to the scheduler. */
}

void step_reset(unsigned int cpus)
{
	if (cpus > STEP_CPUS)
		abort();
	if (!step_cpus) {
		step_cpus = calloc(STEP_CPUS, sizeof(*step_cpus));
		step_stacks = mmap(NULL, (size_t)STEP_CPUS * STEP_STACK, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (!step_cpus || step_stacks == MAP_FAILED) {
			perror("step_reset");
			exit(2);
		}
	}
	for (unsigned int i = 0; i < cpus; i++)
		step_cpus[i].state = STEP_IDLE;
	for (int i = 0; i < 4; i++)
		step_accesses[i] = 0;
	step_widest_store = 0;
	step_fine = false;
	pvsync_hook = step_hook;
}

void step_start(unsigned int cpu, void (*fn)(unsigned int cpu))
{
	struct step_cpu *c = &step_cpus[cpu];

	getcontext(&c->context);
	c->context.uc_stack.ss_sp = step_stacks + (size_t)cpu * STEP_STACK;
	c->context.uc_stack.ss_size = STEP_STACK;
	c->context.uc_link = &step_scheduler;
	c->fn = fn;
	c->state = STEP_ACCESS;
	makecontext(&c->context, step_entry, 0);
}

enum step step_run(unsigned int cpu)
{
	struct step_cpu *c = &step_cpus[cpu];

	if (c->state == STEP_IDLE || c->state == STEP_DONE) {
		printf("not ok CPU %u has nothing to run: it got the lock too early or not at all\n", cpu);
		exit(1);
	}
	step_current = cpu;
	swapcontext(&step_scheduler, &c->context);
	step_current = -1;
	return c->state;
}

enum step step_until(unsigned int cpu, unsigned long limit, unsigned long *relaxes)
{
	unsigned long count = 0;
	enum step state = step_state(cpu);

	while (count < limit) {
		state = step_run(cpu);
		if (state != STEP_RELAX)
			break;
		count++;
	}
	if (relaxes)
		*relaxes = count;
	return state;
}

enum step step_state(unsigned int cpu)
{
	return step_cpus[cpu].state;
}

void step_pause(void)
{
	step_stop(STEP_PAUSE);
}

int step_self(void)
{
	return step_current;
}
