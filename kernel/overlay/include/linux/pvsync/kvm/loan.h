/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_KVM_LOAN_H
#define _LINUX_PVSYNC_KVM_LOAN_H

/*
 * Extra time for a vCPU in a critical section: its loan, and the account of its loans. The
 * mechanism is in arch/x86/kvm/pvsync/extend.c.
 */

#include <linux/hrtimer.h>
#include <linux/types.h>

/**
 * struct pvsync_loan - time that a vCPU runs on after it was to be preempted
 * @timer: ends it
 * @granted: there is a loan
 * @returned: the guest has given the loan back, and has not run since
 * @dropped: the loan has ended without a switch, which has not come since
 * @since: its begin, ns
 * @period: run time of the vCPU's thread at the begin of the account's period, ns
 * @ran: run time in that period so far, while no thread runs the vCPU, ns
 * @borrowed: time borrowed in the period, and excess of the periods before, ns
 *
 * Only the thread of the vCPU uses it, but for @timer.
 */
struct pvsync_loan {
	struct hrtimer	timer;
	bool		granted;
	bool		returned;
	bool		dropped;
	u64		since;
	u64		period;
	u64		ran;
	u64		borrowed;
};

#endif /* _LINUX_PVSYNC_KVM_LOAN_H */
