/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _KERNEL_PVSYNC_ECS_RECORD_H
#define _KERNEL_PVSYNC_ECS_RECORD_H

/* The record that each CPU shares with the host, see ecs_record.c. */

enum ecs_form {
	FORM_OFF,
	FORM_COUNT,
	FORM_FREE,
};

/* What the records of this boot say, see ecs.c. */
extern enum ecs_form pvsync_ecs_form;

long pvsync_ecs_share_record(void);
void pvsync_ecs_unshare_record(void);
void pvsync_ecs_clear_told(void);

#endif /* _KERNEL_PVSYNC_ECS_RECORD_H */
