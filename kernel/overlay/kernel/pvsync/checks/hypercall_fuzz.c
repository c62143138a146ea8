// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest that misbehaves at random. All its CPUs make the hypercalls of pvsync with
 * arguments that are right, nearly right, or anything. Meanwhile they write anything to
 * the memory that they share with the host, also to each other's. It tests a host, which
 * has to give each call an answer that the ABI has, and nothing else.
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
#include <linux/jiffies.h>
#include <linux/kvm_para.h>
#include <linux/module.h>
#include <linux/prandom.h>

#include <linux/pvsync/abi.h>

#include "each_cpu.h"

static unsigned int seconds = 10;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long, at most");

static unsigned long calls = ULONG_MAX;
module_param(calls, ulong, 0444);
MODULE_PARM_DESC(calls, "how many calls each CPU makes, at most");

static unsigned int seed = 1;
module_param(seed, uint, 0444);
MODULE_PARM_DESC(seed, "of the random numbers; those of a CPU depend on nothing else");

/* Memory for the host to read and write: it has records next to each other. */
#define POOL_ORDER	4
#define POOL_SIZE	(PAGE_SIZE << POOL_ORDER)

static u8 *pool;

enum answer { ACCEPTED, REFUSED, NOT_OFFERED, UNEXPECTED, NR_ANSWERS };

static atomic64_t answers[NR_ANSWERS];

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
static void fuzz_make_layout(struct rnd_state *rnd, u64 gpa)
{
	u64 offset = gpa - virt_to_phys(pool);
	struct pvsync_ecs *record = (void *)pool + offset;

	if (offset > POOL_SIZE - sizeof(*record) || !IS_ALIGNED(offset, sizeof(*record)))
		return;
	record->layout = (struct pvsync_ecs_layout) {
		.version	= PVSYNC_ECS_LAYOUT + !fuzz_one_of(rnd, 8),
		.interrupt	= 0x000f0000 << fuzz_one_of(rnd, 9),
		.section	= 0x0000ffff,
		.nesting	= 0x0000ffff >> fuzz_one_of(rnd, 8),
		.wait		= fuzz_one_of(rnd, 3),
	};
	memset(record->addresses, 0, sizeof(record->addresses));
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
	fuzz_make_layout(rnd, record);
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
	unsigned long end = jiffies + seconds * HZ, mine[NR_ANSWERS] = { }, left = calls;
	struct rnd_state rnd;
	unsigned int i;

	prandom_seed_state(&rnd, (u64)seed << 32 | smp_processor_id());
	while (left-- && time_before(jiffies, end)) {
		for (i = fuzz_one_of(&rnd, 4); i; i--)
			fuzz_scribble_in_pool(&rnd);
		mine[fuzz_judge_answer(fuzz_call_host(&rnd))]++;
		cond_resched();
	}
	kvm_hypercall4(PVSYNC_HC_ECS, 0, 0, 0, 0);
	for (i = 0; i < NR_ANSWERS; i++)
		atomic64_add(mine[i], &answers[i]);
}

static int __init fuzz_init(void)
{
	if (!kvm_para_available()) {
		pr_err("hypercall fuzz: this is no KVM guest\n");
		return -ENODEV;
	}
	pool = (u8 *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, POOL_ORDER);
	if (!pool)
		return -ENOMEM;
	pvsync_on_each_cpu(fuzz_host, 0);
	free_pages((unsigned long)pool, POOL_ORDER);
	pr_warn("hypercall fuzz: seed %u: %lld accepted, %lld refused, %lld not offered, %lld unexpected\n",
		seed, atomic64_read(&answers[ACCEPTED]), atomic64_read(&answers[REFUSED]),
		atomic64_read(&answers[NOT_OFFERED]), atomic64_read(&answers[UNEXPECTED]));
	return 0;
}

static void __exit fuzz_exit(void)
{
}

module_init(fuzz_init);
module_exit(fuzz_exit);
MODULE_DESCRIPTION("Random hypercalls, to test a host");
MODULE_LICENSE("GPL");
