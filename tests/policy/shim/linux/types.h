/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_TYPES_H
#define PVSYNC_TEST_TYPES_H

/* The kernel's types. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <linux/limits.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef uint32_t __u32;
typedef uint64_t __u64;
typedef int32_t s32;
typedef int64_t s64;

#endif
