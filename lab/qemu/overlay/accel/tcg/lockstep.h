/*
 * Arithmetic of the rounds in which lockstep runs virtual CPUs
 *
 * Copyright (c) 2026 pvsync developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Nothing in here knows of a CPU, a clock or a lock, so that a unit test can
 * ask all of it.  Times and lengths are in instructions, the unit of
 * icount_get_raw(), and never negative unless said otherwise.
 */

#ifndef ACCEL_TCG_LOCKSTEP_H
#define ACCEL_TCG_LOCKSTEP_H

/* What a random choice depends on: the seed and how many came before. */
typedef struct LockstepRandom {
    uint64_t state;
} LockstepRandom;

/* splitmix64: one addition a step, so any seed is as good as another. */
static inline uint64_t lockstep_random(LockstepRandom *random)
{
    uint64_t z = random->state += 0x9e3779b97f4a7c15ULL;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/*
 * The next quantum: each length within half of @mean is as likely as another.
 *
 * With equal quanta a loop that takes a lock and releases it again can end
 * each of its slices at the same instruction, with the lock held, for ever.
 */
static inline int64_t lockstep_quantum(LockstepRandom *random, int64_t mean)
{
    int64_t half = mean / 2;

    return mean - half + (int64_t)(lockstep_random(random) % (2 * half + 1));
}

/*
 * Length of the next round.  @deadline is the time until the next timer,
 * negative when there is none, @busy whether any CPU has something to do.
 * Idle CPUs jump to the next timer.  Returns -1 when nothing is to come.
 */
static inline int64_t lockstep_round(int64_t quantum, int64_t deadline,
                                     bool busy)
{
    int64_t length = busy ? quantum : deadline;

    if (!busy && deadline < 0) {
        return -1;
    }
    if (deadline >= 0 && deadline < length) {
        length = deadline;
    }
    return length > 0 ? length : 1;
}

/*
 * Where a CPU whose clock says @clock goes on in a round from @start: its
 * clock is behind when it slept, and ahead when it took more than its share.
 */
static inline int64_t lockstep_resume(int64_t clock, int64_t start)
{
    return clock > start ? clock : start;
}

/* What a CPU may execute until the round's end. */
static inline int64_t lockstep_budget(int64_t clock, int64_t end)
{
    return clock < end ? end - clock : 0;
}

/*
 * What a charge of @charge takes out of the @left of a budget.  The rest of
 * it puts the CPU's clock beyond the round's end, and so into later rounds.
 */
static inline int64_t lockstep_take(int64_t charge, int64_t left)
{
    return charge < left ? charge : left;
}

#endif /* ACCEL_TCG_LOCKSTEP_H */
