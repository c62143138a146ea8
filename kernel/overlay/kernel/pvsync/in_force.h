/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_IN_FORCE_H
#define _KERNEL_PVSYNC_IN_FORCE_H

/* What each mechanism shows of itself in debugfs, pvsync/in_force. */

struct seq_file;

#ifdef CONFIG_PVSYNC_LOCKS
void pvsync_locks_in_force(struct seq_file *seq);
#else
#define pvsync_locks_in_force(seq)	\
	seq_puts(seq, "lock unknown\ntau off\nimpatience off\nhalt_spins off\n")
#endif

#ifdef CONFIG_PVSYNC_HELP
void pvsync_help_in_force(struct seq_file *seq);
#else
#define pvsync_help_in_force(seq)	seq_puts(seq, "help off\n")
#endif

#ifdef CONFIG_PVSYNC_TLB
void pvsync_tlb_in_force(struct seq_file *seq);
#else
#define pvsync_tlb_in_force(seq)	seq_puts(seq, "tlb unknown\n")
#endif

#ifdef CONFIG_PVSYNC_IPI
void pvsync_ipi_in_force(struct seq_file *seq);
#else
#define pvsync_ipi_in_force(seq)	seq_puts(seq, "ipi stock\n")
#endif

#ifdef CONFIG_PVSYNC_ECS
void pvsync_ecs_in_force(struct seq_file *seq);
#else
#define pvsync_ecs_in_force(seq)	seq_puts(seq, "ecs off\necs_record none\n")
#endif

#ifdef CONFIG_PVSYNC_PARK
void pvsync_park_in_force(struct seq_file *seq);
#else
#define pvsync_park_in_force(seq)	seq_puts(seq, "park stock\n")
#endif

#ifdef CONFIG_PVSYNC_GUEST
void pvsync_host_in_force(struct seq_file *seq);
#else
#define pvsync_host_in_force(seq)	\
	seq_puts(seq, "host_features none\nhost_found_by none\n")
#endif

#endif /* _KERNEL_PVSYNC_IN_FORCE_H */
