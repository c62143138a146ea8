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
