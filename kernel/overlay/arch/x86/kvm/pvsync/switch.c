// SPDX-License-Identifier: GPL-2.0-only
/* A vCPU's thread gets a CPU, and loses it. */
#include <linux/kvm_host.h>

#include <trace/events/pvsync.h>

#include <linux/pvsync/kvm/switch.h>

#include "count.h"
#include "loan.h"
#include "record.h"
#include "regs.h"
#include "spin.h"
#include "tlb_settle.h"

/**
 * __pvsync_vcpu_load - pvsync_vcpu_load() once somebody asks for it
 * @vcpu: the vCPU
 * @cpu: the CPU
 *
 * Context: as pvsync_vcpu_load().
 */
void __pvsync_vcpu_load(struct kvm_vcpu *vcpu, int cpu)
{
	vcpu->arch.pvsync.loan.returned = false;
	vcpu->arch.pvsync.loan.dropped = false;
	pvsync_drop_segments(vcpu);
	pvsync_unmark(vcpu);
	pvsync_loan_init(vcpu);
	pvsync_account_load(vcpu);
	pvsync_cpu_wait_ends(vcpu);
	pvsync_hvs_load(vcpu);
	pvsync_spin_goes_on(vcpu);
	pvsync_count_yields_to(vcpu, cpu);
	pvsync_ecs_load(vcpu);
}

/**
 * __pvsync_vcpu_put - pvsync_vcpu_put() once somebody asks for it
 * @vcpu: the vCPU
 *
 * Context: as pvsync_vcpu_put().
 */
void __pvsync_vcpu_put(struct kvm_vcpu *vcpu)
{
	bool yields = vcpu->arch.pvsync.yielding;
	enum pvsync_vcpu_counter where;
	bool marked;

	if (vcpu->scheduled_out)
		pvsync_loan_end(vcpu);
	else
		pvsync_loan_drop(vcpu);
	pvsync_account_put(vcpu);
	pvsync_cpu_wait_begins(vcpu);
	pvsync_spin_waits(vcpu);
	pvsync_settle_put(vcpu);
	if (!vcpu->preempted)
		return;
	where = yields ? PVSYNC_preempt_yielded : pvsync_where(vcpu);
	pvsync_count_for(vcpu, where, 1);
	marked = pvsync_mark(vcpu);
	if (!marked)
		pvsync_count_for(vcpu, yields ? PVSYNC_yield_unmarked : PVSYNC_preempt_unmarked, 1);
	trace_pvsync_preempted(vcpu, where, marked);
	pvsync_hvs_put(vcpu, where);
	pvsync_ecs_tell(vcpu, true, true);
}
