/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every counter of pvsync, once. A file that includes this defines
 * PVSYNC_COUNTER(name, about). The kernel makes its enumeration, its debugfs file and the
 * statistics of KVM from it; the lab and the documentation read the same lines. No include
 * guard on purpose.
 *
 * PVSYNC_COUNTER_NS() and PVSYNC_COUNTER_CYCLES() are counters of time and of processor
 * cycles, for files that define these, too. With PVSYNC_COUNTERS_OF_VCPUS only those
 * counters are there that the host has for each vCPU, with PVSYNC_COUNTERS_OF_OTHERS only
 * the others.
 */
#ifndef PVSYNC_COUNTER_NS
#define PVSYNC_COUNTER_NS(name, about)		PVSYNC_COUNTER(name, about)
#define PVSYNC_COUNTER_CYCLES(name, about)	PVSYNC_COUNTER(name, about)
#endif

#ifndef PVSYNC_COUNTERS_OF_VCPUS
PVSYNC_COUNTER(lock_acquisitions, "spinlock acquisitions (N of Table 1)")
PVSYNC_COUNTER(lock_contended, "acquisitions that found the lock taken")
PVSYNC_COUNTER(lock_stalls_holder, "waits past the stall threshold while the lock was held (N_h)")
PVSYNC_COUNTER(lock_stalls_waiter, "waits past the stall threshold while the lock was free (N_w)")
PVSYNC_COUNTER(lock_timeouts, "waiters that timed out and left the ticket order")
PVSYNC_COUNTER(lock_halts, "times that a waiter halted its vCPU")
PVSYNC_COUNTER(lock_kicks, "halted waiters that a release woke")
PVSYNC_COUNTER(lock_overtaken, "waiters that found their ticket behind num_grant")
PVSYNC_COUNTER_NS(lock_wait_ns, "time from the first look at a contended lock to its acquisition")
PVSYNC_COUNTER_NS(lock_stolen_ns, "part of lock_wait_ns in which the host did not run the waiter")
PVSYNC_COUNTER_NS(lock_halted_ns, "part of lock_wait_ns in which the waiter had halted")
PVSYNC_COUNTER(help_calls, "times that a spinning waiter asked the host for help")
PVSYNC_COUNTER(ipi_yields, "times that a vCPU yielded to a preempted one that had to run a function for it")
PVSYNC_COUNTER(tlb_flushes, "flushes that may have to reach other vCPUs")
PVSYNC_COUNTER(tlb_hypercalls, "hypercalls that flushed other vCPUs, those for kernel addresses included")
PVSYNC_COUNTER(tlb_interrupted, "CPUs interrupted and awaited after these, as the host did not say that they need not be")
PVSYNC_COUNTER(ecs_unbalanced, "claims whose beginnings and ends did not match, and were set right")
PVSYNC_COUNTER(ecs_given_back, "times that a guest left its critical sections on borrowed time")
PVSYNC_COUNTER(park_slept, "waits for a mutex or an rwsem that gave the CPU to another task or to none")
PVSYNC_COUNTER(park_spun, "waits for one that ended while its task still had the CPU")
PVSYNC_COUNTER(park_wakeups, "sleeping waiters whose way from the wake-up to the CPU was timed")
PVSYNC_COUNTER_NS(park_wakeup_ns, "time that it took them")
PVSYNC_COUNTER(mark_looks, "looks whether another CPU is marked as preempted")
PVSYNC_COUNTER(mark_seen, "of these, looks that found a mark")

/* Of the host. The scheduler counts these, and knows no vCPU. */
PVSYNC_COUNTER(yield_denied, "strong yields to a vCPU that had run too far ahead of its share")
PVSYNC_COUNTER(yield_credited, "credits of lag to a vCPU that had used its share, or to a group above it")
#endif

/* Of the host's vCPUs, the last ones of the list. */
#ifndef PVSYNC_COUNTERS_OF_OTHERS
PVSYNC_COUNTER(spin_events, "signs that a vCPU spins for too long")
PVSYNC_COUNTER(spin_throttled, "such signs that came too soon after the last one and were left")
PVSYNC_COUNTER(spin_candidates, "vCPUs looked at for a yield")
PVSYNC_COUNTER_NS(spin_ns, "time spent on the choice, without the yields and without waits for a CPU")
PVSYNC_COUNTER(yield_attempted, "directed yields to a chosen vCPU")
PVSYNC_COUNTER(yield_asked, "directed yields that guests asked for, by other calls; not among those")
PVSYNC_COUNTER(yield_refused, "yields that the scheduler did not accept")
PVSYNC_COUNTER(yield_picked, "yields after which the CPU switched to the chosen vCPU next")
PVSYNC_COUNTER(yield_moved, "yields after which the chosen vCPU ran on another CPU first")
PVSYNC_COUNTER(yield_ran, "yields after which it ran there before the next exit of who yielded")
PVSYNC_COUNTER(yield_unmarked, "vCPUs that yielded and are not marked as preempted for their guest")
PVSYNC_COUNTER(tlb_calls, "requests to flush the translations of other vCPUs")
PVSYNC_COUNTER(tlb_refused, "such requests that named an unknown vCPU or an absurd range")
PVSYNC_COUNTER(tlb_running, "targets that were in guest mode and had to be interrupted")
PVSYNC_COUNTER(tlb_preempted, "targets whose thread waited for a CPU")
PVSYNC_COUNTER(tlb_halted, "targets that had halted")
PVSYNC_COUNTER(tlb_in_host, "targets whose thread ran outside of the guest")
PVSYNC_COUNTER(tlb_awaited, "targets, of all those, not known to be past what the host emulates: left to the guest")
PVSYNC_COUNTER(tlb_merged, "targets that had a flush to do already")
PVSYNC_COUNTER(tlb_full, "flushes of all translations of a vCPU")
PVSYNC_COUNTER(tlb_pages, "pages flushed one by one")
PVSYNC_COUNTER_NS(tlb_ns, "time spent on them, waiting for interrupts included, for a CPU not")
PVSYNC_COUNTER(preempt_irq, "vCPUs preempted in a hard or soft interrupt, or with one to take")
PVSYNC_COUNTER(preempt_lock, "preempted with a spinlock, or in another section that does not sleep")
PVSYNC_COUNTER(preempt_reader, "preempted with an rwlock or rwsem that they read-locked")
PVSYNC_COUNTER(preempt_rcu, "preempted as RCU readers")
PVSYNC_COUNTER(preempt_mutex, "preempted with a mutex or an rwsem that they write-locked")
PVSYNC_COUNTER(preempt_stuck, "preempted with a lock while they waited for another or for other vCPUs, awake")
PVSYNC_COUNTER(preempt_waiter, "preempted while they waited so without a lock")
PVSYNC_COUNTER(preempt_kernel, "preempted in the kernel in none of these")
PVSYNC_COUNTER(preempt_user, "preempted in user mode")
PVSYNC_COUNTER(preempt_unknown, "preempted in the kernel of a guest that says nothing")
PVSYNC_COUNTER(preempt_yielded, "not preempted: gave the CPU to another vCPU")
PVSYNC_COUNTER(preempt_unmarked, "of those preempted, vCPUs that KVM does not mark as such for their guest")
PVSYNC_COUNTER(extend_granted, "preemptions put off, as the vCPU was in a critical section")
PVSYNC_COUNTER(extend_avoided, "of these, vCPUs that had left their sections when they lost the CPU")
PVSYNC_COUNTER(extend_expired, "of these, vCPUs that had not, maybe as they had to wait in one")
PVSYNC_COUNTER(extend_returned, "of these, vCPUs that gave the CPU back before the time was over")
PVSYNC_COUNTER(extend_denied, "vCPUs in a section that lost the CPU at once: what waited, or what they are, comes first")
PVSYNC_COUNTER(extend_capped, "vCPUs in a section that lost the CPU at once: they had borrowed too much")
PVSYNC_COUNTER_NS(extend_ns, "time that vCPUs ran on after their preemption was put off")
PVSYNC_COUNTER(spin_help, "of the signs of spinning, those by a guest's hypercall")
PVSYNC_COUNTER(spin_filter, "of these signs, those by the processor's pause filter")
PVSYNC_COUNTER(spin_soft, "of these signs, those by the pause filter in software")
PVSYNC_COUNTER_CYCLES(spin_windows, "sum of the windows at the signs by pause filters, cycles")
PVSYNC_COUNTER_NS(spin_handling_ns, "time spent handling these signs, waiting for a CPU not included")
PVSYNC_COUNTER(pause_exits, "PAUSE instructions that the filter in software was told of")
PVSYNC_COUNTER(pause_spins, "spins that began with them")
PVSYNC_COUNTER_CYCLES(pause_cycles, "cycles from one of these to the next if that is a spin, exit and entry included")
PVSYNC_COUNTER(epochs, "epochs of VMs that are over")
PVSYNC_COUNTER_NS(epoch_spun_ns, "time in these that vCPUs spun for a whole window")
PVSYNC_COUNTER_NS(epoch_handling_ns, "time in these spent handling such spins")
PVSYNC_COUNTER_NS(epoch_cpu_ns, "CPU time that the VMs got in these")
PVSYNC_COUNTER(pick_resource, "vCPUs chosen as resource waiters")
PVSYNC_COUNTER(pick_lock, "vCPUs chosen as lock waiters")
PVSYNC_COUNTER(pick_yielded, "vCPUs chosen that had been chosen before they were preempted")
PVSYNC_COUNTER(pick_section, "vCPUs chosen as their guest said that they were in a critical section")
PVSYNC_COUNTER(pick_none, "choices without a vCPU that waited for a CPU")
#ifdef CONFIG_PVSYNC_BPF
PVSYNC_COUNTER(pick_bpf, "choices of a BPF program that were a vCPU of the VM, or to go on spinning")
PVSYNC_COUNTER(pick_stock, "choices that a BPF program left to stock KVM, or none was loaded")
PVSYNC_COUNTER(pick_refused, "choices of a BPF program that were no vCPU of the VM: left to stock KVM")
PVSYNC_COUNTER(extend_vetoed, "vCPUs in a section that lost the CPU at once: a BPF program refused")
#endif
#endif

#undef PVSYNC_COUNTER_NS
#undef PVSYNC_COUNTER_CYCLES
