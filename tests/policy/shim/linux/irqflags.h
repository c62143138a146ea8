/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_IRQFLAGS_H
#define PVSYNC_TEST_IRQFLAGS_H

#include <kernel.h>

/* Whether this CPU takes no interrupts. */
static bool kernel_irqs_off __attribute__((__unused__));

#define irqs_disabled()			kernel_irqs_off
#define local_irq_save(flags)		((flags) = kernel_irqs_off, kernel_irqs_off = true)
#define local_irq_restore(flags)	(kernel_irqs_off = (flags))

#endif
