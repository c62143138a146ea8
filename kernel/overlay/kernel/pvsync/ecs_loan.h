/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_LOAN_H
#define _KERNEL_PVSYNC_ECS_LOAN_H

/* Borrowed time, see ecs_loan.c. */

void pvsync_ecs_give_back(void);

#endif /* _KERNEL_PVSYNC_ECS_LOAN_H */
