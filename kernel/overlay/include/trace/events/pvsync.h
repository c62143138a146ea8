/* SPDX-License-Identifier: GPL-2.0-only */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM pvsync

#if !defined(_TRACE_PVSYNC_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_PVSYNC_H

/*
 * What a host does with vCPUs that lose their CPU, spin or shoot. "vm" is the process of the
 * VM's monitor, as in the names of KVM's folders in debugfs. "vcpu" is the number that the
 * monitor gave. Each event is where counters of <linux/pvsync/counters.h> advance, and comes
 * as often.
 */
#include <linux/bitmap.h>
#include <linux/kvm_host.h>
#include <linux/tracepoint.h>

#include <linux/pvsync/count.h>

#define PVSYNC_TRACE_PLACES		\
	PLACE(irq)			\
	PLACE(lock)			\
	PLACE(reader)			\
	PLACE(rcu)			\
	PLACE(mutex)			\
	PLACE(stuck)			\
	PLACE(waiter)			\
	PLACE(kernel)			\
	PLACE(user)			\
	PLACE(unknown)			\
	PLACE_END(yielded)

#undef PLACE
#undef PLACE_END
#define PLACE(name)	TRACE_DEFINE_ENUM(PVSYNC_preempt_##name);
#define PLACE_END(name)	TRACE_DEFINE_ENUM(PVSYNC_preempt_##name);
PVSYNC_TRACE_PLACES

#undef PLACE
#undef PLACE_END
#define PLACE(name)	{ PVSYNC_preempt_##name, #name },
#define PLACE_END(name)	{ PVSYNC_preempt_##name, #name }

/* A vCPU's thread loses its CPU and wants it: preempt_*, preempt_unmarked, yield_unmarked. */
TRACE_EVENT(pvsync_preempted,

	TP_PROTO(struct kvm_vcpu *vcpu, unsigned int where, bool marked),

	TP_ARGS(vcpu, where, marked),

	TP_STRUCT__entry(
		__field(pid_t, vm)
		__field(int, vcpu)
		__field(unsigned int, where)
		__field(bool, marked)
	),

	TP_fast_assign(
		__entry->vm = vcpu->kvm->userspace_pid;
		__entry->vcpu = vcpu->vcpu_id;
		__entry->where = where;
		__entry->marked = marked;
	),

	TP_printk("vm=%d vcpu=%d where=%s marked=%d", __entry->vm, __entry->vcpu,
		  __print_symbolic(__entry->where, PVSYNC_TRACE_PLACES), __entry->marked)
);

/* Its preemption is put off, for no longer than @most_ns: extend_granted. */
TRACE_EVENT(pvsync_lent,

	TP_PROTO(struct kvm_vcpu *vcpu, u64 most_ns),

	TP_ARGS(vcpu, most_ns),

	TP_STRUCT__entry(
		__field(pid_t, vm)
		__field(int, vcpu)
		__field(u64, most_ns)
	),

	TP_fast_assign(
		__entry->vm = vcpu->kvm->userspace_pid;
		__entry->vcpu = vcpu->vcpu_id;
		__entry->most_ns = most_ns;
	),

	TP_printk("vm=%d vcpu=%d most_ns=%llu", __entry->vm, __entry->vcpu, __entry->most_ns)
);

/*
 * The time of a loan is over: extend_ns, extend_avoided if the vCPU has @left its sections,
 * extend_expired if not, extend_returned if its guest has given the CPU back.
 */
TRACE_EVENT(pvsync_loan_ended,

	TP_PROTO(struct kvm_vcpu *vcpu, u64 ns, bool left, bool returned),

	TP_ARGS(vcpu, ns, left, returned),

	TP_STRUCT__entry(
		__field(pid_t, vm)
		__field(int, vcpu)
		__field(u64, ns)
		__field(bool, left)
		__field(bool, returned)
	),

	TP_fast_assign(
		__entry->vm = vcpu->kvm->userspace_pid;
		__entry->vcpu = vcpu->vcpu_id;
		__entry->ns = ns;
		__entry->left = left;
		__entry->returned = returned;
	),

	TP_printk("vm=%d vcpu=%d ns=%llu %s returned=%d", __entry->vm, __entry->vcpu, __entry->ns,
		  __entry->left ? "avoided" : "expired", __entry->returned)
);

/*
 * A vCPU has yielded to another one: yield_attempted if the host has @chosen that vCPU,
 * yield_asked if the guest has. @result is what yield_to() returned: above 0 if the scheduler
 * took it.
 */
TRACE_EVENT(pvsync_yield,

	TP_PROTO(struct kvm_vcpu *vcpu, struct kvm_vcpu *target, bool chosen, int result),

	TP_ARGS(vcpu, target, chosen, result),

	TP_STRUCT__entry(
		__field(pid_t, vm)
		__field(int, vcpu)
		__field(int, target)
		__field(bool, chosen)
		__field(int, result)
	),

	TP_fast_assign(
		__entry->vm = vcpu->kvm->userspace_pid;
		__entry->vcpu = vcpu->vcpu_id;
		__entry->target = target->vcpu_id;
		__entry->chosen = chosen;
		__entry->result = result;
	),

	TP_printk("vm=%d vcpu=%d target=%d chosen=%d result=%d", __entry->vm, __entry->vcpu,
		  __entry->target, __entry->chosen, __entry->result)
);

/*
 * A vCPU that @by has yielded to runs: yield_moved on another CPU, yield_picked as the next
 * task of its own CPU, yield_ran before the next exit of @by.
 */
TRACE_EVENT(pvsync_yield_outcome,

	TP_PROTO(struct kvm_vcpu *vcpu, struct kvm_vcpu *by, bool moved, bool picked, bool ran),

	TP_ARGS(vcpu, by, moved, picked, ran),

	TP_STRUCT__entry(
		__field(pid_t, vm)
		__field(int, vcpu)
		__field(int, by)
		__field(bool, moved)
		__field(bool, picked)
		__field(bool, ran)
	),

	TP_fast_assign(
		__entry->vm = vcpu->kvm->userspace_pid;
		__entry->vcpu = vcpu->vcpu_id;
		__entry->by = by->vcpu_id;
		__entry->moved = moved;
		__entry->picked = picked;
		__entry->ran = ran;
	),

	TP_printk("vm=%d vcpu=%d by=%d moved=%d picked=%d ran=%d", __entry->vm, __entry->vcpu,
		  __entry->by, __entry->moved, __entry->picked, __entry->ran)
);

/*
 * A vCPU has had the translations of others flushed, of @pages or, with 0, all: tlb_calls
 * without tlb_refused. The guest has to await @awaited of the @targets: tlb_awaited.
 */
TRACE_EVENT(pvsync_shootdown,

	TP_PROTO(struct kvm_vcpu *vcpu, const unsigned long *targets, unsigned int awaited,
		 u32 pages),

	TP_ARGS(vcpu, targets, awaited, pages),

	TP_STRUCT__entry(
		__field(pid_t, vm)
		__field(int, vcpu)
		__field(unsigned int, targets)
		__field(unsigned int, awaited)
		__field(u32, pages)
	),

	TP_fast_assign(
		__entry->vm = vcpu->kvm->userspace_pid;
		__entry->vcpu = vcpu->vcpu_id;
		__entry->targets = bitmap_weight(targets, KVM_MAX_VCPUS);
		__entry->awaited = awaited;
		__entry->pages = pages;
	),

	TP_printk("vm=%d vcpu=%d targets=%u awaited=%u pages=%u", __entry->vm, __entry->vcpu,
		  __entry->targets, __entry->awaited, __entry->pages)
);

#endif /* _TRACE_PVSYNC_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
