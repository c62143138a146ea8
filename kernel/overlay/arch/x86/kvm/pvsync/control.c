// SPDX-License-Identifier: GPL-2.0-only
/*
 * A VM's own settings and counters, in the folder pvsync/ of the VM in KVM's
 * debugfs:
 *
 *	candidate, yield,	a value of the parameter of that name, or "global":
 *	mark, window, pause,	the VM follows /sys/module/pvsync/parameters/
 *	aple_start, aple_min,
 *	aple_max, aple_step,
 *	aple_epoch, extend,
 *	extend_us, extend_cap
 *	counters		a line "name value" for each, the sum over its vCPUs, whose
 *				own are statistics of KVM, see <linux/pvsync/kvm_stat.h>
 *	cpu_waits		how long its vCPUs waited for a CPU, see cpu_wait.c
 *	epochs			a line of heads and one for each of the latest epochs,
 *				see window.c
 *
 * The last three cover only the time in which somebody asked for them, see
 * kernel/pvsync/vcpus.c.
 */
#include <linux/debugfs.h>
#include <linux/kvm_host.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include <linux/pvsync/extend.h>

#include "loan.h"
#include "spin.h"

#define GLOBAL	"global"

static int control_own_show(struct seq_file *seq, const struct pvsync_choice *choice, u32 own)
{
	char text[PVSYNC_CHOICE_TEXT] = GLOBAL;

	if (own)
		pvsync_tell_choice(choice, own - 1, text);
	seq_printf(seq, "%s\n", text);
	return 0;
}

/* Copy what a user wrote, as a string of at most @size bytes with its end. */
static int control_get_text(char *text, size_t size, const char __user *buffer, size_t count)
{
	if (count >= size)
		return -EINVAL;
	if (copy_from_user(text, buffer, count))
		return -EFAULT;
	text[count] = '\0';
	return 0;
}

static ssize_t control_own_write(struct pvsync_choice *choice, u32 *own,
				 const char __user *buffer, size_t count)
{
	char text[PVSYNC_CHOICE_TEXT];
	int err = control_get_text(text, sizeof(text), buffer, count);
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

static int control_own_number_show(struct seq_file *seq,
				   const struct pvsync_number *number, u32 own)
{
	if (own)
		seq_printf(seq, "%u\n", own - 1);
	else
		seq_puts(seq, GLOBAL "\n");
	return 0;
}

static ssize_t control_own_number_write(struct pvsync_number *number, u32 *own,
					const char __user *buffer, size_t count)
{
	char text[PVSYNC_CHOICE_TEXT];
	int err = control_get_text(text, sizeof(text), buffer, count);
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

/* The file of a parameter, given the functions that show and take its own value. */
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

#define OWN_CHOICE(field)							\
	OWN_FILE(field, &pvsync_##field##_choice, control_own_show, control_own_write)
#define OWN_NUMBER(field)							\
	OWN_FILE(field, &pvsync_##field, control_own_number_show,		\
		 control_own_number_write)

OWN_CHOICE(candidate);
OWN_CHOICE(yield);
OWN_CHOICE(mark);
OWN_CHOICE(extend);
OWN_CHOICE(window);
OWN_CHOICE(pause);
OWN_NUMBER(extend_us);
OWN_NUMBER(extend_cap);
OWN_NUMBER(aple_start);
OWN_NUMBER(aple_min);
OWN_NUMBER(aple_max);
OWN_NUMBER(aple_step);
OWN_NUMBER(aple_epoch);

static int counters_show(struct seq_file *seq, void *unused)
{
	struct kvm *kvm = seq->private;
	struct kvm_vcpu *vcpu;
	unsigned long i;
	int counter;

	for (counter = 0; counter < PVSYNC_NR_OF_VCPUS; counter++) {
		u64 sum = 0;

		kvm_for_each_vcpu(i, vcpu, kvm)
			sum += READ_ONCE(vcpu->stat.pvsync_counters[counter]);
		seq_printf(seq, "%s %llu\n",
			   pvsync_counter_name(PVSYNC_FIRST_OF_VCPUS + counter), sum);
	}
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counters);

static int cpu_waits_show(struct seq_file *seq, void *unused)
{
	return pvsync_cpu_waits_show(seq, seq->private);
}

static ssize_t cpu_waits_write(struct file *file, const char __user *buffer, size_t count,
			       loff_t *pos)
{
	pvsync_cpu_waits_clear(file_inode(file)->i_private);
	return count;
}
DEFINE_SHOW_STORE_ATTRIBUTE(cpu_waits);

static int window_epochs_show(struct seq_file *seq, void *unused)
{
	return pvsync_epochs_show(seq, seq->private);
}

/* Whoever opens the file wants the VM to keep epochs. */
static int window_epochs_open(struct inode *inode, struct file *file)
{
	if (!pvsync_epochs_keep(inode->i_private))
		return -ENOMEM;
	return single_open(file, window_epochs_show, inode->i_private);
}

static const struct file_operations window_epochs_fops = {
	.owner		= THIS_MODULE,
	.open		= window_epochs_open,
	.read		= seq_read,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static const struct {
	const char			*name;
	umode_t				mode;
	const struct file_operations	*fops;
} files[] = {
	{ "candidate",	0600, &candidate_fops },
	{ "yield",	0600, &yield_fops },
	{ "mark",	0600, &mark_fops },
	{ "window",	0600, &window_fops },
	{ "pause",	0600, &pause_fops },
	{ "aple_start",	0600, &aple_start_fops },
	{ "aple_min",	0600, &aple_min_fops },
	{ "aple_max",	0600, &aple_max_fops },
	{ "aple_step",	0600, &aple_step_fops },
	{ "aple_epoch",	0600, &aple_epoch_fops },
	{ "extend",	0600, &extend_fops },
	{ "extend_us",	0600, &extend_us_fops },
	{ "extend_cap",	0600, &extend_cap_fops },
	{ "counters",	0400, &counters_fops },
	{ "cpu_waits",	0600, &cpu_waits_fops },
	{ "epochs",	0400, &window_epochs_fops },
};

/**
 * pvsync_init_vm - a VM is created
 * @kvm: the VM, all zero so far
 *
 * Context: may sleep.
 */
void pvsync_init_vm(struct kvm *kvm)
{
	pvsync_extend_by(pvsync_extend);
}

/**
 * pvsync_destroy_vm - a VM goes
 * @kvm: the VM; none of its vCPUs runs, and its folder is gone
 *
 * Context: may sleep.
 */
void pvsync_destroy_vm(struct kvm *kvm)
{
	kvfree(kvm->arch.pvsync.epochs);
}

/**
 * pvsync_create_vm_debugfs - make the folder of a VM
 * @kvm: the VM; its debugfs folder exists, and goes before the VM does
 *
 * Context: creation of the VM, may sleep. A failure leaves the folder out.
 */
void pvsync_create_vm_debugfs(struct kvm *kvm)
{
	struct dentry *dir = debugfs_create_dir("pvsync", kvm->debugfs_dentry);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(files); i++)
		debugfs_create_file(files[i].name, files[i].mode, dir, kvm, files[i].fops);
}
