// SPDX-License-Identifier: GPL-2.0-only
/*
 * What a host makes of what a guest shares: record.c, section.c and share.c of
 * arch/x86/kvm/pvsync. The guest is one of no Linux: its preempt count has a layout of its own. Its memory is here, so that each byte that
 * the host writes is seen.
 */
#define CONFIG_PVSYNC_KVM
#define CONFIG_KVM_MAX_NR_VCPUS	256

#include "check.h"

#include <linux/kvm_host.h>

#define KVM_SYNC_X86_SREGS	2
#define IS_ALIGNED(x, a)	(!((x) & ((a) - 1)))
#define pagefault_disable()	(kernel_holds++)
#define pagefault_enable()	(kernel_holds--)
#define xchg(place, value)	__atomic_exchange_n(place, value, __ATOMIC_SEQ_CST)
#define task_tgid_nr(task)	1
#define pr_warn_ratelimited(...)	(logged++)
#define __user
#define current			(&task)

struct mm_struct {
	int unused;
};

struct task_struct {
	struct mm_struct *mm;
};

struct sched_entity;

static struct mm_struct mm;
static struct task_struct task = { .mm = &mm };
static unsigned int logged;

static void *memchr_inv(const void *start, int c, size_t bytes)
{
	const u8 *byte = start;

	for (; bytes; bytes--, byte++)
		if (*byte != c)
			return (void *)byte;
	return NULL;
}

#define MEMORY	0x4000

static u8 memory[MEMORY] __attribute__((__aligned__(128)));
static struct kvm_memory_slot slot;

static bool inside(gpa_t gpa, unsigned long len)
{
	return gpa < MEMORY && len <= MEMORY - gpa;
}

static int kvm_gfn_to_hva_cache_init(struct kvm *kvm, struct gfn_to_hva_cache *where, gpa_t gpa,
				     unsigned long len)
{
	if (!inside(gpa, len))
		return -1;
	where->gpa = gpa;
	where->hva = (unsigned long)&memory[gpa];
	where->memslot = &slot;
	return 0;
}

static int kvm_read_guest(struct kvm *kvm, gpa_t gpa, void *data, unsigned long len)
{
	if (!inside(gpa, len))
		return -1;
	memcpy(data, &memory[gpa], len);
	return 0;
}

static int kvm_read_guest_offset_cached(struct kvm *kvm, struct gfn_to_hva_cache *where, void *data,
					unsigned int offset, unsigned long len)
{
	return kvm_read_guest(kvm, where->gpa + offset, data, len);
}

static int kvm_read_guest_cached(struct kvm *kvm, struct gfn_to_hva_cache *where, void *data,
				 unsigned long len)
{
	return kvm_read_guest(kvm, where->gpa, data, len);
}

static int kvm_write_guest_offset_cached(struct kvm *kvm, struct gfn_to_hva_cache *where,
					 void *data, unsigned int offset, unsigned long len)
{
	memcpy(&memory[where->gpa + offset], data, len);
	return 0;
}

static bool kvm_slot_dirty_track_enabled(const struct kvm_memory_slot *logged_slot)
{
	return false;
}

static unsigned long __copy_to_user(void *to, const void *from, unsigned long len)
{
	memcpy(to, from, len);
	return 0;
}

static void fault_in_safe_writeable(const char *place, size_t size)
{
}

static bool is_paging(struct kvm_vcpu *vcpu)
{
	return !vcpu->machine.real_mode;
}

static bool is_smm(struct kvm_vcpu *vcpu)
{
	return false;
}

static int kvm_lapic_find_highest_irr(struct kvm_vcpu *vcpu)
{
	return -1;
}

#include <../arch/x86/kvm/pvsync/regs.c>
#include <../arch/x86/kvm/pvsync/record.c>
#include <../arch/x86/kvm/pvsync/section.c>
#undef pr_fmt
#include <../arch/x86/kvm/pvsync/share.c>

struct pvsync_choice pvsync_extend_choice;
struct pvsync_number pvsync_extend_us, pvsync_extend_cap;

void pvsync_loan_init(struct kvm_vcpu *vcpu)
{
}

void pvsync_loan_drop(struct kvm_vcpu *vcpu)
{
}

bool pvsync_cpu_wanted(void)
{
	return false;
}

#define RECORD	0x1080
#define COUNT	0x2004
#define TASK	0x2008
#define A_TASK	0x3000
#define NESTING	0x40
/* Where the guest has its memory. */
#define DIRECT	0xffff800040000000UL

/* Upside down: interrupts in the low bits, sections above, of which the top are no wait's. */
static const struct pvsync_ecs_layout foreign = {
	.version	= PVSYNC_ECS_LAYOUT,
	.interrupt	= 0x00000007,
	.section	= 0x7fff0000,
	.nesting	= 0x00ff0000,
	.wait		= 0x00010000,
};

static struct kvm vm;
static struct kvm_vcpu vcpu;

static struct pvsync_ecs *record(void)
{
	return (struct pvsync_ecs *)&memory[RECORD];
}

static u32 *preempt_count(void)
{
	return (u32 *)&memory[COUNT];
}

static void set_up(void)
{
	memset(&vm, 0, sizeof(vm));
	memset(&vcpu, 0, sizeof(vcpu));
	memset(memory, 0, sizeof(memory));
	logged = 0;
	vm.mm = &mm;
	vcpu.kvm = &vm;
	vcpu.wants_to_run = true;
	vcpu.arch.mp_state = KVM_MP_STATE_RUNNABLE;
	vcpu.machine.flags = X86_EFLAGS_IF;
	record()->layout = foreign;
	*(u64 *)&memory[TASK] = DIRECT + A_TASK;
}

static long share(u64 form)
{
	if (form != PVSYNC_ECS_FREE)
		return pvsync_ecs_share(&vcpu, RECORD | form, 0, 0, 0);
	return pvsync_ecs_share(&vcpu, RECORD | form, COUNT, TASK, DIRECT | NESTING);
}

static enum pvsync_vcpu_counter where(u32 count, u64 words, s32 nesting)
{
	*preempt_count() = count;
	record()->non_preemptable = words;
	*(s32 *)&memory[A_TASK + NESTING] = nesting;
	return pvsync_ecs_where(&vcpu);
}

static void a_layout_is_the_guests_own(void)
{
	set_up();
	CHECK_EQ(share(PVSYNC_ECS_FREE), 0);
	CHECK_EQ(where(0, 0, 0), PVSYNC_preempt_kernel);
	CHECK_EQ(where(0x80000000, 0, 0), PVSYNC_preempt_kernel);
	CHECK_EQ(where(0x8000fff8, 0, 0), PVSYNC_preempt_kernel);
	CHECK_EQ(where(1, 0, 0), PVSYNC_preempt_irq);
	CHECK_EQ(where(0x00010004, PVSYNC_ECS_SPINNER, 1), PVSYNC_preempt_irq);
	CHECK_EQ(where(0x00010000, 0, 1), PVSYNC_preempt_lock);
	CHECK_EQ(where(0x01000000, 0, 0), PVSYNC_preempt_lock);
	CHECK_EQ(where(0x00010000, PVSYNC_ECS_SPINNER, 0), PVSYNC_preempt_waiter);
	CHECK_EQ(where(0x01010000, PVSYNC_ECS_SPINNER, 0), PVSYNC_preempt_waiter);
	CHECK_EQ(where(0x00020000, PVSYNC_ECS_SPINNER, 0), PVSYNC_preempt_stuck);
	CHECK_EQ(where(0, 0, 1), PVSYNC_preempt_rcu);
	CHECK_EQ(where(0, 0, -1), PVSYNC_preempt_kernel);
	CHECK(kernel_is_left());
}

/* A loan, its end, and losing the CPU: the host's half of the record says so, and no other byte. */
static void nothing_else_is_written_to(void)
{
	static u8 before[MEMORY];

	for (u32 count = 0; count < 3; count++) {
		set_up();
		CHECK_EQ(share(PVSYNC_ECS_FREE), 0);
		where(count ? 0x80000000 | count << 16 : ~0U, ~0ULL, 1);
		memcpy(before, memory, sizeof(memory));
		pvsync_ecs_tell_loan(&vcpu, true);
		CHECK_EQ(record()->borrowed, 1);
		memset(&memory[RECORD + PVSYNC_ECS_TOLD], 0, PVSYNC_ECS_SIZE - PVSYNC_ECS_TOLD);
		CHECK(!memcmp(before, memory, sizeof(memory)));
		pvsync_ecs_tell_loan(&vcpu, false);
		pvsync_ecs_tell(&vcpu, true, true);
		CHECK_EQ(record()->preempted, 1);
		memset(&memory[RECORD + PVSYNC_ECS_TOLD], 0, PVSYNC_ECS_SIZE - PVSYNC_ECS_TOLD);
		CHECK(!memcmp(before, memory, sizeof(memory)));
	}
}

/* Who counts is told in its words, too, and sees nothing else change there. */
static void words_of_who_counts_are_marked(void)
{
	set_up();
	CHECK_EQ(share(PVSYNC_ECS_COUNT), 0);
	record()->non_preemptable = 5;
	pvsync_ecs_tell_loan(&vcpu, true);
	CHECK(record()->non_preemptable == (5 | PVSYNC_ECS_BORROWED));
	CHECK(record()->preemptable == PVSYNC_ECS_BORROWED);
	pvsync_ecs_tell_loan(&vcpu, false);
	CHECK(record()->non_preemptable == 5 && !record()->preemptable);
}

/* Refused, nothing shared, and said: once, whatever else is refused to the VM. */
static bool refused(u64 form)
{
	bool is;

	logged = vm.arch.pvsync.ecs_refused = 0;
	is = share(form) == -KVM_EINVAL && !vcpu.arch.pvsync.ecs.form && logged == 1;
	return share(form) == -KVM_EINVAL && logged == 1 && is;
}

#define REFUSED_WITH(change)			\
do {						\
	set_up();				\
	CHECK_EQ(share(PVSYNC_ECS_FREE), 0);	\
	CHECK_EQ(logged, 0);			\
	pvsync_ecs_forget(&vcpu);		\
	change;					\
	CHECK(refused(PVSYNC_ECS_FREE));	\
} while (0)

static void what_is_not_understood_is_refused(void)
{
	REFUSED_WITH(record()->layout.version = 0);
	REFUSED_WITH(record()->layout.version = PVSYNC_ECS_LAYOUT + 1);
	REFUSED_WITH(record()->layout.reserved = 1);
	REFUSED_WITH(record()->addresses[0] = 1);
	REFUSED_WITH(record()->addresses[2] = 1ULL << 63);
	REFUSED_WITH(record()->layout.interrupt |= 0x00010000);
	REFUSED_WITH(record()->layout.nesting |= 0x80000000);
	REFUSED_WITH(record()->layout.wait = 0);
	REFUSED_WITH(record()->layout.wait = 0x01000000);
	REFUSED_WITH(memset(&record()->layout, 0, sizeof(foreign)));
}

static void forms_that_do_not_exist_are_refused(void)
{
	for (u64 form = 0; form < PVSYNC_ECS_SIZE; form++) {
		set_up();
		if (form == PVSYNC_ECS_COUNT || form == PVSYNC_ECS_SILENT ||
		    form == PVSYNC_ECS_FREE)
			CHECK_EQ(share(form), 0);
		else if (!CHECK(refused(form)))
			break;
	}
}

/* By the MSR: with free, the record itself has the addresses. */
static void set_up_addresses(void)
{
	set_up();
	record()->layout.version = PVSYNC_ECS_LAYOUT_MSR;
	record()->addresses[0] = COUNT;
	record()->addresses[1] = TASK;
	record()->addresses[2] = DIRECT | NESTING;
}

static bool shares_by_msr(u64 form)
{
	return vcpu.arch.pvsync.ecs.form == form && pvsync_ecs_msr(&vcpu);
}

static void an_msr_shares_what_a_call_does(void)
{
	set_up_addresses();
	CHECK_EQ(pvsync_ecs_msr(&vcpu), 0);
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, RECORD | PVSYNC_ECS_FREE, false), 0);
	CHECK_EQ(pvsync_ecs_msr(&vcpu), RECORD | PVSYNC_ECS_FREE);
	CHECK_EQ(where(0x00010000, 0, 0), PVSYNC_preempt_lock);
	CHECK_EQ(where(0, 0, 1), PVSYNC_preempt_rcu);
	pvsync_ecs_tell(&vcpu, true, false);
	CHECK_EQ(record()->preempted, 1);
	/* The same again is not read anew, and tells that the vCPU runs. */
	record()->layout.wait = 0;
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, RECORD | PVSYNC_ECS_FREE, false), 0);
	CHECK_EQ(record()->preempted, 0);
	CHECK_EQ(where(0x00010000, 0, 0), PVSYNC_preempt_lock);
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, 0, false), 0);
	CHECK_EQ(pvsync_ecs_msr(&vcpu), 0);
	CHECK(!vcpu.arch.pvsync.ecs.form && !logged);
	CHECK(kernel_is_left());
}

/* Each has one value, whoever wrote it last, and neither shows the other's. */
static void a_call_and_an_msr_replace_each_other(void)
{
	set_up();
	CHECK_EQ(share(PVSYNC_ECS_COUNT), 0);
	CHECK_EQ(pvsync_ecs_msr(&vcpu), 0);
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, RECORD | PVSYNC_ECS_COUNT, false), 0);
	CHECK(shares_by_msr(PVSYNC_ECS_COUNT));
	CHECK_EQ(share(PVSYNC_ECS_COUNT), 0);
	CHECK(!shares_by_msr(PVSYNC_ECS_COUNT));
	CHECK_EQ(vcpu.arch.pvsync.ecs.form, PVSYNC_ECS_COUNT);
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, RECORD | PVSYNC_ECS_COUNT, false), 0);
	CHECK_EQ(pvsync_ecs_share(&vcpu, 0, 0, 0, 0), 0);
	CHECK_EQ(pvsync_ecs_msr(&vcpu), 0);
}

/* What is refused by the MSR leaves all as it was, what is shared already included. */
static bool msr_refused(u64 data, bool by_monitor)
{
	static struct pvsync_shared before;
	static u8 memory_before[MEMORY];

	before = vcpu.arch.pvsync.ecs;
	memcpy(memory_before, memory, sizeof(memory));
	return pvsync_ecs_set_msr(&vcpu, data, by_monitor) == 1 &&
	       !memcmp(&before, &vcpu.arch.pvsync.ecs, sizeof(before)) &&
	       !memcmp(memory_before, memory, sizeof(memory)) && kernel_is_left();
}

static void what_an_msr_refuses_changes_nothing(void)
{
	static const u64 wrong[] = {
		RECORD, RECORD | 2, RECORD | 0x7f, RECORD | 64 | PVSYNC_ECS_COUNT,
		MEMORY | PVSYNC_ECS_COUNT, 1ULL << 63 | RECORD | PVSYNC_ECS_COUNT,
	};

	set_up_addresses();
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, RECORD | PVSYNC_ECS_SILENT, false), 0);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK(msr_refused(wrong[i], false) && msr_refused(wrong[i], true));
	record()->layout.version = PVSYNC_ECS_LAYOUT;
	CHECK(msr_refused(RECORD | PVSYNC_ECS_FREE, false));
	record()->layout.version = PVSYNC_ECS_LAYOUT_MSR;
	record()->addresses[0] = MEMORY;
	CHECK(msr_refused(RECORD | PVSYNC_ECS_FREE, false));
	CHECK(shares_by_msr(PVSYNC_ECS_SILENT));
	/* By the call it is another layout's. */
	record()->addresses[0] = COUNT;
	CHECK_EQ(share(PVSYNC_ECS_FREE), -KVM_EINVAL);
}

/* Restored before the record is there: the value is taken, nothing is claimed until it is. */
static void a_restore_does_not_depend_on_the_record(void)
{
	set_up_addresses();
	record()->layout.version = 0;
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, RECORD | PVSYNC_ECS_FREE, true), 0);
	CHECK(shares_by_msr(PVSYNC_ECS_SILENT));
	CHECK_EQ(pvsync_ecs_msr(&vcpu), RECORD | PVSYNC_ECS_FREE);
	CHECK_EQ(where(0x00010000, 0, 0), PVSYNC_preempt_unknown);
	record()->layout.version = PVSYNC_ECS_LAYOUT_MSR;
	CHECK_EQ(pvsync_ecs_set_msr(&vcpu, RECORD | PVSYNC_ECS_FREE, false), 0);
	CHECK(shares_by_msr(PVSYNC_ECS_FREE));
	CHECK_EQ(where(0x00010000, 0, 0), PVSYNC_preempt_lock);
}

int main(void)
{
	RUN_TEST(a_layout_is_the_guests_own);
	RUN_TEST(nothing_else_is_written_to);
	RUN_TEST(words_of_who_counts_are_marked);
	RUN_TEST(what_is_not_understood_is_refused);
	RUN_TEST(forms_that_do_not_exist_are_refused);
	RUN_TEST(an_msr_shares_what_a_call_does);
	RUN_TEST(a_call_and_an_msr_replace_each_other);
	RUN_TEST(what_an_msr_refuses_changes_nothing);
	RUN_TEST(a_restore_does_not_depend_on_the_record);
	return check_summary();
}
