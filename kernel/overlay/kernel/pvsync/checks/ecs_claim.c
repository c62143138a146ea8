// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest that misbehaves: all its CPUs compute in the kernel and claim to be in
 * a critical section all the time, and never give borrowed time back. It tests
 * that a host gives such a guest no more than its share.
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/io.h>
#include <linux/jiffies.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/slab.h>

#include <linux/pvsync/abi.h>

#include "each_cpu.h"

static unsigned int seconds = 10;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long");

static unsigned int form = PVSYNC_ECS_COUNT;
module_param(form, uint, 0444);
MODULE_PARM_DESC(form, "of the claim, as in the ABI");

static bool drop;
module_param(drop, bool, 0444);
MODULE_PARM_DESC(drop, "on borrowed time share no record any more, and share it once again");

static atomic64_t turns;

/* Every claim in it says something that cannot be, and the host writes to it. */
static struct pvsync_ecs *claim_make_record(void)
{
	struct pvsync_ecs *record = kmalloc(sizeof(*record), GFP_KERNEL);

	if (!record)
		return NULL;
	memset(record, 0xff, sizeof(*record));
	if (form == PVSYNC_ECS_FREE) {
		record->layout = (struct pvsync_ecs_layout) {
			.version	= PVSYNC_ECS_LAYOUT,
			.interrupt	= 0xffff0000,
			.section	= 0x0000ffff,
			.nesting	= 0x000000ff,
			.wait		= 1,
		};
		memset(record->addresses, 0, sizeof(record->addresses));
	}
	return record;
}

static long claim_share_record(struct pvsync_ecs *record)
{
	u64 gpa = virt_to_phys(record);

	if (form != PVSYNC_ECS_FREE)
		return kvm_hypercall4(PVSYNC_HC_ECS, gpa | form, 0, 0, 0);
	return kvm_hypercall4(PVSYNC_HC_ECS, gpa | form, gpa, gpa, ~PVSYNC_ECS_TASK_MASK);
}

static long claim_share_nothing(void)
{
	return kvm_hypercall4(PVSYNC_HC_ECS, 0, 0, 0, 0);
}

static void claim_everything(struct pvsync_ecs *record, u64 word)
{
	WRITE_ONCE(record->non_preemptable, word);
	WRITE_ONCE(record->preemptable, word);
}

/* Makes the host forget a loan before its end. */
static long claim_drop_loan(struct pvsync_ecs *record)
{
	if (!(READ_ONCE(record->non_preemptable) & PVSYNC_ECS_BORROWED))
		return 0;
	claim_share_nothing();
	claim_everything(record, ~PVSYNC_ECS_BORROWED);
	return claim_share_record(record);
}

static void claim_and_compute(void)
{
	unsigned long end = jiffies + seconds * HZ, again = jiffies + HZ;
	struct pvsync_ecs *record = claim_make_record();
	long answer = record ? claim_share_record(record) : -ENOMEM;
	u64 mine = 0;

	while (!answer && time_before(jiffies, end)) {
		/* What the host has made of it, it is again. */
		if (drop)
			answer = claim_drop_loan(record);
		else
			claim_everything(record, ~0ULL);
		/* A guest with pvsync.ecs= shares its own anew now and then. */
		if (!answer && time_after(jiffies, again)) {
			answer = claim_share_record(record);
			again = jiffies + HZ;
		}
		mine++;
		cond_resched();
	}
	if (answer)
		pr_err("ecs claim: the host answers %ld\n", answer);
	claim_share_nothing();
	kfree(record);
	atomic64_add(mine, &turns);
}

static int __init claim_init(void)
{
	if (!kvm_para_available()) {
		pr_err("ecs claim: this is no KVM guest\n");
		return -ENODEV;
	}
	pvsync_on_each_cpu(claim_and_compute, 0);
	pr_warn("ecs claim: form %u, %lld turns in %u s\n", form, atomic64_read(&turns), seconds);
	return 0;
}

static void __exit claim_exit(void)
{
}

module_init(claim_init);
module_exit(claim_exit);
MODULE_DESCRIPTION("Claims of critical sections that never end, to test a host");
MODULE_LICENSE("GPL");
