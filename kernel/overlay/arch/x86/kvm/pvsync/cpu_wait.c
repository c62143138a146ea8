// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long the vCPUs of a VM wait for a CPU, whether they were preempted or have been
 * woken. The file cpu_waits of the VM tells it, see control.c:
 *
 *	BIN WAITS NS	a line for each bin with waits, of at least 2^(BIN-1) and below
 *			2^BIN microseconds; bin 0 has shorter waits
 *	lasts NS	the longest wait that is not over
 *	longest NS	the longest wait that is over
 *
 * Any write to the file clears it. pvsync notes waits while debugfs pvsync/vcpu_stat is 1,
 * see kernel/pvsync/vcpus.c. It does not note a wait that began before.
 */
#include <linux/bitops.h>
#include <linux/kvm_host.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>

#include <linux/pvsync/kvm/cpu_wait.h>
#include <linux/pvsync/shims.h>
#include <linux/pvsync/vcpus.h>

#include "spin.h"

/* Whether pvsync noted how long a vCPU's thread had waited in all when it lost its CPU. */
static bool cpu_wait_has_begun(const struct pvsync_cpu_wait *wait)
{
	return READ_ONCE(wait->round) == READ_ONCE(pvsync_vcpu_stat_round);
}

/* The most that a thread that slept and was woken can have waited, ns. */
static u64 cpu_wait_since_woken(void)
{
	u64 woken = READ_ONCE(current->pvsync.vcpu_woken);
	s64 ns = local_clock() - woken;

	/* Clocks of two CPUs may differ by a little. */
	return woken ? max_t(s64, ns, 0) : U64_MAX;
}

static unsigned int cpu_wait_bin_of(u64 ns)
{
	return min_t(unsigned int, fls64(div_u64(ns, NSEC_PER_USEC)), PVSYNC_WAIT_BINS - 1);
}

/**
 * pvsync_cpu_wait_ends - a vCPU's thread has got a CPU
 * @vcpu: the vCPU
 *
 * The scheduler knows since when the thread could have run. But it takes some time of sleep for
 * a wait, see __pvsync_vcpu_waking().
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_cpu_wait_ends(struct kvm_vcpu *vcpu)
{
	struct pvsync_cpu_wait *wait = &vcpu->arch.pvsync.cpu_wait;
	unsigned int bin;
	u64 ns;

	if (!static_branch_unlikely(&pvsync_wake_key))
		return;
	/* Otherwise another thread may have made the note. */
	if (!vcpu->scheduled_out || !cpu_wait_has_begun(wait))
		return;
	ns = min(current->sched_info.run_delay - wait->before,
		 cpu_wait_since_woken());
	if (!ns)
		return;
	bin = cpu_wait_bin_of(ns);
	WRITE_ONCE(wait->waits[bin], wait->waits[bin] + 1);
	WRITE_ONCE(wait->ns[bin], wait->ns[bin] + ns);
	if (ns > wait->longest)
		WRITE_ONCE(wait->longest, ns);
}

/**
 * pvsync_cpu_wait_begins - a vCPU's thread has lost its CPU
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_cpu_wait_begins(struct kvm_vcpu *vcpu)
{
	struct pvsync_cpu_wait *wait = &vcpu->arch.pvsync.cpu_wait;

	if (!static_branch_unlikely(&pvsync_wake_key))
		return;
	WRITE_ONCE(wait->before, current->sched_info.run_delay);
	WRITE_ONCE(wait->round, READ_ONCE(pvsync_vcpu_stat_round));
	WRITE_ONCE(current->pvsync.vcpu_woken, 0);
}

/* How long a vCPU's thread that has no CPU yet has waited, ns. */
static u64 cpu_wait_lasts(struct kvm_vcpu *vcpu)
{
	const struct pvsync_cpu_wait *wait = &vcpu->arch.pvsync.cpu_wait;
	u64 before = READ_ONCE(wait->before);
	u64 delay;

	/* Otherwise the thread is in user mode, and its waits are not the vCPU's. */
	if (!READ_ONCE(vcpu->scheduled_out) || !static_key_enabled(&pvsync_wake_key) ||
	    !cpu_wait_has_begun(wait))
		return 0;
	pvsync_pid_lock(vcpu);
	delay = pvsync_thread_delay_ns(pvsync_pid_of(vcpu));
	pvsync_pid_unlock(vcpu);
	return delay > before ? delay - before : 0;
}

/**
 * pvsync_cpu_waits_show - tell how long the vCPUs of a VM waited
 * @seq: where to
 * @kvm: the VM
 *
 * Context: may sleep; the vCPUs go on meanwhile.
 *
 * Return: 0.
 */
int pvsync_cpu_waits_show(struct seq_file *seq, struct kvm *kvm)
{
	struct kvm_vcpu *vcpu;
	unsigned int bin;
	u64 lasting = 0, longest = 0;
	unsigned long i;

	for (bin = 0; bin < PVSYNC_WAIT_BINS; bin++) {
		u64 waits = 0, ns = 0;

		kvm_for_each_vcpu(i, vcpu, kvm) {
			waits += READ_ONCE(vcpu->arch.pvsync.cpu_wait.waits[bin]);
			ns += READ_ONCE(vcpu->arch.pvsync.cpu_wait.ns[bin]);
		}
		if (waits)
			seq_printf(seq, "%u %llu %llu\n", bin, waits, ns);
	}
	kvm_for_each_vcpu(i, vcpu, kvm) {
		lasting = max(lasting, cpu_wait_lasts(vcpu));
		longest = max(longest, READ_ONCE(vcpu->arch.pvsync.cpu_wait.longest));
	}
	seq_printf(seq, "lasts %llu\nlongest %llu\n", lasting, longest);
	return 0;
}

/**
 * pvsync_cpu_waits_clear - forget how long the vCPUs of a VM waited
 * @kvm: the VM
 *
 * A wait that ends meanwhile may stay, or bring back one sum of a vCPU. A wait that lasts goes
 * on.
 *
 * Context: may sleep.
 */
void pvsync_cpu_waits_clear(struct kvm *kvm)
{
	struct kvm_vcpu *vcpu;
	unsigned int bin;
	unsigned long i;

	kvm_for_each_vcpu(i, vcpu, kvm) {
		for (bin = 0; bin < PVSYNC_WAIT_BINS; bin++) {
			WRITE_ONCE(vcpu->arch.pvsync.cpu_wait.waits[bin], 0);
			WRITE_ONCE(vcpu->arch.pvsync.cpu_wait.ns[bin], 0);
		}
		WRITE_ONCE(vcpu->arch.pvsync.cpu_wait.longest, 0);
	}
}
