/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_CC_PLATFORM_H
#define PVSYNC_SHIM_CC_PLATFORM_H

/* Answered by the test. */
#include <stdbool.h>

enum cc_attr { CC_ATTR_MEM_ENCRYPT, CC_ATTR_GUEST_MEM_ENCRYPT };

bool cc_platform_has(enum cc_attr attr);

#endif
