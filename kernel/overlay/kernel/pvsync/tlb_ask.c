// SPDX-License-Identifier: GPL-2.0-only
/*
 * The guest asks the host to flush the translations of CPUs that it names, and learns which
 * of them the host may be emulating an instruction for.
 *
 * Emulated instructions. The host may have translated an address for an instruction that
 * it emulates for a CPU, and use the address after the flush. Its answer names the CPUs
 * that it does not know to be past such an instruction. The caller interrupts these CPUs,
 * as with ipi or kvmtlb. The handlers run in the guest only, so after the instruction. A
 * named CPU that the host marks as preempted meanwhile needs no interrupt: the mark says
 * that the CPU is not in the midst of an instruction. Nor does a CPU that has switched to a
 * kernel thread, since it has done so by a later instruction.
 */
#include <linux/bitmap.h>
#include <linux/cpumask.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>

#include <asm/smp.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/count.h>

#include "tlb_ask.h"
#include "tlb_mechanism.h"

DEFINE_PER_CPU(struct cpumask, pvsync_tlb_awaited);

/* One bit of the answer may stand for several CPUs: the caller awaits all of them then. */
static void tlb_note_awaited(struct pvsync_tlb_group *group, u64 answer)
{
	unsigned int n;
	int cpu;

	for_each_online_cpu(cpu) {
		n = per_cpu(x86_cpu_to_apicid, cpu) - group->base;
		if (n < PVSYNC_TLB_TARGETS && test_bit(n, group->named) &&
		    answer & BIT_ULL(n % PVSYNC_TLB_AWAIT_BITS))
			cpumask_set_cpu(cpu, group->awaited);
	}
}

/**
 * pvsync_tlb_ask_host - have the host flush the CPUs that are named so far
 * @group: names them, and is empty afterwards
 *
 * Context: preemption disabled, interrupts enabled.
 *
 * Return: whether the host did it; if not, this guest gives up asking.
 */
bool pvsync_tlb_ask_host(struct pvsync_tlb_group *group)
{
	long answer;

	if (bitmap_empty(group->named, PVSYNC_TLB_TARGETS))
		return true;
	answer = kvm_hypercall4(PVSYNC_HC_TLB, group->named[0], group->named[1],
				group->where | group->base, group->what);
	if (answer < 0) {
		pvsync_tlb_give_up(answer);
		return false;
	}
	if (answer)
		tlb_note_awaited(group, answer);
	__pvsync_count(PVSYNC_tlb_hypercalls);
	bitmap_zero(group->named, PVSYNC_TLB_TARGETS);
	return true;
}

/**
 * pvsync_tlb_name_cpu - name a CPU to the host
 * @group: CPUs named so far; the host is asked first if @cpu is too far from them
 * @cpu: the CPU
 *
 * Context: as pvsync_tlb_ask_host().
 *
 * Return: false if the host was asked, and did not flush.
 */
bool pvsync_tlb_name_cpu(struct pvsync_tlb_group *group, int cpu)
{
	u32 id = per_cpu(x86_cpu_to_apicid, cpu);
	u32 base = round_down(id, PVSYNC_TLB_TARGETS);

	if (base != group->base) {
		if (!pvsync_tlb_ask_host(group))
			return false;
		group->base = base;
	}
	__set_bit(id - base, group->named);
	return true;
}

/**
 * pvsync_tlb_count_awaited - count the CPUs that get an interrupt after all
 * @group: has the host's answers
 *
 * Context: preemption disabled.
 */
void pvsync_tlb_count_awaited(const struct pvsync_tlb_group *group)
{
	__pvsync_add(PVSYNC_tlb_interrupted, cpumask_weight(group->awaited));
}
