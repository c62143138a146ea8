/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_APLE_H
#define _LINUX_PVSYNC_APLE_H

/*
 * For how long the vCPUs of a VM may spin: the arithmetic and the search of APLE.
 * After J. Shan, X. Ding and N. Gehani, "APPLES: Efficiently Handling Spin-lock
 * Synchronization on Virtualized Platforms", IEEE TPDS 28(7), 2017, section 3.1.
 * Self-contained, so that tests in user space compile the same bytes.
 *
 * A window is a number of cycles of the time stamp counter. Time is divided into
 * epochs, each of which ends with a given number of spins that reached the window.
 * What a VM wasted in an epoch, over the CPU time that it got, is the epoch's
 * inefficiency. The search varies the window from epoch to epoch. It moves the
 * desired window to where the inefficiency is least.
 *
 * Two searches:
 *
 * "aple" is Algorithm 1 as it stands. Each round has three epochs, with T_d,
 * min(T_u, T_d + delta) and max(T_l, T_d - delta), and the window of the least
 * inefficient one becomes T_d.
 *
 * "aple-steady" makes the same trials, and differs in what it concludes. In simulated
 * workloads (tests/policy) it is nowhere worse by more than 0.2 %. It wastes up to a
 * sixth less where the best window is far away or changes:
 *
 * - With a fixed delta, it takes 24 rounds, or 72,000 spins, from T_0 to T_u. Here the
 *   step doubles while T_d keeps moving in one direction, up to a quarter of the
 *   range, and otherwise halves down to delta.
 * - Three single values always have a smallest one, so Algorithm 1 walks about
 *   where epochs are noisy: each round forgets what earlier rounds have found. Here, as
 *   long as T_d stays, the gain of each side is the mean of this round's gain and of the
 *   mean before, with half of the weight each.
 *
 * There is no dead zone, in which T_d would stay for gains that are smaller than the
 * noise. It makes things worse: there are few rounds, and a missed gain costs more than a
 * needless step that is soon taken back.
 */

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

/* The unit of inefficiencies is 1 / PVSYNC_WHOLE. */
#define PVSYNC_WHOLE	1000000

/* Epochs of a round, in their order. */
enum pvsync_trial {
	PVSYNC_TRY_DESIRED,
	PVSYNC_TRY_LONGER,
	PVSYNC_TRY_SHORTER,
	PVSYNC_NR_TRIALS
};

/**
 * struct pvsync_bounds - where a search begins and how far it goes, cycles
 * @start: T_0 of Algorithm 1
 * @least: T_l
 * @most: T_u, not below @least
 * @step: delta
 */
struct pvsync_bounds {
	u32	start;
	u32	least;
	u32	most;
	u32	step;
};

/**
 * struct pvsync_epoch - an epoch's figures
 * @spins: spins that reached the window
 * @windows: sum of the windows that these spins reached, cycles
 * @spun_ns: time spent spinning in vain, ns: @windows as the machine has it
 * @handling_ns: time spent handling these spins, ns
 * @cpu_ns: CPU time that the VM got, ns
 */
struct pvsync_epoch {
	u64	spins;
	u64	windows;
	u64	spun_ns;
	u64	handling_ns;
	u64	cpu_ns;
};

/**
 * struct pvsync_aple - a search
 * @desired: T_d, cycles
 * @trial: which epoch of the round this is, enum pvsync_trial
 * @window: windows of the round's epochs, cycles
 * @cost: inefficiencies of the round's epochs that are over
 * @step: how far the trials of "aple-steady" are from T_d, cycles; as the rest, only for
 *	"aple-steady"
 * @moved: direction in which T_d moved in the last round, 1 or -1; 0 if it stayed
 * @longer: by how much a longer window is less inefficient, in units of
 *	1 / PVSYNC_WHOLE of the inefficiency at T_d
 * @shorter: by how much a shorter window is less inefficient, in the same units
 */
struct pvsync_aple {
	u32	desired;
	u32	trial;
	u32	window[PVSYNC_NR_TRIALS];
	u32	cost[PVSYNC_NR_TRIALS];

	u32	step;
	s32	moved;
	s64	longer;
	s64	shorter;
};

/* @a * @b / @c, or U64_MAX if that is more, or without meaning. */
static inline u64 pvsync_scale(u64 a, u64 b, u64 c)
{
	if (mul_u64_u64_shr(a, b, 64) >= c)
		return U64_MAX;
	return mul_u64_u64_div_u64(a, b, c);
}

/**
 * pvsync_spun_cycles - how long spins took that reached their window
 * @windows: sum of their windows, cycles
 * @pauses: intervals between PAUSE instructions that were timed; 0 where the
 *	processor itself ends a spin, as it counts true cycles then
 * @timed: sum of these intervals, cycles
 * @pause: cycles that a PAUSE counts for in a window, not 0
 *
 * Return: cycles.
 */
static inline u64 pvsync_spun_cycles(u64 windows, u64 pauses, u64 timed, u32 pause)
{
	return pauses ? pvsync_scale(windows, timed, pauses * pause) : windows;
}

/**
 * pvsync_inefficiency - the inefficiency of an epoch (section 3.1.3 of the paper)
 * @epoch: the epoch
 *
 * Return: in units of 1 / PVSYNC_WHOLE, U32_MAX for all that is more.
 */
static inline u32 pvsync_inefficiency(const struct pvsync_epoch *epoch)
{
	u64 wasted = epoch->spun_ns + epoch->handling_ns;

	if (wasted < epoch->spun_ns)
		wasted = U64_MAX;
	return min_t(u64, pvsync_scale(wasted, PVSYNC_WHOLE, epoch->cpu_ns), U32_MAX);
}

/* Begin the epoch of @trial, with trials @step away from T_d. Return: its window. */
static inline u32 pvsync_aple_try(struct pvsync_aple *aple, const struct pvsync_bounds *bounds,
				  enum pvsync_trial trial, u32 step)
{
	u32 desired = clamp(aple->desired, bounds->least, bounds->most);
	u32 window = desired;

	if (trial == PVSYNC_TRY_LONGER)
		window = min((u64)bounds->most, (u64)desired + step);
	else if (trial == PVSYNC_TRY_SHORTER)
		window = max((s64)bounds->least, (s64)desired - step);

	aple->desired = desired;
	aple->trial = trial;
	aple->window[trial] = window;
	return window;
}

/**
 * pvsync_aple_begin - begin a search
 * @aple: the search, whatever was in it
 * @bounds: its bounds
 *
 * Return: the window of its first epoch, cycles.
 */
static inline u32 pvsync_aple_begin(struct pvsync_aple *aple, const struct pvsync_bounds *bounds)
{
	*aple = (struct pvsync_aple) { .desired = bounds->start, .step = bounds->step };
	return pvsync_aple_try(aple, bounds, PVSYNC_TRY_DESIRED, bounds->step);
}

/**
 * pvsync_aple_next - an epoch of an "aple" search is over (Algorithm 1)
 * @aple: the search
 * @bounds: its bounds; they may have changed
 * @cost: inefficiency of the epoch
 *
 * Of windows with equal costs, it takes the desired window, then the longer one.
 *
 * Return: the window of the next epoch, cycles.
 */
static inline u32 pvsync_aple_next(struct pvsync_aple *aple, const struct pvsync_bounds *bounds,
				   u32 cost)
{
	enum pvsync_trial trial, best = PVSYNC_TRY_DESIRED;

	aple->cost[aple->trial] = cost;
	if (aple->trial < PVSYNC_TRY_SHORTER)
		return pvsync_aple_try(aple, bounds, aple->trial + 1, bounds->step);

	for (trial = PVSYNC_TRY_LONGER; trial <= PVSYNC_TRY_SHORTER; trial++) {
		if (aple->cost[trial] < aple->cost[best])
			best = trial;
	}
	aple->desired = aple->window[best];
	return pvsync_aple_try(aple, bounds, PVSYNC_TRY_DESIRED, bounds->step);
}

/* By how much @trial was less inefficient; 0 if a bound did not let its window differ. */
static inline s64 pvsync_aple_gain(const struct pvsync_aple *aple, enum pvsync_trial trial)
{
	s64 stay = aple->cost[PVSYNC_TRY_DESIRED];

	if (aple->window[trial] == aple->window[PVSYNC_TRY_DESIRED])
		return 0;
	return (stay - aple->cost[trial]) * PVSYNC_WHOLE / max_t(s64, stay, 1);
}

/* The direction in which T_d is to move after a round, 1 or -1; 0 if it stays. */
static inline s32 pvsync_aple_judge(struct pvsync_aple *aple)
{
	aple->longer += (pvsync_aple_gain(aple, PVSYNC_TRY_LONGER) - aple->longer) / 2;
	aple->shorter += (pvsync_aple_gain(aple, PVSYNC_TRY_SHORTER) - aple->shorter) / 2;

	if (max(aple->longer, aple->shorter) <= 0)
		return 0;
	return aple->longer >= aple->shorter ? 1 : -1;
}

/* Gains at the old T_d do not count at the new one. */
static inline void pvsync_aple_move(struct pvsync_aple *aple, s32 direction)
{
	aple->desired = aple->window[direction > 0 ? PVSYNC_TRY_LONGER : PVSYNC_TRY_SHORTER];
	aple->longer = 0;
	aple->shorter = 0;
}

/**
 * pvsync_steady_next - an epoch of an "aple-steady" search is over
 * @aple: the search
 * @bounds: its bounds; they may have changed
 * @cost: inefficiency of the epoch
 *
 * Return: the window of the next epoch, cycles.
 */
static inline u32 pvsync_steady_next(struct pvsync_aple *aple, const struct pvsync_bounds *bounds,
				     u32 cost)
{
	u32 farthest = (bounds->most - bounds->least) / 4;
	s32 direction;

	aple->cost[aple->trial] = cost;
	if (aple->trial < PVSYNC_TRY_SHORTER)
		return pvsync_aple_try(aple, bounds, aple->trial + 1, aple->step);

	direction = pvsync_aple_judge(aple);
	if (direction)
		pvsync_aple_move(aple, direction);
	if (direction && direction == aple->moved)
		aple->step = min(2 * (u64)aple->step, (u64)farthest);
	else
		aple->step /= 2;
	aple->step = max(aple->step, bounds->step);
	aple->moved = direction;
	return pvsync_aple_try(aple, bounds, PVSYNC_TRY_DESIRED, aple->step);
}

/**
 * pvsync_epoch_over - are there as many spins as an epoch has?
 * @began: spins at the begin of the epoch
 * @spins: spins so far
 * @length: spins of an epoch
 *
 * Return: true if there are.
 */
static inline bool pvsync_epoch_over(u64 began, u64 spins, u32 length)
{
	return spins - began >= length;
}

/**
 * pvsync_aple_steer - an epoch is over
 * @aple: the search
 * @bounds: its bounds; they may have changed
 * @steady: it is "aple-steady"
 * @goes_on: the epoch was of this search; if not, one begins
 * @cpu_ns: CPU time of the epoch, ns; an epoch without CPU time says nothing, and is tried again
 * @cost: inefficiency of the epoch
 *
 * Return: the window of the next epoch, cycles.
 */
static inline u32 pvsync_aple_steer(struct pvsync_aple *aple, const struct pvsync_bounds *bounds,
				    bool steady, bool goes_on, u64 cpu_ns, u32 cost)
{
	if (!goes_on)
		return pvsync_aple_begin(aple, bounds);
	if (!cpu_ns)
		return aple->window[aple->trial];
	if (steady)
		return pvsync_steady_next(aple, bounds, cost);
	return pvsync_aple_next(aple, bounds, cost);
}

#endif /* _LINUX_PVSYNC_APLE_H */
