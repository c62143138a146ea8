/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_HOST_H
#define _LINUX_PVSYNC_HOST_H

/*
 * Parameters of the host: their values, by name, for all guests. A guest can
 * have its own, see arch/x86/kvm/pvsync/control.c.
 */

#include <linux/bits.h>
#include <linux/compiler.h>
#include <linux/types.h>

/* pvsync.candidate: whom a spinning vCPU yields to. */
enum pvsync_candidate {
	PVSYNC_CANDIDATE_KVM,
	PVSYNC_CANDIDATE_FRIEBEL,
	PVSYNC_CANDIDATE_HVS,		/* from here on in the order of enum pvsync_order */
	PVSYNC_CANDIDATE_CPTH_R,
	PVSYNC_CANDIDATE_CPTH_L,
	PVSYNC_CANDIDATE_CCH,
	PVSYNC_CANDIDATE_ECS,
#ifdef CONFIG_PVSYNC_BPF
	PVSYNC_CANDIDATE_BPF,
#endif
	PVSYNC_NR_CANDIDATES
};

/* pvsync.yield: how the scheduler treats that yield. */
enum pvsync_yield {
	PVSYNC_YIELD_HINT,
	PVSYNC_YIELD_STRONG,
	PVSYNC_YIELD_CREDIT,
	PVSYNC_NR_YIELDS
};

/* pvsync.mark: which vCPUs that lose their CPU are marked as preempted for their guest. */
enum pvsync_mark {
	PVSYNC_MARK_KVM,
	PVSYNC_MARK_YIELD,
	PVSYNC_MARK_EXIT,
	PVSYNC_NR_MARKS
};

/* pvsync.extend: whether a vCPU in a critical section may stay for a while. */
enum pvsync_extend {
	PVSYNC_EXTEND_OFF,
	PVSYNC_EXTEND_ECS,
	PVSYNC_EXTEND_KERNEL,
	PVSYNC_NR_EXTENDS
};

/* pvsync.window: for how long a vCPU may spin. */
enum pvsync_window_policy {
	PVSYNC_WINDOW_KVM,
	PVSYNC_WINDOW_FIXED,
	PVSYNC_WINDOW_APLE,
	PVSYNC_WINDOW_STEADY,
	PVSYNC_NR_WINDOWS
};

/* pvsync.pause: what tells the host that a vCPU spins. */
enum pvsync_pause {
	PVSYNC_PAUSE_KVM,
	PVSYNC_PAUSE_SOFT,
	PVSYNC_PAUSE_OFF,
	PVSYNC_NR_PAUSES
};

struct pid;
struct pvsync_number;

/**
 * struct pvsync_choice - a parameter whose values have names
 * @name: of the parameter
 * @values: names of its values; a number follows a name that ends with a colon
 * @nr: how many
 * @number: the bounds of that number; NULL if no name has one
 * @now: the value for guests without one of their own: an index of @values, with a
 *	number above PVSYNC_CHOICE_BITS
 * @chosen: called with a value before it comes into force, for all or for one
 *	guest; may sleep; NULL if there is nothing to do
 */
struct pvsync_choice {
	const char			*name;
	const char *const		*values;
	int				nr;
	const struct pvsync_number	*number;
	int				now;
	void				(*chosen)(int value);
};

#define PVSYNC_CHOICE_BITS	8

static inline int pvsync_choice_index(int value)
{
	return value & (BIT(PVSYNC_CHOICE_BITS) - 1);
}

static inline u32 pvsync_choice_number(int value)
{
	return (u32)value >> PVSYNC_CHOICE_BITS;
}

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
extern struct pvsync_choice pvsync_mark_choice;
extern struct pvsync_choice pvsync_window_choice;
extern struct pvsync_choice pvsync_pause_choice;
extern struct pvsync_number pvsync_aple_start;
extern struct pvsync_number pvsync_aple_min;
extern struct pvsync_number pvsync_aple_max;
extern struct pvsync_number pvsync_aple_step;
extern struct pvsync_number pvsync_aple_epoch;
extern struct pvsync_number pvsync_pause_cycles;
extern struct pvsync_number pvsync_pause_gap_us;
extern unsigned int pvsync_pause_measured;
extern bool pvsync_hypercalls;
extern bool pvsync_shootdown;
extern unsigned int pvsync_spin_gap_us;
extern unsigned int pvsync_extend_look_us;

#ifdef CONFIG_PVSYNC_DEBUG_TLB
extern bool pvsync_tlb_asserted;
#endif

#ifdef CONFIG_PVSYNC_BUSTED
extern bool pvsync_tlb_lost;
extern bool pvsync_tlb_unawaited;
extern bool pvsync_mark_lost;
#endif

/* Whether to lose shootdowns on purpose, in test builds only. */
static inline bool pvsync_busted_tlb(void)
{
#ifdef CONFIG_PVSYNC_BUSTED
	return READ_ONCE(pvsync_tlb_lost);
#else
	return false;
#endif
}

/* Whether to say on purpose that all targets are past emulation, in test builds only. */
static inline bool pvsync_busted_await(void)
{
#ifdef CONFIG_PVSYNC_BUSTED
	return READ_ONCE(pvsync_tlb_unawaited);
#else
	return false;
#endif
}

/* Whether to lose marks of preempted vCPUs on purpose, in test builds only. */
static inline bool pvsync_busted_mark(void)
{
#ifdef CONFIG_PVSYNC_BUSTED
	return READ_ONCE(pvsync_mark_lost);
#else
	return false;
#endif
}

/* The value for a VM whose own is @own minus 1, if it has one. */
static inline u32 pvsync_number_of(const struct pvsync_number *number, u32 own)
{
	return own ? own - 1 : READ_ONCE(number->now);
}

/* What a VM has whose own value is @own minus 1, if it has one. */
static inline int pvsync_choice_of(const struct pvsync_choice *choice, u32 own)
{
	return own ? (int)(own - 1) : READ_ONCE(choice->now);
}

/* Longest text of a value, with the zero at its end. */
#define PVSYNC_CHOICE_TEXT	32

int pvsync_choose(const struct pvsync_choice *choice, const char *text);
void pvsync_tell_choice(const struct pvsync_choice *choice, int value, char *text);
u64 pvsync_thread_ns(struct pid *pid);
u64 pvsync_thread_delay_ns(struct pid *pid);
unsigned long long pvsync_cpu_switches(int cpu);
int pvsync_parse_number(const struct pvsync_number *number, const char *text, u32 *value);

#endif /* _LINUX_PVSYNC_HOST_H */
