/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_LOG2_H
#define PVSYNC_SHIM_LOG2_H

#define ilog2(n)	(63 - __builtin_clzll(n))

#endif
