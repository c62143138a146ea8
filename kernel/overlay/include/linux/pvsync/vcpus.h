/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_VCPUS_H
#define _LINUX_PVSYNC_VCPUS_H

/*
 * Whether the host does anything for its vCPUs where they lose and get their CPUs, spin, and
 * yield. One key guards all of it. The key is off until a policy, a guest or a reader asks,
 * see kernel/pvsync/vcpus.c.
 */

#include <linux/jump_label.h>
#include <linux/types.h>

DECLARE_STATIC_KEY_FALSE(pvsync_vcpus_key);
DECLARE_STATIC_KEY_FALSE(pvsync_wake_key);

extern u32 pvsync_vcpu_stat_round;

void pvsync_vcpus_enable(void);
void pvsync_vcpus_ask(void);

#endif /* _LINUX_PVSYNC_VCPUS_H */
