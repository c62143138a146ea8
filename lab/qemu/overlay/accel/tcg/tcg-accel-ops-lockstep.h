/*
 * QEMU TCG Single Threaded vCPUs implementation in lockstep
 *
 * Copyright (c) 2026 pvsync developers
 *
 * SPDX-License-Identifier: GPL-2.0-or-later
 */

#ifndef TCG_ACCEL_OPS_LOCKSTEP_H
#define TCG_ACCEL_OPS_LOCKSTEP_H

/* Body of the one thread that runs all vCPUs; @arg is the first of them. */
void *lockstep_cpu_thread_fn(void *arg);

/* As tcg_handle_interrupt(). */
void lockstep_handle_interrupt(CPUState *cpu, int mask);

#endif /* TCG_ACCEL_OPS_LOCKSTEP_H */
