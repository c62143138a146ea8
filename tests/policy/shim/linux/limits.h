/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_LIMITS_H
#define PVSYNC_TEST_LIMITS_H

#define U32_MAX		((u32)~0U)
#define U64_MAX		((u64)~0ULL)

#endif
