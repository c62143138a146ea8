// SPDX-License-Identifier: GPL-2.0-only
/*
 * What is in force in this guest, in debugfs, pvsync/in_force: a line "name value"
 * for each. The parameters may ask for something else. Each mechanism looks at what serves
 * now, whoever put it there, and at what the host has refused since.
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/seq_file.h>

#include "counters.h"
#include "in_force.h"

static int in_force_show(struct seq_file *seq, void *unused)
{
	pvsync_locks_in_force(seq);
	pvsync_help_in_force(seq);
	pvsync_tlb_in_force(seq);
	pvsync_ipi_in_force(seq);
	pvsync_ecs_in_force(seq);
	pvsync_park_in_force(seq);
	pvsync_host_in_force(seq);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(in_force);

static int __init pvsync_in_force_init(void)
{
	debugfs_create_file("in_force", 0400, pvsync_debugfs(), NULL, &in_force_fops);
	return 0;
}
late_initcall(pvsync_in_force_init);
