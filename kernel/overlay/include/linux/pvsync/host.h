/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_HOST_H
#define _LINUX_PVSYNC_HOST_H

/*
 * Parameters of the host: their values, by name, for all guests. A guest can
 * have its own, see arch/x86/kvm/pvsync/control.c.
 */

#include <linux/compiler.h>
#include <linux/types.h>

/* pvsync.candidate: whom a spinning vCPU yields to. */
enum pvsync_candidate {
	PVSYNC_CANDIDATE_KVM,
	PVSYNC_CANDIDATE_FRIEBEL,
	PVSYNC_NR_CANDIDATES
};

/* pvsync.yield: what the scheduler makes of it. */
enum pvsync_yield {
	PVSYNC_YIELD_HINT,
	PVSYNC_YIELD_STRONG,
	PVSYNC_NR_YIELDS
};

/**
 * struct pvsync_choice - a parameter whose values have names
 * @name: of the parameter
 * @values: names of its values
 * @nr: how many
 * @now: the value for guests without one of their own
 * @chosen: called with a value before it comes into force, for all or for one
 *	guest; may sleep; NULL if there is nothing to do
 */
struct pvsync_choice {
	const char		*name;
	const char *const	*values;
	int			nr;
	int			now;
	void			(*chosen)(int value);
};

extern struct pvsync_choice pvsync_candidate_choice;
extern struct pvsync_choice pvsync_yield_choice;
extern bool pvsync_hypercalls;
extern bool pvsync_shootdown;
extern unsigned int pvsync_spin_gap_us;

#ifdef CONFIG_PVSYNC_DEBUG_TLB
extern bool pvsync_tlb_asserted;
#endif

#ifdef CONFIG_PVSYNC_BUSTED
extern bool pvsync_tlb_lost;
#endif

/* Whether shootdowns are to be lost on purpose, in test builds only. */
static inline bool pvsync_busted_tlb(void)
{
#ifdef CONFIG_PVSYNC_BUSTED
	return READ_ONCE(pvsync_tlb_lost);
#else
	return false;
#endif
}

int pvsync_choose(const struct pvsync_choice *choice, const char *text);

#endif /* _LINUX_PVSYNC_HOST_H */
