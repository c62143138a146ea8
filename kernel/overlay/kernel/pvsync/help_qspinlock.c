// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's native queued spinlock, compiled again with waiting loops that
 * ask for help. Its source file is made to be compiled several times: it
 * includes itself for the paravirtual form. All its waits call cpu_relax().
 */
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/hardirq.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/prefetch.h>
#include <linux/smp.h>
#include <linux/spinlock.h>

#include <asm/byteorder.h>
#include <asm/qspinlock.h>

#include <trace/events/lock.h>

#include <linux/pvsync/help.h>

#include "../locking/lock_events.h"

#include "locks.h"

/* Leave out the paravirtual form and the exports of the kernel's own copy. */
#undef CONFIG_PARAVIRT_SPINLOCKS
#undef EXPORT_SYMBOL
#define EXPORT_SYMBOL(symbol)

#undef queued_spin_lock_slowpath
#define queued_spin_lock_slowpath	pvsync_helped_native_slowpath

#define cpu_relax()			pvsync_relax()

/* virt_spin_lock() is compiled already, with the plain cpu_relax(). */
static bool helped_virt_spin_lock(struct qspinlock *lock)
{
	if (!static_branch_likely(&virt_spin_lock_key))
		return false;
	pvsync_helped_tas_slowpath(lock, 0);
	return true;
}

#undef virt_spin_lock
#define virt_spin_lock			helped_virt_spin_lock

#include "../locking/qspinlock.c"
