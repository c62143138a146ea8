// SPDX-License-Identifier: GPL-2.0-only
/*
 * A VM's own settings and counters, in the folder pvsync/ of the VM in KVM's
 * debugfs:
 *
 *	candidate, yield,	a value of the parameter of that name, or "global":
 *	extend, extend_us,	the VM follows /sys/module/pvsync/parameters/
 *	extend_cap
 *	counters		a line "name value" for each, the sum over its vCPUs
 */
#include <linux/debugfs.h>
#include <linux/kvm_host.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include <linux/pvsync/extend.h>

#include "ecs.h"
#include "spin.h"

#define GLOBAL	"global"
#define TEXT	16	/* what fits any value */

static int own_show(struct seq_file *seq, const struct pvsync_choice *choice, u8 own)
{
	seq_printf(seq, "%s\n", own ? choice->values[own - 1] : GLOBAL);
	return 0;
}

/* What was written, as a string of at most @size bytes. */
static int get_text(char *text, size_t size, const char __user *buffer, size_t count)
{
	if (count >= size)
		return -EINVAL;
	if (copy_from_user(text, buffer, count))
		return -EFAULT;
	text[count] = '\0';
	return 0;
}

static ssize_t own_write(struct pvsync_choice *choice, u8 *own,
			 const char __user *buffer, size_t count)
{
	char text[TEXT];
	int err = get_text(text, sizeof(text), buffer, count);
	int value;

	if (err)
		return err;
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

static int own_number_show(struct seq_file *seq, const struct pvsync_number *number, u32 own)
{
	if (own)
		seq_printf(seq, "%u\n", own - 1);
	else
		seq_puts(seq, GLOBAL "\n");
	return 0;
}

static ssize_t own_number_write(struct pvsync_number *number, u32 *own,
				const char __user *buffer, size_t count)
{
	char text[TEXT];
	int err = get_text(text, sizeof(text), buffer, count);
	u32 value;

	if (err)
		return err;
	if (sysfs_streq(text, GLOBAL)) {
		WRITE_ONCE(*own, 0);
		return count;
	}
	err = pvsync_parse_number(number, text, &value);
	if (err)
		return err;
	WRITE_ONCE(*own, value + 1);
	return count;
}

/* What the file of a parameter does, given how its own value is shown and taken. */
#define OWN_FILE(field, parameter, show, write)					\
static int field##_show(struct seq_file *seq, void *unused)			\
{										\
	struct kvm *kvm = seq->private;						\
										\
	return show(seq, parameter, READ_ONCE(kvm->arch.pvsync.field));		\
}										\
										\
static ssize_t field##_write(struct file *file, const char __user *buffer,	\
			     size_t count, loff_t *pos)				\
{										\
	struct kvm *kvm = file_inode(file)->i_private;				\
										\
	return write(parameter, &kvm->arch.pvsync.field, buffer, count);	\
}										\
DEFINE_SHOW_STORE_ATTRIBUTE(field)

#define OWN_CHOICE(field)	OWN_FILE(field, &pvsync_##field##_choice, own_show, own_write)
#define OWN_NUMBER(field)	OWN_FILE(field, &pvsync_##field, own_number_show, own_number_write)

OWN_CHOICE(candidate);
OWN_CHOICE(yield);
OWN_CHOICE(extend);
OWN_NUMBER(extend_us);
OWN_NUMBER(extend_cap);

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

	pvsync_extend_by(pvsync_extend);
	debugfs_create_file("candidate", 0600, dir, kvm, &candidate_fops);
	debugfs_create_file("yield", 0600, dir, kvm, &yield_fops);
	debugfs_create_file("extend", 0600, dir, kvm, &extend_fops);
	debugfs_create_file("extend_us", 0600, dir, kvm, &extend_us_fops);
	debugfs_create_file("extend_cap", 0600, dir, kvm, &extend_cap_fops);
	debugfs_create_file("counters", 0400, dir, kvm, &counters_fops);
}
