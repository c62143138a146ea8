/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Every counter of pvsync, once. Included with PVSYNC_COUNTER(name, about)
 * defined: the kernel makes its enumeration and its debugfs file from it, the
 * lab and the documentation read the same lines. No include guard on purpose.
 */
PVSYNC_COUNTER(lock_acquisitions, "spinlock acquisitions (N of Table 1)")
PVSYNC_COUNTER(lock_contended, "acquisitions that found the lock taken")
PVSYNC_COUNTER(lock_stalls_holder, "waits past the stall threshold while the lock was held (N_h)")
PVSYNC_COUNTER(lock_stalls_waiter, "waits past the stall threshold while the lock was free (N_w)")
PVSYNC_COUNTER(lock_timeouts, "waiters that timed out and left the ticket order")
PVSYNC_COUNTER(lock_halts, "times that a waiter halted its vCPU")
PVSYNC_COUNTER(lock_kicks, "halted waiters that a release woke")
PVSYNC_COUNTER(lock_overtaken, "waiters that found their ticket behind num_grant")
PVSYNC_COUNTER(lock_wait_ns, "time from the first look at a contended lock to its acquisition")
PVSYNC_COUNTER(lock_stolen_ns, "part of lock_wait_ns in which the host did not run the waiter")
PVSYNC_COUNTER(lock_halted_ns, "part of lock_wait_ns in which the waiter had halted")
PVSYNC_COUNTER(help_calls, "times that a spinning waiter asked the host for help")

/* Of the host. */
PVSYNC_COUNTER(spin_events, "signs that a vCPU spins for too long")
PVSYNC_COUNTER(spin_throttled, "such signs that came too soon after the last one and were left")
PVSYNC_COUNTER(spin_candidates, "vCPUs looked at for a yield")
PVSYNC_COUNTER(spin_ns, "time spent on the choice, without the yields")
PVSYNC_COUNTER(yield_attempted, "directed yields to a chosen vCPU")
PVSYNC_COUNTER(yield_refused, "yields that the scheduler did not accept")
PVSYNC_COUNTER(yield_denied, "strong yields to a vCPU that had run too far ahead of its share")
PVSYNC_COUNTER(yield_picked, "yields after which the CPU switched to the chosen vCPU next")
PVSYNC_COUNTER(yield_moved, "yields after which the chosen vCPU ran on another CPU first")
PVSYNC_COUNTER(yield_ran, "yields after which it ran there before the next exit of who yielded")
