/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_TRACE_LOCK_H
#define PVSYNC_TEST_TRACE_LOCK_H

#define LCB_F_SPIN	1
#define trace_contention_begin(lock, flags)	((void)(lock))
#define trace_contention_end(lock, ret)		((void)(lock))

#endif /* PVSYNC_TEST_TRACE_LOCK_H */
