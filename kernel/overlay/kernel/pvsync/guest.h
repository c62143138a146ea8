/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_GUEST_H
#define _KERNEL_PVSYNC_GUEST_H

const char *pvsync_host_lacks(unsigned long feature);
unsigned long pvsync_host_offers(void);

#endif /* _KERNEL_PVSYNC_GUEST_H */
