/*
 * QEMU TCG Single Threaded vCPUs implementation in lockstep
 *
 * Copyright (c) 2026 pvsync developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 *
 * Plain icount adds up what all vCPUs execute, so that each of N busy vCPUs
 * gets an Nth of the virtual time.  In lockstep, time goes on in rounds.  One
 * after the other, all vCPUs execute the same stretch of virtual time, each
 * with a clock of its own; then the round's end is the time of all.
 *
 * Everything else happens between two rounds: timers fire, bottom halves and
 * file descriptors get their turn in the main loop's thread, the machine
 * stops.  Nothing but what comes from outside depends on real time.
 */

#include "qemu/osdep.h"
#include "system/tcg.h"
#include "system/cpu-timers.h"
#include "system/runstate.h"
#include "qemu/main-loop.h"
#include "qemu/guest-random.h"
#include "qemu/timer.h"
#include "hw/core/cpu.h"
#include "exec/cpu-common.h"
#include "tcg/startup.h"
#include "tcg-accel-ops.h"
#include "tcg-accel-ops-rr.h"
#include "tcg-accel-ops-lockstep.h"
#include "lockstep.h"

/* All protected by the BQL. */
static struct {
    LockstepRandom random;
    /* vCPUs execute: nobody else may touch what a guest can see. */
    bool in_round;
    /* The main loop has events, and waits for the end of the round. */
    bool main_waits;
    /* vCPUs wait until the main loop has no more events. */
    bool main_turn;
    QemuCond round_ended;
} lockstep;

/* The main loop has polled: let it go on between two rounds only. */
static void lockstep_main_enter(void)
{
    lockstep.main_waits = true;
    while (lockstep.in_round) {
        qemu_cond_wait_bql(&lockstep.round_ended);
    }
    lockstep.main_waits = false;
}

/*
 * The main loop is about to poll.  Its turn ends with a pass that found nothing
 * and raised no new event: how many passes it takes does not show in virtual
 * time.
 *
 * That a pass raised no event does not suffice.  When a device starts in a
 * round, it adds descriptors while the main loop sleeps in a poll without them.
 * The turn's first pass does not see them, and whether the second one came
 * before or after the end of the next round would be up to real time.
 */
static bool lockstep_main_leave(bool found)
{
    if (!lockstep.main_turn) {
        return false;
    }
    if (lockstep_notified() || found) {
        return true;
    }
    lockstep.main_turn = false;
    qemu_cond_broadcast(first_cpu->halt_cond);
    return false;
}

static const MainLoopGate lockstep_gate = {
    .enter = lockstep_main_enter,
    .leave = lockstep_main_leave,
};

/* Stop vCPUs that are asked to, and do what other threads want of them. */
static void lockstep_process_requests(void)
{
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        current_cpu = cpu;
        qemu_wait_io_event_common(cpu);
    }
    rr_deal_with_unplugged_cpus();
}

/*
 * Do all that is due at this point of virtual time.  Bottom halves and file
 * descriptors belong to the main loop's thread.
 */
static void lockstep_settle(void)
{
    qemu_clock_run_timers(QEMU_CLOCK_VIRTUAL);

    if (lockstep_stop_due(qemu_clock_get_ns(QEMU_CLOCK_VIRTUAL))) {
        vm_stop(RUN_STATE_PAUSED);
        lockstep_notify();
    }

    /* A timer that is still due is one of the main loop's AioContext. */
    if (!lockstep.main_waits && !lockstep_notified() &&
        qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                   QEMU_TIMER_ATTR_ALL) != 0) {
        return;
    }

    lockstep.main_turn = true;
    qemu_notify_event();
    lockstep_notified();
    qemu_cond_broadcast(&lockstep.round_ended);
    while (lockstep.main_turn) {
        /* The main loop itself may stop the machine, or wait for a vCPU. */
        qemu_cond_wait_bql(first_cpu->halt_cond);
        lockstep_process_requests();
    }
}

static bool lockstep_cpu_busy(CPUState *cpu)
{
    return !cpu->stopped && (!cpu->halted || cpu_has_work(cpu));
}

/* Execute @cpu until its clock has reached @end, or it has nothing to do. */
static void lockstep_run_cpu(CPUState *cpu, int64_t start, int64_t end)
{
    cpu->lockstep_clock = lockstep_resume(cpu->lockstep_clock, start);

    while (cpu->lockstep_clock < end) {
        int64_t budget;
        int r;

        current_cpu = cpu;
        /* A request to stop waits for the end of the round. */
        process_queued_cpu_work(cpu);
        if (!lockstep_cpu_busy(cpu)) {
            break;
        }

        budget = lockstep_budget(cpu->lockstep_clock, end);
        icount_set_raw(cpu->lockstep_clock);
        bql_unlock();
        cpu->icount_budget = budget;
        cpu->neg.icount_decr.u16.low = MIN(0xffff, budget);
        cpu->icount_extra = budget - cpu->neg.icount_decr.u16.low;
        r = tcg_cpu_exec(cpu);
        icount_update(cpu);
        cpu->neg.icount_decr.u16.low = 0;
        cpu->icount_extra = 0;
        cpu->icount_budget = 0;
        bql_lock();
        cpu->lockstep_clock = icount_get_raw();

        if (r == EXCP_DEBUG) {
            cpu_handle_guest_debug(cpu);
            break;
        } else if (r == EXCP_ATOMIC) {
            bql_unlock();
            cpu_exec_step_atomic(cpu);
            bql_lock();
        } else if (r == EXCP_HLT || r == EXCP_HALTED) {
            /* Also after a triple fault, when it does not look idle. */
            break;
        }
    }
}

static void lockstep_run_round(int64_t length)
{
    int64_t start = icount_get_raw(), end = start + length;
    unsigned int count = 0, first, number;
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        count++;
    }

    lockstep.in_round = true;
    /* Whoever comes first has an advantage: it shall not last. */
    first = lockstep_random(&lockstep.random) % count;
    number = 0;
    CPU_FOREACH(cpu) {
        if (number++ >= first) {
            lockstep_run_cpu(cpu, start, end);
        }
    }
    number = 0;
    CPU_FOREACH(cpu) {
        if (number++ < first) {
            lockstep_run_cpu(cpu, start, end);
        }
    }
    icount_set_raw(end);
    lockstep.in_round = false;
}

/* Between two rounds: go on in virtual time as far as possible at once. */
static void lockstep_step(void)
{
    int64_t deadline, length;
    bool busy = false;
    CPUState *cpu;

    deadline = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL,
                                          QEMU_TIMER_ATTR_ALL);
    if (deadline > 0) {
        deadline = icount_round(deadline);
    }
    CPU_FOREACH(cpu) {
        busy |= lockstep_cpu_busy(cpu);
    }
    length = lockstep_round(busy ? lockstep_quantum(&lockstep.random,
                                                    lockstep_mean()) : 0,
                            deadline, busy);
    if (length < 0) {
        qemu_cond_wait_bql(first_cpu->halt_cond);
    } else if (busy) {
        lockstep_run_round(length);
    } else {
        icount_set_raw(icount_get_raw() + length);
    }
}

void *lockstep_cpu_thread_fn(void *arg)
{
    CPUState *cpu = arg;

    assert(tcg_enabled() && icount_enabled());
    rcu_register_thread();
    tcg_register_thread();

    bql_lock();
    qemu_thread_get_self(cpu->thread);

    cpu->thread_id = qemu_get_thread_id();
    cpu->neg.can_do_io = true;
    qemu_cond_init(&lockstep.round_ended);
    lockstep.random.state = lockstep_seed();
    main_loop_set_gate(&lockstep_gate);
    cpu_thread_signal_created(cpu);
    qemu_guest_random_seed_thread_part2(cpu->random_seed);

    while (1) {
        lockstep_process_requests();
        if (cpu_is_stopped(first_cpu)) {
            /* Spurious wake-ups are fine. */
            qemu_cond_wait_bql(first_cpu->halt_cond);
            continue;
        }
        lockstep_step();
        lockstep_settle();
    }

    g_assert_not_reached();
}

void lockstep_handle_interrupt(CPUState *cpu, int mask)
{
    CPUState *self = current_cpu;

    g_assert(bql_locked());

    /* A CPU does not wake up before what wakes it. */
    if (lockstep.in_round && self && self != cpu && self->running &&
        self->neg.can_do_io && cpu->halted && !cpu->interrupt_request) {
        cpu->lockstep_clock = lockstep_resume(cpu->lockstep_clock,
                                              icount_get_raw());
    }

    tcg_handle_interrupt(cpu, mask);
}
