/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_SHIM_WORKQUEUE_H
#define PVSYNC_SHIM_WORKQUEUE_H

/* Work is run by the test. */
#define HZ	1000

struct work_struct;

struct delayed_work {
	void		(*work)(struct work_struct *work);
	unsigned long	scheduled;
};

#define DECLARE_DEFERRABLE_WORK(name, fn)	struct delayed_work name = { .work = fn }
#define schedule_delayed_work(work, delay)	((work)->scheduled = (delay))

#endif
