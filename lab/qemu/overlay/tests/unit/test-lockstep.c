/*
 * The arithmetic of lockstep's rounds
 *
 * Copyright (c) 2026 pvsync developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#include "qemu/osdep.h"
#include "../../accel/tcg/lockstep.h"

static void test_random_depends_on_seed_alone(void)
{
    LockstepRandom a = { 1 }, b = { 1 }, c = { 2 };
    int same = 0;

    for (int i = 0; i < 1000; i++) {
        uint64_t value = lockstep_random(&a);

        g_assert_cmphex(value, ==, lockstep_random(&b));
        same += value == lockstep_random(&c);
    }
    g_assert_cmpint(same, ==, 0);
}

static void test_quantum_varies_around_its_mean(void)
{
    static const int64_t means[] = { 1, 2, 3, 500, 2000, 1000000000 };

    for (int i = 0; i < ARRAY_SIZE(means); i++) {
        LockstepRandom random = { 42 };
        int64_t mean = means[i], half = mean / 2;
        int64_t low = INT64_MAX, high = 0, sum = 0;

        for (int j = 0; j < 100000; j++) {
            int64_t quantum = lockstep_quantum(&random, mean);

            low = MIN(low, quantum);
            high = MAX(high, quantum);
            sum += quantum;
        }
        g_assert_cmpint(low, >=, mean - half);
        g_assert_cmpint(high, <=, mean + half);
        g_assert_cmpint(low, <=, mean - half + half / 100);
        g_assert_cmpint(high, >=, mean + half - half / 100);
        g_assert_cmpint(ABS(sum / 100000 - mean), <=, mean / 100);
    }
}

static void test_round_ends_at_the_next_timer(void)
{
    /* CPUs have something to do */
    g_assert_cmpint(lockstep_round(2000, -1, true), ==, 2000);
    g_assert_cmpint(lockstep_round(2000, 2001, true), ==, 2000);
    g_assert_cmpint(lockstep_round(2000, 1999, true), ==, 1999);
    /* time goes on even when a timer is due that nobody runs */
    g_assert_cmpint(lockstep_round(2000, 0, true), ==, 1);
    /* all sleep: the quantum does not matter, only a timer can wake one */
    g_assert_cmpint(lockstep_round(2000, 1000000000, false), ==, 1000000000);
    g_assert_cmpint(lockstep_round(2000, 0, false), ==, 1);
    g_assert_cmpint(lockstep_round(2000, -1, false), ==, -1);
}

static void test_charge_leaves_no_budget_below_zero(void)
{
    g_assert_cmpint(lockstep_take(60, 2000), ==, 60);
    g_assert_cmpint(lockstep_take(60, 60), ==, 60);
    g_assert_cmpint(lockstep_take(700, 60), ==, 60);
    g_assert_cmpint(lockstep_take(700, 0), ==, 0);
}

/*
 * A CPU that executes blocks of @block instructions and lets each take
 * @charge longer: what lockstep_run_cpu() and lockstep_charge() do.
 */
static int64_t execute(int64_t *clock, int64_t start, int64_t end,
                       int64_t block, int64_t charge)
{
    int64_t blocks = 0;

    *clock = lockstep_resume(*clock, start);
    while (*clock < end) {
        int64_t left = lockstep_budget(*clock, end);

        while (left > 0) {
            left -= block;
            if (left > 0) {
                left -= lockstep_take(charge, left);
            }
            *clock += block + charge;
            blocks++;
        }
    }
    return blocks;
}

static void test_surplus_is_carried(void)
{
    static const int64_t blocks[] = { 1, 7, 33, 512, 5000 };
    static const int64_t charges[] = { 0, 60, 700, 30000 };

    for (int b = 0; b < ARRAY_SIZE(blocks); b++) {
        for (int c = 0; c < ARRAY_SIZE(charges); c++) {
            LockstepRandom random = { 7 };
            int64_t now = 0, clock = 0, done = 0;
            int64_t each = blocks[b] + charges[c];

            while (now < 10000000) {
                int64_t end = now + lockstep_quantum(&random, 2000);

                done += execute(&clock, now, end, blocks[b], charges[c]);
                /* the clock never lags, and is ahead by one block at most */
                g_assert_cmpint(clock, >=, end);
                g_assert_cmpint(clock - end, <, each);
                now = end;
            }
            /* nothing is lost or gained, whatever the rounds' lengths */
            g_assert_cmpint(done * each, ==, clock);
        }
    }
}

static void test_two_do_what_one_does(void)
{
    LockstepRandom random = { 3 };
    int64_t now = 0, alone = 0, first = 0, second = 0;
    int64_t done = 0, done_first = 0, done_second = 0;

    while (now < 10000000) {
        int64_t end = now + lockstep_quantum(&random, 2000);

        done += execute(&alone, now, end, 33, 60);
        done_first += execute(&first, now, end, 33, 60);
        done_second += execute(&second, now, end, 33, 60);
        now = end;
    }
    g_assert_cmpint(done_first, ==, done);
    g_assert_cmpint(done_second, ==, done);
    g_assert_cmpint(first, ==, alone);
    g_assert_cmpint(second, ==, alone);
}

static void test_sleep_forgets_what_was_left(void)
{
    /* it slept through rounds: it goes on at the round's start, not before */
    g_assert_cmpint(lockstep_resume(100, 5000), ==, 5000);
    /* it has used up this round and more already */
    g_assert_cmpint(lockstep_resume(7000, 5000), ==, 7000);
    g_assert_cmpint(lockstep_budget(7000, 7000), ==, 0);
    g_assert_cmpint(lockstep_budget(7001, 7000), ==, 0);
    g_assert_cmpint(lockstep_budget(5000, 7000), ==, 2000);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/lockstep/random", test_random_depends_on_seed_alone);
    g_test_add_func("/lockstep/quantum", test_quantum_varies_around_its_mean);
    g_test_add_func("/lockstep/round", test_round_ends_at_the_next_timer);
    g_test_add_func("/lockstep/charge", test_charge_leaves_no_budget_below_zero);
    g_test_add_func("/lockstep/surplus", test_surplus_is_carried);
    g_test_add_func("/lockstep/two", test_two_do_what_one_does);
    g_test_add_func("/lockstep/sleep", test_sleep_forgets_what_was_left);
    return g_test_run();
}
