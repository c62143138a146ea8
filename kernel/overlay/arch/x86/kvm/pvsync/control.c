// SPDX-License-Identifier: GPL-2.0-only
/*
 * A VM's own settings and counters, in the folder pvsync/ of the VM in KVM's
 * debugfs:
 *
 *	candidate, yield	a value of the parameter of that name, or "global":
 *				the VM follows /sys/module/pvsync/parameters/
 *	counters		a line "name value" for each, the sum over its vCPUs
 */
#include <linux/debugfs.h>
#include <linux/kvm_host.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "spin.h"

#define GLOBAL	"global"

static int own_show(struct seq_file *seq, const struct pvsync_choice *choice, u8 own)
{
	seq_printf(seq, "%s\n", own ? choice->values[own - 1] : GLOBAL);
	return 0;
}

static ssize_t own_write(struct pvsync_choice *choice, u8 *own,
			 const char __user *buffer, size_t count)
{
	char text[16] = "";
	int value;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buffer, count))
		return -EFAULT;
	if (sysfs_streq(text, GLOBAL)) {
		WRITE_ONCE(*own, 0);
		return count;
	}
	value = pvsync_choose(choice, text);
	if (value < 0)
		return value;
	WRITE_ONCE(*own, value + 1);
	return count;
}

#define OWN_FILE(field)								\
static int field##_show(struct seq_file *seq, void *unused)			\
{										\
	struct kvm *kvm = seq->private;						\
										\
	return own_show(seq, &pvsync_##field##_choice,				\
			READ_ONCE(kvm->arch.pvsync.field));			\
}										\
										\
static ssize_t field##_write(struct file *file, const char __user *buffer,	\
			     size_t count, loff_t *pos)				\
{										\
	struct kvm *kvm = file_inode(file)->i_private;				\
										\
	return own_write(&pvsync_##field##_choice, &kvm->arch.pvsync.field,	\
			 buffer, count);					\
}										\
DEFINE_SHOW_STORE_ATTRIBUTE(field)

OWN_FILE(candidate);
OWN_FILE(yield);

static int counters_show(struct seq_file *seq, void *unused)
{
	struct kvm *kvm = seq->private;
	struct kvm_vcpu *vcpu;
	unsigned long i;
	int counter;

	/* The host's are the last ones of the list. */
	for (counter = PVSYNC_spin_events; counter < PVSYNC_NR_COUNTERS; counter++) {
		u64 sum = 0;

		kvm_for_each_vcpu(i, vcpu, kvm)
			sum += READ_ONCE(vcpu->arch.pvsync.counters[counter]);
		seq_printf(seq, "%s %llu\n", pvsync_counter_name(counter), sum);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

/**
 * pvsync_create_vm_debugfs - make the folder of a VM
 * @kvm: the VM; its debugfs folder exists, and goes before the VM does
 *
 * Context: creation of the VM, may sleep. A failure leaves the folder out.
 */
void pvsync_create_vm_debugfs(struct kvm *kvm)
{
	struct dentry *dir = debugfs_create_dir("pvsync", kvm->debugfs_dentry);

	debugfs_create_file("candidate", 0600, dir, kvm, &candidate_fops);
	debugfs_create_file("yield", 0600, dir, kvm, &yield_fops);
	debugfs_create_file("counters", 0400, dir, kvm, &counters_fops);
}
