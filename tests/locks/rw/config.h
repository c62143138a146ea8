/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_RW_CONFIG_H
#define PVSYNC_TEST_RW_CONFIG_H

/*
 * Just enough of a kernel for kernel/locking/qrwlock.c and what pvsync wraps it in, with
 * pvsync.ecs=count and pvsync.help= given. Included before anything else.
 */
#define CONFIG_PVSYNC_ECS
#define CONFIG_PVSYNC_ECS_COUNT
#define CONFIG_PVSYNC_HELP
#define CONFIG_PVSYNC_RWLOCK

#include "../shim/shim.h"
#include "../shim/linux/jump_label.h"
#undef static_branch_unlikely
#define static_branch_unlikely(key)	true

extern bool in_handler;
#define in_interrupt()		in_handler

#define trace_contention_begin(lock, flags)	((void)(lock))
#define trace_contention_end(lock, ret)		((void)(lock))

#endif
