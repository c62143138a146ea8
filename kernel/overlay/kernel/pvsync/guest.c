// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest asks what its host offers, see <linux/pvsync/abi.h>: by CPUID, and where that says
 * nothing of pvsync by a hypercall, as older hosts have no such leaves.
 */
#include <linux/bitops.h>
#include <linux/cc_platform.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kvm_para.h>
#include <linux/log2.h>
#include <linux/minmax.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include <linux/pvsync/abi.h>
#include <linux/pvsync/shims.h>

#include PVSYNC_CPUID_H

#include "guest.h"
#include "in_force.h"

/*
 * kvm_hypercall1() has the right instruction only once the kernel has patched
 * its alternatives. Before that, hosts mend the wrong instruction in the guest's
 * memory if they are allowed to.
 */
static long __init guest_early_hypercall(unsigned int nr, unsigned long p1)
{
	long ret;

	if (boot_cpu_has(X86_FEATURE_VMMCALL))
		asm volatile("vmmcall" : "=a" (ret) : "a" (nr), "b" (p1) : "memory");
	else
		asm volatile("vmcall" : "=a" (ret) : "a" (nr), "b" (p1) : "memory");
	return ret;
}

/* Return: what the leaves of pvsync say; 0 if the host has none. */
static long guest_cpuid_features(void)
{
	u32 last, signature[3];

	cpuid(PVSYNC_CPUID_BASE, &last, &signature[0], &signature[1], &signature[2]);
	if (memcmp(signature, PVSYNC_CPUID_SIGNATURE, sizeof(signature)) ||
	    last < PVSYNC_CPUID_FEATURES)
		return 0;
	return cpuid_eax(PVSYNC_CPUID_FEATURES);
}

/* The features that this boot has asked for and that its host offered. */
static unsigned long used __ro_after_init;

/* Why this guest does not even ask; NULL if it may. */
static const char *guest_why_not_ask(void)
{
	if (!kvm_para_available())
		return "this is no KVM guest";
	if (kvm_para_has_hint(KVM_HINTS_REALTIME))
		return "the host dedicates CPUs to this guest";
	/*
	 * The host would read and write records as ciphertext. Where registers are
	 * hidden as well, even the question is fatal: the instruction traps here.
	 */
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return "the host cannot see into an encrypted guest";
	return NULL;
}

/**
 * pvsync_host_lacks - why this guest cannot use something of its host
 * @feature: one of PVSYNC_FEATURE_*
 *
 * Context: early parameters or later, while booting; makes a hypercall.
 *
 * Return: the reason, for the log; NULL if it can.
 */
const char * __init pvsync_host_lacks(unsigned long feature)
{
	const char *reason = guest_why_not_ask();
	long features;

	if (reason)
		return reason;
	features = guest_cpuid_features() ?: guest_early_hypercall(PVSYNC_HC_FEATURES, 0);
	if (features < 0 || !(features & feature))
		return "the host does not offer it";
	used |= feature;
	return NULL;
}

/**
 * pvsync_host_offers - what this guest can use of its host now
 *
 * Context: after the alternatives are patched; makes a hypercall.
 *
 * Return: PVSYNC_FEATURE_*, 0 if this guest does not ask its host.
 */
unsigned long pvsync_host_offers(void)
{
	long features;

	if (guest_why_not_ask())
		return 0;
	features = guest_cpuid_features() ?: kvm_hypercall1(PVSYNC_HC_FEATURES, 0);
	return max(features, 0L);
}

/**
 * pvsync_host_has_msrs - whether records are shared by MSRs, not by hypercalls
 *
 * Context: any, in a guest that may use PVSYNC_FEATURE_ECS.
 *
 * Return: whether the host of this moment has the feature in its CPUID.
 */
bool pvsync_host_has_msrs(void)
{
	return guest_cpuid_features() & PVSYNC_FEATURE_ECS;
}

/*
 * A guest that was moved, or saved and restored, goes on under another host, and nobody tells
 * it. If the new host does not offer a feature, its mechanism gives way, as it does by itself
 * when the host refuses a call. The mechanism comes back when a host offers the feature again.
 * A feature that was not offered at boot stays off: slow paths and page tables are made for
 * it before there is a second CPU. Records of critical sections need no care here, as each CPU
 * shares its own again.
 */
#define ASK_AGAIN	(10 * HZ)

static void guest_ask_again(struct work_struct *work);
static DECLARE_DEFERRABLE_WORK(asking_again, guest_ask_again);

static void guest_ask_again(struct work_struct *work)
{
	unsigned long offered = pvsync_host_offers();

	if (used & PVSYNC_FEATURE_HELP)
		pvsync_help_offered(offered & PVSYNC_FEATURE_HELP);
	if (used & PVSYNC_FEATURE_TLB)
		pvsync_tlb_is_offered(offered & PVSYNC_FEATURE_TLB);
	if (used & PVSYNC_FEATURE_ECS)
		pvsync_park_offered(offered & PVSYNC_FEATURE_ECS);
	schedule_delayed_work(&asking_again, ASK_AGAIN);
}

/* Runs after each mechanism has started. */
static int __init pvsync_ask_again_init(void)
{
	if (used)
		schedule_delayed_work(&asking_again, ASK_AGAIN);
	return 0;
}
late_initcall_sync(pvsync_ask_again_init);

static const char * const feature_names[] = {
	[ilog2(PVSYNC_FEATURE_HELP)]	= "help",
	[ilog2(PVSYNC_FEATURE_TLB)]	= "tlb",
	[ilog2(PVSYNC_FEATURE_ECS)]	= "ecs",
};

/**
 * pvsync_host_in_force - show what the host offers, by name or bit, and what has said so
 * @seq: where to
 *
 * Context: may sleep.
 */
void pvsync_host_in_force(struct seq_file *seq)
{
	unsigned long offered = pvsync_host_offers();
	const char *between = "host_features ";
	unsigned int bit;

	if (!offered)
		seq_puts(seq, "host_features none");
	for_each_set_bit(bit, &offered, BITS_PER_TYPE(offered)) {
		seq_puts(seq, between);
		if (bit < ARRAY_SIZE(feature_names) && feature_names[bit])
			seq_puts(seq, feature_names[bit]);
		else
			seq_printf(seq, "bit%u", bit);
		between = ",";
	}
	if (!offered)
		seq_puts(seq, "\nhost_found_by none\n");
	else if (guest_cpuid_features())
		seq_puts(seq, "\nhost_found_by cpuid\n");
	else
		seq_puts(seq, "\nhost_found_by hypercall\n");
}
