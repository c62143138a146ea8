// SPDX-License-Identifier: GPL-2.0-only
/*
 * To test that pvsync gives way, do not use: pvsync.overrule, after pvsync.lock=, does what
 * the code for another hypervisor would do that has spinlocks of its own and asks nobody.
 * These are the native ones.
 */
#include <linux/init.h>

#include <asm/paravirt.h>
#include <asm/qspinlock.h>

#include <linux/pvsync/shims.h>

static int __init overrule_spinlocks(char *arg)
{
	pvsync_set_slowpath(native_queued_spin_lock_slowpath);
	return 0;
}
early_param("pvsync.overrule", overrule_spinlocks);
