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

/* pvsync.extend: whether a vCPU in a critical section may stay for a while. */
enum pvsync_extend {
	PVSYNC_EXTEND_OFF,
	PVSYNC_EXTEND_ECS,
	PVSYNC_NR_EXTENDS
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

/**
 * struct pvsync_number - a parameter that is a number
 * @name: of the parameter
 * @least: its smallest value
 * @most: its largest value
 * @now: the value for guests without one of their own
 */
struct pvsync_number {
	const char	*name;
	u32		least;
	u32		most;
	u32		now;
};

extern struct pvsync_number pvsync_extend_us;
extern struct pvsync_number pvsync_extend_cap;
extern struct pvsync_choice pvsync_extend_choice;
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

/* The value for a VM whose own is @own minus 1, if it has one. */
static inline u32 pvsync_number_of(const struct pvsync_number *number, u32 own)
{
	return own ? own - 1 : READ_ONCE(number->now);
}

int pvsync_choose(const struct pvsync_choice *choice, const char *text);
int pvsync_parse_number(const struct pvsync_number *number, const char *text, u32 *value);

#endif /* _LINUX_PVSYNC_HOST_H */
