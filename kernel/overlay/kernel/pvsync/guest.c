// SPDX-License-Identifier: GPL-2.0-only
/* A guest asks what its host offers, see <linux/pvsync/abi.h>. */
#include <linux/cc_platform.h>
#include <linux/init.h>
#include <linux/kvm_para.h>

#include <linux/pvsync/abi.h>

#include "guest.h"

/*
 * kvm_hypercall1() is the right instruction only once the alternatives are
 * patched; before that, hosts mend the wrong one in the guest's memory if they
 * are allowed to.
 */
static long __init early_hypercall(unsigned int nr, unsigned long p1)
{
	long ret;

	if (boot_cpu_has(X86_FEATURE_VMMCALL))
		asm volatile("vmmcall" : "=a" (ret) : "a" (nr), "b" (p1) : "memory");
	else
		asm volatile("vmcall" : "=a" (ret) : "a" (nr), "b" (p1) : "memory");
	return ret;
}

/**
 * pvsync_host_lacks - why this guest cannot use something of its host
 * @feature: a bit of PVSYNC_HC_FEATURES
 *
 * Context: early parameters or later, while booting; makes a hypercall.
 *
 * Return: the reason, for the log; NULL if it can.
 */
const char * __init pvsync_host_lacks(unsigned long feature)
{
	long features;

	if (!kvm_para_available())
		return "this is no KVM guest";
	if (kvm_para_has_hint(KVM_HINTS_REALTIME))
		return "the host dedicates CPUs to this guest";
	/*
	 * Records would be read and written as ciphertext; and where registers are
	 * hidden as well, even the question is fatal: the instruction traps here.
	 */
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return "the host cannot see into an encrypted guest";
	features = early_hypercall(PVSYNC_HC_FEATURES, 0);
	if (features < 0 || !(features & feature))
		return "the host does not offer it";
	return NULL;
}
