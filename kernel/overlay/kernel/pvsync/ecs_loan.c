// SPDX-License-Identifier: GPL-2.0-only
/*
 * Time that the host lends a CPU for its critical sections, and how the CPU gives it back.
 *
 * The host sets BORROWED in both words when it lets the vCPU run on. BORROWED is the
 * sign of the word, so the subtraction itself tells, and the CPU calls pvsync_ecs_left().
 * Anything may have come in between: interrupts that had sections of their own, and if
 * preemption is enabled, other tasks and another CPU. So pvsync_ecs_left() disables
 * interrupts and looks at the CPU that it runs on then: is there any section left? The CPU
 * that the task was on before does not need that look. It switched tasks, and the release of
 * its run queue's lock is a subtraction. The release comes after the preemptable sections of
 * the outgoing task have left the word.
 *
 * If no section is left, pvsync_ecs_left() clears BORROWED, which the host does not mind, and
 * asks the host to run somebody else. Interrupts or preemption may be disabled meanwhile, but
 * that alone is no section. NMI handlers leave all that to the code that they interrupted.
 *
 * With free no subtraction tells, and the host writes to nothing that the kernel maintains
 * for itself. The host looks at times whether the section is over. If the kernel chooses a
 * task meanwhile, __pvsync_ecs_reschedule() gives back the rest of the time.
 */
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/rcupdate.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/count.h>
#include <linux/pvsync/ecs.h>

#include "ecs_loan.h"

/**
 * pvsync_ecs_give_back - have the host take back what it has lent this CPU
 *
 * Context: any but NMIs, preemption disabled; nothing here may take a lock.
 */
void notrace pvsync_ecs_give_back(void)
{
	__pvsync_count(PVSYNC_ecs_given_back);
	kvm_hypercall1(PVSYNC_HC_GIVE_BACK, 0);
}

/**
 * __pvsync_ecs_reschedule - give back time that was borrowed with free
 *
 * Keeps the time of a reader that is preempted, or looks as if it were: nothing would tell
 * when the reader ends.
 *
 * Context: as pvsync_ecs_reschedule().
 */
void __pvsync_ecs_reschedule(void)
{
	if (this_cpu_read(pvsync_ecs.borrowed) && !rcu_preempt_depth())
		pvsync_ecs_give_back();
}
