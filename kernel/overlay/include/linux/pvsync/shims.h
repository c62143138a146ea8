/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_SHIMS_H
#define _LINUX_PVSYNC_SHIMS_H

/*
 * What differs between the kernels that pvsync is built for, 6.12 and 7.3. No other file asks
 * for a version. For C files, after their other headers of Linux. Most are macros, and mean
 * what they name where they are used.
 */
#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 3, 0)

/*
 * Spinlocks: what a contended lock calls, and what a release does. Set these only until there
 * is a second CPU.
 */
#define pvsync_get_slowpath()		(pv_ops.lock.queued_spin_lock_slowpath)
#define pvsync_set_slowpath(slowpath)	(pv_ops.lock.queued_spin_lock_slowpath = (slowpath))
#define pvsync_set_unlock(unlock)	(pv_ops.lock.queued_spin_unlock = PV_CALLEE_SAVE(unlock))

/* Per CPU: the preempt count, in its first four bytes, and the running task. */
#define pvsync_preempt_count		pcpu_hot.preempt_count
#define pvsync_current_task		pcpu_hot.current_task

/* Whether a task that waits for other CPUs to run a function stays on its CPU meanwhile. */
#define pvsync_call_wait_stays()	true

/* Flushes of user translations: the caller has disabled preemption; the host may do any flush. */
#define pvsync_flush_stays()		do { } while (0)
#define pvsync_flush_is_stock(info)	false

/* Page tables are freed by RCU after this. */
#define pvsync_free_tables_by_rcu()	(pv_ops.mmu.tlb_remove_table = tlb_remove_table)

/* Whether this task is asked to leave its CPU. */
#define pvsync_switch_is_wanted()	tif_need_resched()

/*
 * The fair class. Each group has a queue, of tasks and groups. All of them have their virtual
 * time in that queue, by weights in that queue. The scheduler keeps so many ns of lag in mind.
 */
#define pvsync_has_vruntime(se)		true
#define pvsync_vruntime_queue(cfs_rq)	(cfs_rq)
#define pvsync_weight(se)		((se)->load.weight)
#define pvsync_lag_limit(cfs_rq, se)	max_t(u64, 2 * (se)->slice, TICK_NSEC)
#define pvsync_queue_weight(cfs_rq)	((cfs_rq)->load.weight)
#define pvsync_nr_queued(cfs_rq)	((cfs_rq)->nr_running)

/*
 * Of rq->nr_running: tasks that sleep, but stay queued; and how many of the deadline servers
 * that are queued it counts.
 */
#define pvsync_nr_delayed(rq)		READ_ONCE((rq)->cfs.h_nr_delayed)
#define pvsync_nr_counted(servers)	(servers)

/* KVM: which registers KVM has a copy of, and the header of that. */
#define PVSYNC_KVM_REGS_H		"../kvm_cache_regs.h"
#define PVSYNC_REG_SEGMENTS		VCPU_EXREG_SEGMENTS
#define pvsync_regs_avail(vcpu)		((vcpu)->arch.regs_avail)
#define pvsync_reads_kernel_mode(vcpu)	kvm_arch_vcpu_in_kernel(vcpu)

/* KVM: the pid of the thread that ran a vCPU last, which stays between lock and unlock. */
#define pvsync_pid_lock(vcpu)		rcu_read_lock()
#define pvsync_pid_unlock(vcpu)		rcu_read_unlock()
#define pvsync_pid_of(vcpu)		rcu_dereference((vcpu)->pid)

/* KVM: flushes of one address, and whether SVM flushes one address only. */
#define pvsync_flush_gva(vcpu, address)	kvm_x86_call(flush_tlb_gva)(vcpu, address)
#define pvsync_svm_flushes_by_address()	true

/* KVM: for the modules of the vendors alone. */
#define EXPORT_SYMBOL_FOR_KVM_INTERNAL(symbol)	EXPORT_SYMBOL_GPL(symbol)

/* Processors: model specific registers that may not exist, and the header of CPUID. */
#define pvsync_rdmsr_safe(msr, value)	rdmsrl_safe(msr, value)
#define pvsync_wrmsr_safe(msr, value)	wrmsrl_safe(msr, value)
#define PVSYNC_CPUID_H			<asm/cpuid.h>

/* BPF: the flag of a kernel function that takes only pointers that its caller was given. */
#define pvsync_trusted_args		KF_TRUSTED_ARGS

/* Timers. */
#define pvsync_timer_is_set_up(timer)	((timer)->function)
#define pvsync_timer_setup(timer, fn, clock, mode)	\
do {							\
	hrtimer_init(timer, clock, mode);		\
	(timer)->function = (fn);			\
} while (0)

#else /* 7.3 */

/* paravirt_steal_clock() */
#include <linux/sched/cputime.h>
#include <linux/static_call.h>

#define pvsync_get_slowpath()		static_call_query(queued_spin_lock_slowpath)
#define pvsync_set_slowpath(slowpath)	static_call_update(queued_spin_lock_slowpath, slowpath)
#define pvsync_set_unlock(unlock)	\
	static_call_update(queued_spin_unlock, __raw_callee_save_##unlock)

#define pvsync_preempt_count		__preempt_count
#define pvsync_current_task		current_task

/* smp_call_function_many() enables preemption for it, unless its caller has it disabled. */
#define pvsync_call_wait_stays()	(!preemptible())

/*
 * Preemption is enabled. Two kinds of flushes stay with interrupts, as a handler has to run
 * for them. One switches an address space to an ASID of all CPUs. The other drops CPUs from
 * the mask of an address space, once a second.
 */
#define pvsync_flush_stays()		guard(preempt)()
#define pvsync_flush_is_stock(info)	\
	((info)->trim_cpumask || mm_in_asid_transition((info)->mm))

/* RCU always frees page tables. */
#define pvsync_free_tables_by_rcu()	do { } while (0)

/* Also true for a lazy request, which has a flag of its own. */
#define pvsync_switch_is_wanted()	\
	(tif_need_resched() || test_thread_flag(TIF_NEED_RESCHED_LAZY))

/*
 * All tasks of a CPU are in the queue of its root, by their weights in the whole hierarchy, and
 * no group is in any queue. The limit is cfs_rq_max_slice()'s, which is private to the
 * fair class.
 */
#define pvsync_has_vruntime(se)		entity_is_task(se)
#define pvsync_vruntime_queue(cfs_rq)	(&rq_of(cfs_rq)->cfs)
#define pvsync_weight(se)		((se)->h_load.weight)
#define pvsync_lag_limit(cfs_rq, se)						\
({										\
	struct sched_entity *root__ = __pick_root_entity(cfs_rq);		\
	struct sched_entity *curr__ = (cfs_rq)->curr;				\
	u64 slice__ = max(root__ ? root__->max_slice : 0, (se)->slice);		\
										\
	max(slice__, curr__ && curr__->on_rq ? curr__->slice : 0) + TICK_NSEC;	\
})

/* The sum of weights has those of the tree, and is shifted. */
#define pvsync_queue_weight(cfs_rq)						\
({										\
	struct sched_entity *curr__ = (cfs_rq)->curr;				\
										\
	((cfs_rq)->sum_weight << (cfs_rq)->sum_shift) +				\
	(curr__ && curr__->on_rq ? pvsync_weight(curr__) : 0);			\
})
#define pvsync_nr_queued(cfs_rq)	((cfs_rq)->nr_queued)

/* Without the queue's lock, one of the two may change between the reads. */
#define pvsync_nr_delayed(rq)						\
({									\
	unsigned int queued__ = READ_ONCE((rq)->cfs.h_nr_queued);	\
									\
	queued__ - min(queued__, READ_ONCE((rq)->cfs.h_nr_runnable));	\
})
#define pvsync_nr_counted(servers)	0

#define PVSYNC_KVM_REGS_H		"../regs.h"
#define PVSYNC_REG_SEGMENTS		VCPU_REG_SEGMENTS
#define pvsync_regs_avail(vcpu)		((vcpu)->arch.regs_avail[0])
/* kvm_arch_vcpu_in_kernel() is for interrupts that it handles. */
#define pvsync_reads_kernel_mode(vcpu)	\
	((vcpu)->arch.guest_state_protected || !kvm_x86_call(get_cpl_no_cache)(vcpu))

/* KVM frees an old pid without a grace period. A pid's task is protected by RCU all the same. */
#define pvsync_pid_lock(vcpu)		\
do {					\
	read_lock(&(vcpu)->pid_lock);	\
	rcu_read_lock();		\
} while (0)
#define pvsync_pid_unlock(vcpu)		\
do {					\
	rcu_read_unlock();		\
	read_unlock(&(vcpu)->pid_lock);	\
} while (0)
#define pvsync_pid_of(vcpu)		((vcpu)->pid)

/* INVLPGA has errata: with nested paging KVM flushes all in its place. */
#define pvsync_flush_gva(vcpu, address)	kvm_x86_call(flush_tlb_gva)(vcpu, address, NULL)
#define pvsync_svm_flushes_by_address()	(!tdp_enabled)

#define pvsync_rdmsr_safe(msr, value)	rdmsrq_safe(msr, value)
#define pvsync_wrmsr_safe(msr, value)	wrmsrq_safe(msr, value)
#define PVSYNC_CPUID_H			<asm/cpuid/api.h>

/* All take only such pointers. */
#define pvsync_trusted_args		0

#define pvsync_timer_is_set_up(timer)	ACCESS_PRIVATE(timer, function)
#define pvsync_timer_setup(timer, fn, clock, mode)	hrtimer_setup(timer, fn, clock, mode)

#endif

#endif /* _LINUX_PVSYNC_SHIMS_H */
