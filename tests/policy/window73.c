// SPDX-License-Identifier: GPL-2.0-only
/* All of window.c, as compiled for Linux 7.3. */
#define LINUX_VERSION_CODE	KERNEL_VERSION(7, 3, 0)
#define PID_HAS_LOCK		1
#define EXPORT_SYMBOL_FOR_KVM_INTERNAL(symbol)	EXPORT_SYMBOL_GPL(symbol)

#include "window.c"
