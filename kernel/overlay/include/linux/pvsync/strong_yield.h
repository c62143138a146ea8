/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_STRONG_YIELD_H
#define _LINUX_PVSYNC_STRONG_YIELD_H

/* Directed yields that the fair scheduler follows; see strong_yield.c. */

#include <linux/types.h>

struct cfs_rq;

#ifdef CONFIG_PVSYNC_KVM

#include <linux/jump_label.h>

DECLARE_STATIC_KEY_FALSE(pvsync_strong_key);
bool __pvsync_strong_next(struct cfs_rq *cfs_rq);
void pvsync_strong_enable(void);
void pvsync_strong_ask(int cpu);

/**
 * pvsync_strong_next - must the next buddy run, although it is not eligible?
 * @cfs_rq: the queue that the next entity is picked from, up to date
 *
 * Context: the run queue is locked.
 *
 * Return: true if it must; then there is one.
 */
static __always_inline bool pvsync_strong_next(struct cfs_rq *cfs_rq)
{
	return static_branch_unlikely(&pvsync_strong_key) &&
	       __pvsync_strong_next(cfs_rq);
}

#else

static __always_inline bool pvsync_strong_next(struct cfs_rq *cfs_rq)
{
	return false;
}

#endif /* CONFIG_PVSYNC_KVM */

#endif /* _LINUX_PVSYNC_STRONG_YIELD_H */
