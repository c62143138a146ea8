// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long a vCPU may spin before the host hears of it: for stock KVM's window, a fixed
 * window, or a window that a search finds, see <linux/pvsync/aple.h>. The pause filter in
 * software is here, too.
 *
 * A window is a number of cycles of the time stamp counter. VMX takes it as it is.
 * SVM counts PAUSE instructions. Each stands for as many cycles as it takes in a loop,
 * which the host measures when it boots. The filter in software counts PAUSE exits,
 * which take longer than whole windows. Each stands for the paper's delta, 1,024
 * cycles, so the paper's windows are 4 to 32 exits.
 *
 * The search compares the cost of spinning with CPU time, so it needs the cost in true
 * time. With a processor's filter, a spin lasts for the window. With the filter in
 * software, a spin lasts for as many PAUSE exits as the window has. Each epoch measures
 * from all spins how long such an exit takes, with the entry.
 *
 * A vCPU takes a new window up when it gets a CPU or when it has spun for the whole old
 * window. Nobody interrupts it for a new window. With SVM an INIT gives a vCPU stock KVM's
 * filter until then.
 *
 *	vCPUs, at each spin			the vCPU that ends the epoch
 *	-------------------			----------------------------
 *	[L]   window of the VM
 *	[S]   own sums
 *	[RmW] spins of the VM
 *	      enough? then trylock ------->	[L] sums of all
 *						[S] window of the VM
 *						[S] begin of the next epoch
 *
 * So vCPUs share one counter, and wait for no lock: a vCPU that finds the lock taken goes
 * on. Where nobody asks for epochs there are none, and vCPUs share nothing. The vCPU that
 * ends an epoch reads the sums while others add to them. The sums only grow, and the next
 * epoch begins with the very values with which this one has ended, so nothing is lost.
 */
#include <linux/kvm_host.h>
#include <linux/sched/clock.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include <asm/tsc.h>

#include <linux/pvsync/shims.h>

#include "../x86.h"

#include "count.h"
#include "spin.h"

/* Cycles that a PAUSE exit counts for in the filter in software. */
#define SOFT_PAUSE	1024

/* The epochs of a VM, NULL if nobody has needed epochs yet. */
static struct pvsync_epochs *window_epochs_of(struct kvm *kvm)
{
	/* Matches the cmpxchg() from pvsync_epochs_keep(). */
	return READ_ONCE(kvm->arch.pvsync.epochs);
}

static bool window_policy_searches(u32 policy)
{
	return policy == PVSYNC_WINDOW_APLE || policy == PVSYNC_WINDOW_STEADY;
}

/* What one PAUSE counts for, cycles; not 0. */
static u32 window_pause_worth(bool soft)
{
	return READ_ONCE(pvsync_pause_cycles.now) ?: (soft ? SOFT_PAUSE : pvsync_pause_measured);
}

/* Least and most are two parameters, so an admin may set least above most. */
static struct pvsync_bounds window_bounds_of(struct kvm *kvm)
{
	struct pvsync_vm *vm = &kvm->arch.pvsync;
	struct pvsync_bounds bounds = {
		.start = pvsync_number_of(&pvsync_aple_start, READ_ONCE(vm->aple_start)),
		.least = pvsync_number_of(&pvsync_aple_min, READ_ONCE(vm->aple_min)),
		.most = pvsync_number_of(&pvsync_aple_max, READ_ONCE(vm->aple_max)),
		.step = pvsync_number_of(&pvsync_aple_step, READ_ONCE(vm->aple_step)),
	};

	bounds.most = max(bounds.least, bounds.most);
	return bounds;
}

/*
 * A vCPU takes up a window of another policy, so this epoch says nothing of the window that
 * the search chose. If the search's policy is back when the epoch ends, the search begins
 * anew. Mostly there is nothing to write.
 *
 * window_steer_search() may note its search at the same time. If its policy is gone by then,
 * the next vCPU to take a window up comes here once more. If the policy is back, the last
 * store decides. With the store here, a search begins anew without need. With the other one,
 * the search goes on, after one epoch that mixes windows of two policies.
 */
static void window_leave_search(struct pvsync_epochs *epochs)
{
	if (epochs && unlikely(READ_ONCE(epochs->searching) != PVSYNC_WINDOW_KVM))
		WRITE_ONCE(epochs->searching, PVSYNC_WINDOW_KVM);
}

static u32 window_searched_now(struct kvm *kvm, u32 policy)
{
	struct pvsync_epochs *epochs = window_epochs_of(kvm);
	struct pvsync_bounds bounds;

	if (likely(epochs && READ_ONCE(epochs->searching) == policy))
		return READ_ONCE(epochs->window);
	/* A search begins at the end of this epoch. */
	window_leave_search(epochs);
	bounds = window_bounds_of(kvm);
	return clamp(bounds.start, bounds.least, bounds.most);
}

/**
 * pvsync_window - for how long a vCPU may spin from now on
 * @vcpu: the vCPU
 * @stock: how long stock KVM would let it, cycles
 *
 * Context: thread of @vcpu.
 *
 * Return: cycles.
 */
u32 pvsync_window(struct kvm_vcpu *vcpu, u32 stock)
{
	int policy = pvsync_window_of(vcpu->kvm);
	u32 window = stock;

	switch (pvsync_choice_index(policy)) {
	case PVSYNC_WINDOW_APLE:
	case PVSYNC_WINDOW_STEADY:
		window = window_searched_now(vcpu->kvm, policy);
		break;
	case PVSYNC_WINDOW_FIXED:
		window = pvsync_choice_number(policy);
		fallthrough;
	default:
		window_leave_search(window_epochs_of(vcpu->kvm));
	}
	vcpu->arch.pvsync.window.now = window;
	return window;
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pvsync_window);

/**
 * pvsync_window_pauses - for how many PAUSEs a vCPU may spin from now on
 * @vcpu: the vCPU
 * @stock: for how many stock KVM would let it, at most 65,535
 *
 * Context: thread of @vcpu.
 *
 * Return: PAUSEs, 1 to 65,535 unless it is @stock.
 */
u32 pvsync_window_pauses(struct kvm_vcpu *vcpu, u32 stock)
{
	struct pvsync_window *mine = &vcpu->arch.pvsync.window;
	u32 worth = window_pause_worth(false);
	u32 window = pvsync_window(vcpu, stock * worth);
	u32 pauses = pvsync_window_to_pauses(&mine->pauses, window, stock, worth);

	mine->now = pauses * worth;
	return pauses;
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pvsync_window_pauses);

/**
 * pvsync_window_soft - for how long a vCPU with the filter in software may spin
 * @vcpu: the vCPU
 * @shrink: whether it comes from waiting for a CPU
 *
 * Stock KVM has no window on such processors. The stock window here grows and shrinks as
 * stock KVM's does on Intel's processors, where it is in cycles, too.
 *
 * Context: thread of @vcpu.
 */
void pvsync_window_soft(struct kvm_vcpu *vcpu, bool shrink)
{
	struct pvsync_window *mine = &vcpu->arch.pvsync.window;

	if (shrink || !mine->stock)
		mine->stock = __shrink_ple_window(mine->stock, KVM_VMX_DEFAULT_PLE_WINDOW,
						  KVM_DEFAULT_PLE_WINDOW_SHRINK,
						  KVM_VMX_DEFAULT_PLE_WINDOW);
	pvsync_window(vcpu, mine->stock);
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pvsync_window_soft);

/* As in stock KVM, before the yield: the window may shrink again after a wait for a CPU. */
static void window_grow_stock(struct pvsync_window *mine)
{
	mine->stock = __grow_ple_window(mine->stock, KVM_VMX_DEFAULT_PLE_WINDOW,
					KVM_DEFAULT_PLE_WINDOW_GROW,
					KVM_VMX_DEFAULT_PLE_WINDOW_MAX);
}

/* Only the thread of the vCPU adds, so nothing is lost; others only read. */
static void window_add_to_sum(u64 *sum, u64 amount)
{
	WRITE_ONCE(*sum, *sum + amount);
}

/**
 * pvsync_window_reached - a PAUSE exit, for the filter in software
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu.
 *
 * Return: true if the vCPU has spun for its whole window; then pvsync_window_resume()
 * is called when it goes on.
 */
bool pvsync_window_reached(struct kvm_vcpu *vcpu)
{
	struct pvsync_vcpu *mine = &vcpu->arch.pvsync;
	u64 gap = (u64)READ_ONCE(pvsync_pause_gap_us.now) * tsc_khz / 1000;
	struct pvsync_pause_seen seen;

	seen = pvsync_filter_pause(&mine->window.filter, rdtsc(), gap, window_pause_worth(true),
				   mine->window.now);
	pvsync_count_for(vcpu, PVSYNC_pause_exits, 1);
	if (seen.first)
		pvsync_count_for(vcpu, PVSYNC_pause_spins, 1);
	if (seen.since) {
		pvsync_count_for(vcpu, PVSYNC_pause_cycles, seen.since);
		window_add_to_sum(&mine->spun.timed, seen.since);
		window_add_to_sum(&mine->spun.pauses, 1);
	}
	if (!seen.reached)
		return false;
	/* Whole PAUSEs may be more than the window. */
	mine->window.now = min_t(u64, seen.reached, U32_MAX);
	window_grow_stock(&mine->window);
	return true;
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pvsync_window_reached);

/**
 * pvsync_window_resume - a vCPU that had spun for its whole window goes on
 * @vcpu: the vCPU
 *
 * Context: thread of @vcpu.
 */
void pvsync_window_resume(struct kvm_vcpu *vcpu)
{
	pvsync_window_soft(vcpu, false);
	pvsync_filter_resume(&vcpu->arch.pvsync.window.filter, rdtsc());
}
EXPORT_SYMBOL_FOR_KVM_INTERNAL(pvsync_window_resume);

/* Epochs */

static void window_sum_spun(struct kvm *kvm, struct pvsync_spun *sum,
			    u64 *cpu_ns)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;

	*sum = (struct pvsync_spun) { };
	*cpu_ns = 0;
	kvm_for_each_vcpu(i, vcpu, kvm) {
		const struct pvsync_spun *his = &vcpu->arch.pvsync.spun;

		sum->spins += READ_ONCE(his->spins);
		sum->windows += READ_ONCE(his->windows);
		sum->handling_ns += READ_ONCE(his->handling_ns);
		sum->pauses += READ_ONCE(his->pauses);
		sum->timed += READ_ONCE(his->timed);
		pvsync_pid_lock(vcpu);
		*cpu_ns += pvsync_thread_ns(pvsync_pid_of(vcpu));
		pvsync_pid_unlock(vcpu);
	}
}

/**
 * pvsync_epochs_keep - keep epochs of a VM from now on
 * @kvm: the VM
 *
 * The first one begins now.
 *
 * Context: may sleep.
 *
 * Return: the epochs, NULL if there is no memory for them.
 */
struct pvsync_epochs *pvsync_epochs_keep(struct kvm *kvm)
{
	struct pvsync_epochs *epochs = window_epochs_of(kvm), *first;

	if (epochs)
		return epochs;
	epochs = kvzalloc(sizeof(*epochs), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!epochs)
		return NULL;
	mutex_init(&epochs->lock);
	window_sum_spun(kvm, &epochs->before, &epochs->cpu_before);
	/* Matches the READ_ONCE() from window_epochs_of(). */
	first = cmpxchg(&kvm->arch.pvsync.epochs, NULL, epochs);
	if (!first)
		return epochs;
	kvfree(epochs);
	return first;
}

static u64 window_cycles_to_ns(u64 cycles)
{
	return pvsync_scale(cycles, NSEC_PER_MSEC, tsc_khz);
}

/* What vCPUs have added since the last call. */
static void window_measure_epoch(struct kvm *kvm, struct pvsync_epoch *epoch)
{
	struct pvsync_epochs *epochs = window_epochs_of(kvm);
	const struct pvsync_spun *before = &epochs->before;
	struct pvsync_spun now;
	u64 cpu_ns, spun, pauses, timed;

	window_sum_spun(kvm, &now, &cpu_ns);
	pauses = now.pauses - before->pauses;
	timed = now.timed - before->timed;
	spun = pvsync_spun_cycles(now.windows - before->windows, pauses ?: now.pauses,
				  pauses ? timed : now.timed, window_pause_worth(true));
	*epoch = (struct pvsync_epoch) {
		.spins = now.spins - before->spins,
		.windows = now.windows - before->windows,
		.spun_ns = window_cycles_to_ns(spun),
		.handling_ns = now.handling_ns - before->handling_ns,
		/* A vCPU may have got another thread, with less CPU time than the one before. */
		.cpu_ns = cpu_ns > epochs->cpu_before ? cpu_ns - epochs->cpu_before : 0,
	};
	epochs->before = now;
	epochs->cpu_before = cpu_ns;
}

/* The window of the next epoch, cycles; 0 if the policy does not search. */
static u32 window_steer_search(struct kvm *kvm, const struct pvsync_epoch *epoch, u32 inefficiency)
{
	struct pvsync_epochs *epochs = window_epochs_of(kvm);
	struct pvsync_bounds bounds = window_bounds_of(kvm);
	u32 policy = pvsync_window_of(kvm);
	bool steady = policy == PVSYNC_WINDOW_STEADY;
	bool goes_on;
	u32 window;

	if (!window_policy_searches(policy)) {
		WRITE_ONCE(epochs->searching, PVSYNC_WINDOW_KVM);
		return 0;
	}
	/* window_leave_search() may store at the same time. */
	goes_on = READ_ONCE(epochs->searching) == policy;
	window = pvsync_aple_steer(&epochs->aple, &bounds, steady, goes_on, epoch->cpu_ns,
				   inefficiency);
	WRITE_ONCE(epochs->window, window);
	WRITE_ONCE(epochs->searching, policy);
	return window;
}

static void window_end_epoch(struct kvm_vcpu *vcpu)
{
	struct pvsync_epochs *epochs = window_epochs_of(vcpu->kvm);
	struct pvsync_kept *kept = &epochs->kept[epochs->number % PVSYNC_KEPT_EPOCHS];
	struct pvsync_epoch *epoch = &kept->epoch;

	window_measure_epoch(vcpu->kvm, epoch);
	kept->ended = ktime_get_ns();
	kept->inefficiency = pvsync_inefficiency(epoch);
	kept->next = window_steer_search(vcpu->kvm, epoch, kept->inefficiency);
	epochs->number++;

	pvsync_count_for(vcpu, PVSYNC_epochs, 1);
	pvsync_count_for(vcpu, PVSYNC_epoch_spun_ns, epoch->spun_ns);
	pvsync_count_for(vcpu, PVSYNC_epoch_handling_ns, epoch->handling_ns);
	pvsync_count_for(vcpu, PVSYNC_epoch_cpu_ns, epoch->cpu_ns);
}

static bool window_epoch_is_over(struct kvm *kvm, u64 spins)
{
	u32 own = READ_ONCE(kvm->arch.pvsync.aple_epoch);

	return pvsync_epoch_over(READ_ONCE(window_epochs_of(kvm)->began), spins,
				 pvsync_number_of(&pvsync_aple_epoch, own));
}

/* How long a VM goes without epochs after there was no memory for them, ns. */
#define EPOCHS_RETRY	NSEC_PER_SEC

/* Each spin of each vCPU asks, until there is memory. */
static struct pvsync_epochs *window_keep_for_spin(struct kvm *kvm)
{
	struct pvsync_vm *vm = &kvm->arch.pvsync;
	struct pvsync_epochs *epochs = window_epochs_of(kvm);

	if (likely(epochs))
		return epochs;
	if (ktime_get_ns() < READ_ONCE(vm->epochs_retry))
		return NULL;
	epochs = pvsync_epochs_keep(kvm);
	if (!epochs)
		WRITE_ONCE(vm->epochs_retry, ktime_get_ns() + EPOCHS_RETRY);
	return epochs;
}

/* The epochs that this spin counts for, NULL if nobody asks for epochs. */
static struct pvsync_epochs *window_needed_epochs(struct kvm *kvm)
{
	u32 policy = pvsync_choice_index(pvsync_window_of(kvm));

	return window_policy_searches(policy) ? window_keep_for_spin(kvm) :
						window_epochs_of(kvm);
}

/**
 * pvsync_window_spun - a vCPU has spun for its whole window, and the host has handled it
 * @vcpu: the vCPU
 * @window: the window that it reached, cycles
 * @handling_ns: how long the handling took, ns
 *
 * Where a VM keeps epochs, it measures them with all policies, so that users can compare the
 * policies' costs. A vCPU that has had no window of pvsync's yet counts for no epoch.
 *
 * Context: thread of @vcpu, may sleep.
 */
void pvsync_window_spun(struct kvm_vcpu *vcpu, u32 window, u64 handling_ns)
{
	struct pvsync_spun *spun = &vcpu->arch.pvsync.spun;
	struct pvsync_epochs *epochs;
	u64 spins;

	if (!window)
		return;
	epochs = window_needed_epochs(vcpu->kvm);
	pvsync_count_for(vcpu, PVSYNC_spin_windows, window);
	pvsync_count_for(vcpu, PVSYNC_spin_handling_ns, handling_ns);
	window_add_to_sum(&spun->spins, 1);
	window_add_to_sum(&spun->windows, window);
	window_add_to_sum(&spun->handling_ns, handling_ns);

	if (!epochs ||
	    likely(!window_epoch_is_over(vcpu->kvm, atomic64_inc_return(&epochs->spins))))
		return;
	if (!mutex_trylock(&epochs->lock))
		return;
	/* Another vCPU may have ended the epoch just before. */
	spins = atomic64_read(&epochs->spins);
	if (window_epoch_is_over(vcpu->kvm, spins)) {
		window_end_epoch(vcpu);
		WRITE_ONCE(epochs->began, spins);
	}
	mutex_unlock(&epochs->lock);
}

static void window_show_epoch(struct seq_file *seq, u64 number, const struct pvsync_kept *kept)
{
	const struct pvsync_epoch *epoch = &kept->epoch;
	u64 window = epoch->spins ? div64_u64(epoch->windows, epoch->spins) : 0;

	seq_printf(seq, "%llu %llu %llu %llu %u %llu %llu %llu %u\n", number, kept->ended,
		   epoch->spins, window, kept->inefficiency, epoch->spun_ns,
		   epoch->handling_ns, epoch->cpu_ns, kept->next);
}

/**
 * pvsync_epochs_show - the latest epochs of a VM, for its debugfs
 * @seq: where they are shown
 * @kvm: the VM, which keeps epochs
 *
 * Writes a line of heads, then a line for each epoch, the earliest first.
 *
 * Context: may sleep.
 *
 * Return: 0.
 */
int pvsync_epochs_show(struct seq_file *seq, struct kvm *kvm)
{
	struct pvsync_epochs *epochs = window_epochs_of(kvm);
	u64 number;

	seq_puts(seq, "epoch ended_ns spins window inefficiency_ppm spun_ns handling_ns cpu_ns next\n");
	mutex_lock(&epochs->lock);
	number = epochs->number - min_t(u64, epochs->number, PVSYNC_KEPT_EPOCHS);
	for (; number < epochs->number; number++)
		window_show_epoch(seq, number, &epochs->kept[number % PVSYNC_KEPT_EPOCHS]);
	mutex_unlock(&epochs->lock);
	return 0;
}
