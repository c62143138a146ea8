/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef PVSYNC_TEST_TRACE_PVSYNC_H
#define PVSYNC_TEST_TRACE_PVSYNC_H

/* Nobody traces here. */
#define trace_pvsync_lent(vcpu, most_ns)				((void)(most_ns))
#define trace_pvsync_loan_ended(vcpu, ns, left, returned)		((void)(ns), (void)(left))
#define trace_pvsync_yield(vcpu, target, chosen, result)		((void)(result))
#define trace_pvsync_yield_outcome(vcpu, by, moved, picked, ran)	((void)(picked), (void)(ran))
#define trace_pvsync_shootdown(vcpu, targets, awaited, pages)		((void)(awaited))

#endif /* PVSYNC_TEST_TRACE_PVSYNC_H */
