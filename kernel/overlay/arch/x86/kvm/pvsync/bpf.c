// SPDX-License-Identifier: GPL-2.0-only
/*
 * The policy that is a BPF program: whom a spinning vCPU yields to. At the end of this file is what
 * the programs that refuse loans (bpf_extend.c) have in common with it.
 *
 * A program is a struct_ops, struct pvsync_yield_ops. It says an index, and this file checks it.
 * All else that the program can do is read: the context that it is given, and each vCPU of the
 * VM by pvsync_bpf_look(). The verifier bounds its loops. What it says is a hint, as with any
 * policy: it can make a VM slow, and do no other harm.
 *
 * Programs are loaded and unloaded while vCPUs spin::
 *
 *	load, unload			vCPU that spins
 *	------------			---------------
 *	[RmW] bpf_ops			rcu_read_lock()
 *	...				[L]   bpf_ops
 *	grace period			      call it
 *	free the program		rcu_read_unlock()
 *
 * BPF awaits the grace period before it frees a struct_ops, so nothing here does.
 */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/kvm_host.h>
#include <linux/rcupdate.h>
#include <linux/sched/clock.h>

#include <linux/pvsync/shims.h>

#include "bpf.h"
#include "count.h"
#include "spin.h"

/**
 * enum pvsync_bpf_flags - what a vCPU is doing
 * @PVSYNC_BPF_READY: it waits for a CPU
 * @PVSYNC_BPF_PREEMPTED: it was preempted, and has not run since
 * @PVSYNC_BPF_IN_KERNEL: in its kernel then; meaningless without @PVSYNC_BPF_PREEMPTED
 * @PVSYNC_BPF_SPINS: the host handles a sign that it spins
 * @PVSYNC_BPF_CHOSEN: it was chosen, and has not been preempted as a resource waiter since
 * @PVSYNC_BPF_TRIED: the same search has chosen it before
 */
enum pvsync_bpf_flags {
	PVSYNC_BPF_READY	= BIT(0),
	PVSYNC_BPF_PREEMPTED	= BIT(1),
	PVSYNC_BPF_IN_KERNEL	= BIT(2),
	PVSYNC_BPF_SPINS	= BIT(3),
	PVSYNC_BPF_CHOSEN	= BIT(4),
	PVSYNC_BPF_TRIED	= BIT(5),
};

/**
 * struct pvsync_bpf_vcpu - what a program gets to know of a vCPU
 * @since: when it lost its CPU, or was chosen if that was later, ns; 0 on no list
 * @list: enum pvsync_list_of: PVSYNC_NO_LIST unless it was preempted
 * @flags: enum pvsync_bpf_flags
 */
struct pvsync_bpf_vcpu {
	u64	since;
	u32	list;
	u32	flags;
};

/**
 * struct pvsync_yield_ctx - what a program is asked, read-only for it
 * @me: index of the vCPU that spins
 * @vcpus: how many vCPUs the VM has; indices are below that
 * @last: the index that was chosen last for any vCPU of the VM; -1 at first on some kernels
 * @refused: how many choices of this search the scheduler has refused
 * @in_kernel: the vCPU is known to spin in its kernel
 * @vcpu: the vCPU that spins
 * @search: the search
 */
struct pvsync_yield_ctx {
	u32			me;
	u32			vcpus;
	s32			last;
	u32			refused;
	bool			in_kernel;
	struct kvm_vcpu		*vcpu;
	struct pvsync_search	*search;
};

/**
 * struct pvsync_yield_ops - a policy as a BPF program
 * @choose: says whom a spinning vCPU yields to. Not sleepable; called in a section of RCU by the
 *	thread of that vCPU, preemption and interrupts enabled, any number of threads at once.
 *	Returns the index of a vCPU; the index of the one that spins for none, so that it goes on;
 *	below 0 to leave the choice to stock KVM. Called again if the scheduler refuses the vCPU,
 *	at most twice
 * @name: letters, digits, '_' and '.'
 */
struct pvsync_yield_ops {
	s32	(*choose)(struct pvsync_yield_ctx *ctx);
	char	name[BPF_OBJ_NAME_LEN];
};

PVSYNC_BPF_ASSERT(struct pvsync_yield_ops, choose);

static struct pvsync_yield_ops __rcu *bpf_ops;

__bpf_kfunc_start_defs();

/**
 * pvsync_bpf_look - look at a vCPU of the VM
 * @ctx: what the program was given
 * @index: which vCPU
 * @vcpu: filled in
 *
 * Each field is right by itself. The vCPU may run meanwhile.
 *
 * Context: as for @choose of struct pvsync_yield_ops.
 *
 * Return: 0, or -ENOENT with @vcpu all zero if the VM has no such vCPU.
 */
__bpf_kfunc int pvsync_bpf_look(struct pvsync_yield_ctx *ctx, u32 index,
				struct pvsync_bpf_vcpu *vcpu)
{
	struct kvm_vcpu *it = index < ctx->vcpus ? kvm_get_vcpu(ctx->vcpu->kvm, index) : NULL;
	s64 place, stamp;
	u32 flags = 0;

	*vcpu = (struct pvsync_bpf_vcpu) { };
	if (!it)
		return -ENOENT;
	pvsync_candidate(ctx->vcpu);

	place = atomic64_read(&it->arch.pvsync.waiter.place);
	stamp = place >> PVSYNC_PLACE_STAMP;
	vcpu->list = pvsync_place_list(place);
	if (vcpu->list != PVSYNC_NO_LIST)
		vcpu->since = stamp < 0 ? -stamp : stamp;

	if (READ_ONCE(it->ready))
		flags |= PVSYNC_BPF_READY;
	if (READ_ONCE(it->preempted))
		flags |= PVSYNC_BPF_PREEMPTED;
	if (kvm_arch_vcpu_preempted_in_kernel(it))
		flags |= PVSYNC_BPF_IN_KERNEL;
	if (READ_ONCE(it->arch.pvsync.spinning))
		flags |= PVSYNC_BPF_SPINS;
	if (place & PVSYNC_PLACE_CHOSEN)
		flags |= PVSYNC_BPF_CHOSEN;
	if (pvsync_was_tried(&ctx->search->tried, &it->arch.pvsync.waiter))
		flags |= PVSYNC_BPF_TRIED;
	vcpu->flags = flags;
	return 0;
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(bpf_kfunc_ids)
BTF_ID_FLAGS(func, pvsync_bpf_look, pvsync_trusted_args)
BTF_KFUNCS_END(bpf_kfunc_ids)

static const struct btf_kfunc_id_set bpf_kfunc_set = {
	.owner	= THIS_MODULE,
	.set	= &bpf_kfunc_ids,
};

/* The choice of the program that is loaded; one that is below 0 if none is. */
static s32 bpf_ask(struct kvm_vcpu *me, struct pvsync_search *search, u32 vcpus)
{
	struct pvsync_yield_ctx ctx = {
		.me		= me->vcpu_idx,
		.vcpus		= vcpus,
		.last		= READ_ONCE(me->kvm->last_boosted_vcpu),
		.refused	= search->asked++,
		.in_kernel	= search->in_kernel,
		.vcpu		= me,
		.search		= search,
	};
	struct pvsync_yield_ops *ops;
	s32 index = -1;

	rcu_read_lock();
	ops = rcu_dereference(bpf_ops);
	if (ops)
		index = ops->choose(&ctx);
	rcu_read_unlock();
	return index;
}

/* The same marks and the same memory of a search as with the policies that have lists. */
static void bpf_note_chosen(struct kvm_vcpu *vcpu, struct pvsync_search *search)
{
	struct pvsync_first first = { };

	WRITE_ONCE(vcpu->kvm->last_boosted_vcpu, vcpu->vcpu_idx);
	pvsync_look_at(&first, PVSYNC_ECS_FIRST, &search->tried, &vcpu->arch.pvsync.waiter);
	if (first.waiter)
		pvsync_choose_first(&first, PVSYNC_ECS_FIRST, &search->tried, local_clock());
}

/**
 * pvsync_bpf_pick - the vCPU that a BPF program chooses
 * @me: the vCPU that spins
 * @search: see pvsync_pick_fn
 *
 * Where the program chooses none, or what is no vCPU of the VM, stock KVM chooses and yields
 * before this returns.
 *
 * Context: as pvsync_pick_fn.
 *
 * Return: as pvsync_pick_fn.
 */
struct kvm_vcpu *pvsync_bpf_pick(struct kvm_vcpu *me, struct pvsync_search *search)
{
	u32 vcpus = atomic_read(&me->kvm->online_vcpus);
	s32 index = bpf_ask(me, search, vcpus);
	struct kvm_vcpu *vcpu = NULL;

	if (index == me->vcpu_idx) {
		pvsync_count_for(me, PVSYNC_pick_bpf, 1);
		return NULL;
	}
	if (index >= 0 && index < vcpus)
		vcpu = kvm_get_vcpu(me->kvm, index);
	if (!vcpu) {
		pvsync_count_for(me, index < 0 ? PVSYNC_pick_stock : PVSYNC_pick_refused, 1);
		kvm_vcpu_on_spin(me, search->in_kernel);
		return NULL;
	}
	pvsync_count_for(me, PVSYNC_pick_bpf, 1);
	bpf_note_chosen(vcpu, search);
	return vcpu;
}

/* What BPF asks of a struct_ops. All of these may sleep. */

static int bpf_init(struct btf *btf)
{
	BTF_TYPE_EMIT_ENUM(PVSYNC_BPF_READY);
	BTF_TYPE_EMIT_ENUM(PVSYNC_NO_LIST);
	return 0;
}

/* One program at a time: a VM has it by "candidate", and all that have it have the same. */
static int bpf_reg(void *kdata, struct bpf_link *link)
{
	return pvsync_bpf_take((__force void **)&bpf_ops, NULL, kdata);
}

static void bpf_unreg(void *kdata, struct bpf_link *link)
{
	pvsync_bpf_take((__force void **)&bpf_ops, kdata, NULL);
}

static int bpf_update(void *kdata, void *old, struct bpf_link *link)
{
	return pvsync_bpf_take((__force void **)&bpf_ops, old, kdata);
}

/* Never called. BPF takes its form from it. */
static s32 bpf_choose_stub(struct pvsync_yield_ctx *ctx)
{
	return -1;
}

static struct pvsync_yield_ops bpf_stubs = {
	.choose	= bpf_choose_stub,
};

static struct bpf_struct_ops bpf_yield_ops = {
	.verifier_ops	= &pvsync_bpf_verifier_ops,
	.init		= bpf_init,
	.init_member	= pvsync_bpf_init_member,
	.check_member	= pvsync_bpf_check_member,
	.validate	= pvsync_bpf_validate,
	.reg		= bpf_reg,
	.unreg		= bpf_unreg,
	.update		= bpf_update,
	.cfi_stubs	= &bpf_stubs,
	.owner		= THIS_MODULE,
	.name		= "pvsync_yield_ops",
};

static int __init bpf_register(void)
{
	int err = register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &bpf_kfunc_set);

	return err ?: register_bpf_struct_ops(&bpf_yield_ops, pvsync_yield_ops);
}
late_initcall(bpf_register);

/* What struct_ops of pvsync have in common: each has the form of struct pvsync_bpf_ops. */

const struct bpf_verifier_ops pvsync_bpf_verifier_ops = {
	.get_func_proto		= bpf_base_func_proto,
	.is_valid_access	= bpf_tracing_btf_ctx_access,
};

/**
 * pvsync_bpf_init_member - copy a member of a program's struct_ops that is no function
 * @type: the struct
 * @member: the member
 * @kdata: the kernel's struct, to be filled in
 * @udata: what user space gave
 *
 * Context: may sleep.
 *
 * Return: 1 if the member was copied; 0 if BPF has to; -EINVAL for a name that is none.
 */
int pvsync_bpf_init_member(const struct btf_type *type, const struct btf_member *member,
			   void *kdata, const void *udata)
{
	const struct pvsync_bpf_ops *given = udata;
	struct pvsync_bpf_ops *ops = kdata;

	if (__btf_member_bit_offset(type, member) / BITS_PER_BYTE !=
	    offsetof(struct pvsync_bpf_ops, name))
		return 0;
	return bpf_obj_name_cpy(ops->name, given->name, sizeof(ops->name)) > 0 ? 1 : -EINVAL;
}

/**
 * pvsync_bpf_check_member - may a program be this function?
 * @type: the struct_ops
 * @member: the function
 * @prog: the program
 *
 * Context: may sleep.
 *
 * Return: 0, or -EINVAL for one that may sleep.
 */
int pvsync_bpf_check_member(const struct btf_type *type, const struct btf_member *member,
			    const struct bpf_prog *prog)
{
	return prog->sleepable ? -EINVAL : 0;
}

/**
 * pvsync_bpf_validate - is a program's struct_ops whole?
 * @kdata: the kernel's struct
 *
 * Context: may sleep.
 *
 * Return: 0, or -EINVAL without a program.
 */
int pvsync_bpf_validate(void *kdata)
{
	struct pvsync_bpf_ops *ops = kdata;

	return ops->ask ? 0 : -EINVAL;
}

/**
 * pvsync_bpf_take - put one program in the place of another
 * @place: of the program that is loaded
 * @old: what has to be there; NULL for none
 * @new: what comes; NULL for none
 *
 * Context: may sleep.
 *
 * Return: 0; -EBUSY if something is there and nothing should be; -ENOENT if @old is not there.
 */
int pvsync_bpf_take(void **place, void *old, void *new)
{
	if (cmpxchg(place, old, new) == old)
		return 0;
	return old ? -ENOENT : -EBUSY;
}
