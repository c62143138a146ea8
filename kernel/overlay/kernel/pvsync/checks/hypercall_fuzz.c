// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest that misbehaves at random. All its CPUs make the hypercalls of pvsync with
 * arguments that are right, nearly right, or anything, and write such values to its MSR.
 * Meanwhile they write anything to the memory that they share with the host, also to each
 * other's. It tests a host, which has to give each call an answer that the ABI has, and
 * nothing else. The MSR has to refuse what is documented as refused, to keep its value then,
 * and to take a good value after all that.
 *
 * The host is asked to write to memory of this module, or to memory that the guest does
 * not have: whatever comes of it, the guest itself stays well. The module ends with
 * nothing shared. It also ends what its kernel shared before (pvsync.ecs=).
 */
#define pr_fmt(fmt) "pvsync: " fmt

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/jiffies.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/shims.h>

#include "each_cpu.h"

static unsigned int seconds = 10;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long, at most");

static unsigned long calls = ULONG_MAX;
module_param(calls, ulong, 0444);
MODULE_PARM_DESC(calls, "how many calls and writes each CPU makes, at most");

static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the random numbers; those of a CPU depend on nothing else");

/* Memory for the host to read and write: it has records next to each other. */
#define POOL_ORDER	4
#define POOL_SIZE	(PAGE_SIZE << POOL_ORDER)

static u8 *pool;

enum answer { ACCEPTED, REFUSED, NOT_OFFERED, UNEXPECTED, NR_ANSWERS };

/* A host is asked by hypercalls, and by writes to its MSR. */
enum way { BY_CALL, BY_MSR, NR_WAYS };

static const char * const way_names[] = {
	[BY_CALL]	= "hypercall",
	[BY_MSR]	= "MSR",
};

static atomic64_t answers[NR_WAYS][NR_ANSWERS];

static u64 fuzz_random64(struct rnd_state *rnd)
{
	return (u64)prandom_u32_state(rnd) << 32 | prandom_u32_state(rnd);
}

static u32 fuzz_one_of(struct rnd_state *rnd, u32 number)
{
	return prandom_u32_state(rnd) % number;
}

/* An address in the pool, mostly aligned as a record is. */
static u64 fuzz_address_in_pool(struct rnd_state *rnd)
{
	u64 offset = fuzz_random64(rnd) % POOL_SIZE;

	if (fuzz_one_of(rnd, 8))
		offset = round_down(offset, PVSYNC_ECS_SIZE);
	return virt_to_phys(pool) + offset;
}

/* From here on there is no memory. */
#define NOWHERE		BIT_ULL(46)

/* An address that no guest of less than 2^46 bytes has: devices, holes, non-canonical. */
static u64 fuzz_address_nowhere(struct rnd_state *rnd)
{
	switch (fuzz_one_of(rnd, 4)) {
	case 0:
		return 0xfee00000 + 8 * fuzz_one_of(rnd, 512);
	case 1:
		return BIT_ULL(46 + fuzz_one_of(rnd, 18)) + 8 * fuzz_one_of(rnd, 4096);
	case 2:
		return ~0ULL - fuzz_one_of(rnd, 4096);
	default:
		return fuzz_random64(rnd) | BIT_ULL(63);
	}
}

static u64 fuzz_address(struct rnd_state *rnd)
{
	return fuzz_one_of(rnd, 4) ? fuzz_address_in_pool(rnd) :
				     fuzz_address_nowhere(rnd);
}

static u64 fuzz_any_word(struct rnd_state *rnd)
{
	switch (fuzz_one_of(rnd, 4)) {
	case 0:
		return 0;
	case 1:
		return BIT_ULL(fuzz_one_of(rnd, 64)) - fuzz_one_of(rnd, 2);
	case 2:
		return fuzz_one_of(rnd, 256);
	default:
		return fuzz_random64(rnd);
	}
}

/* A layout that the host takes, most times, if there is room for it. */
static void fuzz_make_layout(struct rnd_state *rnd, u64 gpa, u32 version)
{
	u64 offset = gpa - virt_to_phys(pool);
	struct pvsync_ecs *record = (void *)pool + offset;

	if (offset > POOL_SIZE - sizeof(*record) || !IS_ALIGNED(offset, sizeof(*record)))
		return;
	record->layout = (struct pvsync_ecs_layout) {
		.version	= version + !fuzz_one_of(rnd, 8),
		.interrupt	= 0x000f0000 << fuzz_one_of(rnd, 9),
		.section	= 0x0000ffff,
		.nesting	= 0x0000ffff >> fuzz_one_of(rnd, 8),
		.wait		= fuzz_one_of(rnd, 3),
	};
	memset(record->addresses, 0, sizeof(record->addresses));
	if (version == PVSYNC_ECS_LAYOUT_MSR)
		record->addresses[0] = fuzz_address(rnd);
}

static long fuzz_share_record(struct rnd_state *rnd)
{
	/* The bits below the record's alignment are the form, right or wrong. */
	u64 form = fuzz_one_of(rnd, 6), record = fuzz_address(rnd);
	u64 a0 = record | form, task = 0, nesting = 0;

	if (!fuzz_one_of(rnd, 8))
		return kvm_hypercall4(PVSYNC_HC_ECS, 0, 0, 0,
				      fuzz_one_of(rnd, 8) ? 0 : fuzz_any_word(rnd));
	if (form != PVSYNC_ECS_FREE)
		return kvm_hypercall4(PVSYNC_HC_ECS, a0, 0, 0, 0);
	fuzz_make_layout(rnd, record, PVSYNC_ECS_LAYOUT);
	if (fuzz_one_of(rnd, 4)) {
		task = fuzz_address(rnd);
		nesting = fuzz_any_word(rnd);
	}
	return kvm_hypercall4(PVSYNC_HC_ECS, a0, fuzz_address(rnd), task,
			      nesting);
}

/* Targets to await may be named; any number of them is as good as none. */
static long fuzz_shoot_down(u64 low, u64 high, u64 where, u64 what)
{
	long answer = kvm_hypercall4(PVSYNC_HC_TLB, low, high, where, what);

	return answer > 0 ? 0 : answer;
}

/* A few pages for some of 64 CPUs, most of which there are not: right but for the sizes. */
static long fuzz_flush_pages(struct rnd_state *rnd)
{
	static const u8 shifts[] = { PAGE_SHIFT, PAGE_SHIFT, PMD_SHIFT, PUD_SHIFT, 13 };
	u64 base = fuzz_one_of(rnd, 4) ? 0 : fuzz_one_of(rnd, 1024);
	u64 start = fuzz_one_of(rnd, 2) ? fuzz_one_of(rnd, 1024) :
					  fuzz_random64(rnd) >> PAGE_SHIFT;

	return fuzz_shoot_down(fuzz_one_of(rnd, 16), 0,
			       (u64)fuzz_one_of(rnd, 16) << PVSYNC_TLB_PAGES_SHIFT | base,
			       start << PAGE_SHIFT | shifts[fuzz_one_of(rnd, ARRAY_SIZE(shifts))]);
}

static long fuzz_call_host(struct rnd_state *rnd)
{
	switch (fuzz_one_of(rnd, 8)) {
	case 0:
		return kvm_hypercall1(PVSYNC_HC_FEATURES,
				      fuzz_one_of(rnd, 4) ? 0 : fuzz_any_word(rnd));
	case 1:
		return kvm_hypercall1(PVSYNC_HC_HELP, fuzz_one_of(rnd, 4) ? 0 : fuzz_any_word(rnd));
	case 2:
		return kvm_hypercall1(PVSYNC_HC_GIVE_BACK,
				      fuzz_one_of(rnd, 4) ? 0 : fuzz_any_word(rnd));
	case 3:
		/* Numbers that do not exist; this is no test of KVM's own. */
		return kvm_hypercall4(PVSYNC_HC_TLB + 1 + fuzz_one_of(rnd, 0xff00),
				      fuzz_any_word(rnd), fuzz_any_word(rnd),
				      fuzz_any_word(rnd), fuzz_any_word(rnd));
	case 4:
		return fuzz_shoot_down(fuzz_any_word(rnd), fuzz_any_word(rnd),
				       fuzz_any_word(rnd), fuzz_any_word(rnd));
	case 5:
		return fuzz_flush_pages(rnd);
	default:
		return fuzz_share_record(rnd);
	}
}

/* Also writes to what the others share, and to what the host reads or writes just then. */
static void fuzz_scribble_in_pool(struct rnd_state *rnd)
{
	u64 *word = (u64 *)pool + fuzz_one_of(rnd, POOL_SIZE / sizeof(u64));

	WRITE_ONCE(*word, fuzz_any_word(rnd));
}

/* What the MSR has to do with a value; UNEXPECTED if it may either take or refuse it. */
static enum answer fuzz_expect_of_msr(u64 value)
{
	u64 form = value & PVSYNC_ECS_FORM_MASK, record = value - form;

	if (!value)
		return ACCEPTED;
	if (form != PVSYNC_ECS_COUNT && form != PVSYNC_ECS_SILENT && form != PVSYNC_ECS_FREE)
		return REFUSED;
	if (record >= NOWHERE)
		return REFUSED;
	if (form != PVSYNC_ECS_FREE && record >= virt_to_phys(pool) &&
	    record < virt_to_phys(pool) + POOL_SIZE)
		return ACCEPTED;
	return UNEXPECTED;
}

/*
 * The MSR has what it took last. No interrupt may come between the look at it and the write:
 * the kernel shares its own record in a timer.
 */
static enum answer fuzz_write_msr(u64 value)
{
	enum answer expected = fuzz_expect_of_msr(value), got;
	unsigned long flags;
	u64 before, after;
	bool refused;

	local_irq_save(flags);
	if (pvsync_rdmsr_safe(MSR_PVSYNC_ECS, &before)) {
		got = pvsync_wrmsr_safe(MSR_PVSYNC_ECS, value) ? NOT_OFFERED : UNEXPECTED;
		local_irq_restore(flags);
		return got;
	}
	refused = pvsync_wrmsr_safe(MSR_PVSYNC_ECS, value);
	if (pvsync_rdmsr_safe(MSR_PVSYNC_ECS, &after) || after != (refused ? before : value))
		got = UNEXPECTED;
	else
		got = refused ? REFUSED : ACCEPTED;
	local_irq_restore(flags);
	return expected == UNEXPECTED || expected == got ? got : UNEXPECTED;
}

static enum answer fuzz_share_by_msr(struct rnd_state *rnd)
{
	u64 form = fuzz_one_of(rnd, 6), record = fuzz_address(rnd);

	if (!fuzz_one_of(rnd, 8))
		return fuzz_write_msr(0);
	if (form == PVSYNC_ECS_FREE)
		fuzz_make_layout(rnd, record, PVSYNC_ECS_LAYOUT_MSR);
	return fuzz_write_msr(record | form);
}

/* A good value, which is taken whatever came before; and 0, after which nothing is shared. */
static enum answer fuzz_end_by_msr(void)
{
	enum answer answer = fuzz_write_msr(virt_to_phys(pool) | PVSYNC_ECS_SILENT);

	return answer == ACCEPTED ? fuzz_write_msr(0) : answer;
}

static enum answer fuzz_judge_answer(long answer)
{
	if (answer >= 0 && answer <= (PVSYNC_FEATURE_HELP | PVSYNC_FEATURE_TLB |
				      PVSYNC_FEATURE_ECS))
		return ACCEPTED;
	if (answer == -KVM_EINVAL)
		return REFUSED;
	return answer == -KVM_ENOSYS ? NOT_OFFERED : UNEXPECTED;
}

static void fuzz_host(void)
{
	unsigned long end = jiffies + seconds * HZ, mine[NR_WAYS][NR_ANSWERS] = { }, left = calls;
	struct rnd_state rnd;
	unsigned int i, j;

	prandom_seed_state(&rnd, (u64)seed << 32 | smp_processor_id());
	while (left-- && time_before(jiffies, end)) {
		for (i = fuzz_one_of(&rnd, 4); i; i--)
			fuzz_scribble_in_pool(&rnd);
		if (fuzz_one_of(&rnd, 8))
			mine[BY_CALL][fuzz_judge_answer(fuzz_call_host(&rnd))]++;
		else
			mine[BY_MSR][fuzz_share_by_msr(&rnd)]++;
		cond_resched();
	}
	mine[BY_MSR][fuzz_end_by_msr()]++;
	kvm_hypercall4(PVSYNC_HC_ECS, 0, 0, 0, 0);
	for (i = 0; i < NR_WAYS; i++)
		for (j = 0; j < NR_ANSWERS; j++)
			atomic64_add(mine[i][j], &answers[i][j]);
}

static int __init fuzz_init(void)
{
	unsigned int i;

	if (!kvm_para_available()) {
		pr_err("hypercall fuzz: this is no KVM guest\n");
		return -ENODEV;
	}
	pool = (u8 *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, POOL_ORDER);
	if (!pool)
		return -ENOMEM;
	pvsync_on_each_cpu(fuzz_host, 0);
	free_pages((unsigned long)pool, POOL_ORDER);
	for (i = 0; i < NR_WAYS; i++)
		pr_warn("%s fuzz: seed %u: %lld accepted, %lld refused, %lld not offered, %lld unexpected\n",
			way_names[i], seed, atomic64_read(&answers[i][ACCEPTED]),
			atomic64_read(&answers[i][REFUSED]),
			atomic64_read(&answers[i][NOT_OFFERED]),
			atomic64_read(&answers[i][UNEXPECTED]));
	return 0;
}

static void __exit fuzz_exit(void)
{
}

module_init(fuzz_init);
module_exit(fuzz_exit);
MODULE_DESCRIPTION("Random hypercalls and writes to the MSR, to test a host");
MODULE_LICENSE("GPL");
