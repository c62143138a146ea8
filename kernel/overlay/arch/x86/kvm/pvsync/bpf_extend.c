// SPDX-License-Identifier: GPL-2.0-only
/*
 * The veto of a BPF program: which vCPUs in sections borrow no time, see extend.c.
 *
 * A program is a struct_ops, struct pvsync_extend_ops. It can only say no. It is asked for a loan
 * that the parameters allow, and after it the scheduler may still refuse. So no program lends
 * more, or to anyone else, than there would be without. A loan that has begun is not asked about
 * again: its length bounds it.
 *
 * The program runs in __schedule(), in the thread of the vCPU, before the run queue is locked:
 *
 *  - Preemption is disabled, so the program cannot sleep, and nothing that it wakes or unlocks
 *    leads back to __schedule(). BPF's own migrate_enable() moves the thread only after a switch
 *    with migration disabled, and there is none.
 *  - Interrupts are enabled, and no lock is held, so the program may use maps and wake tasks.
 *  - RCU watches this CPU: the switch has not told RCU of itself yet.
 *
 * A request to switch that comes meanwhile is like one that was there before: the scheduler
 * looks at it after the program. Programs come and go as those of bpf.c do.
 *
 * It costs nothing where nobody would borrow. For a loan it costs a test without a program, and
 * the program with one. With CONFIG_PVSYNC_BPF a loan also costs an atomic addition as it ends.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/kvm_host.h>
#include <linux/rcupdate.h>

#include "bpf.h"
#include "count.h"
#include "loan.h"

/**
 * enum pvsync_bpf_doing - what a vCPU is doing that may borrow time
 * @PVSYNC_BPF_IRQ: in an interrupt of its guest, or it has one to take
 * @PVSYNC_BPF_LOCK: it has a spinlock, or is in another section that does not sleep
 * @PVSYNC_BPF_READER: it has an rwlock or an rwsem as a reader
 * @PVSYNC_BPF_RCU: an RCU reader
 * @PVSYNC_BPF_MUTEX: it has a mutex, or an rwsem as a writer
 * @PVSYNC_BPF_STUCK: it has a lock, and waits; this and all that follow with extend=kernel only
 * @PVSYNC_BPF_WAITER: it waits without a lock
 * @PVSYNC_BPF_KERNEL: in its kernel in none of these
 * @PVSYNC_BPF_USER: it has said so, and is in its kernel by its registers
 * @PVSYNC_BPF_UNKNOWN: its guest says nothing
 */
enum pvsync_bpf_doing {
	PVSYNC_BPF_IRQ,
	PVSYNC_BPF_LOCK,
	PVSYNC_BPF_READER,
	PVSYNC_BPF_RCU,
	PVSYNC_BPF_MUTEX,
	PVSYNC_BPF_STUCK,
	PVSYNC_BPF_WAITER,
	PVSYNC_BPF_KERNEL,
	PVSYNC_BPF_USER,
	PVSYNC_BPF_UNKNOWN,
};

/* The order of the counters. */
static_assert(PVSYNC_preempt_lock - PVSYNC_preempt_irq == PVSYNC_BPF_LOCK);
static_assert(PVSYNC_preempt_reader - PVSYNC_preempt_irq == PVSYNC_BPF_READER);
static_assert(PVSYNC_preempt_rcu - PVSYNC_preempt_irq == PVSYNC_BPF_RCU);
static_assert(PVSYNC_preempt_mutex - PVSYNC_preempt_irq == PVSYNC_BPF_MUTEX);
static_assert(PVSYNC_preempt_stuck - PVSYNC_preempt_irq == PVSYNC_BPF_STUCK);
static_assert(PVSYNC_preempt_waiter - PVSYNC_preempt_irq == PVSYNC_BPF_WAITER);
static_assert(PVSYNC_preempt_kernel - PVSYNC_preempt_irq == PVSYNC_BPF_KERNEL);
static_assert(PVSYNC_preempt_user - PVSYNC_preempt_irq == PVSYNC_BPF_USER);
static_assert(PVSYNC_preempt_unknown - PVSYNC_preempt_irq == PVSYNC_BPF_UNKNOWN);

/**
 * struct pvsync_extend_ctx - the loan that a program is asked about, read-only for it
 * @vm: the process of the VM's monitor, as in the tracepoints
 * @vcpu: index of the vCPU
 * @vcpus: how many vCPUs the VM has
 * @doing: enum pvsync_bpf_doing
 * @most_us: how long the loan may be, us
 * @cap: what the vCPU may borrow of its run time, permille
 * @borrowed: what it has borrowed in the period of that account, with excess of those before, ns
 * @lent: what it has borrowed since it was made, ns
 * @vm_lent: what all vCPUs of the VM have, loans that go on not included, ns
 */
struct pvsync_extend_ctx {
	u32	vm;
	u32	vcpu;
	u32	vcpus;
	u32	doing;
	u32	most_us;
	u32	cap;
	u64	borrowed;
	u64	lent;
	u64	vm_lent;
};

/**
 * struct pvsync_extend_ops - a veto as a BPF program
 * @refuse: says whether a vCPU loses its CPU at once. Not sleepable; called in a section of RCU
 *	by the thread of that vCPU, preemption disabled, interrupts enabled. Returns 0 if the vCPU
 *	may borrow time, anything else if not
 * @name: letters, digits, '_' and '.'
 */
struct pvsync_extend_ops {
	s32	(*refuse)(struct pvsync_extend_ctx *ctx);
	char	name[BPF_OBJ_NAME_LEN];
};

PVSYNC_BPF_ASSERT(struct pvsync_extend_ops, refuse);

static struct pvsync_extend_ops __rcu *extend_ops;

static bool extend_ask(struct pvsync_extend_ops *ops, struct kvm_vcpu *vcpu)
{
	struct pvsync_extend_ctx ctx = {
		.vm		= vcpu->kvm->userspace_pid,
		.vcpu		= vcpu->vcpu_idx,
		.vcpus		= atomic_read(&vcpu->kvm->online_vcpus),
		.doing		= pvsync_where(vcpu) - PVSYNC_preempt_irq,
		.most_us	= pvsync_extend_us_of(vcpu->kvm),
		.cap		= pvsync_extend_cap_of(vcpu->kvm),
		.borrowed	= vcpu->arch.pvsync.loan.borrowed,
		.lent		= vcpu->stat.pvsync_extend_ns,
		.vm_lent	= atomic64_read(&vcpu->kvm->arch.pvsync.lent),
	};

	return ops->refuse(&ctx);
}

/**
 * pvsync_bpf_refuses - does a program refuse a loan?
 * @vcpu: the vCPU that may borrow time
 *
 * Context: thread of @vcpu, in __schedule(), preemption disabled, interrupts enabled, no run queue
 * locked.
 *
 * Return: true if it does; false also if none is loaded.
 */
bool pvsync_bpf_refuses(struct kvm_vcpu *vcpu)
{
	struct pvsync_extend_ops *ops;
	bool refused;

	rcu_read_lock();
	ops = rcu_dereference(extend_ops);
	refused = ops && extend_ask(ops, vcpu);
	rcu_read_unlock();
	if (refused)
		pvsync_count_for(vcpu, PVSYNC_extend_vetoed, 1);
	return refused;
}

/* What BPF asks of a struct_ops. All of these may sleep. */

static int extend_init(struct btf *btf)
{
	BTF_TYPE_EMIT_ENUM(PVSYNC_BPF_IRQ);
	return 0;
}

/* One program at a time, for all VMs: it tells them apart. */
static int extend_reg(void *kdata, struct bpf_link *link)
{
	return pvsync_bpf_take((__force void **)&extend_ops, NULL, kdata);
}

static void extend_unreg(void *kdata, struct bpf_link *link)
{
	pvsync_bpf_take((__force void **)&extend_ops, kdata, NULL);
}

static int extend_update(void *kdata, void *old, struct bpf_link *link)
{
	return pvsync_bpf_take((__force void **)&extend_ops, old, kdata);
}

/* Never called. BPF takes its form from it. */
static s32 extend_refuse_stub(struct pvsync_extend_ctx *ctx)
{
	return 0;
}

static struct pvsync_extend_ops extend_stubs = {
	.refuse	= extend_refuse_stub,
};

static struct bpf_struct_ops bpf_extend_ops = {
	.verifier_ops	= &pvsync_bpf_verifier_ops,
	.init		= extend_init,
	.init_member	= pvsync_bpf_init_member,
	.check_member	= pvsync_bpf_check_member,
	.validate	= pvsync_bpf_validate,
	.reg		= extend_reg,
	.unreg		= extend_unreg,
	.update		= extend_update,
	.cfi_stubs	= &extend_stubs,
	.owner		= THIS_MODULE,
	.name		= "pvsync_extend_ops",
};

static int __init extend_register(void)
{
	return register_bpf_struct_ops(&bpf_extend_ops, pvsync_extend_ops);
}
late_initcall(extend_register);
