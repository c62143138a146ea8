/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef _LINUX_PVSYNC_PAUSE_H
#define _LINUX_PVSYNC_PAUSE_H

/*
 * A pause filter in software, for processors that can intercept PAUSE but not count. Other
 * processors tell KVM that a vCPU has spun for a whole window; the filter tells it here. And
 * windows for processors that count. Self-contained, so that tests in user space compile
 * the same bytes.
 *
 * PAUSE instructions that are no farther apart than the gap are one spin, as in
 * the filters of processors. Each PAUSE counts for a fixed number of cycles. The filter
 * reports the spin when they add up to the window. True cycles would be of no use:
 * here, a PAUSE is an exit, and may take longer than the window.
 */

#include <linux/minmax.h>
#include <linux/types.h>

/* Most PAUSEs that a processor counts: it has 16 bits for them. */
#define PVSYNC_MOST_PAUSES	65535U

/**
 * struct pvsync_pauses - a window in PAUSE instructions, all zero at first
 * @pauses: how many
 * @window: the window that @pauses stand for, cycles
 * @worth: the cycles that a PAUSE counted for
 */
struct pvsync_pauses {
	u32	pauses;
	u32	window;
	u32	worth;
};

/**
 * pvsync_window_to_pauses - a window in PAUSE instructions
 * @last: the result of the last call; a new division takes a new @window or @worth
 * @window: the window, cycles
 * @stock: PAUSEs of stock KVM, whose window is this one if their cycles are as many
 * @worth: cycles that a PAUSE counts for, not 0; @worth and @stock are at most 65,535
 *
 * Return: PAUSEs, 1 to PVSYNC_MOST_PAUSES unless it is @stock. Times @worth, they are the
 * window that a spin reaches.
 */
static inline u32 pvsync_window_to_pauses(struct pvsync_pauses *last, u32 window, u32 stock,
					  u32 worth)
{
	if (window == stock * worth)
		return stock;
	if (window != last->window || worth != last->worth) {
		last->pauses = clamp(window / worth, 1U, PVSYNC_MOST_PAUSES);
		last->window = window;
		last->worth = worth;
	}
	return last->pauses;
}

/**
 * struct pvsync_filter - the state of a vCPU's filter, all zero at first
 * @last: time stamp of its last PAUSE, or of when it went on after a report
 * @counted: cycles that the PAUSEs of this spin count for; 0 if there is no spin
 */
struct pvsync_filter {
	u64	last;
	u64	counted;
};

/**
 * struct pvsync_pause_seen - what a PAUSE means
 * @since: cycles since the PAUSE before, or since its report; 0 if that is farther away than
 *	the gap
 * @first: it begins a spin
 * @reached: cycles that the spin counts for, if it is reported; 0 if it is not
 */
struct pvsync_pause_seen {
	u64	since;
	bool	first;
	u64	reached;
};

/**
 * pvsync_filter_pause - a vCPU executes PAUSE
 * @filter: its filter
 * @now: time stamp
 * @gap: most cycles between two PAUSEs of a spin
 * @pause: cycles that a PAUSE counts for, not 0
 * @window: cycles after which a spin is reported
 *
 * Return: what it means. After a report, the next PAUSE begins another spin.
 */
static inline struct pvsync_pause_seen pvsync_filter_pause(struct pvsync_filter *filter, u64 now,
							   u64 gap, u32 pause, u32 window)
{
	struct pvsync_pause_seen seen = { .since = now - filter->last };

	if (seen.since > gap) {
		seen.since = 0;
		filter->counted = 0;
	}
	seen.first = !filter->counted;
	filter->last = now;
	filter->counted += pause;
	if (filter->counted >= window) {
		seen.reached = filter->counted;
		filter->counted = 0;
	}
	return seen;
}

/**
 * pvsync_filter_resume - a vCPU whose spin was reported goes on
 * @filter: its filter
 * @now: time stamp
 *
 * The time until this call is no part of the interval to the vCPU's next PAUSE.
 */
static inline void pvsync_filter_resume(struct pvsync_filter *filter, u64 now)
{
	filter->last = now;
}

#endif /* _LINUX_PVSYNC_PAUSE_H */
