// SPDX-License-Identifier: GPL-2.0-only
/*
 * Spinning vCPUs: one entry for all signs of spinning, the choice of a vCPU to run
 * instead, the yield, and the outcome of the yield.
 */
#include <linux/bitops.h>
#include <linux/kvm_host.h>
#include <linux/minmax.h>
#include <linux/sched/clock.h>

#include <trace/events/pvsync.h>

#include <linux/pvsync/shims.h>
#include <linux/pvsync/strong_yield.h>

#include "count.h"
#include "spin.h"

/* Refused yields after which a search ends, as in kvm_vcpu_on_spin(). */
#define MAX_REFUSALS	3

static_assert(MAX_REFUSALS <= PVSYNC_TRIES);

/* Policies by enum pvsync_candidate; stock KVM chooses where there is no function. */
static const pvsync_pick_fn pick_fns[PVSYNC_NR_CANDIDATES] = {
	[PVSYNC_CANDIDATE_FRIEBEL]	= pvsync_friebel_pick,
	[PVSYNC_CANDIDATE_HVS]		= pvsync_hvs_pick,
	[PVSYNC_CANDIDATE_CPTH_R]	= pvsync_hvs_pick,
	[PVSYNC_CANDIDATE_CPTH_L]	= pvsync_hvs_pick,
	[PVSYNC_CANDIDATE_CCH]		= pvsync_hvs_pick,
	[PVSYNC_CANDIDATE_ECS]		= pvsync_hvs_pick,
#ifdef CONFIG_PVSYNC_BPF
	[PVSYNC_CANDIDATE_BPF]		= pvsync_bpf_pick,
#endif
};

static const enum pvsync_vcpu_counter sign_counters[] = {
	[PVSYNC_SIGN_HELP]	= PVSYNC_spin_help,
	[PVSYNC_SIGN_FILTER]	= PVSYNC_spin_filter,
	[PVSYNC_SIGN_SOFT]	= PVSYNC_spin_soft,
};

/**
 * __pvsync_candidate - pvsync_candidate() once somebody asks for it
 * @me: the vCPU that spins
 *
 * Context: as pvsync_candidate().
 */
void __pvsync_candidate(struct kvm_vcpu *me)
{
	me->arch.pvsync.looked_at++;
}

static void spin_yield_to_picked(struct kvm_vcpu *me, pvsync_pick_fn pick, bool in_kernel)
{
	struct pvsync_search search = { .in_kernel = in_kernel };
	int refusals;

	for (refusals = 0; refusals < MAX_REFUSALS; refusals++) {
		struct kvm_vcpu *target = pick(me, &search);

		if (!target || kvm_vcpu_yield_to(target) > 0)
			return;
	}
}

static void spin_yield_instead(struct kvm_vcpu *me, bool in_kernel)
{
	pvsync_pick_fn pick = pick_fns[pvsync_candidate_of(me->kvm)];

	if (pick)
		spin_yield_to_picked(me, pick, in_kernel);
	else
		kvm_vcpu_on_spin(me, in_kernel);
}

/* A guest gains nothing from more frequent calls for help. Processors count spins themselves. */
static bool spin_too_soon(struct kvm_vcpu *me, enum pvsync_sign sign, u64 now)
{
	return sign == PVSYNC_SIGN_HELP &&
	       now - me->arch.pvsync.last_event <
	       READ_ONCE(pvsync_spin_gap_us) * NSEC_PER_USEC;
}

/**
 * pvsync_spin - a vCPU spins for too long
 * @me: the vCPU
 * @sign: the sign of spinning
 * @in_kernel: whether it is known to spin in its kernel
 *
 * This is the entry for every sign but the hypercalls of Hyper-V's and Xen's guests,
 * which stock KVM answers. It holds no lock across a yield.
 *
 * While this runs, policies take the vCPU for a spinner. If it loses its CPU, by the yield
 * or at the end of its time slice, it is a lock waiter.
 *
 * Context: thread of @me, may sleep, as the yield may run something else.
 */
void pvsync_spin(struct kvm_vcpu *me, enum pvsync_sign sign, bool in_kernel)
{
	struct pvsync_vcpu *mine = &me->arch.pvsync;
	u64 start = local_clock();
	/* The vCPU may get a new window in the meantime. */
	u32 window = mine->window.now;
	u64 end;

	if (spin_too_soon(me, sign, start)) {
		pvsync_count_for(me, PVSYNC_spin_throttled, 1);
		return;
	}
	pvsync_count_for(me, PVSYNC_spin_events, 1);
	pvsync_count_for(me, sign_counters[sign], 1);
	mine->yielding_ns = 0;
	mine->away_ns = 0;
	mine->looked_at = 0;

	WRITE_ONCE(mine->spinning, true);
	spin_yield_instead(me, in_kernel);
	WRITE_ONCE(mine->spinning, false);

	end = local_clock();
	mine->last_event = end;
	pvsync_count_for(me, PVSYNC_spin_candidates, mine->looked_at);
	pvsync_count_for(me, PVSYNC_spin_ns, pvsync_time_of(start, end, mine->yielding_ns));
	if (sign != PVSYNC_SIGN_HELP)
		pvsync_window_spun(me, window, pvsync_time_of(start, end, mine->away_ns));
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pvsync_spin);

/* Switches of this thread: as many when it loses its CPU as when it has got the next one. */
static unsigned long spin_thread_switches(void)
{
	return current->nvcsw + current->nivcsw;
}

/**
 * pvsync_spin_waits - a vCPU's thread loses its CPU
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_spin_waits(struct kvm_vcpu *vcpu)
{
	struct pvsync_vcpu *mine = &vcpu->arch.pvsync;

	if (likely(!mine->spinning))
		return;
	mine->left = local_clock();
	mine->left_by = spin_thread_switches();
}

/* The time of a yield already has the wait for a CPU that follows the yield. */
static void spin_note_away(struct pvsync_vcpu *mine, u64 ns)
{
	mine->away_ns += ns;
	if (!mine->yielding)
		mine->yielding_ns += ns;
}

/**
 * pvsync_spin_goes_on - a vCPU's thread has a CPU again
 * @vcpu: the vCPU
 *
 * If pvsync_vcpus_key was off when the thread lost its last CPU, nobody noted the time. The
 * note is of another switch then, and this adds nothing.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_spin_goes_on(struct kvm_vcpu *vcpu)
{
	struct pvsync_vcpu *mine = &vcpu->arch.pvsync;

	if (unlikely(mine->spinning && mine->left_by == spin_thread_switches()))
		spin_note_away(mine,
			       pvsync_time_of(mine->left, local_clock(), 0));
}

/*
 * A vCPU writes a note before it yields, and the target reads the note when it runs:
 *
 *	vCPU that yields		target
 *	----------------		------
 *	[S]   target, cpu, ...		[S]   wanted = false
 *	[RmW] bit in wanted_by		      MB
 *	[S]   wanted = true		[L]   bits in wanted_by
 *					[RmW] bit -> 0, if it was 1:
 *					[L]   by->target, cpu, ...
 *
 * Either the target sees the bit, or "wanted" stays and the target looks again when
 * it runs next. If the target runs late, the vCPU that yielded may have noted a later
 * yield already. Then by->target is another vCPU, or the later yield is to this target,
 * too, and both yields have one outcome.
 */
static void spin_note_yield(struct kvm_vcpu *me, struct kvm_vcpu *target,
			    int cpu)
{
	struct pvsync_vcpu *mine = &me->arch.pvsync;

	WRITE_ONCE(mine->target, target);
	WRITE_ONCE(mine->cpu, cpu);
	WRITE_ONCE(mine->switches, pvsync_cpu_switches(cpu));
	WRITE_ONCE(mine->exits, me->stat.exits);
	set_bit(me->vcpu_idx, target->arch.pvsync.wanted_by);
	WRITE_ONCE(target->arch.pvsync.wanted, true);
}

/*
 * A target that has run since the note was made has counted the outcome of the yield.
 * The scheduler then refuses the yield as the target runs, but a yield has one outcome.
 */
static void spin_take_note_back(struct kvm_vcpu *me, struct kvm_vcpu *target)
{
	if (test_and_clear_bit(me->vcpu_idx, target->arch.pvsync.wanted_by))
		pvsync_count_for(me, PVSYNC_yield_refused, 1);
}

/* Tell the scheduler what the yield that follows is to be. */
static void spin_ask(int cpu, int yield)
{
	if (yield == PVSYNC_YIELD_STRONG)
		pvsync_strong_ask(cpu);
	else if (yield == PVSYNC_YIELD_CREDIT)
		pvsync_credit_ask(cpu);
}

/**
 * __pvsync_yield_to - pvsync_yield_to() once somebody asks for it
 * @target: the vCPU
 * @task: its thread
 *
 * Where the guest names the target, as in KVM_HC_SCHED_YIELD, no policy has chosen it. The
 * outcome of such a yield says nothing of a choice, so pvsync counts the yield and writes no
 * note. It does the same if a guest of Hyper-V's or Xen's kind spins, as stock KVM chooses.
 *
 * Context: as pvsync_yield_to().
 *
 * Return: as yield_to().
 */
int __pvsync_yield_to(struct kvm_vcpu *target, struct task_struct *task)
{
	struct kvm_vcpu *me = kvm_get_running_vcpu();
	int cpu = task_cpu(task);
	bool chosen;
	u64 start;
	int ret;

	if (!me || me->kvm != target->kvm || me == target)
		return yield_to(task, 1);

	chosen = me->arch.pvsync.spinning;
	pvsync_count_for(me, chosen ? PVSYNC_yield_attempted : PVSYNC_yield_asked, 1);
	if (chosen)
		spin_note_yield(me, target, cpu);
	spin_ask(cpu, pvsync_yield_of(me->kvm));

	start = local_clock();
	me->arch.pvsync.yielding = true;
	ret = yield_to(task, 1);
	me->arch.pvsync.yielding = false;
	me->arch.pvsync.yielding_ns += local_clock() - start;

	if (ret <= 0 && chosen)
		spin_take_note_back(me, target);
	trace_pvsync_yield(me, target, chosen, ret);
	return ret;
}

/* Count the outcome of a yield of @by to @vcpu, which runs on @cpu. */
static void spin_count_outcome(struct kvm_vcpu *vcpu, struct kvm_vcpu *by,
			       int cpu)
{
	struct pvsync_vcpu *his = &by->arch.pvsync;
	bool picked, ran;

	if (READ_ONCE(his->target) != vcpu)
		return;
	if (READ_ONCE(his->cpu) != cpu) {
		pvsync_count_for(vcpu, PVSYNC_yield_moved, 1);
		trace_pvsync_yield_outcome(vcpu, by, true, false, false);
		return;
	}
	picked = pvsync_cpu_switches(cpu) - READ_ONCE(his->switches) <= 1;
	if (picked)
		pvsync_count_for(vcpu, PVSYNC_yield_picked, 1);
	ran = READ_ONCE(by->stat.exits) == READ_ONCE(his->exits);
	if (ran)
		pvsync_count_for(vcpu, PVSYNC_yield_ran, 1);
	trace_pvsync_yield_outcome(vcpu, by, false, picked, ran);
}

/**
 * pvsync_count_yields_to - count the outcomes of yields to a vCPU
 * @vcpu: the vCPU, whose thread runs
 * @cpu: its CPU
 *
 * The vCPU was picked if the switch to it is the first of that CPU since the yield. It has
 * run in time if the vCPU that yielded has not left the guest in between, wherever other
 * threads ran.
 *
 * Context: thread of @vcpu, preemption disabled.
 */
void pvsync_count_yields_to(struct kvm_vcpu *vcpu, int cpu)
{
	struct pvsync_vcpu *mine = &vcpu->arch.pvsync;
	unsigned int online, base;

	if (likely(!READ_ONCE(mine->wanted)))
		return;
	WRITE_ONCE(mine->wanted, false);
	smp_mb();	/* see spin_note_yield() */
	online = atomic_read(&vcpu->kvm->online_vcpus);
	for (base = 0; base < online; base += BITS_PER_LONG) {
		unsigned long set = READ_ONCE(mine->wanted_by[BIT_WORD(base)]);
		unsigned long i;

		for_each_set_bit(i, &set, min_t(unsigned int, online - base, BITS_PER_LONG)) {
			struct kvm_vcpu *by = kvm_get_vcpu(vcpu->kvm, base + i);

			if (test_and_clear_bit(base + i, mine->wanted_by) && by)
				spin_count_outcome(vcpu, by, cpu);
		}
	}
}
