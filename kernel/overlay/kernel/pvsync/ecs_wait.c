// SPDX-License-Identifier: GPL-2.0-only
/*
 * Waits for spinlocks, pvsync.ecs=free: a slow path that tells of the wait, and calls the
 * chosen one.
 */
#include <linux/init.h>
#include <linux/spinlock.h>

#include <asm/paravirt.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/ecs.h>
#include <linux/pvsync/shims.h>

#include "ecs_wait.h"
#include "locks.h"

/* With free, the slow path of spinlocks that ecs_announced_spin() calls. */
static slowpath_fn spin_slowpath __ro_after_init;

static void notrace __lockfunc ecs_announced_spin(struct qspinlock *lock, u32 val)
{
	pvsync_ecs_wait_begins();
	spin_slowpath(lock, val);
	pvsync_ecs_wait_ends();
}

/**
 * pvsync_spin_slowpath - what a contended spinlock calls, announced or not
 *
 * Context: any.
 */
slowpath_fn pvsync_spin_slowpath(void)
{
	return spin_slowpath ?: pvsync_get_slowpath();
}

/**
 * pvsync_ecs_announce_spins - have contended spinlocks tell of their waits, or not
 * @on: whether they do
 *
 * Context: one CPU, before the alternatives turn the pointer into a direct call.
 */
void __init pvsync_ecs_announce_spins(bool on)
{
	slowpath_fn plain = pvsync_spin_slowpath();

	spin_slowpath = on ? plain : NULL;
	pvsync_set_slowpath(on ? ecs_announced_spin : plain);
}
